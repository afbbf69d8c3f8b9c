//! Descriptions as Fluid's core has them: properties of a program, block or variable are methods
//! here. They are views: a change here is a change there.

use program::{Meta, OpDesc, Program, VarDesc, VarKind};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::op_desc::{InProgram, PyOpDesc};
use super::program::PyProgram;
use crate::convert::{VarType, Whole, dtype_from_py};
use crate::error::from_program;

/// A name given as text or as bytes.
pub(crate) struct Name(pub(crate) String);

impl<'a, 'py> FromPyObject<'a, 'py> for Name {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Name(String::from_utf8_lossy(bytes.as_bytes()).into_owned()));
        }
        match object.cast::<PyString>() {
            Ok(text) => Ok(Name(text.extract()?)),
            Err(_) => {
                let kind = object.get_type();
                Err(PyTypeError::new_err(format!("a name is text or bytes, not {kind}")))
            }
        }
    }
}

/// A description of a program.
#[pyclass(name = "ProgramDesc", module = "paddlewheel._core", frozen, eq)]
pub(crate) struct PyProgramDesc {
    program: Py<PyProgram>,
}

impl PartialEq for PyProgramDesc {
    fn eq(&self, other: &Self) -> bool {
        self.program.is(&other.program)
    }
}

impl PyProgramDesc {
    pub(crate) fn new(program: Py<PyProgram>) -> Self {
        Self { program }
    }
}

#[pymethods]
impl PyProgramDesc {
    #[new]
    #[pyo3(signature = (other = None))]
    fn make(py: Python<'_>, other: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let program = match other {
            None => Program::default(),
            Some(other) => match other.cast::<Self>() {
                Ok(other) => Program::clone(&other.get().program.get().lock()),
                Err(_) => Program::from_bytes(other.extract::<&[u8]>()?).map_err(from_program)?,
            },
        };
        Ok(Self { program: Py::new(py, PyProgram::new_from(program))? })
    }

    /// A block by its number.
    fn block(&self, py: Python<'_>, index: Whole) -> PyResult<PyBlockDesc> {
        let index = index.fit("index")?;
        if index >= self.num_blocks() {
            return Err(PyIndexError::new_err(format!("the program has no block {index}")));
        }
        Ok(PyBlockDesc::new(self.program.clone_ref(py), index))
    }

    /// A new block inside another.
    fn append_block(&self, py: Python<'_>, parent: &PyBlockDesc) -> PyBlockDesc {
        let id = self.program.get().lock().append_block(parent.block);
        PyBlockDesc::new(self.program.clone_ref(py), id)
    }

    /// How many blocks there are.
    fn num_blocks(&self) -> usize {
        self.program.get().lock().blocks().len()
    }

    /// Its bytes, readable by Fluid.
    fn serialize_to_string<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.program.get().lock().to_bytes())
    }

    /// Nothing waits to be written: changes take effect at once.
    fn flush(&self) {}

    /// The version of its format.
    fn get_version(&self) -> i64 {
        self.program.get().lock().format_version
    }

    /// Says the version of its format.
    fn _set_version(&self, version: i64) {
        self.program.get().lock().format_version = version;
    }

    fn __repr__(&self) -> String {
        self.program.get().lock().to_text()
    }
}

/// A description of a block.
#[pyclass(name = "BlockDesc", module = "paddlewheel._core", frozen, eq)]
pub(crate) struct PyBlockDesc {
    program: Py<PyProgram>,
    block: usize,
}

impl PartialEq for PyBlockDesc {
    fn eq(&self, other: &Self) -> bool {
        self.program.is(&other.program) && self.block == other.block
    }
}

impl PyBlockDesc {
    pub(crate) fn new(program: Py<PyProgram>, block: usize) -> Self {
        Self { program, block }
    }

    /// Says the shapes of what an op of this block writes.
    pub(crate) fn infer(&self, op: &OpDesc) -> PyResult<()> {
        self.program.get().lock().infer_op(self.block, op).map_err(from_program)
    }

    fn insert(&self, py: Python<'_>, at: Option<usize>) -> PyResult<PyOpDesc> {
        let op = OpDesc::default();
        let id = op.id;
        let mut program = self.program.get().lock();
        let ops = &mut program.block_mut(self.block).ops;
        let at = at.unwrap_or(ops.len());
        if at > ops.len() {
            let text = format!("block {} has no place {at} for an operator", self.block);
            return Err(PyIndexError::new_err(text));
        }
        ops.insert(at, op);
        Ok(PyOpDesc::of(InProgram { program: self.program.clone_ref(py), block: self.block, id }))
    }

    fn variable(&self, py: Python<'_>, block: usize, name: &str) -> PyVarDesc {
        PyVarDesc::new(self.program.clone_ref(py), block, name)
    }
}

#[pymethods]
impl PyBlockDesc {
    /// Its number in the program.
    #[getter]
    pub(crate) fn id(&self) -> usize {
        self.block
    }

    /// The number of the block around it; -1 if there is none.
    #[getter]
    fn parent(&self) -> i32 {
        self.program.get().lock().block(self.block).parent
    }

    /// The number of the block whose gradient this computes; -1 if it computes none.
    fn get_forward_block_idx(&self) -> i32 {
        self.program.get().lock().block(self.block).forward_idx
    }

    /// Says of which block this computes the gradient.
    fn _set_forward_block_idx(&self, index: i32) {
        self.program.get().lock().block_mut(self.block).forward_idx = index;
    }

    /// Appends a new operator, without a type, inputs or outputs yet.
    fn append_op(&self, py: Python<'_>) -> PyResult<PyOpDesc> {
        self.insert(py, None)
    }

    /// A new operator before all others.
    fn _prepend_op(&self, py: Python<'_>) -> PyResult<PyOpDesc> {
        self.insert(py, Some(0))
    }

    /// A new operator at a place.
    fn _insert_op(&self, py: Python<'_>, index: Whole) -> PyResult<PyOpDesc> {
        self.insert(py, Some(index.fit("index")?))
    }

    /// Takes the operators from one place to before another out.
    fn _remove_op(&self, start: Whole, end: Whole) -> PyResult<()> {
        let (start, end): (usize, usize) = (start.fit("start")?, end.fit("end")?);
        let mut program = self.program.get().lock();
        let ops = &mut program.block_mut(self.block).ops;
        if start > end || end > ops.len() {
            let text = format!("block {} has no operators {start} to {end}", self.block);
            return Err(PyIndexError::new_err(text));
        }
        ops.drain(start..end);
        Ok(())
    }

    /// How many operators there are.
    fn op_size(&self) -> usize {
        self.program.get().lock().block(self.block).ops.len()
    }

    /// An operator by its place.
    fn op(&self, py: Python<'_>, index: Whole) -> PyResult<PyOpDesc> {
        let index: usize = index.fit("index")?;
        let program = self.program.get().lock();
        let op = program.block(self.block).ops.get(index);
        let op =
            op.ok_or_else(|| PyIndexError::new_err(format!("there is no operator {index}")))?;
        Ok(PyOpDesc::of(InProgram {
            program: self.program.clone_ref(py),
            block: self.block,
            id: op.id,
        }))
    }

    /// A variable of this block, made if it is not there.
    fn var(&self, py: Python<'_>, name: Name) -> PyVarDesc {
        let mut program = self.program.get().lock();
        if program.block(self.block).var(&name.0).is_none() {
            program.block_mut(self.block).put_var(VarDesc::new(&name.0, Meta::default()));
        }
        self.variable(py, self.block, &name.0)
    }

    /// Whether this block has the variable.
    fn has_var(&self, name: Name) -> bool {
        self.program.get().lock().block(self.block).var(&name.0).is_some()
    }

    /// Whether this block or one around it has the variable.
    fn has_var_recursive(&self, name: Name) -> bool {
        self.program.get().lock().find_var(self.block, &name.0).is_some()
    }

    /// A variable of this block; None if there is none.
    fn find_var(&self, py: Python<'_>, name: Name) -> Option<PyVarDesc> {
        self.has_var(Name(name.0.clone())).then(|| self.variable(py, self.block, &name.0))
    }

    /// A variable of this block or one around it; None if there is none.
    fn find_var_recursive(&self, py: Python<'_>, name: Name) -> Option<PyVarDesc> {
        let owner = self.program.get().lock().owner_of(self.block, &name.0)?;
        Some(self.variable(py, owner, &name.0))
    }

    /// The variables of this block.
    fn all_vars(&self, py: Python<'_>) -> Vec<PyVarDesc> {
        let program = self.program.get().lock();
        let vars = program.block(self.block).vars().iter();
        vars.map(|var| self.variable(py, self.block, &var.name)).collect()
    }

    /// Renames a variable here and in the operators of this block.
    fn _rename_var(&self, name: Name, new_name: Name) -> PyResult<()> {
        let mut program = self.program.get().lock();
        program.block_mut(self.block).rename_var(&name.0, &new_name.0).map_err(from_program)
    }

    /// Takes a variable out.
    fn _remove_var(&self, name: Name) {
        self.program.get().lock().block_mut(self.block).retain_vars(|var| var.name != name.0);
    }

    /// Its bytes, readable by Fluid.
    fn serialize_to_string<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.program.get().lock().block(self.block).to_bytes())
    }
}

/// A description of a variable.
#[pyclass(name = "VarDesc", module = "paddlewheel._core", frozen)]
pub(crate) struct PyVarDesc {
    program: Py<PyProgram>,
    block: usize,
    name: String,
}

impl PyVarDesc {
    pub(crate) fn new(program: Py<PyProgram>, block: usize, name: &str) -> Self {
        Self { program, block, name: name.to_string() }
    }

    fn read<R>(&self, look: impl FnOnce(&VarDesc) -> R) -> PyResult<R> {
        let program = self.program.get().lock();
        Ok(look(program.block(self.block).need_var(&self.name).map_err(from_program)?))
    }

    fn write(&self, change: impl FnOnce(&mut VarDesc)) -> PyResult<()> {
        self.read(|_| ())?;
        let mut program = self.program.get().lock();
        program.block_mut(self.block).var_mut(&self.name).map(change);
        Ok(())
    }

    /// Changes the n-th of what a reader gives; lists make as many as they have.
    fn each<T>(&self, values: Vec<T>, change: impl Fn(&mut Meta, T)) -> PyResult<()> {
        self.write(|var| {
            var.of_reader.resize_with(values.len(), Meta::default);
            var.of_reader.iter_mut().zip(values).for_each(|(meta, value)| change(meta, value));
        })
    }

    fn list<T>(&self, look: impl Fn(&Meta) -> T) -> PyResult<Vec<T>> {
        self.read(|var| var.of_reader.iter().map(look).collect())
    }
}

#[pymethods]
impl PyVarDesc {
    /// Its name.
    fn name(&self) -> &str {
        &self.name
    }

    /// Its kind (`core.VarDesc.VarType.LOD_TENSOR`, …).
    fn r#type(&self) -> PyResult<VarType> {
        self.read(|var| VarType::from_kind(var.meta.kind))
    }

    /// Says what it holds.
    fn set_type(&self, r#type: i64) -> PyResult<()> {
        let kind = VarKind::from_code(r#type).ok_or_else(|| {
            PyValueError::new_err(format!("{} is not a type of a variable", r#type))
        })?;
        self.write(|var| var.meta.kind = kind)
    }

    /// Sizes of the dimensions; -1 where it is known only at run time.
    fn shape(&self) -> PyResult<Vec<i64>> {
        self.read(|var| var.meta.dims.clone())
    }

    /// Says the sizes of the dimensions.
    fn set_shape(&self, shape: Vec<i64>) -> PyResult<()> {
        self.write(|var| var.meta.dims = shape)
    }

    /// The type of the elements.
    fn dtype(&self) -> PyResult<VarType> {
        self.read(|var| VarType::from_dtype(var.meta.dtype))
    }

    /// Says the type of the elements.
    fn set_dtype(&self, dtype: &Bound<'_, PyAny>) -> PyResult<()> {
        let dtype = dtype_from_py(dtype)?;
        self.write(|var| var.meta.dtype = dtype)
    }

    /// Levels of ragged offsets.
    fn lod_level(&self) -> PyResult<i32> {
        self.read(|var| var.meta.lod_level)
    }

    /// Says the levels of ragged offsets.
    fn set_lod_level(&self, lod_level: i32) -> PyResult<()> {
        self.write(|var| var.meta.lod_level = lod_level)
    }

    /// The shapes of what a reader gives.
    fn shapes(&self) -> PyResult<Vec<Vec<i64>>> {
        self.list(|meta| meta.dims.clone())
    }

    /// Says the shapes of what a reader gives.
    fn set_shapes(&self, shapes: Vec<Vec<i64>>) -> PyResult<()> {
        self.each(shapes, |meta, shape| meta.dims = shape)
    }

    /// The element types of what a reader gives.
    fn dtypes(&self) -> PyResult<Vec<VarType>> {
        self.list(|meta| VarType::from_dtype(meta.dtype))
    }

    /// Says the element types of what a reader gives.
    fn set_dtypes(&self, dtypes: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let dtypes: PyResult<Vec<_>> = dtypes.iter().map(dtype_from_py).collect();
        self.each(dtypes?, |meta, dtype| meta.dtype = dtype)
    }

    /// The levels of ragged offsets of what a reader gives.
    fn lod_levels(&self) -> PyResult<Vec<i32>> {
        self.list(|meta| meta.lod_level)
    }

    /// Says the levels of ragged offsets of what a reader gives.
    fn set_lod_levels(&self, lod_levels: Vec<i32>) -> PyResult<()> {
        self.each(lod_levels, |meta, lod_level| meta.lod_level = lod_level)
    }

    /// Whether it lives in the scope between runs, and is saved.
    fn persistable(&self) -> PyResult<bool> {
        self.read(|var| var.persistable)
    }

    /// Says whether it lives in the scope between runs.
    fn set_persistable(&self, persistable: bool) -> PyResult<()> {
        self.write(|var| var.persistable = persistable)
    }

    /// Whether its shape is checked when it is fed.
    fn need_check_feed(&self) -> PyResult<bool> {
        self.read(|var| var.need_check_feed)
    }

    /// Says whether its shape is checked when it is fed.
    fn set_need_check_feed(&self, need_check_feed: bool) -> PyResult<()> {
        self.write(|var| var.need_check_feed = need_check_feed)
    }

    /// Its bytes, readable by Fluid.
    fn serialize_to_string<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.read(VarDesc::to_bytes)?))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| {
            let other = other.get();
            self.program.is(&other.program)
                && (self.block, &self.name) == (other.block, &other.name)
        })
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, &self.name).hash()
    }

    fn __repr__(&self) -> PyResult<String> {
        self.read(|var| format!("{} : {:?}", var.name, var.meta))
    }
}
