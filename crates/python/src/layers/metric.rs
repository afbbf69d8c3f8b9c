//! How good a model is: `auc`.

use program::layers::{self, Auc, AucVars};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::arguments::Floats;
use crate::framework::context::{build, wrap};
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(auc, m)?)
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
