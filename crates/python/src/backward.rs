//! `fluid.backward`: gradients as operators.

use std::collections::HashSet;

use program::backward::{self, Limits, ParamGrad};
use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PyList, PySet, PyString, PyTuple};

use crate::error::from_program;
use crate::framework::program::PyProgram;
use crate::framework::variable::{PyVariable, name_of};

/// Adds the module `_core.backward`.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "backward")?;
    m.add_function(wrap_pyfunction!(append_backward, &m)?)?;
    m.add_function(wrap_pyfunction!(gradients, &m)?)?;
    parent.add_submodule(&m)
}

/// A parameter and its gradient, as Python gets them.
pub(crate) type Pair = (PyVariable, PyVariable);

/// Adds the operators that compute the gradient of `loss` for each parameter; returns pairs of
/// parameter and gradient.
///
/// `checkpoints` would only save memory, and is not used.
#[pyfunction]
#[pyo3(signature = (loss, parameter_list=None, no_grad_set=None, callbacks=None, checkpoints=None))]
fn append_backward(
    py: Python<'_>,
    loss: &Bound<'_, PyAny>,
    parameter_list: Option<&Bound<'_, PyAny>>,
    no_grad_set: Option<&Bound<'_, PyAny>>,
    callbacks: Option<&Bound<'_, PyAny>>,
    checkpoints: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Pair>> {
    let _ = checkpoints;
    let Ok(loss) = loss.cast::<PyVariable>() else {
        let kind = loss.get_type();
        return Err(PyTypeError::new_err(format!(
            "The type of 'loss' in fluid.backward.append_backward must be Variable, but received \
             {kind}."
        )));
    };
    check_callbacks(callbacks)?;
    let limits = limits(parameter_list, no_grad_set)?;
    let loss = loss.get();
    let pairs = {
        let mut program = loss.program().get().lock();
        backward::append_backward(&mut program, loss.var().name(), &limits).map_err(from_program)?
    };
    Ok(wrap_pairs(py, loss.program(), &pairs))
}

/// Callbacks of Fluid see its own descriptions of operators, which are not here.
pub(crate) fn check_callbacks(callbacks: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match callbacks {
        Some(callbacks) if !callbacks.is_instance_of::<PyList>() => {
            Err(PyAssertionError::new_err("callbacks must be a list"))
        }
        _ => Ok(()),
    }
}

/// The gradients of the sum of `targets` for each of `inputs`; None where there is no way.
#[pyfunction]
#[pyo3(signature = (targets, inputs, target_gradients=None, no_grad_set=None))]
fn gradients(
    py: Python<'_>,
    targets: &Bound<'_, PyAny>,
    inputs: &Bound<'_, PyAny>,
    target_gradients: Option<&Bound<'_, PyAny>>,
    no_grad_set: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Option<PyVariable>>> {
    let targets = variables(targets, "targets")?;
    let inputs = variables(inputs, "inputs")?;
    let target_grads = target_gradients.map(target_names).transpose()?.unwrap_or_default();
    let Some(first) = targets.first() else {
        return Err(PyValueError::new_err("gradients needs at least one target"));
    };
    if !target_grads.is_empty() && target_grads.len() != targets.len() {
        let text = "Should have the same number of target_gradients as targets";
        return Err(PyValueError::new_err(text));
    }
    let program = first.get().program().clone_ref(py);
    let name = |var: &Bound<'_, PyVariable>| var.get().var().name().to_string();
    let target_names: Vec<String> = targets.iter().map(name).collect();
    let input_names: Vec<String> = inputs.iter().map(name).collect();
    let no_grad = no_grad(no_grad_set)?;
    let grads = {
        let mut program = program.get().lock();
        let grads =
            backward::gradients(&mut program, &target_names, &input_names, &target_grads, &no_grad);
        grads.map_err(from_program)?
    };
    let wrap = |grad: String| PyVariable::find(program.clone_ref(py), &grad);
    Ok(grads.into_iter().map(|grad| grad.map(wrap)).collect())
}

fn variables<'py>(
    object: &Bound<'py, PyAny>,
    argument: &str,
) -> PyResult<Vec<Bound<'py, PyVariable>>> {
    let wrong = |object: &Bound<'_, PyAny>| {
        let kind = object.get_type();
        PyTypeError::new_err(format!(
            "The type of '{argument}' in fluid.backward.gradients must be Variable or a list of \
             them, but received {kind}."
        ))
    };
    let one = |item: &Bound<'py, PyAny>| match item.cast::<PyVariable>() {
        Ok(variable) => Ok(variable.clone()),
        Err(_) => Err(wrong(item)),
    };
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return object.try_iter()?.map(|item| one(&item?)).collect();
    }
    Ok(vec![one(object)?])
}

fn target_names(object: &Bound<'_, PyAny>) -> PyResult<Vec<Option<String>>> {
    let one = |item: &Bound<'_, PyAny>| {
        if item.is_none() {
            Ok(None)
        } else {
            Ok(Some(variables(item, "target_gradients")?[0].get().var().name().to_string()))
        }
    };
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return object.try_iter()?.map(|item| one(&item?)).collect();
    }
    Ok(vec![one(object)?])
}

/// The limits of `parameter_list` and `no_grad_set`.
pub(crate) fn limits(
    parameter_list: Option<&Bound<'_, PyAny>>,
    no_grad_set: Option<&Bound<'_, PyAny>>,
) -> PyResult<Limits> {
    let parameters = parameter_list.map(parameter_names).transpose()?;
    Ok(Limits { parameters, no_grad: no_grad(no_grad_set)? })
}

/// Parameters given by themselves or by name, in a list, tuple or set.
pub(crate) fn parameter_names(list: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if !is_collection(list) {
        let kind = list.get_type();
        return Err(PyTypeError::new_err(format!(
            "The type of 'parameter_list' must be list, tuple or set, but received {kind}."
        )));
    }
    list.try_iter()?.map(|item| name_of(&item?)).collect()
}

fn no_grad(set: Option<&Bound<'_, PyAny>>) -> PyResult<HashSet<String>> {
    let Some(set) = set else { return Ok(HashSet::new()) };
    if !is_collection(set) {
        let kind = set.get_type();
        return Err(PyTypeError::new_err(format!(
            "The type of no_grad_set should be set or list or tuple, but received {kind}"
        )));
    }
    let name = |item: Bound<'_, PyAny>| {
        if item.is_instance_of::<PyVariable>() || item.is_instance_of::<PyString>() {
            return name_of(&item);
        }
        let kind = item.get_type();
        Err(PyTypeError::new_err(format!(
            "The type of no_grad_set's member must be Variable or str, but received {kind}."
        )))
    };
    set.try_iter()?.map(|item| name(item?)).collect()
}

fn is_collection(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>()
        || object.is_instance_of::<PySet>()
        || object.is_instance_of::<PyFrozenSet>()
}

/// Pairs of names as pairs of variables.
pub(crate) fn wrap_pairs(
    py: Python<'_>,
    program: &Py<PyProgram>,
    pairs: &[ParamGrad],
) -> Vec<Pair> {
    let find = |name: &str| PyVariable::find(program.clone_ref(py), name);
    pairs.iter().map(|pair| (find(&pair.param), find(&pair.grad))).collect()
}
