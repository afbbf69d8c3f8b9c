//! Descriptions of operators: `core.OpDesc`, in a program or by themselves.

use std::sync::Mutex;

use base::EvenIfPoisoned;
use program::block::OpId;
use program::op::{ATTR_TYPES, proto};
use program::{Attr, OpDesc, role};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::attr::{attr_from_py, attr_to_py};
use super::desc::PyBlockDesc;
use super::program::PyProgram;
use crate::error::from_program;

/// The type of an attribute, numbered as in Fluid.
#[pyclass(name = "AttrType", module = "paddlewheel._core", eq, hash, frozen)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AttrType(pub(crate) usize);

impl AttrType {
    fn text(self) -> String {
        let name = ATTR_TYPES.get(self.0).copied().unwrap_or("?");
        name.to_uppercase().replace("BOOLEAN", "BOOL")
    }

    /// Puts the names on the class: `AttrType.INT`.
    pub(crate) fn add_names(py: Python<'_>) -> PyResult<()> {
        let class = py.get_type::<AttrType>();
        (0..ATTR_TYPES.len()).try_for_each(|code| class.setattr(Self(code).text(), Self(code)))
    }
}

#[pymethods]
impl AttrType {
    fn __int__(&self) -> usize {
        self.0
    }

    fn __repr__(&self) -> String {
        format!("AttrType.{}", self.text())
    }

    /// Its name in Fluid.
    #[getter]
    fn name(&self) -> String {
        self.text()
    }
}

/// An operator of a program, wherever in its block it is.
pub(crate) struct InProgram {
    pub(crate) program: Py<PyProgram>,
    pub(crate) block: usize,
    pub(crate) id: OpId,
}

impl InProgram {
    /// Its place in the block.
    pub(crate) fn idx(&self) -> PyResult<usize> {
        let program = self.program.get().lock();
        let place = program.block(self.block).ops.iter().position(|op| op.id.is(self.id));
        place.ok_or_else(gone)
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&OpDesc) -> R) -> PyResult<R> {
        let program = self.program.get().lock();
        let op = program.block(self.block).ops.iter().find(|op| op.id.is(self.id));
        op.map(look).ok_or_else(gone)
    }

    pub(super) fn write<R>(&self, change: impl FnOnce(&mut OpDesc) -> R) -> PyResult<R> {
        let mut program = self.program.get().lock();
        let op = program.block_mut(self.block).ops.iter_mut().find(|op| op.id.is(self.id));
        op.map(change).ok_or_else(gone)
    }

    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { program: self.program.clone_ref(py), block: self.block, id: self.id }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.program.is(&other.program) && self.block == other.block && self.id.is(other.id)
    }
}

fn gone() -> PyErr {
    PyIndexError::new_err("this operator is no longer in its block")
}

enum Home {
    Own(Box<Mutex<OpDesc>>),
    In(InProgram),
}

/// A description of an operator; it need not be one that can run.
#[pyclass(name = "OpDesc", module = "paddlewheel._core", frozen)]
pub(crate) struct PyOpDesc(Home);

impl PyOpDesc {
    /// That of an operator of a program.
    pub(crate) fn of(op: InProgram) -> Self {
        Self(Home::In(op))
    }

    /// One that is in no program.
    pub(crate) fn own(desc: OpDesc) -> Self {
        Self(Home::Own(Box::new(Mutex::new(desc))))
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&OpDesc) -> R) -> PyResult<R> {
        match &self.0 {
            Home::Own(desc) => Ok(look(&desc.lock().even_if_poisoned())),
            Home::In(op) => op.read(look),
        }
    }

    fn write<R>(&self, change: impl FnOnce(&mut OpDesc) -> R) -> PyResult<R> {
        match &self.0 {
            Home::Own(desc) => Ok(change(&mut desc.lock().even_if_poisoned())),
            Home::In(op) => op.write(change),
        }
    }

    /// The operators that compute its gradient; those of variables that `stays` names are left out.
    pub(crate) fn grads(&self, stays: &dyn Fn(&str) -> bool) -> PyResult<Vec<OpDesc>> {
        let op = self.read(OpDesc::clone)?;
        let Home::In(InProgram { program, block, .. }) = &self.0 else {
            return Err(PyValueError::new_err("only an operator of a program has a gradient"));
        };
        let program = program.get().shared();
        program::backward::grad_ops(&program, *block, &op, stays).map_err(from_program)
    }
}

fn put(ports: &mut Vec<(String, Vec<String>)>, port: &str, vars: Vec<String>) {
    match ports.iter_mut().find(|(name, _)| name == port) {
        Some((_, held)) => *held = vars,
        None => ports.push((port.to_string(), vars)),
    }
}

/// The ports by name, as Python has them.
fn ports<'py>(py: Python<'py>, ports: Vec<(String, Vec<String>)>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (port, vars) in ports {
        dict.set_item(port, vars)?;
    }
    Ok(dict)
}

/// An attribute: as it was set, or its default.
pub(super) fn attr_of(desc: &OpDesc, name: &str) -> PyResult<Attr> {
    if let Some(attr) = desc.attrs.get(name) {
        return Ok(attr.clone());
    }
    if name == role::CALLSTACK {
        return Ok(desc.site.callstack().into());
    }
    let rule = proto(&desc.kind).and_then(|proto| proto.attr(name));
    let default = rule.and_then(|rule| rule.default.clone());
    default
        .or_else(|| role::common(name))
        .ok_or_else(|| PyValueError::new_err(format!("{} has no attribute `{name}`", desc.kind)))
}

/// All attributes, with the defaults of those that were not set, by name.
pub(super) fn all_attrs(desc: &OpDesc) -> Vec<(String, Attr)> {
    let mut named = desc.clone();
    for name in role::COMMON {
        if let (None, Some(value)) = (named.attrs.get(name), role::common(name)) {
            named.attrs.set(name, value);
        }
    }
    for rule in proto(&desc.kind).iter().flat_map(|proto| &proto.attrs) {
        if let (None, Some(value)) = (named.attrs.get(rule.name), &rule.default) {
            named.attrs.set(rule.name, value.clone());
        }
    }
    named.attrs.iter().map(|(name, attr)| (name.to_string(), attr.clone())).collect()
}

/// Attributes as Python has them.
pub(super) fn attr_map(py: Python<'_>, attrs: Vec<(String, Attr)>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, attr) in attrs {
        dict.set_item(name, attr_to_py(py, &attr)?)?;
    }
    Ok(dict)
}

pub(super) fn block_of(attr: Attr) -> PyResult<i32> {
    match attr {
        Attr::Block(block) => Ok(block),
        other => Err(PyValueError::new_err(format!("{other:?} is not a block"))),
    }
}

pub(super) fn blocks_of(attr: Attr) -> PyResult<Vec<i32>> {
    match attr {
        Attr::Blocks(blocks) => Ok(blocks),
        other => Err(PyValueError::new_err(format!("{other:?} is not a list of blocks"))),
    }
}

#[pymethods]
impl PyOpDesc {
    #[new]
    fn new() -> Self {
        Self::own(OpDesc::default())
    }

    /// The operator's name in the table of operators.
    fn r#type(&self) -> PyResult<String> {
        self.read(|op| op.kind.clone())
    }

    /// Makes it another operator.
    fn set_type(&self, r#type: &str) -> PyResult<()> {
        self.write(|op| op.kind = r#type.to_string())
    }

    /// Names of the variables at an input port.
    fn input(&self, name: &str) -> PyResult<Vec<String>> {
        self.read(|op| op.input_names(name).to_vec())
    }

    /// Names of the variables at an output port.
    fn output(&self, name: &str) -> PyResult<Vec<String>> {
        self.read(|op| op.output_names(name).to_vec())
    }

    /// Attaches variables to an input port.
    fn set_input(&self, name: &str, vars: Vec<String>) -> PyResult<()> {
        self.write(|op| put(&mut op.inputs, name, vars))
    }

    /// Attaches variables to an output port.
    fn set_output(&self, name: &str, vars: Vec<String>) -> PyResult<()> {
        self.write(|op| put(&mut op.outputs, name, vars))
    }

    /// The input ports.
    fn input_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.inputs.iter().map(|(port, _)| port.clone()).collect())
    }

    /// The output ports.
    fn output_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.outputs.iter().map(|(port, _)| port.clone()).collect())
    }

    /// The variables it reads.
    fn input_arg_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.inputs.iter().flat_map(|(_, vars)| vars.clone()).collect())
    }

    /// The variables it writes.
    fn output_arg_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.outputs.iter().flat_map(|(_, vars)| vars.clone()).collect())
    }

    /// The variables it reads, by port.
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        ports(py, self.read(|op| op.inputs.clone())?)
    }

    /// The variables it writes, by port.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        ports(py, self.read(|op| op.outputs.clone())?)
    }

    /// Replaces the name of a variable that it reads.
    fn _rename_input(&self, old_name: &str, new_name: &str) -> PyResult<()> {
        self.write(|op| op.rename_input(old_name, new_name))
    }

    /// Replaces the name of a variable that it writes.
    fn _rename_output(&self, old_name: &str, new_name: &str) -> PyResult<()> {
        self.write(|op| op.rename_output(old_name, new_name))
    }

    /// The names of the attributes that are set.
    fn attr_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.attrs.iter().map(|(name, _)| name.to_string()).collect())
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

    /// All attributes by name.
    fn get_attr_map<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        attr_map(py, self.read(all_attrs)?)
    }

    /// Sets an attribute.
    fn _set_attr(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let attr = attr_from_py(value)?;
        self.write(|op| op.attrs.set(name, attr))
    }

    /// Takes an attribute out.
    fn remove_attr(&self, name: &str) -> PyResult<()> {
        self.write(|op| op.attrs.remove(name)).map(|_| ())
    }

    /// Makes an attribute name a block.
    fn set_block_attr(&self, name: &str, block: &PyBlockDesc) -> PyResult<()> {
        self.write(|op| op.attrs.set(name, Attr::Block(block.id() as i32)))
    }

    /// Makes an attribute name several blocks.
    fn set_blocks_attr(&self, name: &str, blocks: Vec<PyRef<'_, PyBlockDesc>>) -> PyResult<()> {
        let ids = blocks.iter().map(|block| block.id() as i32).collect();
        self.write(|op| op.attrs.set(name, Attr::Blocks(ids)))
    }

    /// The number of the block at an attribute.
    fn _block_attr_id(&self, name: &str) -> PyResult<i32> {
        block_of(self.read(|op| attr_of(op, name))??)
    }

    /// The numbers of the blocks at an attribute.
    fn _blocks_attr_ids(&self, name: &str) -> PyResult<Vec<i32>> {
        blocks_of(self.read(|op| attr_of(op, name))??)
    }

    /// Sets the defaults of missing attributes, and checks the others.
    fn check_attrs(&self) -> PyResult<()> {
        let complete = |op: &mut OpDesc| proto(&op.kind).map_or(Ok(()), |rules| rules.complete(op));
        self.write(complete)?.map_err(from_program)
    }

    /// Says the shapes of what it writes, in a block.
    fn infer_shape(&self, block: &PyBlockDesc) -> PyResult<()> {
        let op = self.read(OpDesc::clone)?;
        block.infer(&op)
    }

    /// Nothing to do: the outputs are known with their shapes.
    fn infer_var_type(&self, block: &PyBlockDesc) {
        let _ = block;
    }

    /// Takes over all that another description says.
    fn copy_from(&self, other: &Bound<'_, PyOpDesc>) -> PyResult<()> {
        let other = other.get().read(OpDesc::clone)?;
        self.write(|op| *op = OpDesc { id: op.id, ..other })
    }

    /// Whether a pruned program keeps it.
    fn is_target(&self) -> PyResult<bool> {
        self.read(|op| op.is_target)
    }

    /// Makes a pruned program keep it.
    fn set_is_target(&self, is_target: bool) -> PyResult<()> {
        self.write(|op| op.is_target = is_target)
    }

    /// Its bytes, readable by Fluid.
    fn serialize_to_string<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.read(OpDesc::to_bytes)?))
    }

    /// The block it is in; None if it is in no program.
    fn block(&self, py: Python<'_>) -> Option<PyBlockDesc> {
        match &self.0 {
            Home::Own(_) => None,
            Home::In(op) => Some(PyBlockDesc::new(op.program.clone_ref(py), op.block)),
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast::<Self>() else { return false };
        match (&self.0, &other.get().0) {
            (Home::In(op), Home::In(other)) => op.is(other),
            (own, other) => std::ptr::eq(own, other),
        }
    }

    fn __hash__(&self) -> PyResult<u64> {
        self.read(|op| op.id.number())
    }

    fn __repr__(&self) -> PyResult<String> {
        self.read(OpDesc::to_string)
    }
}
