//! Inputs, fully connected layers.

use program::layers::{self, Data, Fc};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use tensor::DType;

use crate::convert::any_dtype_from_py;
use crate::framework::context::layer;
use crate::framework::param::param_attr;
use crate::framework::variable::{Inputs, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(self::data, m)?)?;
    m.add_function(wrap_pyfunction!(fc, m)?)
}

/// Declares an input of the program. A batch dimension of -1 goes first unless the shape has one.
#[pyfunction]
#[pyo3(
    signature = (name, shape, append_batch_size=true, dtype=None, lod_level=0, r#type=None, stop_gradient=true),
    text_signature = "(name, shape, append_batch_size=True, dtype='float32', lod_level=0, type=None, stop_gradient=True)"
)]
fn data(
    py: Python<'_>,
    name: &str,
    shape: Vec<Option<i64>>,
    append_batch_size: bool,
    dtype: Option<&Bound<'_, PyAny>>,
    lod_level: i32,
    r#type: Option<&Bound<'_, PyAny>>,
    stop_gradient: bool,
) -> PyResult<PyVariable> {
    let _ = r#type;
    let dtype = data_type(dtype)?;
    let shape: Vec<i64> = shape.into_iter().map(|size| size.unwrap_or(-1)).collect();
    let options = Data { append_batch_size, dtype, lod_level, stop_gradient, ..Data::default() };
    layer(py, |b| layers::data(b, name, &shape, options))
}

/// A fully connected layer: `act(input x weight + bias)`, `size` columns wide.
#[pyfunction]
#[pyo3(signature = (input, size, num_flatten_dims=1, param_attr=None, bias_attr=None, act=None, is_test=false, name=None))]
fn fc(
    py: Python<'_>,
    input: Inputs,
    size: i64,
    num_flatten_dims: i32,
    param_attr: Option<&Bound<'_, PyAny>>,
    bias_attr: Option<&Bound<'_, PyAny>>,
    act: Option<&str>,
    is_test: bool,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let _ = is_test;
    let options = Fc {
        num_flatten_dims,
        param_attr: param_attrs(param_attr)?,
        bias_attr: self::param_attr(bias_attr)?,
        act,
        name,
    };
    layer(py, |b| layers::fc(b, &input.0, size, options))
}

/// One `param_attr` for all inputs, or a list with one each.
pub(crate) fn param_attrs(object: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<program::ParamAttr>> {
    fn one(object: Option<&Bound<'_, PyAny>>) -> PyResult<program::ParamAttr> {
        Ok(param_attr(object)?.unwrap_or_default())
    }
    match object {
        Some(list) if list.is_instance_of::<PyList>() || list.is_instance_of::<PyTuple>() => {
            list.try_iter()?.map(|item| one(Some(&item?))).collect()
        }
        other => Ok(vec![one(other)?]),
    }
}

/// The element type of a data variable. Fluid asks numpy here, which has another error for the
/// same mistake.
pub(super) fn data_type(dtype: Option<&Bound<'_, PyAny>>) -> PyResult<DType> {
    let Some(dtype) = dtype else { return Ok(DType::default()) };
    let refuse = |error: PyErr| PyTypeError::new_err(error.value(dtype.py()).to_string());
    any_dtype_from_py(dtype).map_err(refuse)
}
