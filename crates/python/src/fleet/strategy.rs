//! How trainers and servers keep step.

use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use fleet::strategy::{ServerConfig, TrainerConfig};
use fleet::{env, flags, lines};
use program::distributed::{Mode, Switch};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::convert::Whole;
use crate::error::from_fleet;

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyTrainerConfig>()?;
    m.add_function(wrap_pyfunction!(mode_switches, m)?)?;
    m.add_function(wrap_pyfunction!(server_settings, m)?)
}

/// The mode of Fluid's number; `amount` is what it counts, if it counts something.
fn mode(number: &Whole, amount: Option<&Whole>) -> PyResult<Mode> {
    let unknown = || PyValueError::new_err(format!("there is no DistributedMode {number}"));
    let code: u8 = number.fit("DistributedMode")?;
    let usual = Mode::from_number(code, Mode::PUSH_EVERY).ok_or_else(unknown)?;
    let (Some(amount), Some(name)) = (amount, usual.counts()) else { return Ok(usual) };
    Mode::from_number(code, amount.fit(name)?).ok_or_else(unknown)
}

/// The settings of a transpiler's configuration by the strategy of a mode, in the order to set them;
/// `amount` is the count of the mode, if it has one.
#[pyfunction]
#[pyo3(signature = (number, amount = None))]
fn mode_switches(py: Python<'_>, number: Whole, amount: Option<Whole>) -> PyResult<Py<PyDict>> {
    let dict = PyDict::new(py);
    for (name, switch) in mode(&number, amount.as_ref())?.to_fluid().each() {
        match switch {
            Switch::Flag(flag) => dict.set_item(name, *flag)?,
            Switch::Count(count) => dict.set_item(name, *count)?,
        }
    }
    Ok(dict.unbind())
}

/// The settings of a server by flags: threads that send, get and prefetch; whether the job
/// continues without trainers that died.
#[pyfunction]
fn server_settings() -> PyResult<(u64, u64, u64, bool)> {
    let config = ServerConfig::new(&flags::current().map_err(from_fleet)?);
    let (send, get) = (config.rpc_send_thread_num, config.rpc_get_thread_num);
    Ok((send, get, config.rpc_prefetch_thread_num, config.tolerate_lost_trainers))
}

/// How a trainer sends and receives in the background.
#[pyclass(name = "TrainerRuntimeConfig", module = "paddlewheel._core", frozen)]
pub(crate) struct PyTrainerConfig(Mutex<TrainerConfig>);

impl PyTrainerConfig {
    /// The settings by flags and `CPU_NUM`.
    pub(crate) fn usual() -> PyResult<TrainerConfig> {
        TrainerConfig::from_environment(None, &env::process).map_err(from_fleet)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TrainerConfig> {
        self.0.lock().even_if_poisoned()
    }
}

#[pymethods]
impl PyTrainerConfig {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Mutex::new(Self::usual()?)))
    }

    /// Fluid's number of the mode (`DistributedMode`).
    #[getter]
    fn get_mode(&self) -> Option<u8> {
        self.lock().mode().map(Mode::number)
    }

    #[setter]
    fn set_mode(&self, number: Whole) -> PyResult<()> {
        self.lock().set_mode(mode(&number, None)?);
        Ok(())
    }

    /// How many threads train (`CPU_NUM`).
    #[getter]
    fn num_threads(&self) -> u32 {
        self.lock().n_threads()
    }

    /// All settings, as text. A copy: change them with `set`.
    #[getter]
    fn runtime_configs(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        to_dict(py, &self.lock().settings())
    }

    /// Changes a setting.
    fn set(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.cast::<PyBool>().is_err() && value.extract::<f64>().is_err() {
            value.extract::<String>().map_err(|_| {
                PyTypeError::new_err(format!("{name} must be a number or its text"))
            })?;
        }
        self.lock().set(name, &value.str()?.to_string_lossy()).map_err(from_fleet)
    }

    /// The settings that count in this mode.
    fn get_communicator_flags(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let (settings, warnings) = self.lock().communicator_flags();
        let print = py.import("builtins")?.getattr("print")?;
        for warning in warnings {
            print.call1((warning,))?;
        }
        to_dict(py, &settings)
    }

    /// A table of settings.
    fn display(&self, configs: &Bound<'_, PyDict>) -> PyResult<String> {
        let mut settings = Vec::new();
        for (name, value) in configs.iter() {
            settings.push((name.extract::<String>()?, value.str()?.to_string()));
        }
        let rows: Vec<_> = settings.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        Ok(lines::overview(&rows))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.display(self.get_communicator_flags(py)?.bind(py))
    }
}

fn to_dict(py: Python<'_>, settings: &[(&'static str, String)]) -> PyResult<Py<PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in settings {
        dict.set_item(name, value)?;
    }
    Ok(dict.unbind())
}
