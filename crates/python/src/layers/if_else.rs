//! `IfElse` and `ConditionalBlock`: parts of a program for some rows, or for some cases.

use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use program::layers::IfElse;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::control::{BlockGuard, When};
use crate::framework::context::{build, build_in, default_main_program, layer, wrap};
use crate::framework::program::PyProgram;
use crate::framework::variable::{Input, Inputs, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyIfElse>()?;
    m.add_class::<WayGuard>()?;
    m.add_class::<ConditionalBlock>()
}

/// Rows for which a condition holds go one way, the others another, and meet again.
#[pyclass(name = "IfElse", module = "paddlewheel._core", frozen)]
pub(crate) struct PyIfElse(Mutex<IfElse>);

impl PyIfElse {
    fn ways(&self) -> MutexGuard<'_, IfElse> {
        self.0.lock().even_if_poisoned()
    }
}

#[pymethods]
impl PyIfElse {
    #[new]
    #[pyo3(signature = (cond, name = None))]
    fn new(py: Python<'_>, cond: &Bound<'_, PyAny>, name: Option<&str>) -> PyResult<Self> {
        if !cond.is_instance_of::<PyVariable>() {
            let kind = cond.get_type();
            return Err(PyTypeError::new_err(format!(
                "The type of 'cond' in fluid.layers.IfElse must be Variable, but received {kind}."
            )));
        }
        let cond = cond.extract::<Input>()?.0;
        Ok(Self(Mutex::new(build(py, |b| Ok(IfElse::new(b, &cond, name)))?)))
    }

    /// `with ie.true_block():` holds what is done with rows for which the condition holds.
    fn true_block(slf: Bound<'_, Self>) -> PyResult<WayGuard> {
        WayGuard::new(slf, true)
    }

    /// `with ie.false_block():` holds what is done with the others.
    fn false_block(slf: Bound<'_, Self>) -> PyResult<WayGuard> {
        WayGuard::new(slf, false)
    }

    /// The rows of a variable that take this way.
    fn input(&self, py: Python<'_>, x: Input) -> PyResult<PyVariable> {
        layer(py, |b| self.ways().input(b, &x.0))
    }

    /// Results of this way.
    #[pyo3(signature = (*outs))]
    fn output(&self, py: Python<'_>, outs: &Bound<'_, PyTuple>) -> PyResult<()> {
        for out in outs {
            let out = out.extract::<Input>()?.0;
            build(py, |b| self.ways().output(b, &out))?;
        }
        Ok(())
    }

    /// The results of both ways, rows in their order again.
    fn __call__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let merged = build(py, |b| self.ways().merge(b))?;
        let vars = merged.into_iter().map(|var| Bound::new(py, wrap(py, var)?));
        PyList::new(py, vars.collect::<PyResult<Vec<_>>>()?)
    }
}

/// The context manager of `with ie.true_block()`.
#[pyclass(name = "_WayGuard", module = "paddlewheel._core", frozen)]
pub(crate) struct WayGuard {
    ways: Py<PyIfElse>,
    program: Py<PyProgram>,
    holds: bool,
}

impl WayGuard {
    fn new(ways: Bound<'_, PyIfElse>, holds: bool) -> PyResult<Self> {
        let program = default_main_program(ways.py())?;
        Ok(Self { ways: ways.unbind(), program, holds })
    }
}

#[pymethods]
impl WayGuard {
    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        build_in(py, &self.program, |b| self.ways.get().ways().open(b, self.holds))
    }

    /// After an exception the block is left without an op that runs it.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let failed = !kind.is_none();
        build_in(py, &self.program, |b| self.ways.get().ways().close(b, failed))?;
        Ok(false)
    }
}

/// A part that runs if its one input holds, or if none of what it reads is empty.
#[pyclass(name = "ConditionalBlock", module = "paddlewheel._core", frozen)]
pub(crate) struct ConditionalBlock {
    condition: program::Var,
    is_scalar: bool,
}

#[pymethods]
impl ConditionalBlock {
    #[new]
    #[pyo3(signature = (inputs, is_scalar_condition = false, name = None))]
    fn new(
        inputs: &Bound<'_, PyAny>,
        is_scalar_condition: bool,
        name: Option<&str>,
    ) -> PyResult<Self> {
        let _ = name;
        let condition = inputs.extract::<Inputs>()?.0.into_iter().next();
        let condition = condition.ok_or_else(|| {
            PyTypeError::new_err("inputs of ConditionalBlock should hold one Variable at least")
        })?;
        Ok(Self { condition, is_scalar: is_scalar_condition })
    }

    /// `with block.block():` holds what runs.
    fn block(&self, py: Python<'_>) -> PyResult<BlockGuard> {
        let condition = self.condition.clone();
        BlockGuard::new(
            py,
            if self.is_scalar { When::If(condition) } else { When::Filled(condition) },
        )
    }
}
