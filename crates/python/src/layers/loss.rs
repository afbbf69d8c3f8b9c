//! `softmax_with_cross_entropy`.

use program::layers::{self, SoftmaxWithCrossEntropy};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use super::arguments::truth;
use crate::framework::context::{build, wrap};
use crate::framework::variable::Input;

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(softmax_with_cross_entropy, m)?)
}

/// The cross entropy of the softmax of scores: the loss, or (loss, softmax) with `return_softmax`.
#[pyfunction]
#[pyo3(
    signature = (
        logits, label, soft_label=false, ignore_index=-100, numeric_stable_mode=true,
        return_softmax=false, axis=-1
    ),
    text_signature = "(logits, label, soft_label=False, ignore_index=-100, \
        numeric_stable_mode=True, return_softmax=False, axis=-1)"
)]
fn softmax_with_cross_entropy(
    py: Python<'_>,
    logits: Input,
    label: Input,
    #[pyo3(from_py_with = truth)] soft_label: bool,
    ignore_index: i32,
    #[pyo3(from_py_with = truth)] numeric_stable_mode: bool,
    #[pyo3(from_py_with = truth)] return_softmax: bool,
    axis: i32,
) -> PyResult<Py<PyAny>> {
    let options = SoftmaxWithCrossEntropy { soft_label, ignore_index, numeric_stable_mode, axis };
    let (loss, softmax) =
        build(py, |b| layers::softmax_with_cross_entropy(b, &logits.0, &label.0, options))?;
    let loss = wrap(py, loss)?;
    if return_softmax { (loss, wrap(py, softmax)?).into_py_any(py) } else { loss.into_py_any(py) }
}
