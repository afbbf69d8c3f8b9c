//! `fluid.io`: Fluid's signatures over the files of `train::io`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use program::{Program, VarDesc};
use pyo3::exceptions::{PyAssertionError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use tensor::{Tensor, Value};
use train::io::{self, JobScope, SaveInference};

use crate::array::{copy_array, to_numpy};
use crate::error::{EnforceNotMet, detached, from_program, from_train};
use crate::fit;
use crate::framework::context;
use crate::framework::program::PyProgram;
use crate::framework::variable::{PyVariable, name_of};
use crate::keyed::PyKeyedTable;
use crate::pruning;
use crate::tensor::{PyScope, PyTensor};
use crate::trainer_job;

/// Adds the module `_core.io`.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "io")?;
    m.add_function(wrap_pyfunction!(save_vars, &m)?)?;
    m.add_function(wrap_pyfunction!(save_params, &m)?)?;
    m.add_function(wrap_pyfunction!(save_persistables, &m)?)?;
    m.add_function(wrap_pyfunction!(load_vars, &m)?)?;
    m.add_function(wrap_pyfunction!(load_params, &m)?)?;
    m.add_function(wrap_pyfunction!(load_persistables, &m)?)?;
    m.add_function(wrap_pyfunction!(save_inference_model, &m)?)?;
    m.add_function(wrap_pyfunction!(load_inference_model, &m)?)?;
    m.add_function(wrap_pyfunction!(get_parameter_value, &m)?)?;
    m.add_function(wrap_pyfunction!(get_parameter_value_by_name, &m)?)?;
    m.add_function(wrap_pyfunction!(get_program_parameter, &m)?)?;
    m.add_function(wrap_pyfunction!(get_program_persistable_vars, &m)?)?;
    m.add_function(wrap_pyfunction!(is_parameter, &m)?)?;
    m.add_function(wrap_pyfunction!(is_persistable, &m)?)?;
    m.add_function(wrap_pyfunction!(save, &m)?)?;
    m.add_function(wrap_pyfunction!(load, &m)?)?;
    m.add_function(wrap_pyfunction!(load_program_state, &m)?)?;
    m.add_function(wrap_pyfunction!(set_program_state, &m)?)?;
    parent.add_submodule(&m)
}

/// Saves variables: `vars`, or those of the program for which `predicate` is true. A file each
/// under its name, or all in the one file `filename`; without a directory they are returned as bytes.
#[pyfunction]
#[pyo3(signature = (executor, dirname, main_program=None, vars=None, predicate=None, filename=None))]
fn save_vars(
    py: Python<'_>,
    executor: &Bound<'_, PyAny>,
    dirname: Option<PathBuf>,
    main_program: Option<&Bound<'_, PyAny>>,
    vars: Option<&Bound<'_, PyAny>>,
    predicate: Option<&Bound<'_, PyAny>>,
    filename: Option<String>,
) -> PyResult<Option<Py<PyBytes>>> {
    let program = program_arg(py, main_program)?;
    let vars = chosen(&program, vars, predicate)?;
    save_chosen(executor, dirname, filename, &program, vars)
}

/// Saves the parameters of a program.
#[pyfunction]
#[pyo3(signature = (executor, dirname, main_program=None, filename=None))]
fn save_params(
    py: Python<'_>,
    executor: &Bound<'_, PyAny>,
    dirname: Option<PathBuf>,
    main_program: Option<&Bound<'_, PyAny>>,
    filename: Option<String>,
) -> PyResult<Option<Py<PyBytes>>> {
    let program = program_arg(py, main_program)?;
    save_chosen(executor, dirname, filename, &program, params_of(&program))
}

/// Saves all that lives between runs: parameters, optimizer state, statistics.
#[pyfunction]
#[pyo3(signature = (executor, dirname, main_program=None, filename=None))]
fn save_persistables(
    py: Python<'_>,
    executor: &Bound<'_, PyAny>,
    dirname: Option<PathBuf>,
    main_program: Option<&Bound<'_, PyAny>>,
    filename: Option<String>,
) -> PyResult<Option<Py<PyBytes>>> {
    let program = program_arg(py, main_program)?;
    let shared = program.get().shared();
    refuse_server(&shared, dirname.as_deref())?;
    if let (Some(job), Some(dir)) = (&shared.distributed, &dirname) {
        let (scope, trainer) = (scope_of(executor)?, trainer_job::trainer_job()?);
        let (scope, file) = (&scope.get().0, filename.as_deref());
        let vars = JobScope { trainer, scope, job };
        let save = || vars.save_persistables(dir, &shared, file);
        return saved(py, dir, save).map(|()| None);
    }
    save_chosen(executor, dirname, filename, &program, persistables_of(&program))
}

/// Loads variables that `save_vars` saved; changes all of them or none. With `missing="init"`, variables that
/// were not saved keep their values, and those of another size take what fits; returns what that is.
#[pyfunction]
#[pyo3(signature = (executor, dirname, main_program=None, vars=None, predicate=None, filename=None,
    missing=None))]
fn load_vars<'py>(
    py: Python<'py>,
    executor: &Bound<'py, PyAny>,
    dirname: Option<PathBuf>,
    main_program: Option<&Bound<'_, PyAny>>,
    vars: Option<&Bound<'_, PyAny>>,
    predicate: Option<&Bound<'_, PyAny>>,
    filename: Option<&Bound<'_, PyAny>>,
    missing: Option<&str>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let program = program_arg(py, main_program)?;
    load_chosen(executor, dirname, filename, chosen(&program, vars, predicate)?, missing)
}

/// Loads the parameters of a program; `missing` as in `load_vars`.
#[pyfunction]
#[pyo3(signature = (executor, dirname, main_program=None, filename=None, missing=None))]
fn load_params<'py>(
    py: Python<'py>,
    executor: &Bound<'py, PyAny>,
    dirname: Option<PathBuf>,
    main_program: Option<&Bound<'_, PyAny>>,
    filename: Option<&Bound<'_, PyAny>>,
    missing: Option<&str>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let vars = params_of(&program_arg(py, main_program)?);
    load_chosen(executor, dirname, filename, vars, missing)
}

/// Loads all that lives between runs; `missing` as in `load_vars`.
#[pyfunction]
#[pyo3(signature = (executor, dirname, main_program=None, filename=None, missing=None))]
fn load_persistables<'py>(
    py: Python<'py>,
    executor: &Bound<'py, PyAny>,
    dirname: Option<PathBuf>,
    main_program: Option<&Bound<'_, PyAny>>,
    filename: Option<&Bound<'_, PyAny>>,
    missing: Option<&str>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let program = program_arg(py, main_program)?;
    let shared = program.get().shared();
    if let (Some(job), Some(dir), true) =
        (&shared.distributed, &dirname, transpile::server_op(&shared).is_some())
    {
        let scope = scope_of(executor)?;
        let scope = &scope.get().0;
        if fit::is_wanted(missing)? {
            let fitted = detached(py, || io::fit_slices(job, scope, dir))?;
            return fit::report(py, &fitted).map(Some);
        }
        detached(py, || io::load_slices(job, scope, dir))?;
        return Ok(None);
    }
    load_chosen(executor, dirname, filename, persistables_of(&program), missing)
}

fn save_chosen(
    executor: &Bound<'_, PyAny>,
    dir: Option<PathBuf>,
    filename: Option<String>,
    program: &Py<PyProgram>,
    vars: Vec<VarDesc>,
) -> PyResult<Option<Py<PyBytes>>> {
    let (py, scope) = (executor.py(), scope_of(executor)?);
    let scope = &scope.get().0;
    let Some(dir) = dir else {
        let bytes = detached(py, || io::vars_to_bytes(scope, &vars))?;
        let copy = |to: &mut [u8]| {
            to.copy_from_slice(&bytes);
            Ok(())
        };
        return Ok(Some(PyBytes::new_with(py, bytes.len(), copy)?.unbind()));
    };
    // Nothing to save: Fluid does not even make the directory.
    if vars.is_empty() {
        return Ok(None);
    }
    refuse_server(&program.get().shared(), Some(&dir))?;
    let (job, file) = (program.get().shared().distributed.clone(), filename.as_deref());
    let trainer = trainer_job::trainer_job()?;
    saved(py, &dir, || match &job {
        Some(job) => JobScope { trainer, scope, job }.save_vars(&dir, &vars, file),
        None => io::save_vars(scope, &dir, &vars, file),
    })?;
    Ok(None)
}

/// A server would wait for itself: it is asked for its variables by trainers.
fn refuse_server(program: &Program, dir: Option<&Path>) -> PyResult<()> {
    match dir.filter(|_| transpile::server_op(program).is_some()) {
        Some(dir) => Err(from_train(train::Error::SavedByServer { folder: dir.to_path_buf() })),
        None => Ok(()),
    }
}

/// Saves something, once: a script that is started again does not save what it has saved.
fn saved(
    py: Python<'_>,
    dir: &Path,
    mut save: impl FnMut() -> train::Result<()> + Send,
) -> PyResult<()> {
    let (trainer, what) = (trainer_job::trainer_job()?, dir.to_string_lossy());
    let mut save = || save().map(|()| Vec::new());
    detached(py, || trainer.saves(&what, &mut save)).map(drop)
}

fn load_chosen<'py>(
    executor: &Bound<'py, PyAny>,
    dir: Option<PathBuf>,
    filename: Option<&Bound<'_, PyAny>>,
    vars: Vec<VarDesc>,
    missing: Option<&str>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = executor.py();
    let scope = scope_of(executor)?;
    let fits = fit::is_wanted(missing)?;
    let scope = &scope.get().0;
    let Some(dir) = dir else {
        let bytes =
            filename.and_then(|bytes| bytes.extract::<Vec<u8>>().ok()).ok_or_else(|| {
                PyValueError::new_err(
                    "without a dirname, filename must be the bytes of a saved model",
                )
            })?;
        detached(py, || io::load_vars_from_bytes(scope, &bytes, &vars))?;
        return Ok(None);
    };
    let filename: Option<String> = filename.map(|name| name.extract()).transpose()?;
    let filename = filename.as_deref();
    if fits {
        let fitted = detached(py, || io::fit_vars(scope, &dir, &vars, filename))?;
        return fit::report(py, &fitted).map(Some);
    }
    detached(py, || io::load_vars(scope, &dir, &vars, filename))?;
    Ok(None)
}

/// Files are read and written in the current scope; whatever runs programs may be named for it.
pub(crate) fn scope_of(executor: &Bound<'_, PyAny>) -> PyResult<Py<PyScope>> {
    executor.getattr("run")?;
    context::global_scope(executor.py())
}

/// The program given, also inside a compiled one, or the current one.
pub(crate) fn program_arg(
    py: Python<'_>,
    program: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyProgram>> {
    let Some(given) = program else { return context::default_main_program(py) };
    if let Ok(program) = given.cast::<PyProgram>() {
        return Ok(program.clone().unbind());
    }
    let inside = given.getattr_opt("_program")?.and_then(|p| p.cast_into::<PyProgram>().ok());
    inside.map(Bound::unbind).ok_or_else(|| {
        let kind = given.get_type();
        PyTypeError::new_err(format!(
            "The type of input main_program is invalid, expected type is fluid.Program, but \
             received {kind}"
        ))
    })
}

/// The variables that `vars` names, or that `predicate` is true for.
fn chosen(
    program: &Py<PyProgram>,
    vars: Option<&Bound<'_, PyAny>>,
    predicate: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<VarDesc>> {
    if let Some(vars) = vars {
        return vars.try_iter()?.map(|item| described(program, &item?)).collect();
    }
    let all: Vec<VarDesc> = program.get().lock().list_vars().cloned().collect();
    let Some(predicate) = predicate else { return Ok(all) };
    let py = predicate.py();
    let mut wanted = Vec::new();
    for var in all {
        let variable = Py::new(py, PyVariable::find(program.clone_ref(py), &var.name))?;
        if predicate.call1((variable,))?.is_truthy()? {
            wanted.push(var);
        }
    }
    Ok(wanted)
}

/// The description of a variable, given itself or by name.
fn described(program: &Py<PyProgram>, item: &Bound<'_, PyAny>) -> PyResult<VarDesc> {
    if let Ok(variable) = item.cast::<PyVariable>() {
        return variable.get().read(VarDesc::clone);
    }
    let name = name_of(item)?;
    Ok(program.get().lock().need_var(0, &name).map_err(from_program)?.clone())
}

fn params_of(program: &Py<PyProgram>) -> Vec<VarDesc> {
    program.get().lock().parameters().cloned().collect()
}

fn persistables_of(program: &Py<PyProgram>) -> Vec<VarDesc> {
    let program = program.get().lock();
    program.list_vars().filter(|var| io::is_persistable(var)).cloned().collect()
}

/// Saves what computes the targets from the feeds; returns the names to fetch.
#[pyfunction]
#[pyo3(signature = (dirname, feeded_var_names, target_vars, executor, main_program=None,
    model_filename=None, params_filename=None, export_for_deployment=true, program_only=false))]
fn save_inference_model(
    py: Python<'_>,
    dirname: PathBuf,
    feeded_var_names: &Bound<'_, PyAny>,
    target_vars: &Bound<'_, PyAny>,
    executor: &Bound<'_, PyAny>,
    main_program: Option<&Bound<'_, PyAny>>,
    model_filename: Option<&str>,
    params_filename: Option<&str>,
    export_for_deployment: bool,
    program_only: bool,
) -> PyResult<Vec<String>> {
    let scope = scope_of(executor)?;
    let feeds = feed_names(feeded_var_names)?;
    let targets = target_names(target_vars)?;
    let program = Program::clone(&program_arg(py, main_program)?.get().lock());
    warn_of_states(py, &program, program_only)?;
    let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
    for feed in &feeds {
        program.need_var(0, feed).map_err(from_program)?;
    }
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    pruning::warn_of_unfed(py, &program, &feeds, &targets)?;
    let options = SaveInference {
        feeds: &feeds,
        targets: &targets,
        model_filename,
        params_filename,
        export_for_deployment,
        program_only,
        extra: &[],
    };
    let scope = &scope.get().0;
    refuse_server(&program, Some(&dirname))?;
    let (trainer, job) = (trainer_job::trainer_job()?, program.distributed.clone());
    let mut save = || match &job {
        Some(job) if !program_only => {
            let vars = JobScope { trainer, scope, job };
            vars.save_inference_model(&dirname, &program, &options)
        }
        _ => io::save_inference_model(scope, &dirname, &program, &options),
    };
    let what = dirname.to_string_lossy();
    detached(py, || trainer.saves(&what, &mut save))
}

pub(crate) fn feed_names(object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let wrong = || PyValueError::new_err("'feed_var_names' should be a list of str.");
    if let Ok(name) = object.cast::<PyString>() {
        return Ok(vec![name.extract()?]);
    }
    object.extract::<Vec<String>>().map_err(|_| wrong())
}

pub(crate) fn target_names(object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let wrong = || PyValueError::new_err("'target_vars' should be a list of Variable.");
    if object.is_instance_of::<PyVariable>() {
        return Ok(vec![name_of(object)?]);
    }
    if !object.is_instance_of::<PyList>() && !object.is_instance_of::<PyTuple>() {
        return Err(wrong());
    }
    let name = |item: Bound<'_, PyAny>| {
        if item.is_instance_of::<PyVariable>() { name_of(&item) } else { Err(wrong()) }
    };
    object.try_iter()?.map(|item| name(item?)).collect()
}

/// Warns of state that users of the saved model might not expect.
fn warn_of_states(py: Python<'_>, program: &Program, program_only: bool) -> PyResult<()> {
    let category = py.get_type::<PyUserWarning>();
    if program.block(0).ops.iter().any(|op| op.kind == "auc") {
        let text = c"please ensure that you have set the auc states to zeros before saving inference model";
        PyErr::warn(py, &category, text, 1)?;
    }
    if program_only {
        let text = c"save_inference_model specified the param `program_only` to True, It will not save params of Program.";
        PyErr::warn(py, &category, text, 1)?;
    }
    Ok(())
}

/// Loads a model: parameters go to the scope; returns `[program, feed names, fetch variables]`.
#[pyfunction]
#[pyo3(signature = (dirname, executor, model_filename=None, params_filename=None, pserver_endpoints=None))]
fn load_inference_model<'py>(
    py: Python<'py>,
    dirname: PathBuf,
    executor: &Bound<'_, PyAny>,
    model_filename: Option<&str>,
    params_filename: Option<&str>,
    pserver_endpoints: Option<&Bound<'_, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let _ = pserver_endpoints;
    let scope = scope_of(executor)?;
    let scope = &scope.get().0;
    let load = || io::load_inference_model(scope, &dirname, model_filename, params_filename);
    let model = detached(py, load)?;
    let program = Py::new(py, PyProgram::new_from(model.program))?;
    let fetch = |name: &String| PyVariable::find(program.clone_ref(py), name);
    let fetches: Vec<PyVariable> = model.fetches.iter().map(fetch).collect();
    let list = PyList::empty(py);
    list.append(program)?;
    list.append(model.feeds)?;
    list.append(fetches)?;
    Ok(list)
}

/// The value of a parameter.
#[pyfunction]
fn get_parameter_value(para: &PyVariable, executor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if !para.read(|var| var.param.is_some())? {
        return Err(PyAssertionError::new_err("The input variable is not parameter."));
    }
    value_of(&scope_of(executor)?, executor.py(), para.var().name())
}

/// The value of the parameter of this name.
#[pyfunction]
#[pyo3(signature = (name, executor, program=None))]
fn get_parameter_value_by_name(
    py: Python<'_>,
    name: &str,
    executor: &Bound<'_, PyAny>,
    program: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let program = program_arg(py, program)?;
    program.get().lock().need_var(0, name).map_err(from_program)?;
    get_parameter_value(&PyVariable::find(program, name), executor)
}

fn value_of(scope: &Py<PyScope>, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    let tensor = scope.get().0.read(name, |value| value.tensor().cloned()).flatten();
    let Some(tensor) = tensor else {
        let text = format!("`{name}` holds nothing; run the startup program first");
        return Err(EnforceNotMet::new_err(text));
    };
    to_numpy(py, &tensor)
}

/// The parameters of a program.
#[pyfunction]
fn get_program_parameter(program: &Bound<'_, PyAny>) -> PyResult<Vec<PyVariable>> {
    let py = program.py();
    let program = program_arg(py, Some(program))?;
    Ok(wrapped(py, &program, &params_of(&program)))
}

/// The variables of a program that live between runs.
#[pyfunction]
fn get_program_persistable_vars(program: &Bound<'_, PyAny>) -> PyResult<Vec<PyVariable>> {
    let py = program.py();
    let program = program_arg(py, Some(program))?;
    Ok(wrapped(py, &program, &persistables_of(&program)))
}

fn wrapped(py: Python<'_>, program: &Py<PyProgram>, vars: &[VarDesc]) -> Vec<PyVariable> {
    vars.iter().map(|var| PyVariable::find(program.clone_ref(py), &var.name)).collect()
}

/// Whether a variable is a parameter.
#[pyfunction]
fn is_parameter(var: &PyVariable) -> PyResult<bool> {
    var.read(|var| var.param.is_some())
}

/// Whether a variable belongs to a saved model.
#[pyfunction]
fn is_persistable(var: &PyVariable) -> PyResult<bool> {
    var.read(io::is_persistable)
}

/// Writes `<model_path>.pdparams`, `<model_path>.pdopt` and `<model_path>.pdmodel`.
#[pyfunction]
fn save(py: Python<'_>, program: &Bound<'_, PyAny>, model_path: PathBuf) -> PyResult<()> {
    let program = program_arg(py, Some(program))?;
    let scope = context::global_scope(py)?;
    let (program, scope) = (Program::clone(&program.get().lock()), &scope.get().0);
    saved(py, &model_path, || io::save(scope, &program, &model_path))
}

/// Loads what `save` wrote, or what the other save functions wrote into a directory or a file; `missing` as
/// in `load_vars`.
#[pyfunction]
#[pyo3(signature = (program, model_path, executor=None, var_list=None, missing=None))]
fn load<'py>(
    py: Python<'py>,
    program: &Bound<'_, PyAny>,
    model_path: PathBuf,
    executor: Option<&Bound<'_, PyAny>>,
    var_list: Option<&Bound<'_, PyAny>>,
    missing: Option<&str>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    if let Some(executor) = executor {
        executor.getattr("run")?;
    }
    let (program, names) = (program_arg(py, Some(program))?, names_in(var_list)?);
    let scope = context::global_scope(py)?;
    let (program, scope) = (Program::clone(&program.get().lock()), &scope.get().0);
    if fit::is_wanted(missing)? {
        let fitted = detached(py, || io::fit_state(scope, &program, &model_path))?;
        return fit::report(py, &fitted).map(Some);
    }
    let names = names.as_ref().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
    detached(py, || io::load(scope, &program, &model_path, names.as_deref()))?;
    Ok(None)
}

fn names_in(list: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<String>>> {
    let names = |list: &Bound<'_, PyAny>| list.try_iter()?.map(|item| name_of(&item?)).collect();
    list.map(names).transpose()
}

/// The arrays that `save` or another save function wrote, by name. A table that servers kept by rows is a
/// `KeyedTable`.
#[pyfunction]
#[pyo3(signature = (model_path, var_list=None))]
fn load_program_state<'py>(
    py: Python<'py>,
    model_path: PathBuf,
    var_list: Option<&Bound<'_, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let names = names_in(var_list)?;
    let path: &Path = &model_path;
    let state = detached(py, || io::load_state(path, names.as_deref()))?;
    let dict = PyDict::new(py);
    for (name, value) in &state {
        match value {
            Value::Keyed(table) => dict.set_item(name, PyKeyedTable(table.clone()))?,
            value => match value.tensor() {
                Some(tensor) => dict.set_item(name, to_numpy(py, tensor)?)?,
                None => continue,
            },
        }
    }
    Ok(dict)
}

/// Puts arrays into the variables of a program; those it does not have are warned of.
#[pyfunction]
fn set_program_state(
    py: Python<'_>,
    program: &Bound<'_, PyAny>,
    state_dict: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let program = program_arg(py, Some(program))?;
    let mut state = HashMap::new();
    for (name, value) in state_dict.iter() {
        state.insert(name.extract::<String>()?, array(&value)?);
    }
    let scope = context::global_scope(py)?;
    let unused = io::set_state(&scope.get().0, &program.get().lock(), state).map_err(from_train)?;
    if unused.is_empty() {
        return Ok(());
    }
    let text = format!(
        "This list is not set, Because of Paramerter not found in program. There are: {}",
        unused.join(" ")
    );
    let text = std::ffi::CString::new(text).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
}

fn array(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(tensor) = value.cast::<PyTensor>() {
        return Ok(Value::Tensor(tensor.get().read(Tensor::clone)));
    }
    if let Ok(table) = value.cast::<PyKeyedTable>() {
        return Ok(Value::Keyed(table.get().0.clone()));
    }
    let mut tensor = Tensor::default();
    if copy_array(value, &mut tensor)? {
        return Ok(Value::Tensor(tensor));
    }
    let kind = value.get_type();
    Err(PyTypeError::new_err(format!("the state of a program must be arrays, but got {kind}")))
}
