//! An operator of a program as Python sees it.

use program::OpDesc;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::attr::{attr_from_py, attr_to_py};
use super::op_desc::{
    AttrType, InProgram, PyOpDesc, all_attrs, attr_map, attr_of, block_of, blocks_of,
};
use super::program::PyBlock;

/// An operator of a block.
#[pyclass(name = "Operator", module = "paddlewheel._core", frozen, dict)]
pub(crate) struct PyOperator(pub(crate) InProgram);

#[pymethods]
impl PyOperator {
    /// The operator's name in the table of operators.
    #[getter]
    fn r#type(&self) -> PyResult<String> {
        self.0.read(|op| op.kind.clone())
    }

    /// Its place in the block.
    #[getter]
    fn idx(&self) -> PyResult<usize> {
        self.0.idx()
    }

    /// Names of the variables at an input port.
    fn input(&self, name: &str) -> PyResult<Vec<String>> {
        self.0.read(|op| op.input_names(name).to_vec())
    }

    /// Names of the variables at an output port.
    fn output(&self, name: &str) -> PyResult<Vec<String>> {
        self.0.read(|op| op.output_names(name).to_vec())
    }

    /// The names of its inputs.
    #[getter]
    fn input_names(&self) -> PyResult<Vec<String>> {
        self.0.read(|op| op.inputs.iter().map(|(port, _)| port.clone()).collect())
    }

    /// The names of its outputs.
    #[getter]
    fn output_names(&self) -> PyResult<Vec<String>> {
        self.0.read(|op| op.outputs.iter().map(|(port, _)| port.clone()).collect())
    }

    /// The variables it reads.
    #[getter]
    fn input_arg_names(&self) -> PyResult<Vec<String>> {
        self.0.read(|op| op.inputs.iter().flat_map(|(_, vars)| vars.clone()).collect())
    }

    /// The variables it writes.
    #[getter]
    fn output_arg_names(&self) -> PyResult<Vec<String>> {
        self.0.read(|op| op.outputs.iter().flat_map(|(_, vars)| vars.clone()).collect())
    }

    /// An attribute by name.
    fn attr(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        attr_to_py(py, &self.0.read(|op| attr_of(op, name))??)
    }

    /// Whether it has the attribute.
    fn has_attr(&self, name: &str) -> PyResult<bool> {
        self.0.read(|op| attr_of(op, name).is_ok())
    }

    /// The type of an attribute (`core.AttrType.INT`, …).
    fn attr_type(&self, name: &str) -> PyResult<AttrType> {
        self.0.read(|op| attr_of(op, name))?.map(|attr| AttrType(attr.code()))
    }

    /// The names of its attributes.
    #[getter]
    fn attr_names(&self) -> PyResult<Vec<String>> {
        Ok(self.0.read(all_attrs)?.into_iter().map(|(name, _)| name).collect())
    }

    /// All attributes by name.
    fn all_attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        attr_map(py, self.0.read(all_attrs)?)
    }

    /// Changes an attribute.
    fn _set_attr(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let attr = attr_from_py(value)?;
        self.0.write(|op| op.attrs.set(name, attr))
    }

    /// Replaces the name of a variable that it reads.
    fn _rename_input(&self, old_name: &str, new_name: &str) -> PyResult<()> {
        self.0.write(|op| op.rename_input(old_name, new_name))
    }

    /// Replaces the name of a variable that it writes.
    fn _rename_output(&self, old_name: &str, new_name: &str) -> PyResult<()> {
        self.0.write(|op| op.rename_output(old_name, new_name))
    }

    /// The number of the block at an attribute.
    fn _block_attr_id(&self, name: &str) -> PyResult<i32> {
        block_of(self.0.read(|op| attr_of(op, name))??)
    }

    /// The block at an attribute.
    fn _block_attr(&self, py: Python<'_>, name: &str) -> PyResult<PyBlock> {
        let id = self._block_attr_id(name)? as usize;
        Ok(PyBlock { program: self.0.program.clone_ref(py), id })
    }

    /// The numbers of the blocks at an attribute.
    fn _blocks_attr_ids(&self, name: &str) -> PyResult<Vec<i32>> {
        blocks_of(self.0.read(|op| attr_of(op, name))??)
    }

    /// Its description, where everything is a method: `op.desc.type()`.
    #[getter]
    fn desc(&self, py: Python<'_>) -> PyOpDesc {
        PyOpDesc::of(self.0.clone_ref(py))
    }

    /// The block it is in.
    #[getter]
    fn block(&self, py: Python<'_>) -> PyBlock {
        PyBlock { program: self.0.program.clone_ref(py), id: self.0.block }
    }

    /// The operator as text.
    #[pyo3(signature = (throw_on_error = true))]
    fn to_string(&self, throw_on_error: bool) -> PyResult<String> {
        let _ = throw_on_error;
        self.__repr__()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.0.is(&other.get().0))
    }

    fn __hash__(&self) -> u64 {
        self.0.id.number()
    }

    fn __repr__(&self) -> PyResult<String> {
        self.0.read(OpDesc::to_string)
    }
}
