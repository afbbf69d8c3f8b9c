//! Layers that make variables: copies, parameters, counters.

use program::layers::{self, CreateGlobalVar, CreateParameter, StepCounter};
use program::{Initializer, NewParam};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tensor::{DType, Tensor};

use super::sizes::{Dtype, Known, Number, var};
use crate::array::copy_array;
use crate::framework::context::{self, layer};
use crate::framework::param::{PyInitializer, param_attr, wanted};
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(assign, m)?)?;
    m.add_function(wrap_pyfunction!(create_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(create_parameter, m)?)?;
    m.add_function(wrap_pyfunction!(create_global_var, m)?)?;
    m.add_function(wrap_pyfunction!(autoincreased_step_counter, m)?)?;
    m.add_function(wrap_pyfunction!(_parameter, m)?)?;
    m.add_function(wrap_pyfunction!(_initialize, m)?)
}

/// The types that `assign` can carry in a program.
const CARRIED: [DType; 4] = [DType::Bool, DType::F32, DType::I32, DType::I64];
/// Numbers that `assign` can carry in a program.
const CARRIED_MAX: usize = 1024 * 1024;

/// A copy of a variable or of a numpy array, in a variable of its own or in `output`.
#[pyfunction]
#[pyo3(signature = (input, output=None))]
fn assign(py: Python<'_>, input: &Bound<'_, PyAny>, output: Option<Input>) -> PyResult<PyVariable> {
    if input.is_instance_of::<PyVariable>() {
        let input: Input = input.extract()?;
        return layer(py, |b| layers::assign(b, &input.0, var(&output)));
    }
    let mut value = Tensor::default();
    if !copy_array(input, &mut value)? {
        let kind = input.get_type();
        let text = format!(
            "The type of 'input' in assign must be Variable or numpy.ndarray, but received {kind}."
        );
        return Err(PyTypeError::new_err(text));
    }
    if !CARRIED.contains(&value.dtype()) {
        let text = format!(
            "When the type of 'input' in assign is numpy.ndarray, the data type of 'input' must be bool, float32, int32 or int64, but received {}.",
            value.dtype().name()
        );
        return Err(PyTypeError::new_err(text));
    }
    if value.len() > CARRIED_MAX {
        let text = "The size of input is too big. Please consider saving it to file and 'load_op' to load it";
        return Err(PyValueError::new_err(format!("assign: {text}")));
    }
    layer(py, |b| layers::assign_value(b, &value, var(&output)))
}

/// A variable that an op will write.
#[pyfunction]
#[pyo3(signature = (dtype, name=None, persistable=false))]
fn create_tensor(
    py: Python<'_>,
    dtype: Dtype,
    name: Option<&str>,
    persistable: bool,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::create_tensor(b, dtype.0, name, persistable))
}

fn initializer(object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Initializer>> {
    let object = object.filter(|object| !object.is_none());
    let held = object.map(|object| wanted::<PyInitializer>(object, "default_initializer"));
    Ok(held.transpose()?.map(|held| held.get().0.clone()))
}

/// The error where a parameter is asked for and `attr` says there shall be none.
fn no_parameter(layer: &str) -> PyErr {
    let text =
        format!("The type of 'attr' in {layer} must be None or ParamAttr, but received bool.");
    PyTypeError::new_err(text)
}

/// A parameter.
#[pyfunction]
#[pyo3(signature = (shape, dtype, name=None, attr=None, is_bias=false, default_initializer=None))]
fn create_parameter(
    py: Python<'_>,
    shape: Known,
    dtype: Dtype,
    name: Option<&str>,
    attr: Option<&Bound<'_, PyAny>>,
    is_bias: bool,
    default_initializer: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyVariable> {
    let attr = attr.filter(|attr| !attr.is_none());
    let said = |attr| param_attr(Some(attr))?.ok_or_else(|| no_parameter("create_parameter"));
    let attr = attr.map(said).transpose()?;
    let default_initializer = initializer(default_initializer)?;
    let options = CreateParameter { name, attr, is_bias, default_initializer };
    layer(py, |b| layers::create_parameter(b, &shape.0, dtype.0, options))
}

/// A parameter of a layer of the user's own (`LayerHelper.create_parameter`).
#[pyfunction]
#[pyo3(signature = (layer_name, attr, shape, dtype, is_bias, default_initializer))]
fn _parameter(
    py: Python<'_>,
    layer_name: &str,
    attr: Option<&Bound<'_, PyAny>>,
    shape: Known,
    dtype: Dtype,
    is_bias: bool,
    default_initializer: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<PyVariable>> {
    let Some(attr) = param_attr(attr)? else { return Ok(None) };
    let usual = if is_bias { Initializer::ZERO } else { Initializer::XAVIER };
    let new = NewParam {
        layer: layer_name,
        suffix: if is_bias { "b" } else { "w" },
        attr: &attr,
        dims: &shape.0,
        dtype: dtype.0,
        default_init: initializer(default_initializer)?.unwrap_or(usual),
    };
    layer(py, |b| b.parameter(&new)).map(Some)
}

/// A variable's first value (`LayerHelper.set_variable_initializer`).
#[pyfunction]
fn _initialize(py: Python<'_>, var: Input, initializer: &Bound<'_, PyAny>) -> PyResult<()> {
    let held = wanted::<PyInitializer>(initializer, "initializer")?;
    context::build(py, |b| b.initialize(&var.0, &held.get().0))
}

/// A variable of the outermost block that the startup program fills with one value.
#[pyfunction]
#[pyo3(signature = (shape, value, dtype, persistable=false, force_cpu=false, name=None))]
fn create_global_var(
    py: Python<'_>,
    shape: Known,
    value: Number,
    dtype: Dtype,
    persistable: bool,
    force_cpu: bool,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    let options = CreateGlobalVar { persistable, force_cpu, name };
    layer(py, |b| layers::create_global_var(b, &shape.0, value.0 as f32, dtype.0, options))
}

/// A counter that each run raises before anything else; the first run sees `begin`.
#[pyfunction]
#[pyo3(signature = (counter_name=None, begin=1, step=1))]
fn autoincreased_step_counter(
    py: Python<'_>,
    counter_name: Option<&str>,
    begin: i64,
    step: i64,
) -> PyResult<PyVariable> {
    let usual = StepCounter::default().counter_name;
    let options = StepCounter { counter_name: counter_name.unwrap_or(usual), begin, step };
    layer(py, |b| layers::autoincreased_step_counter(b, options))
}
