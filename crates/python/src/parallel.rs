//! Feeds for several places, put together: a batch is trained in one piece.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::lod::ragged;
use crate::tensor::PyTensor;

/// One feed of a list with one for each place of a compiled program; None if it is no such list.
pub(crate) fn joined<'py>(
    compiled: &Bound<'py, PyAny>,
    feed: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let is_list = feed.is_instance_of::<PyList>() || feed.is_instance_of::<PyTuple>();
    if !is_list || !compiled.hasattr("_expect_feeds")? {
        return Ok(None);
    }
    compiled.call_method1("_expect_feeds", (feed.len()?,))?;
    let mut parts = Vec::new();
    for part in feed.try_iter()? {
        let part = part?.cast_into::<PyDict>();
        parts.push(
            part.map_err(|_| PyTypeError::new_err("Each element of feed list should be a dict"))?,
        );
    }
    let whole = PyDict::new(feed.py());
    let Some(first) = parts.first() else { return Ok(Some(whole.into_any())) };
    for name in first.keys() {
        let values: PyResult<Vec<_>> = parts.iter().map(|part| value(part, &name)).collect();
        whole.set_item(&name, Py::new(feed.py(), join(&values?)?)?)?;
    }
    Ok(Some(whole.into_any()))
}

fn value<'py>(part: &Bound<'py, PyDict>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    part.get_item(name)?.ok_or_else(|| {
        PyValueError::new_err(format!("`{name}` is fed to some places and not to others"))
    })
}

/// The values one after the other; sequences stay what they are.
fn join(values: &[Bound<'_, PyAny>]) -> PyResult<PyTensor> {
    let mut lengths: Vec<Vec<usize>> = Vec::new();
    for value in values {
        let Ok(tensor) = value.cast::<PyTensor>() else { continue };
        for (at, level) in tensor.get().read(|t| t.lod().lengths()).into_iter().enumerate() {
            match lengths.get_mut(at) {
                Some(own) => own.extend(level),
                None => lengths.push(level),
            }
        }
    }
    let Some(first) = values.first() else { return Ok(PyTensor::own(tensor::Tensor::default())) };
    let numpy = first.py().import("numpy")?;
    let arrays: PyResult<Vec<_>> =
        values.iter().map(|value| numpy.call_method1("asarray", (value,))).collect();
    ragged(&numpy.call_method1("concatenate", (arrays?,))?, &lengths)
}
