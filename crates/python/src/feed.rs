//! The inputs and outputs of a run, as Python gives and takes them.

use program::Program;
use pyo3::exceptions::{
    PyAssertionError, PyMemoryError, PyRuntimeError, PyTypeError, PyUserWarning,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use tensor::{DType, Tensor, Value, within_memory};
use train::{Error as TrainError, Feed, Scope};

use crate::array::{copy_array, copy_number, to_numpy};
use crate::error::from_tensor;
use crate::framework::context;
use crate::framework::program::PyProgram;
use crate::framework::variable::{PyVariable, name_of};
use crate::tensor::PyTensor;

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

pub(crate) fn fetch_name(item: &Bound<'_, PyAny>) -> PyResult<String> {
    if item.is_instance_of::<PyVariable>() || item.is_instance_of::<PyString>() {
        return name_of(item);
    }
    let kind = item.get_type();
    Err(PyTypeError::new_err(format!(
        "The item in fetch_list should be str, variable or optimize_op, but recieved {kind}."
    )))
}

/// The feed together with the next batch of the program's readers; None if it has none.
pub(crate) fn from_readers<'py>(
    py: Python<'py>,
    program: &Py<PyProgram>,
    feed: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let readers = program.get().readers(py);
    if readers.is_empty() {
        return Ok(None);
    }
    let feed = feed.filter(|feed| !feed.is_none()).map(feed_dict).transpose()?;
    let all = next_batch(py, program, &readers, feed.as_ref())?;
    if let Some(feed) = feed {
        all.update(feed.as_mapping())?;
    }
    Ok(Some(all.into_any()))
}

/// The batches of readers for one run on one place. A reader that was not started gives nothing;
/// then the variables that the program reads from it must be fed.
pub(crate) fn next_batch<'py>(
    py: Python<'py>,
    program: &Py<PyProgram>,
    readers: &[Py<PyAny>],
    feed: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for reader in readers {
        let reader = reader.bind(py);
        let batch = reader.call_method0("_take")?;
        if !batch.is_none() {
            all.update(batch.cast::<pyo3::types::PyMapping>()?)?;
            continue;
        }
        let program = program.get().shared();
        for var in reader.getattr("_feed_list")?.try_iter()? {
            let name = name_of(&var?)?;
            let mut ops = program.blocks().iter().flat_map(|block| &block.ops);
            let is_fed = feed.is_some_and(|feed| feed.contains(&name).unwrap_or(false));
            if !is_fed && ops.any(|op| op.reads().any(|read| read == name)) {
                return Err(PyRuntimeError::new_err(format!(
                    "the reader of `{name}` is not started: call start() of the reader before \
                     exe.run(), and reset() when a pass has ended (fluid.core.EOFException)"
                )));
            }
        }
    }
    Ok(all)
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
        fill_one(held, &name, var.meta.dtype, &value)?;
        names.push(name);
    }
    held.keep_only(|name| names.iter().any(|known| known == name));
    held.set_strays(strays);
    Ok(())
}

/// Keeps values that are fed to persistable variables there, for the runs that follow.
pub(crate) fn keep(program: &Program, held: &mut Feed, scope: &Scope) {
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

fn fill_one(held: &mut Feed, name: &str, dtype: DType, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if held.get_mut(name).is_none() {
        held.set(name, Tensor::default());
    }
    let Some(tensor) = held.get_mut(name) else { return Ok(()) };
    if let Ok(given) = value.cast::<PyTensor>() {
        return given.get().read(|given| {
            let n_rows = given.dims().first().copied().unwrap_or(0);
            given.lod().check(n_rows).map_err(from_tensor)?;
            within_memory(|| tensor.copy_from(given)).map_err(from_tensor)
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

pub(crate) fn feed_name(key: &Bound<'_, PyAny>) -> PyResult<String> {
    key.extract().map_err(|_| {
        let kind = key.get_type();
        PyTypeError::new_err(format!(
            "feed has the key {key}, a {kind}: its keys are names of variables, such as 'x' or x.name"
        ))
    })
}

/// The same error, with the name of what was fed.
fn of_feed(name: &str, py: Python<'_>, error: PyErr) -> PyErr {
    let text = format!("feed['{name}']: {}", error.value(py));
    if error.is_instance_of::<PyMemoryError>(py) {
        // The one of numpy is made of a shape and a type.
        return PyMemoryError::new_err(text);
    }
    PyErr::from_type(error.get_type(py), text)
}

const NO_OPS: &str = "There are no operators in the program to be executed. If you pass Program \
    manually, please use fluid.program_guard to ensure the current Program is being used.";

pub(crate) fn warn_if_empty(py: Python<'_>, program: &Program) -> PyResult<()> {
    if program.block(0).ops.is_empty() { warn(py, NO_OPS) } else { Ok(()) }
}

pub(crate) fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = std::ffi::CString::new(&*base::printable(text)).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
}

/// The fetched values as Python has them: arrays or tensors, and lists of them.
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
