//! How good a model is, and what is largest: `accuracy`, `auc`, `topk`, `argmax`, `argsort`.

use program::layers::{self, Accuracy, Argsort, Auc, AucVars};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::arguments::{Amount, Floats, truth};
use crate::context::{build, layer, wrap};
use crate::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(accuracy, m)?)?;
    m.add_function(wrap_pyfunction!(auc, m)?)?;
    m.add_function(wrap_pyfunction!(topk, m)?)?;
    m.add_function(wrap_pyfunction!(argmax, m)?)?;
    m.add_function(wrap_pyfunction!(argmin, m)?)?;
    m.add_function(wrap_pyfunction!(argsort, m)?)
}

/// The share of rows whose label is among the `k` largest.
#[pyfunction]
#[pyo3(signature = (input, label, k=1, correct=None, total=None))]
fn accuracy(
    py: Python<'_>,
    input: Floats,
    label: Input,
    k: i32,
    correct: Option<Input>,
    total: Option<Input>,
) -> PyResult<PyVariable> {
    let (correct, total) = (correct.map(|var| var.0), total.map(|var| var.0));
    let options = Accuracy { k, correct: correct.as_ref(), total: total.as_ref() };
    layer(py, |b| layers::accuracy(b, &input.0, &label.0, options))
}

/// The area under the curve of probabilities: over all batches, over the last ones, and the four
/// histograms it is read from (positive and negative of the last batches, then of all).
#[pyfunction]
#[pyo3(signature = (input, label, curve="ROC", num_thresholds=4095, topk=1, slide_steps=1))]
fn auc(
    py: Python<'_>,
    input: Floats,
    label: Input,
    curve: &str,
    num_thresholds: i32,
    topk: i32,
    slide_steps: i32,
) -> PyResult<(PyVariable, PyVariable, Py<PyList>)> {
    let _ = topk;
    let options = Auc { curve, num_thresholds, slide_steps };
    let AucVars { auc, batch_auc, states } =
        build(py, |b| layers::auc(b, &input.0, &label.0, options))?;
    let states: PyResult<Vec<PyVariable>> = states.map(|var| wrap(py, var)).into_iter().collect();
    Ok((wrap(py, auc)?, wrap(py, batch_auc)?, PyList::new(py, states?)?.unbind()))
}

/// The `k` largest of each row and their places: (values, indices).
#[pyfunction]
#[pyo3(signature = (input, k, name=None))]
fn topk(
    py: Python<'_>,
    input: Input,
    k: Amount<i32>,
    name: Option<&str>,
) -> PyResult<(PyVariable, PyVariable)> {
    let (values, indices) = build(py, |b| layers::topk(b, &input.0, &k.into(), name))?;
    Ok((wrap(py, values)?, wrap(py, indices)?))
}

/// Where along an axis the largest element is.
#[pyfunction]
#[pyo3(signature = (x, axis=0))]
fn argmax(py: Python<'_>, x: Input, axis: i64) -> PyResult<PyVariable> {
    layer(py, |b| layers::argmax(b, &x.0, axis))
}

/// Where along an axis the smallest element is.
#[pyfunction]
#[pyo3(signature = (x, axis=0))]
fn argmin(py: Python<'_>, x: Input, axis: i64) -> PyResult<PyVariable> {
    layer(py, |b| layers::argmin(b, &x.0, axis))
}

/// The sorted elements and where they were: (values, indices).
#[pyfunction]
#[pyo3(
    signature = (input, axis=-1, descending=false, name=None),
    text_signature = "(input, axis=-1, descending=False, name=None)"
)]
fn argsort(
    py: Python<'_>,
    input: Input,
    axis: i32,
    #[pyo3(from_py_with = truth)] descending: bool,
    name: Option<&str>,
) -> PyResult<(PyVariable, PyVariable)> {
    let options = Argsort { axis, descending, name };
    let (values, indices) = build(py, |b| layers::argsort(b, &input.0, options))?;
    Ok((wrap(py, values)?, wrap(py, indices)?))
}
