//! Numbers changed in place of arrangement, and products: `scale`, `cast`, `clip`, `mul`, `matmul`.

use program::layers::{self, Increment, Matmul, Mul, Scale, Softmax};
use pyo3::prelude::*;

use super::arguments::{Amount, Floats, truth};
use crate::context::layer;
use crate::convert::dtype_from_py;
use crate::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(scale, m)?)?;
    m.add_function(wrap_pyfunction!(cast, m)?)?;
    m.add_function(wrap_pyfunction!(clip, m)?)?;
    m.add_function(wrap_pyfunction!(clip_by_norm, m)?)?;
    m.add_function(wrap_pyfunction!(increment, m)?)?;
    m.add_function(wrap_pyfunction!(mul, m)?)?;
    m.add_function(wrap_pyfunction!(matmul, m)?)?;
    m.add_function(wrap_pyfunction!(cos_sim, m)?)?;
    m.add_function(wrap_pyfunction!(softmax, m)?)
}

/// `act(scale x + bias)`, or `act(scale (x + bias))`; `scale` is a number or a Variable.
#[pyfunction]
#[pyo3(
    signature = (x, scale=Amount::Is(1.0), bias=0.0, bias_after_scale=true, act=None, name=None),
    text_signature = "(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None)"
)]
fn scale(
    py: Python<'_>,
    x: Input,
    scale: Amount<f32>,
    bias: f32,
    #[pyo3(from_py_with = truth)] bias_after_scale: bool,
    act: Option<&str>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let options = Scale { bias, bias_after_scale, act, name, ..Scale::default() };
    let options = match &scale {
        Amount::Is(scale) => Scale { scale: *scale, ..options },
        Amount::In(var) => Scale { scale_var: Some(&var.0), ..options },
    };
    layer(py, |b| layers::scale(b, &x.0, options))
}

/// `x` in another element type.
#[pyfunction]
fn cast(py: Python<'_>, x: Input, dtype: &Bound<'_, PyAny>) -> PyResult<PyVariable> {
    let dtype = dtype_from_py(dtype)?;
    layer(py, |b| layers::cast(b, &x.0, dtype))
}

/// `x`, but not below `min` and not above `max`.
#[pyfunction]
#[pyo3(signature = (x, min, max, name=None))]
fn clip(py: Python<'_>, x: Floats, min: f32, max: f32, name: Option<&str>) -> PyResult<PyVariable> {
    layer(py, |b| layers::clip(b, &x.0, (min, max), name))
}

/// `x`, shrunk to the L2 norm `max_norm` if it is longer.
#[pyfunction]
#[pyo3(signature = (x, max_norm, name=None))]
fn clip_by_norm(
    py: Python<'_>,
    x: Floats,
    max_norm: f32,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::clip_by_norm(b, &x.0, max_norm, name))
}

/// `x + value` for a counter `x` of one element, by default in its own place.
#[pyfunction]
#[pyo3(signature = (x, value=1.0, in_place=true))]
fn increment(
    py: Python<'_>,
    x: Input,
    value: f32,
    #[pyo3(from_py_with = truth)] in_place: bool,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::increment(b, &x.0, Increment { value, in_place }))
}

/// The product of tensors flattened to matrices at `x_num_col_dims` and `y_num_col_dims`.
#[pyfunction]
#[pyo3(signature = (x, y, x_num_col_dims=1, y_num_col_dims=1, name=None))]
fn mul(
    py: Python<'_>,
    x: Floats,
    y: Floats,
    x_num_col_dims: i32,
    y_num_col_dims: i32,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::mul(b, &x.0, &y.0, Mul { x_num_col_dims, y_num_col_dims, name }))
}

/// The product of matrices, batch by batch, times `alpha`.
#[pyfunction]
#[pyo3(signature = (x, y, transpose_x=false, transpose_y=false, alpha=1.0, name=None))]
fn matmul(
    py: Python<'_>,
    x: Floats,
    y: Floats,
    #[pyo3(from_py_with = truth)] transpose_x: bool,
    #[pyo3(from_py_with = truth)] transpose_y: bool,
    alpha: f32,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let options = Matmul { transpose_x, transpose_y, alpha, name };
    layer(py, |b| layers::matmul(b, &x.0, &y.0, options))
}

/// The cosine of the angle between rows; `Y` may be one row for all.
#[pyfunction]
#[allow(non_snake_case)] // The keywords are Fluid's.
fn cos_sim(py: Python<'_>, X: Floats, Y: Floats) -> PyResult<PyVariable> {
    layer(py, |b| layers::cos_sim(b, &X.0, &Y.0))
}

/// Probabilities along an axis of scores.
#[pyfunction]
#[pyo3(
    signature = (input, use_cudnn=false, name=None, axis=-1),
    text_signature = "(input, use_cudnn=False, name=None, axis=-1)"
)]
fn softmax(
    py: Python<'_>,
    input: Floats,
    #[pyo3(from_py_with = truth)] use_cudnn: bool,
    name: Option<&str>,
    axis: i32,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::softmax(b, &input.0, Softmax { use_cudnn, name, axis }))
}
