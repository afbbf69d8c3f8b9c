//! The transpiler as Python sees it.

use std::ops::Range;

use base::Endpoint;
use fleet::ready::{self, Watch};
use program::distributed::{PlacedKind, Switch, Switches};
use program::{Distributed, Program};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use train::memory;
use transpile::{
    CollectiveJob, CollectiveMode, Config, Dispatch, HashName, Job, RoundRobin, Threads, Transpiled,
};

use crate::convert::Whole;
use crate::error::{from_train, from_transpile};
use crate::framework::context;
use crate::framework::program::PyProgram;
use crate::signals::{Raised, signalled, taken};
use crate::trainer_job::tell;

/// The programs of a job, once a program has been split.
#[pyclass(name = "Transpiled", module = "paddlewheel._core", frozen)]
pub(crate) struct PyTranspiled(Transpiled);

#[pymethods]
impl PyTranspiled {
    /// A server's program.
    #[pyo3(signature = (endpoint, send_threads = 12, get_threads = 12, prefetch_threads = 12))]
    fn server_main(
        &self,
        endpoint: &str,
        send_threads: i32,
        get_threads: i32,
        prefetch_threads: i32,
    ) -> PyResult<PyProgram> {
        let threads = Threads { send: send_threads, get: get_threads, prefetch: prefetch_threads };
        let program = self.0.server_main(endpoint, threads).map_err(from_transpile)?;
        Ok(PyProgram::new_from(program))
    }

    /// A server's startup program; `original` says how variables start.
    #[pyo3(signature = (endpoint, original = None))]
    fn server_startup(
        &self,
        endpoint: &str,
        original: Option<&Bound<'_, PyProgram>>,
    ) -> PyResult<PyProgram> {
        let original = original.map(|program| program.get().shared());
        let program =
            self.0.server_startup(endpoint, original.as_deref()).map_err(from_transpile)?;
        Ok(PyProgram::new_from(program))
    }

    /// Whether a server has nothing to do.
    fn is_idle(&self, endpoint: &str) -> bool {
        self.0.is_idle(endpoint)
    }

    /// Warnings for the user.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings().to_vec()
    }

    /// One line for each piece of a variable on a server.
    #[getter]
    fn lines(&self) -> Vec<String> {
        let line = |placed: &program::distributed::Placement| {
            let (name, at) = (&placed.piece.name, self.0.job().endpoint(placed.piece.server));
            format!("{name} {:?} -> {at}", placed.dims())
        };
        self.0.job().placement.iter().map(line).collect()
    }
}

/// A choice of servers made in Python.
struct Chosen<'py> {
    choose: Bound<'py, PyAny>,
    error: Option<PyErr>,
}

impl Dispatch for Chosen<'_> {
    fn dispatch(&mut self, blocks: &[String], _endpoints: &[String]) -> Vec<String> {
        let answer = self.choose.call1((blocks.to_vec(),));
        let servers = answer.and_then(|servers| servers.extract::<Vec<String>>());
        servers.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            Vec::new()
        })
    }
}

/// Splits with the servers that `choose` returns; an exception in it is the error of the split.
pub(crate) fn dispatched<T>(
    choose: &Bound<'_, PyAny>,
    split: impl FnOnce(&mut dyn Dispatch) -> PyResult<T>,
) -> PyResult<T> {
    match choose.extract::<String>().as_deref() {
        Ok("RoundRobin") => split(&mut RoundRobin::default()),
        Ok("HashName") => split(&mut HashName),
        _ => {
            let mut chosen = Chosen { choose: choose.clone(), error: None };
            let split = split(&mut chosen);
            chosen.error.map_or(split, Err)
        }
    }
}

/// Splits a program; `main` and `startup` become the trainer's.
///
/// `choose` is "RoundRobin", "HashName", or a function from the names of a variable's blocks to
/// their servers.
#[pyfunction]
#[pyo3(signature = (main, startup, job, config, choose))]
fn transpile_program(
    main: &Bound<'_, PyProgram>,
    startup: &Bound<'_, PyProgram>,
    job: &Bound<'_, PyDict>,
    config: &Bound<'_, PyDict>,
    choose: &Bound<'_, PyAny>,
) -> PyResult<PyTranspiled> {
    if main.is(startup) {
        let text = "the main program and the startup program must be two programs";
        return Err(PyValueError::new_err(text));
    }
    let (config, switches) = read_config(config)?;
    let config = config.switched(&switches, field(job, "sync_mode")?).map_err(from_transpile)?;
    let job = read_job(job)?;
    // Work on copies: `choose` may look at the programs.
    let mut new_main = Program::clone(&main.get().lock());
    let mut new_startup = Program::clone(&startup.get().lock());
    let split = dispatched(choose, |dispatch| {
        let split = transpile::transpile(&mut new_main, &mut new_startup, &config, &job, dispatch);
        split.map_err(from_transpile)
    })?;
    main.get().lock().replace(new_main);
    startup.get().lock().replace(new_startup);
    Ok(PyTranspiled(split))
}

/// Makes both programs those of a trainer among trainers, without servers: Fluid's modes "nccl2" and
/// "collective".
#[pyfunction]
#[pyo3(signature = (main, startup, mode, collective_mode, job))]
fn transpile_collective(
    main: &Bound<'_, PyProgram>,
    startup: &Bound<'_, PyProgram>,
    mode: &str,
    collective_mode: Option<&str>,
    job: &Bound<'_, PyDict>,
) -> PyResult<()> {
    if main.is(startup) {
        let text = "the main program and the startup program must be two programs";
        return Err(PyValueError::new_err(text));
    }
    let mode = CollectiveMode::from_fluid(mode, collective_mode).map_err(from_transpile)?;
    let or = |name: &str, other: i64| {
        if job.contains(name)? { field::<i64>(job, name) } else { Ok(other) }
    };
    let n_rings = or("nccl_comm_num", 1)?.clamp(1, 64) as usize;
    let is_hierarchical = if job.contains("use_hierarchical_allreduce")? {
        field(job, "use_hierarchical_allreduce")?
    } else {
        false
    };
    let job = CollectiveJob {
        trainer_id: field(job, "trainer_id")?,
        endpoints: field(job, "endpoints")?,
        current_endpoint: field(job, "current_endpoint")?,
        n_rings,
        is_hierarchical,
        n_inner: or("hierarchical_allreduce_inter_nranks", 0)?,
    };
    let py = main.py();
    let main = main.get();
    let startup = startup.get();
    context::with_names(py, |names| {
        let (mut main, mut startup) = (main.lock(), startup.lock());
        transpile::transpile_collective(&mut main, &mut startup, mode, &job, names)
    })?
    .map_err(from_transpile)
}

/// A value of a dictionary that Python has filled.
fn field<T: for<'a, 'py> FromPyObject<'a, 'py>>(
    from: &Bound<'_, PyDict>,
    name: &str,
) -> PyResult<T> {
    let value = from.get_item(name)?;
    let value = value.ok_or_else(|| PyValueError::new_err(format!("{name} is missing")))?;
    let bad = |_| PyValueError::new_err(format!("{name} cannot be {value}"));
    value.extract::<T>().map_err(bad)
}

/// The wishes that the core knows of, and the switches that say the mode.
pub(crate) fn read_config(from: &Bound<'_, PyDict>) -> PyResult<(Config, Switches)> {
    let mut switches = Switches::default();
    for (name, switch) in switches.each() {
        match switch {
            Switch::Flag(flag) => *flag = field(from, name)?,
            Switch::Count(count) => *count = field(from, name)?,
        }
    }
    let config = Config {
        slice_var_up: field(from, "slice_var_up")?,
        min_block_size: field(from, "min_block_size")?,
        enable_dc_asgd: field(from, "enable_dc_asgd")?,
        fluid_block_init: field(from, "fluid_block_init")?,
        ..Config::default()
    };
    Ok((config, switches))
}

fn read_job(from: &Bound<'_, PyDict>) -> PyResult<Job> {
    Ok(Job {
        trainer_id: field(from, "trainer_id")?,
        n_trainers: field(from, "trainers")?,
        endpoints: field(from, "endpoints")?,
        current_endpoint: field(from, "current_endpoint")?,
    })
}

/// How a variable is cut: (block, offset, elements) of each block.
#[pyfunction]
#[pyo3(signature = (shape, n_servers, min_block_size = transpile::MIN_BLOCK_SIZE))]
fn slice_shape(
    shape: Vec<i64>,
    n_servers: Whole,
    min_block_size: i64,
) -> PyResult<Vec<(usize, i64, i64)>> {
    if shape.iter().any(|&dim| dim < 0) || min_block_size < 1 {
        let text = format!("a variable of shape {shape:?} cannot be cut into {min_block_size}s");
        return Err(PyValueError::new_err(text));
    }
    let cuts = transpile::slice_variable(&shape, n_servers.fit("n_servers")?, min_block_size);
    let width = shape.iter().skip(1).product::<i64>().max(1);
    let block =
        |(at, rows): (usize, Range<i64>)| (at, rows.start * width, (rows.end - rows.start) * width);
    Ok(cuts.into_iter().enumerate().map(block).collect())
}

/// The servers that "RoundRobin" or "HashName" chooses after `step` blocks.
#[pyfunction]
fn choose_servers(
    method: &str,
    names: Vec<String>,
    endpoints: Vec<String>,
    step: Whole,
) -> PyResult<Vec<String>> {
    if endpoints.is_empty() {
        return Err(from_transpile(transpile::Error::NoEndpoints));
    }
    match method {
        "HashName" => Ok(HashName.dispatch(&names, &endpoints)),
        _ => Ok(RoundRobin::after(step.fit("step")?).dispatch(&names, &endpoints)),
    }
}

/// Marks variables that share no memory, if this is the time for it; returns those that share, by place.
#[pyfunction]
fn memory_optimize(
    program: &Bound<'_, PyProgram>,
    skip: Vec<String>,
) -> PyResult<Vec<Vec<String>>> {
    memory::optimize(&mut program.get().lock(), &skip).map_err(from_train)
}

/// The job of a program; `None` if it was not transpiled.
#[pyfunction]
fn program_job<'py>(
    py: Python<'py>,
    program: &Bound<'py, PyProgram>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let shared = program.get().shared();
    shared.distributed.as_ref().map(|job| describe(py, job)).transpose()
}

fn describe<'py>(py: Python<'py>, job: &Distributed) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("mode", job.mode.name())?;
    dict.set_item("via_communicator", job.via_communicator)?;
    dict.set_item("trainer_id", job.trainer_id)?;
    dict.set_item("trainers", job.n_trainers)?;
    dict.set_item("endpoints", &job.endpoints)?;
    dict.set_item("ps_endpoint", &job.ps_endpoint)?;
    dict.set_item("is_chief", job.is_chief())?;
    dict.set_item("lookup_table", &job.lookup_table)?;
    dict.set_item("job", &job.job)?;
    let mut placement = Vec::new();
    for placed in &job.placement {
        let kind = match placed.kind {
            PlacedKind::Param => "Param",
            PlacedKind::Optimizer => "Optimizer",
            PlacedKind::RemotePrefetch => "RemotePrefetch",
        };
        let one = PyDict::new(py);
        one.set_item("origin", &placed.origin)?;
        one.set_item("origin_shape", &placed.origin_dims)?;
        one.set_item("slice", &placed.piece.name)?;
        one.set_item("slice_shape", placed.dims())?;
        one.set_item("block_id", placed.piece.block)?;
        one.set_item("offset", placed.offset())?;
        one.set_item("endpoint", job.endpoint(placed.piece.server))?;
        one.set_item("vtype", kind)?;
        placement.push(one);
    }
    dict.set_item("placement", placement)?;
    Ok(dict)
}

/// Returns as soon as all servers accept connections; lists on stderr those that do not.
#[pyfunction]
fn wait_server_ready(py: Python<'_>, endpoints: Vec<String>) -> PyResult<()> {
    let parse = |text: &String| {
        let endpoint = text.parse::<Endpoint>();
        endpoint.map_err(|error| PyValueError::new_err(format!("{text}: {error}")))
    };
    let endpoints = endpoints.iter().map(parse).collect::<PyResult<Vec<_>>>()?;
    let raised = Raised::default();
    let waited = py.detach(|| {
        let flags = fleet::flags::current()?;
        let mut stops = || signalled(&raised);
        let mut watch = Watch { on_line: &mut tell, stops: &mut stops };
        let timeout = flags.wait_server_ready_timeout();
        ready::wait_server_ready(&endpoints, flags.locate().as_ref(), timeout, &mut watch)
    });
    match taken(&raised) {
        Some(error) => Err(error),
        None => waited.map_err(|error| PyRuntimeError::new_err(error.to_string())),
    }
}

pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyTranspiled>()?;
    m.add_function(wrap_pyfunction!(transpile_program, m)?)?;
    m.add_function(wrap_pyfunction!(transpile_collective, m)?)?;
    m.add_function(wrap_pyfunction!(slice_shape, m)?)?;
    m.add_function(wrap_pyfunction!(choose_servers, m)?)?;
    m.add_function(wrap_pyfunction!(program_job, m)?)?;
    m.add_function(wrap_pyfunction!(memory_optimize, m)?)?;
    m.add_function(wrap_pyfunction!(wait_server_ready, m)?)
}
