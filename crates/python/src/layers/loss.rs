//! Losses.

use program::layers::{
    self, CrossEntropy, MarginRankLoss, SigmoidCrossEntropy, SmoothL1, SoftmaxWithCrossEntropy,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use super::arguments::{Floats, truth};
use crate::context::{build, layer, wrap};
use crate::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(square_error_cost, m)?)?;
    m.add_function(wrap_pyfunction!(mse_loss, m)?)?;
    m.add_function(wrap_pyfunction!(cross_entropy, m)?)?;
    m.add_function(wrap_pyfunction!(softmax_with_cross_entropy, m)?)?;
    m.add_function(wrap_pyfunction!(sigmoid_cross_entropy_with_logits, m)?)?;
    m.add_function(wrap_pyfunction!(log_loss, m)?)?;
    m.add_function(wrap_pyfunction!(huber_loss, m)?)?;
    m.add_function(wrap_pyfunction!(smooth_l1, m)?)?;
    m.add_function(wrap_pyfunction!(bpr_loss, m)?)?;
    m.add_function(wrap_pyfunction!(rank_loss, m)?)?;
    m.add_function(wrap_pyfunction!(margin_rank_loss, m)?)?;
    m.add_function(wrap_pyfunction!(kldiv_loss, m)?)
}

/// The squared difference, place by place.
#[pyfunction]
fn square_error_cost(py: Python<'_>, input: Floats, label: Floats) -> PyResult<PyVariable> {
    layer(py, |b| layers::square_error_cost(b, &input.0, &label.0))
}

/// The mean of the squared errors, shape [1].
#[pyfunction]
fn mse_loss(py: Python<'_>, input: Floats, label: Floats) -> PyResult<PyVariable> {
    layer(py, |b| layers::mse_loss(b, &input.0, &label.0))
}

/// `-log input[label]` per row of probabilities; a label `ignore_index` counts as 0.
#[pyfunction]
#[pyo3(
    signature = (input, label, soft_label=false, ignore_index=-100),
    text_signature = "(input, label, soft_label=False, ignore_index=-100)"
)]
fn cross_entropy(
    py: Python<'_>,
    input: Floats,
    label: Input,
    #[pyo3(from_py_with = truth)] soft_label: bool,
    ignore_index: i32,
) -> PyResult<PyVariable> {
    let options = CrossEntropy { soft_label, ignore_index };
    layer(py, |b| layers::cross_entropy(b, &input.0, &label.0, options))
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

/// The cross entropy of the sigmoid of each score; `normalize` divides by the labels that count.
#[pyfunction]
#[pyo3(
    signature = (x, label, ignore_index=-100, name=None, normalize=false),
    text_signature = "(x, label, ignore_index=-100, name=None, normalize=False)"
)]
fn sigmoid_cross_entropy_with_logits(
    py: Python<'_>,
    x: Floats,
    label: Floats,
    ignore_index: i32,
    name: Option<&str>,
    #[pyo3(from_py_with = truth)] normalize: bool,
) -> PyResult<PyVariable> {
    let options = SigmoidCrossEntropy { ignore_index, name, normalize };
    layer(py, |b| layers::sigmoid_cross_entropy_with_logits(b, &x.0, &label.0, options))
}

/// The negative log likelihood of probabilities; `epsilon` keeps the logs finite.
#[pyfunction]
#[pyo3(signature = (input, label, epsilon=0.0001, name=None))]
fn log_loss(
    py: Python<'_>,
    input: Floats,
    label: Floats,
    epsilon: f32,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::log_loss(b, &input.0, &label.0, epsilon, name))
}

/// Squares near errors and takes far ones (beyond `delta`) as they are.
#[pyfunction]
fn huber_loss(py: Python<'_>, input: Floats, label: Floats, delta: f32) -> PyResult<PyVariable> {
    layer(py, |b| layers::huber_loss(b, &input.0, &label.0, delta))
}

/// The smooth L1 distance of each row, shape [n, 1].
#[pyfunction]
#[pyo3(signature = (x, y, inside_weight=None, outside_weight=None, sigma=None))]
fn smooth_l1(
    py: Python<'_>,
    x: Floats,
    y: Floats,
    inside_weight: Option<Input>,
    outside_weight: Option<Input>,
    sigma: Option<f32>,
) -> PyResult<PyVariable> {
    let options = SmoothL1 {
        inside_weight: inside_weight.as_ref().map(|weight| &weight.0),
        outside_weight: outside_weight.as_ref().map(|weight| &weight.0),
        sigma,
    };
    layer(py, |b| layers::smooth_l1(b, &x.0, &y.0, options))
}

/// The personalised-ranking loss of the labelled class against the others.
#[pyfunction]
#[pyo3(signature = (input, label, name=None))]
fn bpr_loss(
    py: Python<'_>,
    input: Floats,
    label: Input,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::bpr_loss(b, &input.0, &label.0, name))
}

/// RankNet's loss of two scores; the label says whether the left one should win.
#[pyfunction]
#[pyo3(signature = (label, left, right, name=None))]
fn rank_loss(
    py: Python<'_>,
    label: Floats,
    left: Floats,
    right: Floats,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::rank_loss(b, &label.0, &left.0, &right.0, name))
}

/// What two scores lack to differ by a margin; the label (1 or -1) says in which direction.
#[pyfunction]
#[pyo3(signature = (label, left, right, margin=0.1, name=None))]
fn margin_rank_loss(
    py: Python<'_>,
    label: Floats,
    left: Floats,
    right: Floats,
    margin: f32,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let options = MarginRankLoss { margin, name };
    layer(py, |b| layers::margin_rank_loss(b, &label.0, &left.0, &right.0, options))
}

/// The Kullback-Leibler divergence; `reduction` is none, batchmean, mean or sum.
#[pyfunction]
#[pyo3(signature = (x, target, reduction="mean", name=None))]
fn kldiv_loss(
    py: Python<'_>,
    x: Floats,
    target: Floats,
    reduction: &str,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::kldiv_loss(b, &x.0, &target.0, reduction, name))
}
