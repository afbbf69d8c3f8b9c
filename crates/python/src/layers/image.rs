//! `conv2d` and `pool2d`.

use program::layers::{self, Conv2d, Pool2d};
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;

use super::arguments::{Bias, Floats, Pair, Surround, Weight, bias, truth, weight};
use crate::framework::context::layer;
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(conv2d, m)?)?;
    m.add_function(wrap_pyfunction!(pool2d, m)?)?;
    m.add_function(wrap_pyfunction!(adaptive_pool2d, m)?)
}

/// `num_filters` filters slid over images. Sizes are one number, or height and width.
#[pyfunction]
#[pyo3(
    signature = (
        input, num_filters, filter_size, stride=Pair([1, 1]), padding=Surround::none(),
        dilation=Pair([1, 1]), groups=None, param_attr=None, bias_attr=None, use_cudnn=true,
        act=None, name=None, data_format="NCHW"
    ),
    text_signature = "(input, num_filters, filter_size, stride=1, padding=0, dilation=1, \
        groups=None, param_attr=None, bias_attr=None, use_cudnn=True, act=None, name=None, \
        data_format='NCHW')"
)]
fn conv2d(
    py: Python<'_>,
    input: Floats,
    num_filters: i64,
    filter_size: Pair<i64>,
    stride: Pair<i32>,
    padding: Surround,
    dilation: Pair<i32>,
    groups: Option<i32>,
    param_attr: Option<Weight>,
    bias_attr: Option<Bias>,
    #[pyo3(from_py_with = truth)] use_cudnn: bool,
    act: Option<&str>,
    name: Option<&str>,
    data_format: &str,
) -> PyResult<PyVariable> {
    let options = Conv2d {
        stride: stride.0,
        padding: padding.0,
        dilation: dilation.0,
        groups,
        param_attr: weight(param_attr),
        bias_attr: bias(bias_attr),
        use_cudnn,
        act,
        name,
        data_format,
    };
    layer(py, |b| layers::conv2d(b, &input.0, num_filters, filter_size.0, options))
}

/// The largest or average pixel of a sliding window, or of the whole image (`global_pooling`).
#[pyfunction]
#[pyo3(
    signature = (
        input, pool_size=Pair([-1, -1]), pool_type="max", pool_stride=Pair([1, 1]),
        pool_padding=Surround::none(), global_pooling=false, use_cudnn=true, ceil_mode=false,
        name=None, exclusive=true, data_format="NCHW"
    ),
    text_signature = "(input, pool_size=-1, pool_type='max', pool_stride=1, pool_padding=0, \
        global_pooling=False, use_cudnn=True, ceil_mode=False, name=None, exclusive=True, \
        data_format='NCHW')"
)]
fn pool2d(
    py: Python<'_>,
    input: Input,
    pool_size: Pair<i32>,
    pool_type: &str,
    pool_stride: Pair<i32>,
    pool_padding: Surround,
    #[pyo3(from_py_with = truth)] global_pooling: bool,
    #[pyo3(from_py_with = truth)] use_cudnn: bool,
    #[pyo3(from_py_with = truth)] ceil_mode: bool,
    name: Option<&str>,
    #[pyo3(from_py_with = truth)] exclusive: bool,
    data_format: &str,
) -> PyResult<PyVariable> {
    let options = Pool2d {
        pool_size: pool_size.0,
        pool_type,
        pool_stride: pool_stride.0,
        pool_padding: pool_padding.0,
        global_pooling,
        use_cudnn,
        ceil_mode,
        name,
        exclusive,
        data_format,
    };
    layer(py, |b| layers::pool2d(b, &input.0, options))
}

/// Pools an image into `pool_size` windows that share it out.
#[pyfunction]
#[pyo3(signature = (input, pool_size, pool_type="max", require_index=false, name=None))]
fn adaptive_pool2d(
    py: Python<'_>,
    input: Input,
    pool_size: Pair<i32>,
    pool_type: &str,
    #[pyo3(from_py_with = truth)] require_index: bool,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    if require_index {
        let text = "adaptive_pool2d with require_index=True is not supported";
        return Err(PyNotImplementedError::new_err(text));
    }
    layer(py, |b| layers::adaptive_pool2d(b, &input.0, pool_size.0, pool_type, name))
}
