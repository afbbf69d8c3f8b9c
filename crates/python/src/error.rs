//! The single map from our errors to Python exceptions.

use std::io;

use ::ctr::Error as CtrError;
use data::Error as DataError;
use fleet::Error as FleetError;
use program::Error as ProgramError;
use pyo3::exceptions::{
    PyAssertionError, PyException, PyKeyboardInterrupt, PyMemoryError, PyNotImplementedError,
    PyRuntimeError, PySystemExit, PyTypeError, PyValueError,
};
use pyo3::{PyErr, PyResult, Python, create_exception};
use server::Error as ServerError;
use tensor::within_memory;
use train::Error as TrainError;
use transpile::Error as TranspileError;

create_exception!(
    paddlewheel.core,
    EnforceNotMet,
    PyRuntimeError,
    "An operator, its shape rule or a native object refused what it was given."
);
create_exception!(
    paddlewheel.core,
    EOFException,
    PyException,
    "A reader is at the end of its pass."
);

/// The sentence of an error, with names of files and peers in it, which Python writes to terminals.
fn shown(error: &dyn std::error::Error) -> String {
    base::printable(&error.to_string()).into_owned()
}

/// The exception that a script would expect to catch.
pub(crate) fn from_program(error: ProgramError) -> PyErr {
    let text = shown(&error);
    let in_op = matches!(error, ProgramError::InOp { .. });
    match error.root() {
        ProgramError::UnknownOp { .. }
        | ProgramError::UnknownVar { .. }
        | ProgramError::VarRedefined { .. }
        | ProgramError::TargetNotComputed { .. }
        | ProgramError::BadArgument { .. } => PyValueError::new_err(text),
        ProgramError::MissingInput { .. }
        | ProgramError::LossShape { .. }
        | ProgramError::BadSizes { .. } => PyAssertionError::new_err(text),
        ProgramError::LayerDType { .. } => PyTypeError::new_err(text),
        // Of a layer an argument, of an op something that its own rules refuse.
        ProgramError::BadAttr { .. } | ProgramError::MissingAttr { .. } if !in_op => {
            PyTypeError::new_err(text)
        }
        _ => EnforceNotMet::new_err(text),
    }
}

pub(crate) fn from_transpile(error: TranspileError) -> PyErr {
    let text = shown(&error);
    match error {
        TranspileError::Program(error) => from_program(error),
        TranspileError::BadConfig { .. }
        | TranspileError::NoEndpoints
        | TranspileError::Endpoint { .. }
        | TranspileError::EndpointTwice { .. }
        | TranspileError::UnknownEndpoint { .. }
        | TranspileError::TrainerId { .. }
        | TranspileError::NegativeTrainer { .. }
        | TranspileError::OneTrainer
        | TranspileError::TrainerTwice { .. }
        | TranspileError::NotATrainer { .. }
        | TranspileError::OtherEndpoint { .. }
        | TranspileError::NothingToOptimize
        | TranspileError::TranspiledTwice
        | TranspileError::BadDispatch { .. } => PyValueError::new_err(text),
        TranspileError::SeveralTables { .. } => PyRuntimeError::new_err(text),
        _ => EnforceNotMet::new_err(text),
    }
}

pub(crate) fn from_train(error: TrainError) -> PyErr {
    let text = shown(&error);
    match error {
        TrainError::Program(error) => from_program(error),
        TrainError::Transpile(error) => from_transpile(error),
        TrainError::Data(error) => from_data(error),
        TrainError::Interrupted { .. } | TrainError::PassStopped => {
            PyKeyboardInterrupt::new_err(text)
        }
        TrainError::ReadFile { source, .. }
        | TrainError::WriteFile { source, .. }
        | TrainError::NotPlaced { source, .. } => io::Error::new(source.kind(), text).into(),
        TrainError::FeedShape { .. }
        | TrainError::FeedDType { .. }
        | TrainError::FeedCount { .. }
        | TrainError::FeedNotUsed { .. }
        | TrainError::NoDirectory { .. }
        | TrainError::ProgramVersion { .. }
        | TrainError::UnsafeName { .. }
        | TrainError::TooLargeToPickle { .. }
        | TrainError::MetricLength { .. }
        | TrainError::NotALabel { .. }
        | TrainError::OtherTrainers { .. }
        | TrainError::MemoryOrder { .. }
        | TrainError::SkipUnknown { .. }
        | TrainError::WhichVars { .. }
        | TrainError::NoCheckpoint { .. } => PyValueError::new_err(text),
        // The process was asked to end, and its job can resume from here.
        TrainError::Ended => PySystemExit::new_err(fleet::ENDED_EARLY),
        TrainError::NotReady(_) => PyRuntimeError::new_err(text),
        TrainError::NotAProbability { value, .. } if value > 1.0 => PyAssertionError::new_err(text),
        TrainError::NotAProbability { .. } => PyValueError::new_err(text),
        TrainError::NoFileName { .. }
        | TrainError::NotInFile { .. }
        | TrainError::NoOptimizerFile { .. }
        | TrainError::NotInScope { .. }
        | TrainError::StateShape { .. }
        | TrainError::StateDType { .. } => PyAssertionError::new_err(text),
        _ => EnforceNotMet::new_err(text),
    }
}

fn from_server(error: ServerError) -> PyErr {
    let text = shown(&error);
    match error {
        ServerError::Train(error) => from_train(error),
        _ => EnforceNotMet::new_err(text),
    }
}

pub(crate) fn from_fleet(error: FleetError) -> PyErr {
    let text = shown(&error);
    match error {
        FleetError::Train(error) => from_train(error),
        FleetError::Server(error) => from_server(error),
        FleetError::Transpile(error) => from_transpile(error),
        FleetError::NoTrainerEndpoints => PyAssertionError::new_err(text),
        FleetError::NotReady { .. }
        | FleetError::Endpoint(
            wire::Error::NoMaster { .. } | wire::Error::Unmet { .. } | wire::Error::Apart { .. },
        ) => PyRuntimeError::new_err(text),
        FleetError::Interrupted { .. } => PyKeyboardInterrupt::new_err(text),
        FleetError::File { source, .. }
        | FleetError::Start { source, .. }
        | FleetError::Signals(source) => io::Error::new(source.kind(), text).into(),
        _ => PyValueError::new_err(text),
    }
}

pub(crate) fn from_data(error: DataError) -> PyErr {
    let text = shown(&error);
    match error {
        DataError::NoMemory { .. } => PyMemoryError::new_err(text),
        DataError::SlotTwice { .. }
        | DataError::DenseShape { .. }
        | DataError::BadSetting { .. }
        | DataError::Usage { .. }
        | DataError::NativeSlots { .. }
        | DataError::SlotPlace { .. }
        | DataError::NoSuchSlot { .. }
        | DataError::BadDesc { .. }
        | DataError::SlotType { .. }
        | DataError::NotMultiSlot { .. }
        | DataError::NoFeatureEval
        | DataError::BadAddress { .. }
        | DataError::NoMatch { .. } => PyValueError::new_err(text),
        DataError::OnlyInMemory { .. } => PyNotImplementedError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

pub(crate) fn from_ctr(error: CtrError) -> PyErr {
    let text = shown(&error);
    match error {
        CtrError::Data(error) => from_data(error),
        CtrError::Program(error) => from_program(error),
        CtrError::Tensor(error) => from_tensor(error),
        CtrError::Train(error) => from_train(error),
        CtrError::Fleet(error) => from_fleet(error),
        CtrError::MixedColumn { .. }
        | CtrError::Unsupported { .. }
        | CtrError::NotNumbers { .. }
        | CtrError::ColumnType { .. } => PyTypeError::new_err(text),
        CtrError::Diverged { .. } => PyRuntimeError::new_err(text),
        CtrError::Stopped => PyKeyboardInterrupt::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Does long work while other threads run Python. Memory that is not there is an error.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> train::Result<T> + Send,
) -> PyResult<T> {
    detached_as(py, from_train, work)
}

/// The same for work with other errors.
pub(crate) fn detached_as<T: Send, E: Send>(
    py: Python<'_>,
    from: impl Fn(E) -> PyErr,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(|| within_memory(work)).map_err(from_tensor)?.map_err(from)
}

pub(crate) fn from_tensor(error: tensor::Error) -> PyErr {
    EnforceNotMet::new_err(error.to_string())
}
