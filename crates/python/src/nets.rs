//! `fluid.nets`: composites of layers.

use program::layers::{
    self, Attention, Conv2d, ConvPoolSizes, ImgConvGroup, SequenceConvPool, SimpleImgConvPool,
};
use pyo3::prelude::*;

use crate::framework::context::layer;
use crate::framework::variable::{Input, PyVariable};
use crate::layers::arguments::{Bias, Listed, Pair, Surround, Weight, bias, truth, weight};
use crate::layers::param_attrs;

/// Adds the module `_core.nets`.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "nets")?;
    m.add_function(wrap_pyfunction!(simple_img_conv_pool, &m)?)?;
    m.add_function(wrap_pyfunction!(img_conv_group, &m)?)?;
    m.add_function(wrap_pyfunction!(glu, &m)?)?;
    m.add_function(wrap_pyfunction!(scaled_dot_product_attention, &m)?)?;
    m.add_function(wrap_pyfunction!(sequence_conv_pool, &m)?)?;
    parent.add_submodule(&m)
}

/// A convolution with its activation, then pooling.
#[pyfunction]
#[pyo3(
    signature = (
        input, num_filters, filter_size, pool_size, pool_stride, pool_padding=Surround::none(),
        pool_type="max", global_pooling=false, conv_stride=Pair([1, 1]),
        conv_padding=Surround::none(), conv_dilation=Pair([1, 1]), conv_groups=Some(1),
        param_attr=None, bias_attr=None, act=None, use_cudnn=true
    ),
    text_signature = "(input, num_filters, filter_size, pool_size, pool_stride, pool_padding=0, \
        pool_type='max', global_pooling=False, conv_stride=1, conv_padding=0, conv_dilation=1, \
        conv_groups=1, param_attr=None, bias_attr=None, act=None, use_cudnn=True)"
)]
fn simple_img_conv_pool(
    py: Python<'_>,
    input: Input,
    num_filters: i64,
    filter_size: Pair<i64>,
    pool_size: Pair<i32>,
    pool_stride: Pair<i32>,
    pool_padding: Surround,
    pool_type: &str,
    #[pyo3(from_py_with = truth)] global_pooling: bool,
    conv_stride: Pair<i32>,
    conv_padding: Surround,
    conv_dilation: Pair<i32>,
    conv_groups: Option<i32>,
    param_attr: Option<Weight>,
    bias_attr: Option<Bias>,
    act: Option<&str>,
    #[pyo3(from_py_with = truth)] use_cudnn: bool,
) -> PyResult<PyVariable> {
    let sizes = ConvPoolSizes {
        num_filters,
        filter_size: filter_size.0,
        pool_size: pool_size.0,
        pool_stride: pool_stride.0,
    };
    let conv = Conv2d {
        stride: conv_stride.0,
        padding: conv_padding.0,
        dilation: conv_dilation.0,
        groups: conv_groups,
        param_attr: weight(param_attr),
        bias_attr: bias(bias_attr),
        use_cudnn,
        act,
        ..Conv2d::default()
    };
    let pool_padding = pool_padding.0;
    let options = SimpleImgConvPool { pool_padding, pool_type, global_pooling, conv };
    layer(py, |b| layers::simple_img_conv_pool(b, &input.0, sizes, options))
}

/// Several convolutions, each perhaps with batch normalisation and dropout, then pooling. Lists
/// hold one value per convolution.
#[pyfunction]
#[pyo3(
    signature = (
        input, conv_num_filter, pool_size, conv_padding=Listed(vec![1]),
        conv_filter_size=Listed(vec![3]), conv_act=None, param_attr=None,
        conv_with_batchnorm=Listed(vec![false]), conv_batchnorm_drop_rate=Listed(vec![0.0]),
        pool_stride=Pair([1, 1]), pool_type="max", use_cudnn=true
    ),
    text_signature = "(input, conv_num_filter, pool_size, conv_padding=1, conv_filter_size=3, \
        conv_act=None, param_attr=None, conv_with_batchnorm=False, conv_batchnorm_drop_rate=0.0, \
        pool_stride=1, pool_type='max', use_cudnn=True)"
)]
fn img_conv_group(
    py: Python<'_>,
    input: Input,
    conv_num_filter: Vec<i64>,
    pool_size: Pair<i32>,
    conv_padding: Listed<i32>,
    conv_filter_size: Listed<i64>,
    conv_act: Option<&str>,
    param_attr: Option<&Bound<'_, PyAny>>,
    conv_with_batchnorm: Listed<bool>,
    conv_batchnorm_drop_rate: Listed<f32>,
    pool_stride: Pair<i32>,
    pool_type: &str,
    #[pyo3(from_py_with = truth)] use_cudnn: bool,
) -> PyResult<PyVariable> {
    let options = ImgConvGroup {
        conv_padding: conv_padding.0,
        conv_filter_size: conv_filter_size.0,
        conv_act,
        param_attr: param_attrs(param_attr)?,
        conv_with_batchnorm: conv_with_batchnorm.0,
        conv_batchnorm_drop_rate: conv_batchnorm_drop_rate.0,
        pool_stride: pool_stride.0,
        pool_type,
        use_cudnn,
    };
    layer(py, |b| layers::img_conv_group(b, &input.0, &conv_num_filter, pool_size.0, options))
}

/// A gated linear unit: one half of the input times the sigmoid of the other.
#[pyfunction]
#[pyo3(signature = (input, dim=-1), text_signature = "(input, dim=-1)")]
fn glu(py: Python<'_>, input: Input, dim: i32) -> PyResult<PyVariable> {
    layer(py, |b| layers::glu(b, &input.0, dim))
}

/// Attention of [batch, steps, width] queries to keys, as weighted means of values.
#[pyfunction]
#[pyo3(signature = (queries, keys, values, num_heads=1, dropout_rate=0.0))]
fn scaled_dot_product_attention(
    py: Python<'_>,
    queries: Input,
    keys: Input,
    values: Input,
    num_heads: i64,
    dropout_rate: f32,
) -> PyResult<PyVariable> {
    let options = Attention { num_heads, dropout_rate };
    layer(py, |b| layers::scaled_dot_product_attention(b, &queries.0, &keys.0, &values.0, options))
}

/// A convolution over windows of `filter_size` steps, then one row per sequence.
#[pyfunction]
#[pyo3(signature = (
    input, num_filters, filter_size, param_attr=None, act="sigmoid", pool_type="max",
    bias_attr=None
))]
fn sequence_conv_pool(
    py: Python<'_>,
    input: Input,
    num_filters: i64,
    filter_size: i32,
    param_attr: Option<Weight>,
    act: &str,
    pool_type: &str,
    bias_attr: Option<Bias>,
) -> PyResult<PyVariable> {
    let options = SequenceConvPool {
        param_attr: weight(param_attr),
        act,
        pool_type,
        bias_attr: bias(bias_attr),
    };
    layer(py, |b| layers::sequence_conv_pool(b, &input.0, num_filters, filter_size, options))
}
