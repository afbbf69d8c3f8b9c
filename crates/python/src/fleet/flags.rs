//! Settings of the process, by name.

use fleet::flags::{self, FlagValue};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::error::from_fleet;

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(get_flag, m)?)?;
    m.add_function(wrap_pyfunction!(set_flag, m)?)?;
    m.add_function(wrap_pyfunction!(flag_names, m)?)
}

/// The value of a flag, named with or without `FLAGS_`.
#[pyfunction]
fn get_flag(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    let value = flags::current().and_then(|flags| flags.get(name)).map_err(from_fleet)?;
    Ok(match value {
        FlagValue::Bool(value) => PyBool::new(py, value).to_owned().into_any().unbind(),
        FlagValue::Count(value) => value.into_pyobject(py)?.into_any().unbind(),
        FlagValue::Float(value) => value.into_pyobject(py)?.into_any().unbind(),
        FlagValue::Text(value) => value.into_pyobject(py)?.into_any().unbind(),
    })
}

/// Changes a flag.
#[pyfunction]
fn set_flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    flags::change(name, &value.str()?.to_string_lossy()).map_err(from_fleet)
}

/// The names of all flags.
#[pyfunction]
fn flag_names() -> Vec<&'static str> {
    fleet::Flags::names().collect()
}
