//! `missing="init"`: loads what fits of a model that has other variables, or other sizes of them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use train::io::Fitted;

/// Whether what fits is wanted, and not an error for what does not.
pub(crate) fn is_wanted(missing: Option<&str>) -> PyResult<bool> {
    match missing {
        None => Ok(false),
        Some("init") => Ok(true),
        Some(other) => {
            let text = format!("'missing' should be None or 'init', but received {other:?}");
            Err(PyValueError::new_err(text))
        }
    }
}

/// The variables that were loaded, and those that were not, as a dictionary.
pub(crate) fn report<'py>(py: Python<'py>, fitted: &Fitted) -> PyResult<Bound<'py, PyDict>> {
    let (report, partly) = (PyDict::new(py), PyDict::new(py));
    for (name, from, to) in &fitted.partly {
        partly.set_item(name, (from, to))?;
    }
    report.set_item("loaded", &fitted.loaded)?;
    report.set_item("partly", partly)?;
    report.set_item("new", &fitted.new)?;
    report.set_item("left_out", &fitted.left_out)?;
    Ok(report)
}
