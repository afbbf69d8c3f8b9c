//! Parts of a program that run on a condition, lists of tensors, and `Print`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use program::layers::{self, Print, Switch};
use program::{BlockId, Builder, Var, VarKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use tensor::DType;

use crate::convert::any_dtype_from_py;
use crate::error::from_program;
use crate::framework::context::{build, build_in, default_main_program, layer, wrap};
use crate::framework::program::PyProgram;
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PySwitch>()?;
    m.add_class::<PyWhile>()?;
    m.add_class::<BlockGuard>()?;
    m.add_function(wrap_pyfunction!(cond, m)?)?;
    m.add_function(wrap_pyfunction!(while_loop, m)?)?;
    m.add_function(wrap_pyfunction!(create_array, m)?)?;
    m.add_function(wrap_pyfunction!(print, m)?)
}

/// When the ops of a block run.
pub(super) enum When {
    If(Var),
    Filled(Var),
    While(Var),
}

/// The context manager of a part of a program: layers called inside of it go into a block.
#[pyclass(name = "BlockGuard", module = "paddlewheel._core", frozen)]
pub(crate) struct BlockGuard {
    program: Py<PyProgram>,
    when: When,
    opened: Mutex<Option<BlockId>>,
}

impl BlockGuard {
    pub(super) fn new(py: Python<'_>, when: When) -> PyResult<Self> {
        Ok(Self { program: default_main_program(py)?, when, opened: Mutex::new(None) })
    }

    fn opened(&self) -> MutexGuard<'_, Option<BlockId>> {
        self.opened.lock().even_if_poisoned()
    }

    fn open(&self) -> PyResult<BlockId> {
        let mut opened = self.opened();
        if opened.is_some() {
            return Err(PyValueError::new_err("this block is already open"));
        }
        let block = self.program.get().lock().push_block();
        *opened = Some(block);
        Ok(block)
    }

    /// Goes back to the block around.
    fn close(&self) -> PyResult<BlockId> {
        let block = self.opened().take();
        let block = block.ok_or_else(|| PyValueError::new_err("this block is not open"))?;
        self.program.get().lock().pop_block();
        Ok(block)
    }

    /// Appends the op that runs the block.
    fn run(&self, py: Python<'_>, block: BlockId) -> PyResult<()> {
        build_in(py, &self.program, |b| match &self.when {
            When::If(condition) => layers::run_if(b, condition, block),
            When::Filled(condition) => layers::run_unless_empty(b, condition, block),
            When::While(condition) => layers::run_while(b, condition, block),
        })
    }
}

#[pymethods]
impl BlockGuard {
    fn __enter__(&self) -> PyResult<()> {
        self.open().map(|_| ())
    }

    /// After an exception the block is left without an op that runs it.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let block = self.close()?;
        if kind.is_none() {
            self.run(py, block)?;
        }
        Ok(false)
    }
}

/// The first of several parts whose condition holds runs.
#[pyclass(name = "Switch", module = "paddlewheel._core", frozen)]
pub(crate) struct PySwitch {
    switch: Mutex<Switch>,
    inside: AtomicBool,
}

#[pymethods]
impl PySwitch {
    #[new]
    #[pyo3(signature = (name=None))]
    fn new(name: Option<&str>) -> Self {
        let _ = name;
        Self { switch: Mutex::default(), inside: AtomicBool::new(false) }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf.get().inside.store(true, Ordering::Relaxed);
        slf
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> bool {
        self.inside.store(false, Ordering::Relaxed);
        false
    }

    /// A part that runs if the condition holds and none before it did.
    fn case(&self, py: Python<'_>, condition: &Bound<'_, PyAny>) -> PyResult<BlockGuard> {
        self.check_inside("case")?;
        let condition =
            truth("condition", "the member function case of fluid.layers.Switch", condition)?;
        let mut switch = self.switch.lock().even_if_poisoned();
        let condition = build(py, |b| switch.condition(b, &condition))?;
        BlockGuard::new(py, When::If(condition))
    }

    /// The part that runs if no condition held.
    fn default(&self, py: Python<'_>) -> PyResult<BlockGuard> {
        self.check_inside("default")?;
        let switch = self.switch.lock().even_if_poisoned();
        let condition = switch.otherwise_condition().map_err(from_program)?.clone();
        BlockGuard::new(py, When::If(condition))
    }
}

impl PySwitch {
    fn check_inside(&self, method: &str) -> PyResult<()> {
        if self.inside.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("Switch: {method} should be called inside with")))
    }
}

/// A variable of one truth value.
fn truth(argument: &str, layer: &str, object: &Bound<'_, PyAny>) -> PyResult<Var> {
    let Ok(variable) = object.cast::<PyVariable>() else {
        let kind = object.get_type();
        return Err(PyTypeError::new_err(format!(
            "The type of '{argument}' in {layer} must be Variable, but received {kind}."
        )));
    };
    let (dtype, dims) = variable.get().read(|var| (var.meta.dtype, var.meta.dims.clone()))?;
    if dtype != DType::Bool {
        return Err(PyTypeError::new_err(format!(
            "The data type of '{argument}' in {layer} must be bool, but received {}.",
            dtype.name()
        )));
    }
    if dims.iter().any(|&dim| dim != 1) {
        return Err(PyTypeError::new_err(format!(
            "the shape of '{argument}' in {layer} should be [1], but given shape as {dims:?}."
        )));
    }
    Ok(object.extract::<Input>()?.0)
}

/// A part that runs again and again while a condition holds; the part must change the condition.
#[pyclass(name = "While", module = "paddlewheel._core", frozen)]
pub(crate) struct PyWhile(Var);

#[pymethods]
impl PyWhile {
    #[new]
    #[pyo3(signature = (cond, is_test=false, name=None))]
    fn new(cond: &Bound<'_, PyAny>, is_test: bool, name: Option<&str>) -> PyResult<Self> {
        let _ = (is_test, name);
        Ok(Self(truth("cond", "While", cond)?))
    }

    /// `with loop.block():` holds what runs.
    fn block(&self, py: Python<'_>) -> PyResult<BlockGuard> {
        BlockGuard::new(py, When::While(self.0.clone()))
    }
}

/// A script of Python: its functions call layers between those that we add.
struct PyScript<'py>(Python<'py>);

impl layers::Script for PyScript<'_> {
    type Error = PyErr;

    fn build<T>(
        &mut self,
        append: impl FnOnce(&mut Builder<'_>) -> program::Result<T>,
    ) -> PyResult<T> {
        build(self.0, append)
    }
}

/// The variables in what a function returned: one, or lists, tuples and dicts of them.
fn variables(object: &Bound<'_, PyAny>, found: &mut Vec<Var>) -> PyResult<()> {
    if let Ok(variable) = object.cast::<PyVariable>() {
        found.push(variable.get().var());
        return Ok(());
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        return dict.iter().try_for_each(|(_, value)| variables(&value, found));
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return object.try_iter()?.try_for_each(|item| variables(&item?, found));
    }
    let kind = object.get_type();
    Err(PyTypeError::new_err(format!("a branch must return Variables, but got {kind}")))
}

/// The same structure around other variables.
fn repack<'py>(
    like: &Bound<'py, PyAny>,
    vars: &mut std::vec::IntoIter<Var>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = like.py();
    if let Ok(dict) = like.cast::<PyDict>() {
        let packed = PyDict::new(py);
        for (key, value) in dict.iter() {
            packed.set_item(key, repack(&value, vars)?)?;
        }
        return Ok(packed.into_any());
    }
    if like.is_instance_of::<PyList>() || like.is_instance_of::<PyTuple>() {
        let items = like.try_iter()?.map(|item| repack(&item?, vars));
        let items = items.collect::<PyResult<Vec<_>>>()?;
        return if like.is_instance_of::<PyList>() {
            Ok(PyList::new(py, items)?.into_any())
        } else {
            Ok(PyTuple::new(py, items)?.into_any())
        };
    }
    let var = vars.next().ok_or_else(|| PyValueError::new_err("too few results of a branch"))?;
    Ok(Bound::new(py, wrap(py, var)?)?.into_any())
}

/// One branch of `cond`: the result of its function, and copies of it outside of the branch.
fn branch<'py>(
    condition: Var,
    function: Option<&Bound<'py, PyAny>>,
    name: &str,
) -> PyResult<Option<(Bound<'py, PyAny>, Vec<Var>)>> {
    let Some(function) = function else { return Ok(None) };
    if !function.is_callable() {
        let kind = function.get_type();
        let text = format!("The {name} in cond must be callable, but received {kind}");
        return Err(PyTypeError::new_err(text));
    }
    let mut returned = None;
    let outs = layers::branch(&mut PyScript(function.py()), &condition, |_| {
        let result = function.call0()?;
        let vars = if result.is_none() { Vec::new() } else { results(&result)? };
        returned = Some(result).filter(|result| !result.is_none());
        Ok(vars)
    })?;
    Ok(returned.map(|result| (result, outs)))
}

/// The result of `true_fn` if `pred` holds, else that of `false_fn`.
#[pyfunction]
#[pyo3(signature = (pred, true_fn=None, false_fn=None, name=None))]
pub(super) fn cond<'py>(
    py: Python<'py>,
    pred: &Bound<'py, PyAny>,
    true_fn: Option<&Bound<'py, PyAny>>,
    false_fn: Option<&Bound<'py, PyAny>>,
    name: Option<&str>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let _ = name;
    let pred = truth("pred", "cond", pred)?;
    let held = branch(pred.clone(), true_fn, "true_fn")?;
    let failed = match false_fn {
        None => None,
        Some(_) => {
            let not = build(py, |b| layers::logical_not(b, &pred, None, None))?;
            branch(not, false_fn, "false_fn")?
        }
    };
    match (held, failed) {
        (None, None) => Ok(None),
        (Some((like, held)), Some((_, failed))) => {
            let vars = build(py, |b| layers::choose(b, &pred, held, failed))?;
            repack(&like, &mut vars.into_iter()).map(Some)
        }
        (held, _) => {
            let (some, none) =
                if held.is_some() { ("true_fn", "false_fn") } else { ("false_fn", "true_fn") };
            Err(PyValueError::new_err(format!(
                "Incompatible return values of true_fn and false_fn in cond: {some} returns non-None while {none} returns None"
            )))
        }
    }
}

/// A function's results as a list of variables.
fn results(object: &Bound<'_, PyAny>) -> PyResult<Vec<Var>> {
    let mut vars = Vec::new();
    variables(object, &mut vars)?;
    Ok(vars)
}

fn check_callable(function: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    if function.is_callable() {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!("{name} in while_loop should be callable")))
}

/// Runs `body` on the variables while `cond` of them holds; returns them.
#[pyfunction]
#[pyo3(signature = (cond, body, loop_vars, is_test=false, name=None))]
fn while_loop<'py>(
    py: Python<'py>,
    cond: &Bound<'py, PyAny>,
    body: &Bound<'py, PyAny>,
    loop_vars: &Bound<'py, PyAny>,
    is_test: bool,
    name: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = (is_test, name);
    check_callable(cond, "cond")?;
    check_callable(body, "body")?;
    if !(loop_vars.is_instance_of::<PyList>() || loop_vars.is_instance_of::<PyTuple>()) {
        return Err(PyTypeError::new_err("loop_vars in while_loop should be a list or tuple"));
    }
    let before = results(loop_vars)?;
    if before.is_empty() {
        return Err(PyValueError::new_err("loop_vars in while_loop should not be empty"));
    }
    let arguments = loop_vars.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let condition = cond.call1(PyTuple::new(py, arguments.clone())?)?;
    let condition = truth("the result of cond", "while_loop", &condition)?;
    layers::while_loop(&mut PyScript(py), &condition, |_| {
        let after = body.call1(PyTuple::new(py, arguments)?)?;
        let after = if after.is_instance_of::<PyList>() || after.is_instance_of::<PyTuple>() {
            after
        } else {
            PyTuple::new(py, [after])?.into_any()
        };
        let vars = results(&after)?;
        if vars.len() != before.len() {
            return Err(PyValueError::new_err(format!(
                "body in while_loop should return the same arity (length and structure) as loop_vars: {} and {}",
                vars.len(),
                before.len()
            )));
        }
        let again = after.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let again = cond.call1(PyTuple::new(py, again)?)?;
        let again = truth("the result of cond", "while_loop", &again)?;
        for (from, to) in vars.iter().zip(&before).chain([(&again, &condition)]) {
            build(py, |b| match b.meta(from)?.kind {
                // A list is changed where it is.
                VarKind::LodTensorArray if from == to => Ok(()),
                _ => layers::assign(b, from, Some(to)).map(|_| ()),
            })?;
        }
        Ok(())
    })?;
    Ok(loop_vars.clone())
}

/// An empty list of tensors.
#[pyfunction]
fn create_array(py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<PyVariable> {
    let dtype = any_dtype_from_py(dtype)?;
    layer(py, |b| layers::create_array(b, dtype))
}

/// The input, shown on its way.
#[pyfunction]
#[pyo3(name = "Print", signature = (input, first_n=-1, message=None, summarize=20, print_tensor_name=true, print_tensor_type=true, print_tensor_shape=true, print_tensor_lod=true, print_phase="both"), text_signature = "(input, first_n=-1, message=None, summarize=20, print_tensor_name=True, print_tensor_type=True, print_tensor_shape=True, print_tensor_lod=True, print_phase='both')")]
fn print(
    py: Python<'_>,
    input: Input,
    first_n: i32,
    message: Option<&str>,
    summarize: i32,
    print_tensor_name: bool,
    print_tensor_type: bool,
    print_tensor_shape: bool,
    print_tensor_lod: bool,
    print_phase: &str,
) -> PyResult<PyVariable> {
    let options = Print {
        first_n,
        message,
        summarize,
        print_tensor_name,
        print_tensor_type,
        print_tensor_shape,
        print_tensor_lod,
        print_phase,
    };
    layer(py, |b| layers::print(b, &input.0, options))
}
