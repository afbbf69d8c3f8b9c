//! The executor as Python sees it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::flags::checks_nan_inf;
use fleet::lifecycle::{self, Served};
use program::Program;
use pyo3::exceptions::{
    PyAssertionError, PyRuntimeError, PySystemExit, PyTypeError, PyUserWarning,
};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use tensor::{DType, Tensor, Value};
use train::serve::Serving;
use train::{Error as TrainError, Executor, Feed, Scope};

use crate::array::{copy_array, copy_number, to_numpy};
use crate::cluster;
use crate::context;
use crate::error::{from_fleet, from_tensor, from_train};
use crate::from_dataset::{self, Wanted};
use crate::parallel::{self, Call, World};
use crate::program::PyProgram;
use crate::tensor::{PyScope, PyTensor};
use crate::variable::PyVariable;

/// How often a run looks for Ctrl-C.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Runs programs in a scope.
#[pyclass(name = "Executor", module = "paddlewheel._core", frozen, subclass)]
pub(crate) struct PyExecutor {
    state: Mutex<State>,
    closed: AtomicBool,
}

/// Kept between runs so that their memory is.
struct State {
    executor: Executor,
    feed: Feed,
    fetched: Vec<Value>,
    /// What a signal handler raised during the run.
    raised: Raised,
}

impl State {
    /// Ends a run when a signal handler of Python's raises.
    fn heed_signals(&mut self) {
        let asked = self.raised.clone();
        self.executor.poll(SIGNALS_EVERY, move || signalled(&asked));
    }

    /// Serves trainers. As in Fluid a signal to end ends the process, in order.
    fn serve(py: Python<'_>, program: &Program, scope: &Scope) -> PyResult<()> {
        let flags = fleet::flags::current().map_err(from_fleet)?;
        let mut serving = Serving::default();
        flags.configure(&mut serving);
        let served = py.detach(|| lifecycle::serve(program, scope, &serving));
        match served.map_err(from_fleet)? {
            Served::Completed => Ok(()),
            Served::Signalled => {
                // It has been heeded.
                let _ = py.check_signals();
                Err(PySystemExit::new_err(0))
            }
        }
    }
}

/// Batches, samples, seconds, and the seconds that each thread waited for data.
type Counts = (u64, u64, f64, Vec<f64>);

pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// Lets Python's signal handlers run; whether one of them raised.
pub(crate) fn signalled(raised: &Raised) -> bool {
    let Err(error) = Python::attach(|py| py.check_signals()) else { return false };
    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    true
}

#[pymethods]
impl PyExecutor {
    #[new]
    #[pyo3(signature = (place = None))]
    fn new(place: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let _ = place;
        let (mut executor, raised) = (Executor::new(), Raised::default());
        executor.set_cluster(cluster::cluster()?.clone());
        let mut state = State { executor, feed: Feed::new(), fetched: Vec::new(), raised };
        state.heed_signals();
        Ok(Self { state: Mutex::new(state), closed: AtomicBool::new(false) })
    }

    /// Runs all operators of a program and returns the variables asked for.
    #[pyo3(signature = (program=None, feed=None, fetch_list=None, feed_var_name="feed",
        fetch_var_name="fetch", scope=None, return_numpy=true, use_program_cache=false,
        return_merged=true, use_prune=false))]
    fn run(
        &self,
        py: Python<'_>,
        program: Option<&Bound<'_, PyAny>>,
        feed: Option<&Bound<'_, PyAny>>,
        fetch_list: Option<&Bound<'_, PyAny>>,
        feed_var_name: &str,
        fetch_var_name: &str,
        scope: Option<Py<PyScope>>,
        return_numpy: bool,
        use_program_cache: bool,
        return_merged: bool,
        use_prune: bool,
    ) -> PyResult<Py<PyList>> {
        let _ = (feed_var_name, fetch_var_name, use_program_cache, use_prune);
        if self.closed.load(Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err("Attempted to use a closed Executor"));
        }
        if let Some(program) = program {
            let scope = scope.as_ref().map(|scope| scope.clone_ref(py));
            let call = Call { program, feed, fetch_list, scope, return_numpy, return_merged };
            if let Some(fetched) = parallel::run(py, call, &self.world(py)?)? {
                return Ok(fetched);
            }
        }
        let program = program_arg(py, program)?;
        let scope = match scope {
            Some(scope) => scope,
            None => context::global_scope(py)?,
        };
        let names = fetch_names(fetch_list)?;
        let read = from_readers(py, &program, feed)?;
        // The program as it is now: from here on nobody's change is seen, and nothing is locked.
        let program = program.get().shared();
        warn_if_empty(py, &program)?;
        let mut state = self.ready(py)?;
        if train::serve::server_op(&program).is_some() {
            State::serve(py, &program, &scope.get().0)?;
            return Ok(PyList::empty(py).unbind());
        }
        let State { executor, feed: held, fetched, raised } = &mut *state;
        fill(&program, held, read.as_ref().or(feed))?;
        keep(&program, held, &scope.get().0);
        let fetch: Vec<&str> = names.iter().map(String::as_str).collect();
        let scope = &scope.get().0;
        let ran = py.detach(|| executor.run_values(&program, scope, held, &fetch, fetched));
        let raised = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        let raised = raised.or_else(cluster::raised_in_wait).filter(|_| ran.is_err());
        ran.map_err(|error| raised.unwrap_or_else(|| from_train(error)))?;
        results(py, fetched, return_numpy)
    }

    /// Runs a program on all batches of a dataset; returns how many batches and samples there were,
    /// the seconds it took, those that each thread waited for data, and what a pass that infers has
    /// fetched, as of the whole pass.
    #[pyo3(signature = (program, dataset, scope, fetch_list, fetch_info, print_period, debug,
        fetch_handler, infers))]
    fn _run_dataset(
        &self,
        py: Python<'_>,
        program: Option<&Bound<'_, PyAny>>,
        dataset: &Bound<'_, PyAny>,
        scope: Option<Py<PyScope>>,
        fetch_list: Option<&Bound<'_, PyAny>>,
        fetch_info: Option<&Bound<'_, PyAny>>,
        print_period: u64,
        debug: bool,
        fetch_handler: Option<Bound<'_, PyAny>>,
        infers: bool,
    ) -> PyResult<(Counts, Py<PyList>)> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err("Attempted to use a closed Executor"));
        }
        let program = program_arg(py, program)?.get().shared();
        let scope = match scope {
            Some(scope) => scope,
            None => context::global_scope(py)?,
        };
        let labels =
            fetch_info.map(|info| info.try_iter()?.map(|label| label?.extract()).collect());
        let labels: Option<Vec<String>> = labels.transpose()?;
        let fetch = fetch_names(fetch_list)?;
        if labels.as_ref().is_some_and(|labels| labels.len() != fetch.len()) {
            return Err(PyAssertionError::new_err("fetch_list and fetch_info differ in length"));
        }
        let handler = fetch_handler;
        let wanted = Wanted { fetch, labels, print_period, debug, infers, handler };
        let mut state = self.ready(py)?;
        let State { executor, raised, .. } = &mut *state;
        let what = (&*program, &scope.get().0);
        let report = from_dataset::run(py, executor, raised, what, dataset, wanted)?;
        let mut fetched = Vec::with_capacity(report.fetched.len());
        for whole in report.fetched {
            // Sequences are no array.
            let return_numpy = whole.value.lod().is_empty();
            fetched.extend(
                results(py, &mut [Value::Tensor(whole.value)], return_numpy)?.bind(py).iter(),
            );
        }
        let counts = (report.n_batches, report.n_samples, report.seconds, report.waited);
        Ok((counts, PyList::new(py, fetched)?.unbind()))
    }

    /// Ends this executor: it runs nothing any more. Parameter servers learn that this trainer's
    /// job is done.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let cluster = cluster::cluster()?;
        py.detach(|| cluster.complete()).map_err(from_train)
    }
}

impl PyExecutor {
    /// The state for a run, with the flags as they are now.
    fn ready(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        state.executor.options_mut().check_nan_inf = checks_nan_inf().map_err(from_fleet)?;
        Ok(state)
    }

    /// What runs on several places share with this executor.
    fn world(&self, py: Python<'_>) -> PyResult<World> {
        let mut state = self.ready(py)?;
        let check_nan_inf = state.executor.options_mut().check_nan_inf;
        Ok(World { cluster: state.executor.cluster().clone(), check_nan_inf })
    }
}

/// The program given, or the current one.
pub(crate) fn program_arg(
    py: Python<'_>,
    program: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyProgram>> {
    let Some(program) = program else { return context::default_main_program(py) };
    if let Ok(program) = program.cast::<PyProgram>() {
        return Ok(program.clone().unbind());
    }
    // A `CompiledProgram` keeps the program it was made of.
    if let Some(Ok(inner)) = program.getattr_opt("_program")?.map(|held| held.cast_into()) {
        return Ok(inner.unbind());
    }
    let kind = program.get_type();
    let text = format!("Executor requires Program as its Parameter. But you passed in {kind}");
    Err(PyTypeError::new_err(text))
}

/// Names of what to fetch: variables, names, or one of either.
pub(crate) fn fetch_names(fetch_list: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(list) = fetch_list else { return Ok(Vec::new()) };
    if list.is_instance_of::<PyVariable>() || list.is_instance_of::<PyString>() {
        return Ok(vec![fetch_name(list)?]);
    }
    // Lists, and what a dictionary of metrics has as `values()`.
    match list.try_iter() {
        Ok(items) => items.map(|item| fetch_name(&item?)).collect(),
        Err(_) => Ok(vec![fetch_name(list)?]),
    }
}

fn fetch_name(item: &Bound<'_, PyAny>) -> PyResult<String> {
    if item.is_instance_of::<PyVariable>() || item.is_instance_of::<PyString>() {
        return crate::variable::name_of(item);
    }
    let kind = item.get_type();
    Err(PyTypeError::new_err(format!(
        "The item in fetch_list should be str, variable or optimize_op, but recieved {kind}."
    )))
}

/// What is fed together with the next batch of the program's readers; None if it has none.
fn from_readers<'py>(
    py: Python<'py>,
    program: &Py<PyProgram>,
    feed: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let readers = program.get().readers(py);
    if readers.is_empty() {
        return Ok(None);
    }
    let all = PyDict::new(py);
    for reader in readers {
        let batch = reader.bind(py).call_method0("_take")?;
        if !batch.is_none() {
            all.update(batch.cast::<pyo3::types::PyMapping>()?)?;
        }
    }
    if let Some(feed) = feed.filter(|feed| !feed.is_none()) {
        all.update(feed_dict(feed)?.as_mapping())?;
    }
    Ok(Some(all.into_any()))
}

/// Copies what is fed into tensors that are kept from run to run.
pub(crate) fn fill(
    program: &Program,
    held: &mut Feed,
    feed: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let Some(feed) = feed.filter(|feed| !feed.is_none()) else {
        *held = Feed::new();
        return Ok(());
    };
    let dict = feed_dict(feed)?;
    let mut names: Vec<String> = Vec::with_capacity(dict.len());
    let mut strays = Vec::new();
    for (name, value) in dict.iter() {
        let name = feed_name(&name)?;
        let Some(var) = program.find_var(0, &name) else {
            warn(feed.py(), &TrainError::feed_not_declared(&name, program).to_string())?;
            strays.push(name);
            continue;
        };
        fill_one(held, (&name, var.meta.dtype), &value)?;
        names.push(name);
    }
    held.keep_only(|name| names.iter().any(|known| known == name));
    held.set_strays(strays);
    Ok(())
}

/// What is fed to a persistable variable stays there for the runs that follow.
fn keep(program: &Program, held: &mut Feed, scope: &Scope) {
    let is_state = |name: &str| program.find_var(0, name).is_some_and(|var| var.persistable);
    let states: Vec<String> =
        held.names().filter(|name| is_state(name)).map(str::to_string).collect();
    for name in &states {
        if let Some(tensor) = held.get_mut(name) {
            let owner = scope.find(name).unwrap_or(scope);
            owner.set(name, std::mem::take(tensor));
        }
    }
    if !states.is_empty() {
        held.keep_only(|name| !is_state(name));
    }
}

fn feed_dict<'py>(feed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    if let Ok(dict) = feed.cast::<PyDict>() {
        return Ok(dict.clone());
    }
    if feed.is_instance_of::<PyList>() || feed.is_instance_of::<PyTuple>() {
        if feed.len()? != 1 {
            return Err(PyAssertionError::new_err(
                "Not compiled with data parallel: feed is one dict of names to arrays, and a list of \
                 dicts only for a program that CompiledProgram(...).with_data_parallel() made",
            ));
        }
        return feed_dict(&feed.get_item(0)?);
    }
    let kind = feed.get_type();
    let text = format!("feed requires dict as its Parameter. But you passed in {kind}");
    Err(PyTypeError::new_err(text))
}

fn fill_one(
    held: &mut Feed,
    (name, dtype): (&str, DType),
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if held.get_mut(name).is_none() {
        held.set(name, Tensor::default());
    }
    let Some(tensor) = held.get_mut(name) else { return Ok(()) };
    if let Ok(given) = value.cast::<PyTensor>() {
        return given.get().read(|given| {
            let n_rows = given.dims().first().copied().unwrap_or(0);
            given.lod().check(n_rows).map_err(from_tensor)?;
            tensor.copy_from(given);
            Ok(())
        });
    }
    let copied = copy_array(value, tensor)
        .and_then(|copied| Ok(copied || copy_number(value, dtype, tensor)?))
        .map_err(|error| of_feed(name, value.py(), error))?;
    if copied {
        return Ok(());
    }
    let kind = value.get_type();
    Err(PyRuntimeError::new_err(format!(
        "feed['{name}'] is a {kind}. Some of your feed data hold LoD information or are Python \
         lists: feed a numpy array, or a LoDTensor made by fluid.create_lod_tensor"
    )))
}

fn feed_name(key: &Bound<'_, PyAny>) -> PyResult<String> {
    key.extract().map_err(|_| {
        let kind = key.get_type();
        PyTypeError::new_err(format!(
            "feed has the key {key}, a {kind}: its keys are names of variables, such as 'x' or x.name"
        ))
    })
}

/// The same error, with the name of what was fed.
fn of_feed(name: &str, py: Python<'_>, error: PyErr) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("feed['{name}']: {}", error.value(py)))
}

const NO_OPS: &str = "There are no operators in the program to be executed. If you pass Program \
    manually, please use fluid.program_guard to ensure the current Program is being used.";

pub(crate) fn warn_if_empty(py: Python<'_>, program: &Program) -> PyResult<()> {
    if program.block(0).ops.is_empty() { warn(py, NO_OPS) } else { Ok(()) }
}

pub(crate) fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = std::ffi::CString::new(text).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
}

/// What was fetched as Python has it: arrays or tensors, and lists of them.
pub(crate) fn results(
    py: Python<'_>,
    fetched: &mut [Value],
    return_numpy: bool,
) -> PyResult<Py<PyList>> {
    let mut list = Vec::with_capacity(fetched.len());
    for value in fetched {
        list.push(match value {
            Value::Array(parts) => {
                let parts = parts.iter_mut().map(|part| result(py, part, return_numpy));
                PyList::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
            }
            Value::Tensor(tensor) => result(py, tensor, return_numpy)?,
            _ => py.None(),
        });
    }
    Ok(PyList::new(py, list)?.unbind())
}

fn result(py: Python<'_>, tensor: &mut Tensor, return_numpy: bool) -> PyResult<Py<PyAny>> {
    if !return_numpy {
        return Ok(Py::new(py, PyTensor::own(std::mem::take(tensor)))?.into_any());
    }
    if !tensor.lod().is_empty() {
        return Err(PyRuntimeError::new_err(
            "Some of your fetched tensors hold LoD information. They can not be completely \
             cast to Python ndarray. Please set the parameter 'return_numpy' as 'False' to \
             return LoDTensor itself directly.",
        ));
    }
    if tensor.is_initialized() { to_numpy(py, tensor) } else { Ok(py.None()) }
}
