//! Small questions about a variable: is it empty, how long are its sequences; and places.

use program::layers;
use pyo3::prelude::*;

use crate::context::{build, layer, wrap};
use crate::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(is_empty, m)?)?;
    m.add_function(wrap_pyfunction!(lod_rank_table, m)?)?;
    m.add_function(wrap_pyfunction!(max_sequence_len, m)?)?;
    m.add_function(wrap_pyfunction!(split_lod_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(merge_lod_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(get_places, m)?)
}

/// The rows (or sequences) for which a mask holds, and the others.
#[pyfunction]
#[pyo3(signature = (input, mask, level=0))]
fn split_lod_tensor(
    py: Python<'_>,
    input: Input,
    mask: Input,
    level: i32,
) -> PyResult<(PyVariable, PyVariable)> {
    let (yes, no) = build(py, |b| layers::split_lod_tensor(b, &input.0, &mask.0, level))?;
    Ok((wrap(py, yes)?, wrap(py, no)?))
}

/// Rows (or sequences) put together again, in the order of a mask.
#[pyfunction]
#[pyo3(signature = (in_true, in_false, x, mask, level=0))]
fn merge_lod_tensor(
    py: Python<'_>,
    in_true: Input,
    in_false: Input,
    x: Input,
    mask: Input,
    level: i32,
) -> PyResult<PyVariable> {
    let sides = (&in_true.0, &in_false.0);
    layer(py, |b| layers::merge_lod_tensor(b, sides, (&x.0, &mask.0), level))
}

/// Whether a variable has no elements, in `cond` if it is given.
#[pyfunction]
#[pyo3(signature = (x, cond=None))]
fn is_empty(py: Python<'_>, x: Input, cond: Option<Input>) -> PyResult<PyVariable> {
    layer(py, |b| layers::is_empty(b, &x.0, cond.as_ref().map(|cond| &cond.0)))
}

/// The sequences of a variable at a level, the longest first.
#[pyfunction]
#[pyo3(signature = (x, level=0))]
fn lod_rank_table(py: Python<'_>, x: Input, level: i32) -> PyResult<PyVariable> {
    layer(py, |b| layers::lod_rank_table(b, &x.0, level))
}

/// The length of the longest sequence in a table of `lod_rank_table`.
#[pyfunction]
fn max_sequence_len(py: Python<'_>, rank_table: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::max_sequence_len(b, &rank_table.0))
}

/// The processors of a run.
#[pyfunction]
#[pyo3(signature = (device_count=None, device_type=None))]
fn get_places(
    py: Python<'_>,
    device_count: Option<i32>,
    device_type: Option<&str>,
) -> PyResult<PyVariable> {
    let (count, device) = (device_count.unwrap_or(0), device_type.unwrap_or("AUTO"));
    layer(py, |b| layers::get_places(b, count, device))
}
