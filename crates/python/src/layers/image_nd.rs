//! `conv2d_transpose`, `conv3d`, `conv3d_transpose`, `pool3d`, `adaptive_pool3d`.

use program::layers::{self, ConvNd, PaddingNd, Pool3d};
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::arguments::{Bias, Floats, Listed, Weight, bias, truth, weight};
use crate::framework::context::layer;
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(conv2d_transpose, m)?)?;
    m.add_function(wrap_pyfunction!(conv3d, m)?)?;
    m.add_function(wrap_pyfunction!(conv3d_transpose, m)?)?;
    m.add_function(wrap_pyfunction!(pool3d, m)?)?;
    m.add_function(wrap_pyfunction!(adaptive_pool3d, m)?)
}

/// A number for each dimension, or one for all.
#[derive(Clone, Copy)]
struct Each<T, const N: usize>([T; N]);

impl<'a, 'py, T, const N: usize> FromPyObject<'a, 'py> for Each<T, N>
where
    T: Copy + for<'b> FromPyObject<'b, 'py, Error: Into<PyErr>>,
{
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let list = object.extract::<Listed<T>>()?.0;
        match (&list[..], <[T; N]>::try_from(&list[..])) {
            (&[all], _) => Ok(Each([all; N])),
            (_, Ok(each)) => Ok(Each(each)),
            _ => {
                let text = format!("expected one number or {N}, but got {} of them", list.len());
                Err(PyValueError::new_err(text))
            }
        }
    }
}

/// What surrounds an image of `N` dimensions.
struct Around<const N: usize>(PaddingNd);

impl<const N: usize> Around<N> {
    fn none() -> Self {
        Around(PaddingNd::Explicit(vec![0; N]))
    }
}

impl<'a, 'py, const N: usize> FromPyObject<'a, 'py> for Around<N> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            let text: String = text.extract()?;
            return match text.to_uppercase().as_str() {
                "SAME" => Ok(Around(PaddingNd::Same)),
                "VALID" => Ok(Around(PaddingNd::Valid)),
                _ => {
                    let text =
                        format!("Unknown padding: '{text}'. It can only be 'SAME' or 'VALID'.");
                    Err(PyValueError::new_err(text))
                }
            };
        }
        if let Ok(pairs) = object.extract::<Vec<[i32; 2]>>() {
            return Ok(Around(PaddingNd::Pairs(pairs)));
        }
        let list = object.extract::<Listed<i32>>()?.0;
        Ok(Around(PaddingNd::Explicit(if list.len() == 1 { vec![list[0]; N] } else { list })))
    }
}

/// Each pixel spread over a filter. Sizes are one number, or height and width.
#[pyfunction]
#[pyo3(
    signature = (
        input, num_filters, output_size=None, filter_size=None, padding=Around::none(),
        stride=Each([1; 2]), dilation=Each([1; 2]), groups=None, param_attr=None, bias_attr=None,
        use_cudnn=true, act=None, name=None, data_format="NCHW"
    ),
    text_signature = "(input, num_filters, output_size=None, filter_size=None, padding=0, stride=1, \
        dilation=1, groups=None, param_attr=None, bias_attr=None, use_cudnn=True, act=None, \
        name=None, data_format='NCHW')"
)]
fn conv2d_transpose(
    py: Python<'_>,
    input: Floats,
    num_filters: i64,
    output_size: Option<Each<i32, 2>>,
    filter_size: Option<Each<i64, 2>>,
    padding: Around<2>,
    stride: Each<i32, 2>,
    dilation: Each<i32, 2>,
    groups: Option<i32>,
    param_attr: Option<Weight>,
    bias_attr: Option<Bias>,
    #[pyo3(from_py_with = truth)] use_cudnn: bool,
    act: Option<&str>,
    name: Option<&str>,
    data_format: &str,
) -> PyResult<PyVariable> {
    let options = ConvNd {
        output_size: output_size.map(|size| size.0),
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
    let filter_size = filter_size.map(|size| size.0);
    layer(py, |b| layers::conv2d_transpose(b, &input.0, num_filters, filter_size, options))
}

/// `num_filters` filters slid over images of three dimensions. Sizes are one number, or three.
#[pyfunction]
#[pyo3(
    signature = (
        input, num_filters, filter_size, stride=Each([1; 3]), padding=Around::none(),
        dilation=Each([1; 3]), groups=None, param_attr=None, bias_attr=None, use_cudnn=true,
        act=None, name=None, data_format="NCDHW"
    ),
    text_signature = "(input, num_filters, filter_size, stride=1, padding=0, dilation=1, \
        groups=None, param_attr=None, bias_attr=None, use_cudnn=True, act=None, name=None, \
        data_format='NCDHW')"
)]
fn conv3d(
    py: Python<'_>,
    input: Floats,
    num_filters: i64,
    filter_size: Each<i64, 3>,
    stride: Each<i32, 3>,
    padding: Around<3>,
    dilation: Each<i32, 3>,
    groups: Option<i32>,
    param_attr: Option<Weight>,
    bias_attr: Option<Bias>,
    #[pyo3(from_py_with = truth)] use_cudnn: bool,
    act: Option<&str>,
    name: Option<&str>,
    data_format: &str,
) -> PyResult<PyVariable> {
    let options = ConvNd {
        output_size: None,
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
    layer(py, |b| layers::conv3d(b, &input.0, num_filters, filter_size.0, options))
}

/// Each number of an image of three dimensions spread over a filter. Sizes are one number, or three.
#[pyfunction]
#[pyo3(
    signature = (
        input, num_filters, output_size=None, filter_size=None, padding=Around::none(),
        stride=Each([1; 3]), dilation=Each([1; 3]), groups=None, param_attr=None, bias_attr=None,
        use_cudnn=true, act=None, name=None, data_format="NCDHW"
    ),
    text_signature = "(input, num_filters, output_size=None, filter_size=None, padding=0, stride=1, \
        dilation=1, groups=None, param_attr=None, bias_attr=None, use_cudnn=True, act=None, \
        name=None, data_format='NCDHW')"
)]
fn conv3d_transpose(
    py: Python<'_>,
    input: Floats,
    num_filters: i64,
    output_size: Option<Each<i32, 3>>,
    filter_size: Option<Each<i64, 3>>,
    padding: Around<3>,
    stride: Each<i32, 3>,
    dilation: Each<i32, 3>,
    groups: Option<i32>,
    param_attr: Option<Weight>,
    bias_attr: Option<Bias>,
    #[pyo3(from_py_with = truth)] use_cudnn: bool,
    act: Option<&str>,
    name: Option<&str>,
    data_format: &str,
) -> PyResult<PyVariable> {
    let options = ConvNd {
        output_size: output_size.map(|size| size.0),
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
    let filter_size = filter_size.map(|size| size.0);
    layer(py, |b| layers::conv3d_transpose(b, &input.0, num_filters, filter_size, options))
}

/// The largest or average number of a sliding box, or of the whole image (`global_pooling`).
#[pyfunction]
#[pyo3(
    signature = (
        input, pool_size=Each([-1; 3]), pool_type="max", pool_stride=Each([1; 3]),
        pool_padding=Around::none(), global_pooling=false, use_cudnn=true, ceil_mode=false,
        name=None, exclusive=true, data_format="NCDHW"
    ),
    text_signature = "(input, pool_size=-1, pool_type='max', pool_stride=1, pool_padding=0, \
        global_pooling=False, use_cudnn=True, ceil_mode=False, name=None, exclusive=True, \
        data_format='NCDHW')"
)]
fn pool3d(
    py: Python<'_>,
    input: Input,
    pool_size: Each<i32, 3>,
    pool_type: &str,
    pool_stride: Each<i32, 3>,
    pool_padding: Around<3>,
    #[pyo3(from_py_with = truth)] global_pooling: bool,
    #[pyo3(from_py_with = truth)] use_cudnn: bool,
    #[pyo3(from_py_with = truth)] ceil_mode: bool,
    name: Option<&str>,
    #[pyo3(from_py_with = truth)] exclusive: bool,
    data_format: &str,
) -> PyResult<PyVariable> {
    let options = Pool3d {
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
    layer(py, |b| layers::pool3d(b, &input.0, options))
}

/// Pools an image into `pool_size` boxes that share it out.
#[pyfunction]
#[pyo3(signature = (input, pool_size, pool_type="max", require_index=false, name=None))]
fn adaptive_pool3d(
    py: Python<'_>,
    input: Input,
    pool_size: Each<i32, 3>,
    pool_type: &str,
    #[pyo3(from_py_with = truth)] require_index: bool,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    if require_index {
        let text = "adaptive_pool3d with require_index=True is not supported";
        return Err(PyNotImplementedError::new_err(text));
    }
    layer(py, |b| layers::adaptive_pool3d(b, &input.0, pool_size.0, pool_type, name))
}
