//! The command `paddlewheel`, called by Python.

use std::ffi::OsString;
use std::path::PathBuf;

use cli::Caller;
use fleet::Interpreter;
use pyo3::prelude::*;

pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(command, m)?)
}

/// Does what the words behind `paddlewheel` ask for; returns the exit code. Scripts are run by `python`, with
/// the folder `alias` before `search`, where it looks for modules.
#[pyfunction]
fn command(
    py: Python<'_>,
    words: Vec<OsString>,
    python: PathBuf,
    alias: PathBuf,
    search: Vec<PathBuf>,
) -> i32 {
    let caller = Caller::python(Interpreter { python, alias, search });
    py.detach(|| cli::run(&words, &caller))
}
