//! The programs that layers write into at the moment, and the generator of names.
//!
//! Fluid keeps them as process globals; so must we. Python's `program_guard` and `unique_name.guard`
//! switch them and switch them back.

use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use program::{Builder, UniqueNames, Var};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::program::PyProgram;
use super::variable::PyVariable;
use crate::error::from_program;
use crate::site;
use crate::tensor::PyScope;

struct Context {
    main: Py<PyProgram>,
    startup: Py<PyProgram>,
    names: UniqueNames,
    scope: Py<PyScope>,
}

static CURRENT: Mutex<Option<Context>> = Mutex::new(None);

fn current(py: Python<'_>) -> PyResult<MutexGuard<'static, Option<Context>>> {
    let mut held = CURRENT.lock().even_if_poisoned();
    if held.is_none() {
        let main = Py::new(py, PyProgram::default())?;
        let startup = Py::new(py, PyProgram::default())?;
        let scope = Py::new(py, PyScope::default())?;
        *held = Some(Context { main, startup, names: UniqueNames::default(), scope });
    }
    Ok(held)
}

fn with<R>(py: Python<'_>, f: impl FnOnce(&mut Context) -> R) -> PyResult<R> {
    let mut held = current(py)?;
    Ok(f(held.as_mut().expect("made above")))
}

/// Uses the generator of names.
pub(crate) fn with_names<R>(py: Python<'_>, f: impl FnOnce(&mut UniqueNames) -> R) -> PyResult<R> {
    with(py, |context| f(&mut context.names))
}

/// The program that layers write into.
#[pyfunction]
pub(crate) fn default_main_program(py: Python<'_>) -> PyResult<Py<PyProgram>> {
    with(py, |context| context.main.clone_ref(py))
}

/// The program that fills parameters.
#[pyfunction]
pub(crate) fn default_startup_program(py: Python<'_>) -> PyResult<Py<PyProgram>> {
    with(py, |context| context.startup.clone_ref(py))
}

/// Makes another program the one that layers write into; returns the one before.
#[pyfunction]
pub(crate) fn switch_main_program(
    py: Python<'_>,
    program: Py<PyProgram>,
) -> PyResult<Py<PyProgram>> {
    with(py, |context| std::mem::replace(&mut context.main, program))
}

/// Makes another program the one that fills parameters; returns the one before.
#[pyfunction]
pub(crate) fn switch_startup_program(
    py: Python<'_>,
    program: Py<PyProgram>,
) -> PyResult<Py<PyProgram>> {
    with(py, |context| std::mem::replace(&mut context.startup, program))
}

/// The scope that programs run in unless another is given.
#[pyfunction]
pub(crate) fn global_scope(py: Python<'_>) -> PyResult<Py<PyScope>> {
    with(py, |context| context.scope.clone_ref(py))
}

/// Makes another scope the global one; returns the one before.
#[pyfunction]
pub(crate) fn switch_scope(py: Python<'_>, scope: Py<PyScope>) -> PyResult<Py<PyScope>> {
    with(py, |context| std::mem::replace(&mut context.scope, scope))
}

/// A generator of unique names, held by `unique_name.guard`.
#[pyclass(name = "UniqueNameGenerator", module = "paddlewheel._core")]
pub(crate) struct PyNames(UniqueNames);

#[pymethods]
impl PyNames {
    #[new]
    #[pyo3(signature = (prefix = None))]
    fn new(prefix: Option<&str>) -> Self {
        PyNames(UniqueNames::with_prefix(prefix.unwrap_or("")))
    }
}

/// The next unique name of a key.
#[pyfunction]
pub(crate) fn unique_name_generate(py: Python<'_>, key: &str) -> PyResult<String> {
    with(py, |context| context.names.generate(key))
}

/// Installs another generator of names (a fresh one without an argument); returns the one before.
#[pyfunction]
#[pyo3(signature = (new_generator = None))]
pub(crate) fn unique_name_switch(
    py: Python<'_>,
    new_generator: Option<PyRef<'_, PyNames>>,
) -> PyResult<PyNames> {
    let names = new_generator.map(|names| names.0.clone()).unwrap_or_default();
    Ok(PyNames(with(py, |context| std::mem::replace(&mut context.names, names))?))
}

/// Calls a function of the core that builds, on the current programs.
pub(crate) fn build<R>(
    py: Python<'_>,
    f: impl FnOnce(&mut Builder<'_>) -> program::Result<R>,
) -> PyResult<R> {
    let main = default_main_program(py)?;
    build_in(py, &main, f)
}

/// Builds on a given main program: operators of a variable write where the variable lives.
pub(crate) fn build_in<R>(
    py: Python<'_>,
    main: &Py<PyProgram>,
    f: impl FnOnce(&mut Builder<'_>) -> program::Result<R>,
) -> PyResult<R> {
    let startup = default_startup_program(py)?;
    build_on(py, main, &startup, f)
}

/// Builds on two given programs.
pub(crate) fn build_on<R>(
    py: Python<'_>,
    main: &Py<PyProgram>,
    startup: &Py<PyProgram>,
    f: impl FnOnce(&mut Builder<'_>) -> program::Result<R>,
) -> PyResult<R> {
    if main.is(startup) {
        let text = "the main program and the startup program must be two programs";
        return Err(PyValueError::new_err(text));
    }
    let mut held = current(py)?;
    let names = &mut held.as_mut().expect("made above").names;
    let (main, startup) = (main.get(), startup.get());
    let (mut main, mut startup) = (main.lock(), startup.lock());
    site::noted(py, (&mut main, &mut startup), |main, startup| {
        f(&mut Builder { main, startup, names }).map_err(from_program)
    })
}

/// Calls a layer and returns its variable.
pub(crate) fn layer(
    py: Python<'_>,
    f: impl FnOnce(&mut Builder<'_>) -> program::Result<Var>,
) -> PyResult<PyVariable> {
    let var = build(py, f)?;
    wrap(py, var)
}

/// Calls a layer with several results.
pub(crate) fn layers(
    py: Python<'_>,
    f: impl FnOnce(&mut Builder<'_>) -> program::Result<Vec<Var>>,
) -> PyResult<Vec<PyVariable>> {
    build(py, f)?.into_iter().map(|var| wrap(py, var)).collect()
}

/// A variable of the current main program.
pub(crate) fn wrap(py: Python<'_>, var: Var) -> PyResult<PyVariable> {
    let main = default_main_program(py)?;
    Ok(PyVariable::find(main, var.name()))
}
