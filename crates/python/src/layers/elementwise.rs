//! Two variables place by place: arithmetic, comparisons, logic; and fewer numbers out of many.

use program::layers::{self, Elementwise, Logical, Reduce};
use pyo3::prelude::*;

use super::arguments::{Listed, Truths, truth};
use crate::context::layer;
use crate::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add_arithmetic(m)?;
    add_comparisons(m)?;
    add_logic(m)?;
    add_reductions(m)?;
    m.add_function(wrap_pyfunction!(less_than, m)?)?;
    m.add_function(wrap_pyfunction!(logical_not, m)?)?;
    m.add_function(wrap_pyfunction!(isfinite, m)?)?;
    m.add_function(wrap_pyfunction!(has_nan, m)?)?;
    m.add_function(wrap_pyfunction!(has_inf, m)?)?;
    m.add_function(wrap_pyfunction!(where_index, m)?)
}

macro_rules! arithmetic {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(
                signature = (x, y, axis=-1, act=None, name=None),
                text_signature = "(x, y, axis=-1, act=None, name=None)"
            )]
            fn $name(
                py: Python<'_>,
                x: Input,
                y: Input,
                axis: i32,
                act: Option<&str>,
                name: Option<&str>,
            ) -> PyResult<PyVariable> {
                layer(py, |b| layers::$name(b, &x.0, &y.0, Elementwise { axis, act, name }))
            }
        )*

        fn add_arithmetic(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}

arithmetic! {
    /// `act(x + y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end.
    elementwise_add;
    /// `act(x / y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end.
    elementwise_div;
    /// `act` of the integer quotient; the dimensions of `y` begin at `axis` of `x`.
    elementwise_floordiv;
    /// `act` of the greater one; the dimensions of `y` begin at `axis` of `x`.
    elementwise_max;
    /// `act` of the smaller one; the dimensions of `y` begin at `axis` of `x`.
    elementwise_min;
    /// `act` of the remainder; the dimensions of `y` begin at `axis` of `x`.
    elementwise_mod;
    /// `act(x * y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end.
    elementwise_mul;
    /// `act` of x to the power of y; the dimensions of `y` begin at `axis` of `x`.
    elementwise_pow;
    /// `act(x - y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end.
    elementwise_sub;
}

/// The variable to write into, if one is given.
fn given(out: &Option<Input>) -> Option<&program::Var> {
    out.as_ref().map(|out| &out.0)
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x, y, cond=None))]
            fn $name(py: Python<'_>, x: Input, y: Input, cond: Option<Input>) -> PyResult<PyVariable> {
                layer(py, |b| layers::$name(b, &x.0, &y.0, given(&cond)))
            }
        )*

        fn add_comparisons(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}

comparisons! {
    /// Where x == y; written into `cond` if it is given.
    equal;
    /// Where x >= y; written into `cond` if it is given.
    greater_equal;
    /// Where x > y; written into `cond` if it is given.
    greater_than;
    /// Where x <= y; written into `cond` if it is given.
    less_equal;
    /// Where x != y; written into `cond` if it is given.
    not_equal;
}

/// Where x < y; written into `cond` if it is given. `force_cpu` changes nothing.
#[pyfunction]
#[pyo3(signature = (x, y, force_cpu=None, cond=None))]
fn less_than(
    py: Python<'_>,
    x: Input,
    y: Input,
    force_cpu: Option<bool>,
    cond: Option<Input>,
) -> PyResult<PyVariable> {
    let _ = force_cpu;
    layer(py, |b| layers::less_than(b, &x.0, &y.0, given(&cond)))
}

macro_rules! logic {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x, y, out=None, name=None))]
            fn $name(
                py: Python<'_>,
                x: Truths,
                y: Truths,
                out: Option<Input>,
                name: Option<&str>,
            ) -> PyResult<PyVariable> {
                let options = Logical { out: given(&out), name };
                layer(py, |b| layers::$name(b, &x.0, &y.0, options))
            }
        )*

        fn add_logic(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}

logic! {
    /// Where both hold; written into `out` if it is given.
    logical_and;
    /// Where either holds, or both; written into `out` if it is given.
    logical_or;
    /// Where exactly one holds; written into `out` if it is given.
    logical_xor;
}

/// Where x does not hold; written into `out` if it is given.
#[pyfunction]
#[pyo3(signature = (x, out=None, name=None))]
fn logical_not(
    py: Python<'_>,
    x: Truths,
    out: Option<Input>,
    name: Option<&str>,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::logical_not(b, &x.0, Logical { out: given(&out), name }))
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident($x:ident);)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (input, dim=None, keep_dim=false, name=None))]
            fn $name(
                py: Python<'_>,
                input: $x,
                dim: Option<Listed<i32>>,
                #[pyo3(from_py_with = truth)] keep_dim: bool,
                name: Option<&str>,
            ) -> PyResult<PyVariable> {
                let dim = dim.map(|dim| dim.0).unwrap_or_default();
                layer(py, |b| layers::$name(b, &input.0, Reduce { dim: &dim, keep_dim, name }))
            }
        )*

        fn add_reductions(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}

reductions! {
    /// Whether all are true, along `dim` (a number, a list, or None for all dimensions).
    reduce_all(Truths);
    /// Whether any is true, along `dim` (a number, a list, or None for all dimensions).
    reduce_any(Truths);
    /// The greatest along `dim` (a number, a list, or None for all dimensions).
    reduce_max(Input);
    /// The average along `dim` (a number, a list, or None for all dimensions).
    reduce_mean(Input);
    /// The smallest along `dim` (a number, a list, or None for all dimensions).
    reduce_min(Input);
    /// The product along `dim` (a number, a list, or None for all dimensions).
    reduce_prod(Input);
    /// The sum along `dim` (a number, a list, or None for all dimensions).
    reduce_sum(Input);
}

/// Whether every element is a finite number, shape [1].
#[pyfunction]
fn isfinite(py: Python<'_>, x: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::isfinite(b, &x.0))
}

/// Whether some element is not a number, shape [1].
#[pyfunction]
fn has_nan(py: Python<'_>, x: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::has_nan(b, &x.0))
}

/// Whether some element is infinite, shape [1].
#[pyfunction]
fn has_inf(py: Python<'_>, x: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::has_inf(b, &x.0))
}

/// The index of each true element, one row each.
#[pyfunction(name = "where")]
fn where_index(py: Python<'_>, condition: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::where_index(b, &condition.0))
}
