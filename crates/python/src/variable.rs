//! Variables of a program as Python sees them, with their operators.

use program::layers::math::{self, Binary};
use program::{Var, VarDesc};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::context;
use crate::error::from_program;
use crate::program::{PyBlock, PyProgram};

/// A variable of a program.
#[pyclass(name = "Variable", module = "paddlewheel._core", frozen, dict, skip_from_py_object)]
pub(crate) struct PyVariable {
    program: Py<PyProgram>,
    block: usize,
    name: String,
}

impl PyVariable {
    pub(crate) fn new(program: Py<PyProgram>, block: usize, name: &str) -> Self {
        Self { program, block, name: name.to_string() }
    }

    /// The variable of this name seen from the current block of `program`.
    pub(crate) fn find(_py: Python<'_>, program: Py<PyProgram>, name: &str) -> Self {
        let block = {
            let program = program.get().lock();
            program.owner_of(program.current_block(), name).unwrap_or(0)
        };
        Self::new(program, block, name)
    }

    pub(crate) fn var(&self) -> Var {
        Var::from(self.name.as_str())
    }

    fn read<R>(&self, look: impl FnOnce(&VarDesc) -> R) -> PyResult<R> {
        let program = self.program.get().lock();
        Ok(look(program.block(self.block).need_var(&self.name).map_err(from_program)?))
    }

    fn write(&self, change: impl FnOnce(&mut VarDesc)) -> PyResult<()> {
        let mut program = self.program.get().lock();
        program.block(self.block).need_var(&self.name).map_err(from_program)?;
        if let Some(var) = program.block_mut(self.block).var_mut(&self.name) {
            change(var);
        }
        Ok(())
    }

    fn binary(&self, py: Python<'_>, kind: Binary, other: &Bound<'_, PyAny>, reversed: bool) -> PyResult<Py<PyAny>> {
        let other = match operand(other) {
            Some(other) => other,
            None => return Ok(py.NotImplemented()),
        };
        let own = self.var();
        let var = context::build_in(py, &self.program, |b| math::binary(b, kind, &own, &other, reversed))?;
        let var = PyVariable::find(py, self.program.clone_ref(py), var.name());
        Ok(Py::new(py, var)?.into_any())
    }
}
