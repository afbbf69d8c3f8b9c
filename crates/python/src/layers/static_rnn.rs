//! `StaticRNN`: a network that is run for each step of its inputs.

use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use program::layers::{Boot, StaticRnn};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::from_program;
use crate::framework::context::{build, build_in, default_main_program, layer, wrap};
use crate::framework::program::PyProgram;
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyStaticRnn>()?;
    m.add_class::<StepGuard>()
}

/// A network that is run for each step of its inputs, whose first dimension is time.
#[pyclass(name = "StaticRNN", module = "paddlewheel._core", frozen)]
pub(crate) struct PyStaticRnn(Mutex<StaticRnn>);

impl PyStaticRnn {
    fn rnn(&self) -> MutexGuard<'_, StaticRnn> {
        self.0.lock().even_if_poisoned()
    }
}

/// A variable, or a TypeError that says which argument is none.
fn variable(object: &Bound<'_, PyAny>, argument: &str, method: &str) -> PyResult<program::Var> {
    if !object.is_instance_of::<PyVariable>() {
        let (name, kind) = (object.py().get_type::<PyVariable>(), object.get_type());
        return Err(PyTypeError::new_err(format!(
            "The type of '{argument}' in fluid.layers.StaticRNN.{method} must be {name}, but received {kind}."
        )));
    }
    Ok(object.extract::<Input>()?.0)
}

#[pymethods]
impl PyStaticRnn {
    #[new]
    #[pyo3(signature = (name = None))]
    fn new(py: Python<'_>, name: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let name: Option<String> = name
            .map(|name| {
                let kind = name.get_type();
                name.extract().map_err(|_| {
                PyTypeError::new_err(format!(
                    "The type of 'name' in fluid.layers.StaticRNN must be str, but received {kind}."
                ))
            })
            })
            .transpose()?;
        Ok(Self(Mutex::new(build(py, |b| Ok(StaticRnn::new(b, name.as_deref())))?)))
    }

    /// `with rnn.step():` holds what is done for each step.
    fn step(slf: Bound<'_, Self>) -> PyResult<StepGuard> {
        let program = default_main_program(slf.py())?;
        Ok(StepGuard { rnn: slf.unbind(), program })
    }

    /// The state that a step leaves for the next one. It starts as `init`, or as `init_value`
    /// everywhere.
    #[pyo3(signature = (init = None, shape = None, batch_ref = None, init_value = 0.0, init_batch_dim_idx = 0, ref_batch_dim_idx = 1))]
    fn memory(
        &self,
        py: Python<'_>,
        init: Option<&Bound<'_, PyAny>>,
        shape: Option<&Bound<'_, PyAny>>,
        batch_ref: Option<&Bound<'_, PyAny>>,
        init_value: f32,
        init_batch_dim_idx: i32,
        ref_batch_dim_idx: i32,
    ) -> PyResult<PyVariable> {
        let mut rnn = self.rnn();
        if let Some(init) = init {
            let init = variable(init, "init", "memory")?;
            return layer(py, |b| rnn.memory(b, &init));
        }
        let (Some(shape), Some(like)) = (shape, batch_ref) else {
            let text = "if init is None, memory at least need shape and batch_ref";
            return Err(PyValueError::new_err(text));
        };
        let shape: Vec<i32> = shape.extract().map_err(|_| {
            let kind = shape.get_type();
            PyTypeError::new_err(format!(
                "The type of 'shape' in fluid.layers.StaticRNN.memory must be list or tuple, but received {kind}."
            ))
        })?;
        let like = variable(like, "batch_ref", "memory")?;
        let boot = Boot {
            shape: &shape,
            like: &like,
            value: init_value,
            batch_dim: init_batch_dim_idx,
            like_dim: ref_batch_dim_idx,
        };
        layer(py, |b| rnn.boot(b, &boot))
    }

    /// One step of a variable, whose first dimension is time.
    fn step_input(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<PyVariable> {
        let x = variable(x, "x", "step_input")?;
        layer(py, |b| self.rnn().step_input(b, &x))
    }

    /// An output of a step; those of all steps together are a result.
    fn step_output(&self, py: Python<'_>, o: &Bound<'_, PyAny>) -> PyResult<()> {
        let o = variable(o, "o", "step_output")?;
        build(py, |b| self.rnn().step_output(b, &o))
    }

    /// Several results of a step.
    #[pyo3(signature = (*outputs))]
    fn output(&self, py: Python<'_>, outputs: &Bound<'_, PyTuple>) -> PyResult<()> {
        outputs.iter().try_for_each(|o| self.step_output(py, &o))
    }

    /// Says what a step leaves in a memory.
    fn update_memory(&self, mem: &Bound<'_, PyAny>, var: &Bound<'_, PyAny>) -> PyResult<()> {
        let mem = variable(mem, "mem", "update_memory")?;
        let var = variable(var, "var", "update_memory")?;
        self.rnn().update_memory(&mem, &var).map_err(from_program)
    }

    /// The result, or a list of several.
    #[pyo3(signature = (*_args, **_kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        _args: &Bound<'py, PyTuple>,
        _kwargs: Option<&Bound<'py, pyo3::types::PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let outputs = self.rnn().outputs().map_err(from_program)?.to_vec();
        let vars = outputs.into_iter().map(|var| Bound::new(py, wrap(py, var)?));
        let mut vars = vars.collect::<PyResult<Vec<_>>>()?;
        match vars.len() {
            1 => Ok(vars.remove(0).into_any()),
            _ => Ok(pyo3::types::PyList::new(py, vars)?.into_any()),
        }
    }
}

/// The context manager of `with rnn.step()`.
#[pyclass(name = "_StepGuard", module = "paddlewheel._core", frozen)]
pub(crate) struct StepGuard {
    rnn: Py<PyStaticRnn>,
    program: Py<PyProgram>,
}

#[pymethods]
impl StepGuard {
    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        build_in(py, &self.program, |b| self.rnn.get().rnn().open(b))
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
        let mut rnn = self.rnn.get().rnn();
        build_in(py, &self.program, |b| {
            let closed = if failed { Ok(()) } else { rnn.close(b) };
            if failed || closed.is_err() {
                rnn.abandon(b);
            }
            closed
        })?;
        Ok(false)
    }
}
