//! Arguments that Fluid takes in several forms.

use program::layers::{self, Padding};
use program::{ParamAttr, Var};
use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use tensor::DType;

use crate::framework::param::param_attr;
use crate::framework::variable::{Input, PyVariable};

/// A flag, which scripts also write as 0 and 1.
pub(crate) fn truth(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.is_truthy()
}

/// Variables of one kind of elements: a layer that takes another kind fails where it is called,
/// not when the program runs.
macro_rules! inputs {
    ($($(#[$doc:meta])* $name:ident = [$($dtype:ident),*];)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) Var);

        impl<'a, 'py> FromPyObject<'a, 'py> for $name {
            type Error = PyErr;

            fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
                input_of(object, &[$(DType::$dtype),*]).map($name)
            }
        }
    )*};
}

inputs! {
    /// A variable of fractions.
    Floats = [F16, F32, F64];
    /// A variable of numbers of rows.
    Ids = [I64];
    /// A variable of truth values.
    Truths = [Bool];
}

fn input_of(object: Borrowed<'_, '_, PyAny>, allowed: &[DType]) -> PyResult<Var> {
    let Input(var) = object.extract()?;
    let dtype = object.cast::<PyVariable>()?.get().read(|desc| desc.meta.dtype)?;
    if allowed.contains(&dtype) {
        return Ok(var);
    }
    let allowed: Vec<String> = allowed.iter().map(|dtype| format!("'{}'", dtype.name())).collect();
    let allowed = allowed.join(", ");
    let (name, dtype) = (var.name(), dtype.name());
    let text = format!("the data type of `{name}` must be [{allowed}], but received {dtype}");
    Err(PyTypeError::new_err(text))
}

/// The attributes of a parameter that a layer cannot do without.
pub(crate) struct Weight(ParamAttr);

impl<'a, 'py> FromPyObject<'a, 'py> for Weight {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let text = "this parameter cannot be left out: the attribute should not be False";
        let attr = param_attr(Some(&object))?;
        attr.map(Weight).ok_or_else(|| PyAssertionError::new_err(text))
    }
}

/// The attributes of such a parameter.
pub(crate) fn weight(given: Option<Weight>) -> ParamAttr {
    given.map(|weight| weight.0).unwrap_or_default()
}

/// The attributes of a parameter that False leaves out.
pub(crate) struct Bias(Option<ParamAttr>);

impl<'a, 'py> FromPyObject<'a, 'py> for Bias {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Bias(param_attr(Some(&object))?))
    }
}

/// The attributes of such a parameter; `None` for none.
pub(crate) fn bias(given: Option<Bias>) -> Option<ParamAttr> {
    given.map_or_else(|| Some(ParamAttr::default()), |bias| bias.0)
}

/// Rows and width of a table. One of 2⁶³ - 1 rows or more has a row for each id of 64 bits.
pub(crate) struct TableSize(pub(crate) [i64; 2]);

impl<'a, 'py> FromPyObject<'a, 'py> for TableSize {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let [height, width]: [Bound<'py, PyAny>; 2] = object.extract()?;
        let height = match height.extract() {
            Err(_) if height.gt(i64::MAX).unwrap_or(false) && height.hasattr("__index__")? => {
                i64::MAX
            }
            height => height?,
        };
        Ok(TableSize([height, width.extract()?]))
    }
}

/// One value or a list of them.
pub(crate) struct Listed<T>(pub(crate) Vec<T>);

impl<'a, 'py, T> FromPyObject<'a, 'py> for Listed<T>
where
    T: for<'b> FromPyObject<'b, 'py, Error: Into<PyErr>>,
{
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() || !object.hasattr("__len__")? {
            return Ok(Listed(vec![object.extract().map_err(Into::into)?]));
        }
        let items = object.try_iter()?;
        let items: PyResult<Vec<T>> =
            items.map(|item| item?.extract().map_err(Into::into)).collect();
        Ok(Listed(items?))
    }
}

/// Height and width, given as one number or as two.
#[derive(Clone, Copy)]
pub(crate) struct Pair<T>(pub(crate) [T; 2]);

impl<'a, 'py, T> FromPyObject<'a, 'py> for Pair<T>
where
    T: Copy + for<'b> FromPyObject<'b, 'py, Error: Into<PyErr>>,
{
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<Listed<T>>()?.0[..] {
            [both] => Ok(Pair([both, both])),
            [height, width] => Ok(Pair([height, width])),
            ref list => {
                let text = format!("expected one number or two, but got {} of them", list.len());
                Err(PyValueError::new_err(text))
            }
        }
    }
}

/// The padding of an image: a number, two, four, a list of pairs per dimension, SAME or VALID.
pub(crate) struct Surround(pub(crate) Padding);

impl Surround {
    /// Nothing.
    pub(crate) fn none() -> Self {
        Surround(Padding::both(0, 0))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Surround {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return named_padding(&text.extract::<String>()?);
        }
        if let Ok(pairs) = object.extract::<[[i32; 2]; 4]>() {
            return Ok(Surround(Padding::Pairs(pairs)));
        }
        match &object.extract::<Listed<i32>>()?.0[..] {
            [both] => Ok(Surround(Padding::both(*both, *both))),
            list @ ([_, _] | [_, _, _, _]) => Ok(Surround(Padding::Explicit(list.to_vec()))),
            list => {
                let text = format!("padding holds 1, 2 or 4 numbers, but got {list:?}");
                Err(PyValueError::new_err(text))
            }
        }
    }
}

fn named_padding(name: &str) -> PyResult<Surround> {
    match name.to_uppercase().as_str() {
        "SAME" => Ok(Surround(Padding::Same)),
        "VALID" => Ok(Surround(Padding::Valid)),
        _ => {
            let text = format!("Unknown padding: '{name}'. It can only be 'SAME' or 'VALID'.");
            Err(PyValueError::new_err(text))
        }
    }
}

/// A number, or a variable that holds it when the program runs.
pub(crate) struct Amount<T>(pub(crate) layers::Amount<T>);

impl<'a, 'py, T> FromPyObject<'a, 'py> for Amount<T>
where
    T: FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyVariable>() {
            return Ok(Amount(layers::Amount::In(object.extract::<Input>()?.0)));
        }
        let number = object.extract().map_err(|_: T::Error| {
            let kind = object.get_type();
            PyTypeError::new_err(format!("expected a number or a Variable, but got {kind}"))
        })?;
        Ok(Amount(layers::Amount::Is(number)))
    }
}
