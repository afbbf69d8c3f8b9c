//! Between Python's values and attributes of operators.

use numpy::PyUntypedArray;
use program::Attr;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::program::PyBlock;
use crate::convert::VarType;

/// An attribute of an operator from a Python value.
pub(crate) fn attr_from_py(value: &Bound<'_, PyAny>) -> PyResult<Attr> {
    if is_of_numpy(value)? {
        return attr_from_py(&value.call_method0("tolist")?);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Attr::Bool(flag.is_true()));
    }
    if let Ok(kind) = value.cast::<VarType>() {
        return Ok(Attr::Int(kind.get().0 as i32));
    }
    if let Ok(block) = value.cast::<PyBlock>() {
        return Ok(Attr::Block(block.get().id as i32));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Attr::Float(value.extract::<f64>()? as f32));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Attr::Str(text.extract()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return list_attr(value);
    }
    if let Ok(number) = value.extract::<i64>() {
        return Ok(i32::try_from(number).map_or(Attr::Long(number), Attr::Int));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(Attr::Float(number as f32));
    }
    let kind = value.get_type();
    Err(PyTypeError::new_err(format!("an attribute cannot be a {kind}")))
}

/// Whether it is an array, or a number of numpy's that is none of Python's.
fn is_of_numpy(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_instance_of::<PyUntypedArray>() {
        return Ok(true);
    }
    let plain = value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyString>();
    Ok(!plain && value.is_instance(&value.py().import("numpy")?.getattr("generic")?)?)
}

/// A number of numpy's as one of Python's.
fn plain(item: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if is_of_numpy(&item)? { item.call_method0("tolist") } else { Ok(item) }
}

fn list_attr(value: &Bound<'_, PyAny>) -> PyResult<Attr> {
    let items = value.try_iter()?.map(|item| plain(item?)).collect::<PyResult<Vec<_>>>()?;
    let Some(first) = items.first().cloned() else { return Ok(Attr::Ints(Vec::new())) };
    let value = PyList::new(value.py(), items)?.into_any();
    if first.is_instance_of::<PyBool>() {
        return Ok(Attr::Bools(value.extract()?));
    }
    if first.is_instance_of::<PyString>() {
        return Ok(Attr::Strs(value.extract()?));
    }
    if let Ok(numbers) = value.extract::<Vec<i32>>() {
        return Ok(Attr::Ints(numbers));
    }
    if let Ok(numbers) = value.extract::<Vec<i64>>() {
        return Ok(Attr::Longs(numbers));
    }
    let numbers: Vec<f64> = value.extract()?;
    Ok(Attr::Floats(numbers.into_iter().map(|number| number as f32).collect()))
}

/// A Python value from an attribute.
pub(crate) fn attr_to_py(py: Python<'_>, attr: &Attr) -> PyResult<Py<PyAny>> {
    let object = match attr {
        Attr::Int(value) | Attr::Block(value) => value.into_pyobject(py)?.into_any(),
        Attr::Long(value) => value.into_pyobject(py)?.into_any(),
        Attr::Float(value) => f64::from(*value).into_pyobject(py)?.into_any(),
        Attr::Str(value) => value.into_pyobject(py)?.into_any(),
        Attr::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Attr::Ints(values) | Attr::Blocks(values) => values.into_pyobject(py)?.into_any(),
        Attr::Longs(values) => values.into_pyobject(py)?.into_any(),
        Attr::Floats(values) => {
            let values: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
            values.into_pyobject(py)?.into_any()
        }
        Attr::Strs(values) => values.into_pyobject(py)?.into_any(),
        Attr::Bools(values) => values.into_pyobject(py)?.into_any(),
    };
    Ok(object.unbind())
}
