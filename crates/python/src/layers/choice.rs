//! `case` and `switch_case`: one of several parts of a program, by conditions or by a number.

use base::EvenIfPoisoned;
use program::layers::{self, FillConstant};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyList, PyTuple};
use tensor::DType;

use super::control::cond;
use crate::framework::context::{build, wrap};
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(case, m)?)?;
    m.add_function(wrap_pyfunction!(switch_case, m)?)
}

/// Conditions with what is done if they hold, and what is done otherwise.
struct Choice {
    pairs: Vec<(Py<PyAny>, Py<PyAny>)>,
    otherwise: Py<PyAny>,
}

/// The result of the first part whose condition holds; the last resort if none does.
fn choose<'py>(py: Python<'py>, mut choice: Choice) -> PyResult<Bound<'py, PyAny>> {
    if choice.pairs.is_empty() {
        return choice.otherwise.bind(py).call0();
    }
    let (condition, part) = choice.pairs.remove(0);
    let rest = std::sync::Mutex::new(Some(choice));
    let others = PyCFunction::new_closure(py, None, None, move |args, _| {
        let rest = rest.lock().even_if_poisoned().take();
        let rest = rest.ok_or_else(|| PyValueError::new_err("a branch was asked for twice"))?;
        choose(args.py(), rest).map(Bound::unbind)
    })?;
    let result = cond(py, condition.bind(py), Some(part.bind(py)), Some(others.as_any()), None)?;
    Ok(result.unwrap_or_else(|| py.None().into_bound(py)))
}

fn wrong(what: &str, argument: &str, layer: &str, wanted: &str, found: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{what} of '{argument}' in {layer} must be {wanted}, but received {found}."
    ))
}

fn kind(object: &Bound<'_, PyAny>) -> String {
    object.get_type().to_string()
}

fn check_default(default: Option<&Bound<'_, PyAny>>, layer: &str) -> PyResult<()> {
    match default {
        Some(default) if !default.is_callable() => {
            Err(wrong("The type", "default", layer, "callable", &kind(default)))
        }
        _ => Ok(()),
    }
}

/// Without a default the last part is it.
fn with_default(
    mut pairs: Vec<(Py<PyAny>, Py<PyAny>)>,
    default: Option<&Bound<'_, PyAny>>,
    layer: &str,
) -> PyResult<Choice> {
    let otherwise = match default {
        Some(default) => default.clone().unbind(),
        None => match pairs.pop() {
            Some((_, part)) => part,
            None => return Err(wrong("The elements", "the parts", layer, "one at least", "none")),
        },
    };
    Ok(Choice { pairs, otherwise })
}

/// The result of the first function whose condition holds; `default`'s if none does.
#[pyfunction]
#[pyo3(signature = (pred_fn_pairs, default=None, name=None))]
fn case<'py>(
    py: Python<'py>,
    pred_fn_pairs: &Bound<'py, PyAny>,
    default: Option<&Bound<'py, PyAny>>,
    name: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = name;
    let argument = "pred_fn_pairs";
    if !(pred_fn_pairs.is_instance_of::<PyList>() || pred_fn_pairs.is_instance_of::<PyTuple>()) {
        return Err(wrong("The type", argument, "case", "list or tuple", &kind(pred_fn_pairs)));
    }
    let mut pairs = Vec::new();
    for pair in pred_fn_pairs.try_iter()? {
        let pair = pair?;
        let Ok(pair) = pair.cast::<PyTuple>() else {
            return Err(wrong("The elements' type", argument, "case", "tuple", &kind(&pair)));
        };
        if pair.len() != 2 {
            let found = format!("{}-tuple", pair.len());
            return Err(wrong("The tuple's size", argument, "case", "2", &found));
        }
        let (condition, part) = (pair.get_item(0)?, pair.get_item(1)?);
        if !condition.is_instance_of::<PyVariable>() {
            let found = kind(&condition);
            return Err(wrong("The pred's type", argument, "case", "boolean Variable", &found));
        }
        if !part.is_callable() {
            return Err(wrong("The fn's type", argument, "case", "callable", &kind(&part)));
        }
        pairs.push((condition.unbind(), part.unbind()));
    }
    check_default(default, "case")?;
    choose(py, with_default(pairs, default, "case")?)
}

/// The functions by number, in order.
fn branches(branch_fns: &Bound<'_, PyAny>) -> PyResult<Vec<(i64, Py<PyAny>)>> {
    let (layer, argument) = ("switch_case", "branch_fns");
    let mut found: Vec<(i64, Py<PyAny>)> = Vec::new();
    let items = match branch_fns.cast::<PyDict>() {
        Ok(dict) => dict.items().into_any(),
        Err(_)
            if branch_fns.is_instance_of::<PyList>() || branch_fns.is_instance_of::<PyTuple>() =>
        {
            branch_fns.clone()
        }
        Err(_) => {
            return Err(wrong(
                "The type",
                argument,
                layer,
                "dict, list or tuple",
                &kind(branch_fns),
            ));
        }
    };
    for (place, item) in items.try_iter()?.enumerate() {
        let item = item?;
        let (index, part) = match item.cast::<PyTuple>() {
            Ok(pair) if pair.len() == 2 => {
                let index = pair.get_item(0)?;
                let number = index
                    .extract()
                    .map_err(|_| wrong("The key's type", argument, layer, "int", &kind(&index)))?;
                (number, pair.get_item(1)?)
            }
            Ok(pair) => {
                let size = format!("{}-tuple", pair.len());
                return Err(wrong("The tuple's size", argument, layer, "2", &size));
            }
            Err(_) => (place as i64, item),
        };
        if found.iter().any(|(known, _)| *known == index) {
            let text = format!(
                "The key in 'branch_fns' must be unique, but '{index}' appears more than once."
            );
            return Err(PyValueError::new_err(text));
        }
        if !part.is_callable() {
            let what = format!("The type of function for key {index}");
            return Err(wrong(&what, argument, layer, "callable", &kind(&part)));
        }
        found.push((index, part.unbind()));
    }
    found.sort_by_key(|(index, _)| *index);
    Ok(found)
}

/// The result of the function of this number; `default`'s, or the last one's, if there is none.
#[pyfunction]
#[pyo3(signature = (branch_index, branch_fns, default=None, name=None))]
fn switch_case<'py>(
    py: Python<'py>,
    branch_index: &Bound<'py, PyAny>,
    branch_fns: &Bound<'py, PyAny>,
    default: Option<&Bound<'py, PyAny>>,
    name: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = name;
    let layer = "switch_case";
    let Ok(variable) = branch_index.cast::<PyVariable>() else {
        return Err(wrong("The type", "branch_index", layer, "Variable", &kind(branch_index)));
    };
    let dtype = variable.get().read(|var| var.meta.dtype)?;
    if !matches!(dtype, DType::U8 | DType::I32 | DType::I64) {
        let found = dtype.name();
        return Err(wrong("The data type", "branch_index", layer, "uint8, int32 or int64", found));
    }
    let mut index = branch_index.extract::<Input>()?.0;
    let mut parts = branches(branch_fns)?;
    check_default(default, layer)?;
    if dtype == DType::U8 {
        index = build(py, |b| layers::cast(b, &index, DType::I64))?;
    }
    let dtype = if dtype == DType::U8 { DType::I64 } else { dtype };
    let last = match default {
        Some(default) => default.clone().unbind(),
        None => match parts.pop() {
            Some((_, part)) => part,
            None => return Err(wrong("The elements", "branch_fns", layer, "one at least", "none")),
        },
    };
    let mut pairs = Vec::new();
    for (number, part) in parts {
        let condition = build(py, |b| {
            let one = FillConstant::default();
            let wanted = layers::fill_constant(b, &[1], dtype, number as f64, one)?;
            layers::equal(b, &index, &wanted, None)
        })?;
        pairs.push((Py::new(py, wrap(py, condition)?)?.into_any(), part));
    }
    choose(py, Choice { pairs, otherwise: last })
}
