//! Starting the processes of a job.

use std::path::PathBuf;

use fleet::launch::{self as start, Console, Host};
use pyo3::prelude::*;

use crate::error::from_fleet;

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(launch_ps, m)?)?;
    m.add_function(wrap_pyfunction!(launch, m)?)?;
    m.add_function(wrap_pyfunction!(scale, m)?)?;
    m.add_function(wrap_pyfunction!(watch, m)?)?;
    m.add_function(wrap_pyfunction!(render, m)?)
}

type Launch = fn(&[String], &Host, &mut Console) -> i32;

/// Runs a job; a signal that ended it is in the exit code and raises nothing more.
fn run(py: Python<'_>, which: Launch, arguments: &[String], host: &Host) -> i32 {
    let code = py.detach(|| which(arguments, host, &mut Console::stderr()));
    let _ = py.check_signals();
    code
}

/// Starts servers and trainers and waits for them; returns the exit code.
#[pyfunction]
fn launch_ps(py: Python<'_>, arguments: Vec<String>, python: PathBuf, alias: PathBuf) -> i32 {
    run(py, start::launch_ps, &arguments, &Host { python, alias: Some(alias) })
}

/// Starts trainers that work without servers and waits for them; returns the exit code.
#[pyfunction]
fn launch(py: Python<'_>, arguments: Vec<String>, python: PathBuf, alias: PathBuf) -> i32 {
    run(py, start::launch, &arguments, &Host { python, alias: Some(alias) })
}

/// Gives a running job another number of servers; returns the exit code.
#[pyfunction]
fn scale(py: Python<'_>, arguments: Vec<String>, python: PathBuf, alias: PathBuf) -> i32 {
    run(py, start::scale, &arguments, &Host { python, alias: Some(alias) })
}

/// Shows what processes do that others have started; returns the exit code.
#[pyfunction]
fn watch(py: Python<'_>, arguments: Vec<String>, python: PathBuf, alias: PathBuf) -> i32 {
    run(py, start::watch, &arguments, &Host { python, alias: Some(alias) })
}

/// What to submit to a cluster.
#[pyfunction]
fn render(arguments: Vec<String>) -> PyResult<String> {
    fleet::render::render(&arguments).map_err(from_fleet)
}
