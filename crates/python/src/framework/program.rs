//! Program, Block and Operator as Python sees them.

use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;
use program::{Meta, OpDesc, Program, VarDesc};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::attr::attr_from_py;
use super::declare::{More, check_parameter, kind_of, name_or_new};
use super::desc::{PyBlockDesc, PyProgramDesc};
use super::op_desc::InProgram;
use super::operator::PyOperator;
use super::prune::pruned;
use super::variable::PyVariable;
use crate::convert::{Whole, any_dtype_from_py};
use crate::error::from_program;
use crate::locked::LockedProgram;

/// A program: blocks of operators as data.
///
/// A run takes its own handle of the data, so that a program is never locked while it runs: other
/// Python threads may look at it, and a change made meanwhile is made to a copy.
#[pyclass(name = "Program", module = "paddlewheel._core", frozen, dict, weakref)]
#[derive(Default)]
pub(crate) struct PyProgram {
    program: Mutex<Arc<Program>>,
    /// Started readers give a batch to each run (`py_reader`, `DataLoader` that is not iterable).
    readers: Mutex<Vec<Py<PyAny>>>,
}

impl PyProgram {
    pub(crate) fn new_from(program: Program) -> Self {
        Self { program: Mutex::new(Arc::new(program)), readers: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> LockedProgram<'_> {
        LockedProgram(self.program.lock().even_if_poisoned())
    }

    /// The program as it is now, to run without holding it.
    pub(crate) fn shared(&self) -> Arc<Program> {
        self.program.lock().even_if_poisoned().clone()
    }

    /// The readers that feed runs of this program.
    pub(crate) fn readers(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let readers = self.readers.lock().even_if_poisoned();
        readers.iter().map(|reader| reader.clone_ref(py)).collect()
    }
}

#[pymethods]
impl PyProgram {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Seeds random operators that have no seed of their own; 0 means a different one each time.
    #[getter]
    fn random_seed(&self) -> i32 {
        self.lock().random_seed
    }

    #[setter]
    fn set_random_seed(&self, seed: &Bound<'_, PyAny>) -> PyResult<()> {
        let seed = seed.extract::<i32>();
        let seed =
            seed.map_err(|_| PyValueError::new_err("Program.random_seed must be an integer."))?;
        self.lock().random_seed = seed;
        Ok(())
    }

    /// How many blocks there are.
    #[getter]
    fn num_blocks(&self) -> usize {
        self.lock().blocks().len()
    }

    /// Its description, where everything is a method: `program.desc.block(0)`.
    #[getter]
    fn desc(slf: Bound<'_, Self>) -> PyProgramDesc {
        PyProgramDesc::new(slf.unbind())
    }

    /// The blocks; the first is the global one.
    #[getter]
    fn blocks(slf: &Bound<'_, Self>) -> Vec<PyBlock> {
        let n = slf.get().lock().blocks().len();
        (0..n).map(|id| PyBlock { program: slf.clone().unbind(), id }).collect()
    }

    /// The outermost block.
    fn global_block(slf: &Bound<'_, Self>) -> PyBlock {
        PyBlock { program: slf.clone().unbind(), id: 0 }
    }

    /// The block that layers write to.
    fn current_block(slf: &Bound<'_, Self>) -> PyBlock {
        let id = slf.get().lock().current_block();
        PyBlock { program: slf.clone().unbind(), id }
    }

    /// A block by its index.
    fn block(slf: &Bound<'_, Self>, index: Whole) -> PyResult<PyBlock> {
        let index = index.fit("index")?;
        if index >= slf.get().lock().blocks().len() {
            return Err(PyIndexError::new_err(format!("the program has no block {index}")));
        }
        Ok(PyBlock { program: slf.clone().unbind(), id: index })
    }

    /// The number of the block that layers write to.
    #[getter]
    fn current_block_idx(&self) -> usize {
        self.lock().current_block()
    }

    /// Opens a block inside the current one (or another), and makes it current.
    #[pyo3(signature = (parent_idx = None))]
    fn _create_block(slf: &Bound<'_, Self>, parent_idx: Option<Whole>) -> PyResult<PyBlock> {
        let parent_idx = parent_idx.map(|index| index.fit("parent_idx")).transpose()?;
        let mut program = slf.get().lock();
        let parent = parent_idx.unwrap_or(program.current_block());
        if parent >= program.blocks().len() {
            return Err(PyIndexError::new_err(format!("the program has no block {parent}")));
        }
        let id = program.open_block(parent);
        Ok(PyBlock { program: slf.clone().unbind(), id })
    }

    /// Goes back to the block around the current one.
    fn _rollback(&self) {
        self.lock().pop_block();
    }

    /// Nothing waits to be taken over: descriptions are views.
    fn _sync_with_cpp(&self) {}

    /// Takes over which variables are inputs, and which stop gradients, from a program like this.
    fn _copy_data_info_from(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(other) = other.cast::<Self>() else {
            let text = "_copy_data_info_from should be invoked with Program";
            return Err(PyTypeError::new_err(text));
        };
        let other = other.get().shared();
        if !self.lock().take_marks(&other) {
            let text = "_copy_data_info_from should be invoked with two program, with represent \
                        the same topology";
            return Err(PyValueError::new_err(text));
        }
        Ok(())
    }

    /// Every variable of every block.
    fn list_vars(slf: &Bound<'_, Self>) -> Vec<PyVariable> {
        let program = slf.get().lock();
        let blocks = program.blocks().iter().enumerate();
        let vars = blocks.flat_map(|(id, block)| block.vars().iter().map(move |v| (id, v)));
        vars.map(|(id, var)| PyVariable::new(slf.clone().unbind(), id, &var.name)).collect()
    }

    /// The parameters in order of creation.
    fn all_parameters(slf: &Bound<'_, Self>) -> Vec<PyVariable> {
        let program = slf.get().lock();
        let params = program.parameters();
        params.map(|var| PyVariable::new(slf.clone().unbind(), 0, &var.name)).collect()
    }

    /// A deep copy; for testing, without what only training needs.
    #[pyo3(signature = (for_test = false))]
    fn clone(&self, py: Python<'_>, for_test: bool) -> Self {
        let copy = {
            let program = self.lock();
            if for_test { program.clone_for_test() } else { Program::clone(&program) }
        };
        Self { readers: Mutex::new(self.readers(py)), ..Self::new_from(copy) }
    }

    /// From now on each run takes a batch of this reader.
    fn _attach_reader(&self, reader: Py<PyAny>) {
        self.readers.lock().even_if_poisoned().push(reader);
    }

    /// Whether operators compute gradients.
    fn _has_backward(&self) -> bool {
        self.lock().blocks().iter().flat_map(|block| &block.ops).any(OpDesc::is_backward)
    }

    /// The scope of names that new operators are annotated with.
    #[getter]
    fn _namescope(&self) -> String {
        self.lock().namescope.clone()
    }

    /// Opens a scope of names inside the current one; returns that, to be put back.
    fn _enter_scope(&self, prefix: &str) -> String {
        self.lock().enter_scope(prefix)
    }

    /// The role that new operators get.
    #[getter]
    fn _op_role(&self) -> i32 {
        self.lock().role
    }

    #[setter(_op_role)]
    fn set_op_role(&self, role: i32) {
        self.lock().role = role;
    }

    /// The pair of parameter and gradient that new operators name.
    #[getter]
    fn _op_role_var(&self) -> Vec<String> {
        self.lock().role_vars.clone()
    }

    #[setter(_op_role_var)]
    fn set_op_role_var(&self, vars: Vec<String>) {
        self.lock().role_vars = vars;
    }

    #[setter(_namescope)]
    fn set_namescope(&self, namescope: String) {
        self.lock().namescope = namescope;
    }

    /// The program from the bytes that `serialize_to_string` gives.
    #[staticmethod]
    fn parse_from_string(binary: &[u8]) -> PyResult<Self> {
        Ok(Self::new_from(Program::from_bytes(binary).map_err(from_program)?))
    }

    /// The program as bytes, readable by Fluid.
    fn serialize_to_string<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.lock().to_bytes())
    }

    /// The program as text.
    #[pyo3(signature = (throw_on_error = true, with_details = false))]
    fn to_string(&self, throw_on_error: bool, with_details: bool) -> String {
        let _ = throw_on_error;
        let program = self.lock();
        if with_details { program.to_text() + &program.marks() } else { program.to_text() }
    }

    fn __str__(&self) -> String {
        self.lock().to_text()
    }

    /// Only the operators that the targets need: variables, names or operators, or one of them.
    fn _prune(&self, targets: &Bound<'_, PyAny>) -> PyResult<Self> {
        let none = PyList::empty(targets.py());
        Ok(Self::new_from(pruned(&self.shared(), &none, targets)?))
    }

    /// Only the operators that the targets need besides what is fed.
    fn _prune_with_input(
        &self,
        feeded_var_names: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        Ok(Self::new_from(pruned(&self.shared(), feeded_var_names, targets)?))
    }
}

/// A block of a program.
#[pyclass(name = "Block", module = "paddlewheel._core", frozen)]
pub(crate) struct PyBlock {
    pub(crate) program: Py<PyProgram>,
    pub(crate) id: usize,
}

impl PyBlock {
    fn variable(&self, py: Python<'_>, name: &str) -> PyVariable {
        PyVariable::new(self.program.clone_ref(py), self.id, name)
    }

    fn again(&self, py: Python<'_>) -> Self {
        Self { program: self.program.clone_ref(py), id: self.id }
    }

    fn place_op(&self, py: Python<'_>, at: Option<usize>, mut op: OpDesc) -> PyResult<PyOperator> {
        op.site = crate::site::here(py);
        let mut program = self.program.get().lock();
        let at = at.unwrap_or(program.block(self.id).ops.len());
        program.insert_op(self.id, at, op).map_err(from_program)?;
        let id = program.block(self.id).ops[at].id;
        Ok(PyOperator(InProgram { program: self.program.clone_ref(py), block: self.id, id }))
    }
}

#[pymethods]
impl PyBlock {
    /// Its number in the program.
    #[getter]
    fn idx(&self) -> usize {
        self.id
    }

    /// The number of the block around it; -1 if there is none.
    #[getter]
    fn parent_idx(&self) -> i32 {
        self.program.get().lock().block(self.id).parent
    }

    /// Its description, where everything is a method: `block.desc.op(0)`.
    #[getter]
    fn desc(&self, py: Python<'_>) -> PyBlockDesc {
        PyBlockDesc::new(self.program.clone_ref(py), self.id)
    }

    /// The program it is of.
    #[getter]
    fn program(&self, py: Python<'_>) -> Py<PyProgram> {
        self.program.clone_ref(py)
    }

    /// The operators in order.
    #[getter]
    fn ops(&self, py: Python<'_>) -> Vec<PyOperator> {
        let op =
            |id| PyOperator(InProgram { program: self.program.clone_ref(py), block: self.id, id });
        self.program.get().lock().block(self.id).ops.iter().map(|desc| op(desc.id)).collect()
    }

    /// The variables by name, in order of creation.
    #[getter]
    fn vars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let names: Vec<String> = {
            let program = self.program.get().lock();
            program.block(self.id).vars().iter().map(|var| var.name.clone()).collect()
        };
        for name in names {
            dict.set_item(&name, self.variable(py, &name))?;
        }
        Ok(dict)
    }

    /// A variable of this block; ValueError if there is none.
    fn var(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<PyVariable> {
        let Ok(name) = name.extract::<String>() else {
            let kind = name.get_type();
            return Err(PyTypeError::new_err(format!(
                "var require string as parameter, but get {kind} instead."
            )));
        };
        self.program.get().lock().block(self.id).need_var(&name).map_err(from_program)?;
        Ok(self.variable(py, &name))
    }

    /// A variable of this block or one around it; ValueError if there is none.
    fn _var_recursive(&self, py: Python<'_>, name: &str) -> PyResult<PyVariable> {
        self._find_var_recursive(py, name)
            .ok_or_else(|| PyValueError::new_err(format!("Var {name} is not found recursively")))
    }

    /// A variable of this block or one around it; None if there is none.
    fn _find_var_recursive(&self, py: Python<'_>, name: &str) -> Option<PyVariable> {
        let owner = self.program.get().lock().owner_of(self.id, name)?;
        Some(PyVariable::new(self.program.clone_ref(py), owner, name))
    }

    /// Whether this block has the variable.
    fn has_var(&self, name: &str) -> bool {
        self.program.get().lock().block(self.id).var(name).is_some()
    }

    /// The parameters of this block.
    fn all_parameters(&self, py: Python<'_>) -> Vec<PyVariable> {
        let program = self.program.get().lock();
        let params = program.block(self.id).vars().iter().filter(|var| var.param.is_some());
        params.map(|var| self.variable(py, &var.name)).collect()
    }

    /// Declares a variable.
    #[pyo3(signature = (name = None, shape = None, dtype = None, lod_level = None, persistable = None, stop_gradient = false, is_data = false, r#type = None, **more))]
    fn create_var(
        &self,
        py: Python<'_>,
        name: Option<String>,
        shape: Option<Vec<i64>>,
        dtype: Option<&Bound<'_, PyAny>>,
        lod_level: Option<i32>,
        persistable: Option<bool>,
        stop_gradient: bool,
        is_data: bool,
        r#type: Option<i64>,
        more: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyVariable>> {
        let name = name_or_new(py, name)?;
        let kind = kind_of(r#type)?;
        let dtype = dtype.map(any_dtype_from_py).transpose()?;
        let mut program = self.program.get().lock();
        // What is not said of a variable that exists is as it is.
        let known = program.block(self.id).var(&name).cloned();
        let is_kept = known.as_ref().is_some_and(|var| var.persistable);
        let usual = known.map(|var| var.meta).unwrap_or_default();
        let meta = Meta {
            kind: if r#type.is_some() { kind } else { usual.kind },
            dtype: dtype.unwrap_or(usual.dtype),
            dims: shape.unwrap_or(usual.dims),
            lod_level: lod_level.unwrap_or(usual.lod_level),
        };
        let persistable = persistable.unwrap_or(is_kept);
        let var = VarDesc { persistable, stop_gradient, is_data, ..VarDesc::new(&name, meta) };
        program.block_mut(self.id).create_var(var).map_err(from_program)?;
        drop(program);
        let variable = Bound::new(py, self.variable(py, &name))?;
        More(more).initialize(&variable, self.again(py))?;
        Ok(variable.unbind())
    }

    /// Declares a parameter; the startup program is not told of it.
    #[pyo3(signature = (shape, dtype, name = None, trainable = true, is_distributed = false, **more))]
    fn create_parameter(
        &self,
        py: Python<'_>,
        shape: Option<Vec<i64>>,
        dtype: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
        trainable: bool,
        is_distributed: bool,
        more: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyVariable>> {
        let more = More(more);
        check_parameter(shape.as_deref(), dtype.is_some())?;
        let name = name_or_new(py, name)?;
        let dtype = dtype.map(any_dtype_from_py).transpose()?.unwrap_or_default();
        let (lod_level, error_clip) = more.of_tensor()?;
        let meta = Meta::dense(dtype, &shape.unwrap_or_default()).with_lod_level(lod_level);
        let param = Some(more.parameter(trainable, is_distributed)?);
        let var = VarDesc {
            persistable: true,
            stop_gradient: !trainable,
            error_clip,
            param,
            ..VarDesc::new(&name, meta)
        };
        let filled = {
            let mut program = self.program.get().lock();
            let global = program.block_mut(0);
            global.create_var(var).map_err(from_program)?;
            global.ops.iter().any(|op| op.writes().any(|written| written == name))
        };
        let global = PyBlock { program: self.program.clone_ref(py), id: 0 };
        let variable = Bound::new(py, global.variable(py, &name))?;
        // A parameter that layers share is asked for several times and filled once.
        if !filled {
            more.initialize(&variable, global)?;
        }
        Ok(variable.unbind())
    }

    /// Appends an operator.
    #[pyo3(signature = (r#type = None, inputs = None, outputs = None, attrs = None, stop_gradient = false))]
    fn append_op(
        &self,
        py: Python<'_>,
        r#type: Option<&str>,
        inputs: Option<&Bound<'_, PyDict>>,
        outputs: Option<&Bound<'_, PyDict>>,
        attrs: Option<&Bound<'_, PyDict>>,
        stop_gradient: bool,
    ) -> PyResult<PyOperator> {
        let _ = stop_gradient;
        let unnamed = "`type` to initialized an Operator can not be None.";
        let kind = r#type.ok_or_else(|| PyValueError::new_err(unnamed))?;
        self.place_op(py, None, op_desc(kind, inputs, outputs, attrs)?)
    }

    /// Puts an operator before all others.
    #[pyo3(signature = (r#type, inputs = None, outputs = None, attrs = None))]
    fn _prepend_op(
        &self,
        py: Python<'_>,
        r#type: &str,
        inputs: Option<&Bound<'_, PyDict>>,
        outputs: Option<&Bound<'_, PyDict>>,
        attrs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyOperator> {
        self.place_op(py, Some(0), op_desc(r#type, inputs, outputs, attrs)?)
    }

    /// Puts an operator at a place.
    #[pyo3(signature = (index, r#type, inputs = None, outputs = None, attrs = None))]
    fn _insert_op(
        &self,
        py: Python<'_>,
        index: Whole,
        r#type: &str,
        inputs: Option<&Bound<'_, PyDict>>,
        outputs: Option<&Bound<'_, PyDict>>,
        attrs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyOperator> {
        let index = index.fit("index")?;
        self.check_index(index, 1)?;
        self.place_op(py, Some(index), op_desc(r#type, inputs, outputs, attrs)?)
    }

    /// Takes an operator out.
    fn _remove_op(&self, index: Whole) -> PyResult<()> {
        let index = index.fit("index")?;
        self.check_index(index, 0)?;
        self.program.get().lock().block_mut(self.id).ops.remove(index);
        Ok(())
    }

    /// Renames a variable here and in the operators of this block.
    fn _rename_var(&self, name: &str, new_name: &str) -> PyResult<()> {
        let mut program = self.program.get().lock();
        program.block_mut(self.id).rename_var(name, new_name).map_err(from_program)
    }

    /// Takes a variable out.
    fn _remove_var(&self, name: &str) {
        self.program.get().lock().block_mut(self.id).retain_vars(|var| var.name != name);
    }

    fn __repr__(&self) -> String {
        let program = self.program.get().lock();
        let ops = program.block(self.id).ops.iter();
        ops.map(|op| format!("{op}\n")).collect()
    }
}

impl PyBlock {
    fn check_index(&self, index: usize, beyond: usize) -> PyResult<()> {
        let n = self.program.get().lock().block(self.id).ops.len() + beyond;
        if index < n {
            return Ok(());
        }
        Err(PyIndexError::new_err(format!(
            "block {} has no place {index} for an operator",
            self.id
        )))
    }
}

/// How much memory the results of a program take: at least, at most, and in what unit.
#[pyfunction]
pub(crate) fn memory_usage(
    program: &Bound<'_, PyAny>,
    batch_size: i64,
) -> PyResult<(f64, f64, &'static str)> {
    let Ok(program) = program.cast::<PyProgram>() else {
        let kind = program.get_type();
        return Err(PyTypeError::new_err(format!(
            "Calculating Memory Usage requires Program as its Parameter. But you passed in {kind}"
        )));
    };
    let usage = program::memory::usage(&program.get().lock(), batch_size).map_err(from_program)?;
    Ok((usage.low, usage.high, usage.unit))
}

fn op_desc(
    kind: &str,
    inputs: Option<&Bound<'_, PyDict>>,
    outputs: Option<&Bound<'_, PyDict>>,
    attrs: Option<&Bound<'_, PyDict>>,
) -> PyResult<OpDesc> {
    let mut op = OpDesc::new(kind);
    for (port, vars) in inputs.into_iter().flatten() {
        op = op.input(&port.extract::<String>()?, super::variable::names_of(&vars)?);
    }
    for (port, vars) in outputs.into_iter().flatten() {
        op = op.output(&port.extract::<String>()?, super::variable::names_of(&vars)?);
    }
    for (name, value) in attrs.into_iter().flatten() {
        if !value.is_none() {
            op.attrs.set(&name.extract::<String>()?, attr_from_py(&value)?);
        }
    }
    Ok(op)
}
