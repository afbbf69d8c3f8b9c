//! The kinds of arguments of declared layers: the Python values that each accepts, and their form
//! in the core (`kind!` in crates/program/src/layers/declare.rs).

use program::Var;
use program::layers::{self, Results, Size, Sizes};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor::{DType, Tensor};

use super::arguments::{self, Listed};
pub(super) use super::arguments::{Floats, Truths};
pub(super) use super::sizes::{Dim, Dims, Dtype, Ints, Known, Number};
use crate::array::copy_array;
use crate::framework::context::{build, wrap};
use crate::framework::variable::PyVariable;
pub(super) use crate::framework::variable::{Input, Inputs};

pub(super) type MaybeInput = Option<Input>;
pub(super) type MaybeF32 = Option<f32>;
pub(super) type MaybeI32 = Option<i32>;
pub(super) type MaybeI64 = Option<i64>;
pub(super) type MaybeBool = Option<bool>;
pub(super) type MaybeDims = Option<Dims>;
pub(super) type MaybeFactor = Option<Factor>;
pub(super) type MaybeSeed = Option<Dim>;
pub(super) type MaybeInts = Option<Ints>;
pub(super) type MaybeKnown = Option<Known>;
pub(super) type MaybeDtype = Option<Dtype>;
pub(super) type Text = String;
pub(super) type Name = Option<String>;
pub(super) type Axes = Option<Listed<i32>>;
pub(super) type Count = arguments::Amount<i32>;
pub(super) type Factor = arguments::Amount<f32>;

/// An argument as the core takes it.
pub(super) trait ArgumentKind {
    /// Its type there.
    type Core<'a>
    where
        Self: 'a;

    /// The value for the core.
    fn core(&self) -> Self::Core<'_>;
}

/// An argument that may be left out. Python's None is not left out.
pub(super) struct Left<T>(Option<T>);

impl<T> Left<T> {
    /// An argument that was left out.
    pub(super) fn out() -> Self {
        Left(None)
    }
}

impl<T: ArgumentKind> Left<T> {
    /// The given value, else a default.
    pub(super) fn or<'a>(&'a self, usual: T::Core<'a>) -> T::Core<'a> {
        self.0.as_ref().map_or(usual, T::core)
    }
}

impl<'a, 'py, T> FromPyObject<'a, 'py> for Left<T>
where
    T: FromPyObject<'a, 'py>,
{
    type Error = T::Error;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, Self::Error> {
        T::extract(object).map(|given| Left(Some(given)))
    }
}

/// Kinds that the core takes as they are.
macro_rules! plain {
    ($($kind:ty),*) => {$(
        impl ArgumentKind for $kind {
            type Core<'a> = $kind;

            fn core(&self) -> $kind {
                *self
            }
        }
    )*};
}

plain! { bool, f32, i32, i64 }

/// Kinds that hold what the core borrows.
macro_rules! lent {
    ($($kind:ty => $core:ty;)*) => {$(
        impl ArgumentKind for $kind {
            type Core<'a> = &'a $core;

            fn core(&self) -> &$core {
                &self.0
            }
        }
    )*};
}

lent! {
    Floats => Var;
    Given => Var;
    Input => Var;
    Inputs => [Var];
    Ints => [i32];
    Known => [i64];
    Listed<i32> => [i32];
    Truths => Var;
}

/// Kinds that hold what the core keeps.
macro_rules! given {
    ($($kind:ty => $core:ty;)*) => {$(
        impl ArgumentKind for $kind {
            type Core<'a> = $core;

            fn core(&self) -> $core {
                Clone::clone(&self.0)
            }
        }
    )*};
}

given! {
    Count => layers::Amount<i32>;
    Dim => Size;
    Dims => Sizes;
    Dtype => DType;
    Factor => layers::Amount<f32>;
    Flag => bool;
    Number => f64;
    Places => Sizes;
    Value => layers::Amount<f64>;
}

impl ArgumentKind for String {
    type Core<'a> = &'a str;

    fn core(&self) -> &str {
        self
    }
}

impl<T: ArgumentKind> ArgumentKind for Option<T> {
    type Core<'a>
        = Option<T::Core<'a>>
    where
        T: 'a;

    fn core(&self) -> Option<T::Core<'_>> {
        self.as_ref().map(T::core)
    }
}

/// A variable, or an array that becomes one.
pub(super) struct Given(Var);

impl<'a, 'py> FromPyObject<'a, 'py> for Given {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let mut value = Tensor::default();
        if object.is_instance_of::<PyVariable>() || !copy_array(&object, &mut value)? {
            return Ok(Given(object.extract::<Input>()?.0));
        }
        build(object.py(), |b| layers::assign_value(b, &value, None)).map(Given)
    }
}

/// A flag, which scripts also write as 0 and 1.
pub(super) struct Flag(bool);

impl<'a, 'py> FromPyObject<'a, 'py> for Flag {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.is_truthy().map(Flag)
    }
}

/// A number, also as text or in an array, or a variable that holds it.
pub(super) struct Value(layers::Amount<f64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Value {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyVariable>() {
            return Ok(Value(layers::Amount::In(object.extract::<Input>()?.0)));
        }
        Ok(Value(layers::Amount::Is(object.extract::<Number>()?.0)))
    }
}

/// One integer or several, some of which variables may hold.
pub(super) struct Places(Sizes);

impl<'a, 'py> FromPyObject<'a, 'py> for Places {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<Ints>() {
            Ok(axes) => Ok(Places(Sizes::from(&axes.0))),
            Err(wrong) => Ok(Places(object.extract::<Dims>().map_err(|_| wrong)?.0)),
        }
    }
}

/// The outputs of a layer, for Python.
pub(super) trait Made {
    /// As variables of the current program.
    fn made(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

impl Made for Var {
    fn made(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        wrap(py, self)?.into_py_any(py)
    }
}

impl Made for (Var, Var) {
    fn made(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        (wrap(py, self.0)?, wrap(py, self.1)?).into_py_any(py)
    }
}

impl Made for Results {
    fn made(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Results::One(var) => var.made(py),
            Results::Several(vars) => {
                let vars =
                    vars.into_iter().map(|var| wrap(py, var)).collect::<PyResult<Vec<_>>>()?;
                PyTuple::new(py, vars)?.into_py_any(py)
            }
        }
    }
}

impl Made for layers::Nonzero {
    fn made(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            layers::Nonzero::Whole(var) => var.made(py),
            layers::Nonzero::Columns(vars) => {
                let vars = vars.into_iter().map(|var| wrap(py, var));
                PyTuple::new(py, vars.collect::<PyResult<Vec<_>>>()?)?.into_py_any(py)
            }
        }
    }
}

impl Made for Vec<Var> {
    fn made(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let vars = self.into_iter().map(|var| wrap(py, var));
        vars.collect::<PyResult<Vec<_>>>()?.into_py_any(py)
    }
}
