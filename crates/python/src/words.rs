//! Names that users type and that are not there.

use base::DidYouMean;
use pyo3::prelude::*;

pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    fleet::bug::report_panics(env!("CARGO_PKG_VERSION"));
    m.add_function(wrap_pyfunction!(did_you_mean, m)?)?;
    m.add_function(wrap_pyfunction!(no_such_name, m)?)
}

/// ` Did you mean …?` with the nearest of the known names; empty if none is near.
#[pyfunction]
fn did_you_mean(name: &str, known: Vec<String>) -> String {
    DidYouMean::among(name, known.iter().map(String::as_str)).to_string()
}

/// The error message about a name that a module does not have.
#[pyfunction]
fn no_such_name(module: &str, name: &str, known: Vec<String>) -> String {
    let public = known.iter().map(String::as_str).filter(|known| !known.starts_with('_'));
    let near = DidYouMean::among(name, public);
    format!("paddlewheel has no {module}.{name}.{near} dir({module}) lists what there is.")
}
