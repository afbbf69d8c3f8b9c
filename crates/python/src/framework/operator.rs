//! An operator of a program as Python sees it.

use program::block::OpId;
use program::{Attr, OpDesc, op, role};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::attr::{attr_from_py, attr_to_py};
use super::op_desc::{AttrType, PyOpDesc};
use super::program::{PyBlock, PyProgram};

/// An operator of a block.
#[pyclass(name = "Operator", module = "paddlewheel._core", frozen, dict)]
pub(crate) struct PyOperator {
    pub(crate) program: Py<PyProgram>,
    pub(crate) block: usize,
    pub(crate) id: OpId,
}

impl PyOperator {
    fn read<R>(&self, look: impl FnOnce(&OpDesc) -> R) -> PyResult<R> {
        let at = self.idx()?;
        Ok(look(&self.program.get().lock().block(self.block).ops[at]))
    }

    fn write(&self, change: impl FnOnce(&mut OpDesc)) -> PyResult<()> {
        let at = self.idx()?;
        change(&mut self.program.get().lock().block_mut(self.block).ops[at]);
        Ok(())
    }
}

#[pymethods]
impl PyOperator {
    /// The operator's name in the table of operators.
    #[getter]
    fn r#type(&self) -> PyResult<String> {
        self.read(|op| op.kind.clone())
    }

    /// Its place in the block.
    #[getter]
    fn idx(&self) -> PyResult<usize> {
        let program = self.program.get().lock();
        let place = program.block(self.block).ops.iter().position(|op| op.id.is(self.id));
        place.ok_or_else(|| PyIndexError::new_err("this operator is no longer in its block"))
    }

    /// Names of the variables at an input port.
    fn input(&self, name: &str) -> PyResult<Vec<String>> {
        self.read(|op| op.input_names(name).to_vec())
    }

    /// Names of the variables at an output port.
    fn output(&self, name: &str) -> PyResult<Vec<String>> {
        self.read(|op| op.output_names(name).to_vec())
    }

    /// The names of its inputs.
    #[getter]
    fn input_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.inputs.iter().map(|(port, _)| port.clone()).collect())
    }

    /// The names of its outputs.
    #[getter]
    fn output_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.outputs.iter().map(|(port, _)| port.clone()).collect())
    }

    /// The variables it reads.
    #[getter]
    fn input_arg_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.inputs.iter().flat_map(|(_, vars)| vars.clone()).collect())
    }

    /// The variables it writes.
    #[getter]
    fn output_arg_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.outputs.iter().flat_map(|(_, vars)| vars.clone()).collect())
    }

    /// An attribute by name.
    fn attr(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        attr_to_py(py, &self.read(|op| attr_of(op, name))??)
    }

    /// Whether it has the attribute.
    fn has_attr(&self, name: &str) -> PyResult<bool> {
        self.read(|op| attr_of(op, name).is_ok())
    }

    /// The type of an attribute (`core.AttrType.INT`, …).
    fn attr_type(&self, name: &str) -> PyResult<AttrType> {
        self.read(|op| attr_of(op, name))?.map(|attr| AttrType(attr.code()))
    }

    /// The names of its attributes.
    #[getter]
    fn attr_names(&self) -> PyResult<Vec<String>> {
        Ok(self.read(all_attrs)?.into_iter().map(|(name, _)| name).collect())
    }

    /// All attributes by name.
    fn all_attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, attr) in self.read(all_attrs)? {
            dict.set_item(name, attr_to_py(py, &attr)?)?;
        }
        Ok(dict)
    }

    /// Changes an attribute.
    fn _set_attr(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let attr = attr_from_py(value)?;
        self.write(|op| op.attrs.set(name, attr))
    }

    /// Replaces the name of a variable that it reads.
    fn _rename_input(&self, old_name: &str, new_name: &str) -> PyResult<()> {
        self.write(|op| op.rename_input(old_name, new_name))
    }

    /// Replaces the name of a variable that it writes.
    fn _rename_output(&self, old_name: &str, new_name: &str) -> PyResult<()> {
        self.write(|op| op.rename_output(old_name, new_name))
    }

    /// The number of the block at an attribute.
    fn _block_attr_id(&self, name: &str) -> PyResult<i32> {
        block_of(self.read(|op| attr_of(op, name))??)
    }

    /// The block at an attribute.
    fn _block_attr(&self, py: Python<'_>, name: &str) -> PyResult<PyBlock> {
        let id = self._block_attr_id(name)? as usize;
        Ok(PyBlock { program: self.program.clone_ref(py), id })
    }

    /// The numbers of the blocks at an attribute.
    fn _blocks_attr_ids(&self, name: &str) -> PyResult<Vec<i32>> {
        blocks_of(self.read(|op| attr_of(op, name))??)
    }

    /// Its description, where everything is a method: `op.desc.type()`.
    #[getter]
    fn desc(&self, py: Python<'_>) -> PyOpDesc {
        PyOpDesc::of(self.program.clone_ref(py), self.block, self.id)
    }

    /// The block it is in.
    #[getter]
    fn block(&self, py: Python<'_>) -> PyBlock {
        PyBlock { program: self.program.clone_ref(py), id: self.block }
    }

    /// The operator as text.
    #[pyo3(signature = (throw_on_error = true))]
    fn to_string(&self, throw_on_error: bool) -> PyResult<String> {
        let _ = throw_on_error;
        self.__repr__()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| {
            let other = other.get();
            self.program.is(&other.program) && self.block == other.block && self.id.is(other.id)
        })
    }

    fn __hash__(&self) -> u64 {
        self.id.number()
    }

    fn __repr__(&self) -> PyResult<String> {
        self.read(OpDesc::to_string)
    }
}

/// An attribute: as it was set, or as it is when nobody sets it.
pub(crate) fn attr_of(desc: &OpDesc, name: &str) -> PyResult<Attr> {
    if let Some(attr) = desc.attrs.get(name) {
        return Ok(attr.clone());
    }
    if name == role::CALLSTACK {
        return Ok(desc.site.callstack().into());
    }
    let rule = op::proto(&desc.kind).and_then(|proto| proto.attr(name));
    let default = rule.and_then(|rule| rule.default.clone());
    default
        .or_else(|| role::common(name))
        .ok_or_else(|| PyValueError::new_err(format!("{} has no attribute `{name}`", desc.kind)))
}

/// All attributes, with those that nobody set, by name.
pub(crate) fn all_attrs(desc: &OpDesc) -> Vec<(String, Attr)> {
    let mut named = desc.clone();
    for name in role::COMMON {
        if let (None, Some(value)) = (named.attrs.get(name), role::common(name)) {
            named.attrs.set(name, value);
        }
    }
    for rule in op::proto(&desc.kind).iter().flat_map(|proto| &proto.attrs) {
        if let (None, Some(value)) = (named.attrs.get(rule.name), &rule.default) {
            named.attrs.set(rule.name, value.clone());
        }
    }
    named.attrs.iter().map(|(name, attr)| (name.to_string(), attr.clone())).collect()
}

pub(crate) fn block_of(attr: Attr) -> PyResult<i32> {
    match attr {
        Attr::Block(block) => Ok(block),
        other => Err(PyValueError::new_err(format!("{other:?} is no block"))),
    }
}

pub(crate) fn blocks_of(attr: Attr) -> PyResult<Vec<i32>> {
    match attr {
        Attr::Blocks(blocks) => Ok(blocks),
        other => Err(PyValueError::new_err(format!("{other:?} is no list of blocks"))),
    }
}
