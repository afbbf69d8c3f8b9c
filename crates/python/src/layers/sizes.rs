//! Arguments that Fluid takes in several forms: numbers alone or in lists, variables among them.

use program::layers::{Size, Sizes};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use tensor::DType;

use crate::convert::dtype_from_py;
use crate::framework::variable::{Input, PyVariable};

/// The error for an argument of a wrong type; the name of the argument goes before it.
fn refuse(wanted: &str, object: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("must be {wanted}, but received {}", object.get_type()))
}

fn integer(object: &Bound<'_, PyAny>) -> Option<i64> {
    object.extract::<i64>().ok()
}

/// The items of a list, a tuple or an array.
fn items<'py>(object: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if object.is_instance_of::<PyString>() || object.is_instance_of::<PyVariable>() {
        return None;
    }
    object.try_iter().ok()?.collect::<PyResult<_>>().ok()
}

/// One integer or several.
pub(super) struct Ints(pub(super) Vec<i32>);

impl<'a, 'py> FromPyObject<'a, 'py> for Ints {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let wrong = || refuse("an int, or a list or tuple of them", &object);
        if let Ok(one) = object.extract::<i32>() {
            return Ok(Ints(vec![one]));
        }
        let items = items(&object).ok_or_else(wrong)?;
        let ints = items.iter().map(|item| item.extract::<i32>().map_err(|_| wrong()));
        Ok(Ints(ints.collect::<PyResult<_>>()?))
    }
}

/// A list of integers, some of which variables may hold; or one variable that holds them all.
pub(super) struct Dims(pub(super) Sizes);

impl<'a, 'py> FromPyObject<'a, 'py> for Dims {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyVariable>() {
            return Ok(Dims(Sizes::In(object.extract::<Input>()?.0)));
        }
        let wrong = || refuse("a list or tuple of ints and Variables, or a Variable", &object);
        let items = items(&object).ok_or_else(wrong)?;
        let sizes: PyResult<Vec<Size>> =
            items.iter().map(|item| Ok(item.extract::<Dim>()?.0)).collect();
        Ok(Dims(Sizes::List(sizes?)))
    }
}

/// One integer, or a variable that holds it.
pub(super) struct Dim(pub(super) Size);

impl<'a, 'py> FromPyObject<'a, 'py> for Dim {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyVariable>() {
            return Ok(Dim(Size::In(object.extract::<Input>()?.0)));
        }
        let size = integer(&object).ok_or_else(|| refuse("an int or a Variable", &object))?;
        Ok(Dim(Size::Is(size)))
    }
}

/// A shape of known sizes: a list, a tuple or an array; None stands for -1.
pub(super) struct Known(pub(super) Vec<i64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Known {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let wrong = || refuse("a list or tuple of ints", &object);
        let items = items(&object).ok_or_else(wrong)?;
        let size = |item: &Bound<'py, PyAny>| {
            if item.is_none() { Ok(-1) } else { integer(item).ok_or_else(wrong) }
        };
        Ok(Known(items.iter().map(size).collect::<PyResult<_>>()?))
    }
}

/// The type of elements.
pub(super) struct Dtype(pub(super) DType);

impl<'a, 'py> FromPyObject<'a, 'py> for Dtype {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Dtype(dtype_from_py(&object)?))
    }
}

/// A number: also one in an array, or as text.
pub(super) struct Number(pub(super) f64);

impl<'a, 'py> FromPyObject<'a, 'py> for Number {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            let text: String = text.extract()?;
            let wrong = |_| PyValueError::new_err(format!("`{text}` is not a number"));
            return Ok(Number(text.trim().parse().map_err(wrong)?));
        }
        if object.is_instance_of::<PyVariable>() {
            return Err(refuse("a number", &object));
        }
        Ok(Number(object.extract::<f64>().map_err(|_| refuse("a number", &object))?))
    }
}

/// The variables of optional arguments.
pub(super) fn var(input: &Option<Input>) -> Option<&program::Var> {
    input.as_ref().map(|input| &input.0)
}
