//! `batch_norm`, `layer_norm`, `data_norm`.

use program::layers::{self, BatchNorm, DataNorm, GroupNorm, InstanceNorm, LayerNorm};
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;

use super::arguments::{Amount, Floats, Weight, truth, weight};
use crate::framework::context::layer;
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(batch_norm, m)?)?;
    m.add_function(wrap_pyfunction!(group_norm, m)?)?;
    m.add_function(wrap_pyfunction!(instance_norm, m)?)?;
    m.add_function(wrap_pyfunction!(layer_norm, m)?)?;
    m.add_function(wrap_pyfunction!(data_norm, m)?)
}

/// Each channel with mean 0 and variance 1 over the batch, then scaled and shifted.
#[pyfunction]
#[pyo3(
    signature = (
        input, act=None, is_test=false, momentum=Amount(layers::Amount::Is(0.9)), epsilon=1e-05, param_attr=None,
        bias_attr=None, data_layout="NCHW", in_place=false, name=None, moving_mean_name=None,
        moving_variance_name=None, do_model_average_for_mean_and_var=true, use_global_stats=false
    ),
    text_signature = "(input, act=None, is_test=False, momentum=0.9, epsilon=1e-05, \
        param_attr=None, bias_attr=None, data_layout='NCHW', in_place=False, name=None, \
        moving_mean_name=None, moving_variance_name=None, \
        do_model_average_for_mean_and_var=True, use_global_stats=False)"
)]
fn batch_norm(
    py: Python<'_>,
    input: Floats,
    act: Option<&str>,
    #[pyo3(from_py_with = truth)] is_test: bool,
    momentum: Amount<f32>,
    epsilon: f32,
    param_attr: Option<Weight>,
    bias_attr: Option<Weight>,
    data_layout: &str,
    #[pyo3(from_py_with = truth)] in_place: bool,
    name: Option<&str>,
    moving_mean_name: Option<&str>,
    moving_variance_name: Option<&str>,
    #[pyo3(from_py_with = truth)] do_model_average_for_mean_and_var: bool,
    #[pyo3(from_py_with = truth)] use_global_stats: bool,
) -> PyResult<PyVariable> {
    let (momentum, momentum_var) = match &momentum.0 {
        layers::Amount::Is(number) => (*number, None),
        layers::Amount::In(var) => (BatchNorm::default().momentum, Some(var)),
    };
    let options = BatchNorm {
        act,
        is_test,
        momentum,
        momentum_var,
        epsilon,
        param_attr: weight(param_attr),
        bias_attr: weight(bias_attr),
        data_layout,
        in_place,
        name,
        moving_mean_name,
        moving_variance_name,
        do_model_average_for_mean_and_var,
        use_global_stats,
    };
    layer(py, |b| layers::batch_norm(b, &input.0, options))
}

/// Each example with mean 0 and variance 1 from `begin_norm_axis` on, then scaled and shifted.
#[pyfunction]
#[pyo3(signature = (
    input, scale=true, shift=true, begin_norm_axis=1, epsilon=1e-05, param_attr=None,
    bias_attr=None, act=None, name=None
))]
fn layer_norm(
    py: Python<'_>,
    input: Floats,
    #[pyo3(from_py_with = truth)] scale: bool,
    #[pyo3(from_py_with = truth)] shift: bool,
    begin_norm_axis: i32,
    epsilon: f32,
    param_attr: Option<&Bound<'_, PyAny>>,
    bias_attr: Option<&Bound<'_, PyAny>>,
    act: Option<&str>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    // Attributes of parts that are switched off are not read: scripts pass False in both places.
    let attr = |wanted: bool, given: Option<&Bound<'_, PyAny>>| -> PyResult<_> {
        Ok(weight(given.filter(|_| wanted).map(|given| given.extract::<Weight>()).transpose()?))
    };
    let options = LayerNorm {
        scale,
        shift,
        begin_norm_axis,
        epsilon,
        param_attr: attr(scale, param_attr)?,
        bias_attr: attr(shift, bias_attr)?,
        act,
        name,
    };
    layer(py, |b| layers::layer_norm(b, &input.0, options))
}

/// Each of `groups` groups of channels of an image with mean 0 and variance 1; scaled and shifted if `param_attr` and
/// `bias_attr` are given.
#[pyfunction]
#[pyo3(signature = (
    input, groups, epsilon=1e-05, param_attr=None, bias_attr=None, act=None, data_layout="NCHW",
    name=None
))]
fn group_norm(
    py: Python<'_>,
    input: Floats,
    groups: i32,
    epsilon: f32,
    param_attr: Option<&Bound<'_, PyAny>>,
    bias_attr: Option<&Bound<'_, PyAny>>,
    act: Option<&str>,
    data_layout: &str,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let attr = |given: Option<&Bound<'_, PyAny>>| -> PyResult<_> {
        match given {
            Some(given) if given.is_truthy()? => Ok(Some(weight(Some(given.extract::<Weight>()?)))),
            _ => Ok(None),
        }
    };
    let (param_attr, bias_attr) = (attr(param_attr)?, attr(bias_attr)?);
    let options = GroupNorm { epsilon, param_attr, bias_attr, act, data_layout, name };
    layer(py, |b| layers::group_norm(b, &input.0, groups, options))
}

/// Each channel of each image with mean 0 and variance 1, then scaled and shifted.
#[pyfunction]
#[pyo3(signature = (input, epsilon=1e-05, param_attr=None, bias_attr=None, name=None))]
fn instance_norm(
    py: Python<'_>,
    input: Floats,
    epsilon: f32,
    param_attr: Option<Weight>,
    bias_attr: Option<Weight>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let (param_attr, bias_attr) = (weight(param_attr), weight(bias_attr));
    let options = InstanceNorm { epsilon, param_attr, bias_attr, name };
    layer(py, |b| layers::instance_norm(b, &input.0, options))
}

/// Each column normalised with sums over all data. `param_attr` is a dict of what the sums start
/// with: `batch_size`, `batch_sum`, `batch_square`.
#[pyfunction]
#[pyo3(
    signature = (
        input, act=None, epsilon=1e-05, param_attr=None, data_layout="NCHW", in_place=false,
        name=None, moving_mean_name=None, moving_variance_name=None,
        do_model_average_for_mean_and_var=true, slot_dim=-1, sync_stats=false,
        summary_decay_rate=0.9999999, enable_scale_and_shift=false
    ),
    text_signature = "(input, act=None, epsilon=1e-05, param_attr=None, data_layout='NCHW', \
        in_place=False, name=None, moving_mean_name=None, moving_variance_name=None, \
        do_model_average_for_mean_and_var=True, slot_dim=-1, sync_stats=False, \
        summary_decay_rate=0.9999999, enable_scale_and_shift=False)"
)]
fn data_norm(
    py: Python<'_>,
    input: Input,
    act: Option<&str>,
    epsilon: f32,
    param_attr: Option<&Bound<'_, PyAny>>,
    data_layout: &str,
    #[pyo3(from_py_with = truth)] in_place: bool,
    name: Option<&str>,
    moving_mean_name: Option<&str>,
    moving_variance_name: Option<&str>,
    #[pyo3(from_py_with = truth)] do_model_average_for_mean_and_var: bool,
    slot_dim: i32,
    #[pyo3(from_py_with = truth)] sync_stats: bool,
    summary_decay_rate: f32,
    #[pyo3(from_py_with = truth)] enable_scale_and_shift: bool,
) -> PyResult<PyVariable> {
    let _ = (data_layout, moving_mean_name, moving_variance_name);
    let _ = (do_model_average_for_mean_and_var, sync_stats);
    for (asked, what) in
        [(in_place, "in_place"), (enable_scale_and_shift, "enable_scale_and_shift")]
    {
        if asked {
            let text = format!("data_norm with {what}=True is not supported");
            return Err(PyNotImplementedError::new_err(text));
        }
    }
    let start = |key: &str, default: f32| -> PyResult<f32> {
        match param_attr {
            Some(dict) if dict.is_truthy()? => dict.call_method1("get", (key, default))?.extract(),
            _ => Ok(default),
        }
    };
    let default = DataNorm::default();
    let options = DataNorm {
        act,
        epsilon,
        batch_size: start("batch_size", default.batch_size)?,
        batch_sum: start("batch_sum", default.batch_sum)?,
        batch_square: start("batch_square", default.batch_square)?,
        name,
        slot_dim,
        summary_decay_rate,
    };
    layer(py, |b| layers::data_norm(b, &input.0, options))
}
