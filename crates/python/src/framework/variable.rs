//! Variables of a program as Python sees them, with their operators.

use program::layers::math::{self, Operand, Operator};
use program::layers::{self, Index, IndexSteps, Size};
use program::{Var, VarDesc};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyDict, PyList, PySlice, PyString, PyTuple};

use super::context;
use super::desc::PyVarDesc;
use super::op_desc::InProgram;
use super::operator::PyOperator;
use super::param::{PyErrorClip, PyGradClip, PyRegularizer, wanted};
use super::program::{PyBlock, PyProgram};
use crate::convert::VarType;
use crate::error::from_program;

/// A variable of a program.
#[pyclass(name = "Variable", module = "paddlewheel._core", frozen, dict)]
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
    pub(crate) fn find(program: Py<PyProgram>, name: &str) -> Self {
        let block = {
            let program = program.get().lock();
            program.owner_of(program.current_block(), name).unwrap_or(0)
        };
        Self::new(program, block, name)
    }

    /// The program it belongs to.
    pub(crate) fn program(&self) -> &Py<PyProgram> {
        &self.program
    }

    pub(crate) fn var(&self) -> Var {
        Var::from(self.name.as_str())
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&VarDesc) -> R) -> PyResult<R> {
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

    /// `self operator other`, or the other way round.
    fn binary(
        &self,
        py: Python<'_>,
        operator: Operator,
        other: &Bound<'_, PyAny>,
        reversed: bool,
    ) -> PyResult<Py<PyAny>> {
        let own = self.var();
        let other = match Other::of(other) {
            Some(other) => other,
            None => return Ok(py.NotImplemented()),
        };
        let var = context::build_in(py, &self.program, |b| {
            let (own, other) = (Operand::Var(&own), other.operand());
            let (left, right) = if reversed { (other, own) } else { (own, other) };
            math::binary(b, left, operator, right)
        })?;
        self.sibling(py, &var)
    }

    /// Another variable of the same program.
    fn sibling(&self, py: Python<'_>, var: &Var) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, PyVariable::find(self.program.clone_ref(py), var.name()))?.into_any())
    }
}

/// The other side of an operator.
enum Other {
    Var(Var),
    Number(f64),
}

impl Other {
    fn of(object: &Bound<'_, PyAny>) -> Option<Self> {
        if let Ok(variable) = object.cast::<PyVariable>() {
            return Some(Other::Var(variable.get().var()));
        }
        object.extract::<f64>().ok().map(Other::Number)
    }

    fn operand(&self) -> Operand<'_> {
        match self {
            Other::Var(var) => Operand::Var(var),
            Other::Number(number) => Operand::Number(*number),
        }
    }
}

#[pymethods]
impl PyVariable {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Sizes of the dimensions; -1 where it is known only at run time.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.read(|var| var.meta.dims.clone())?)
    }

    /// The type of the elements (`core.VarDesc.VarType.FP32`, …).
    #[getter]
    fn dtype(&self) -> PyResult<VarType> {
        self.read(|var| VarType::from_dtype(var.meta.dtype))
    }

    /// The kind of the variable (`core.VarDesc.VarType.LOD_TENSOR`, …).
    #[getter]
    fn r#type(&self) -> PyResult<VarType> {
        self.read(|var| VarType::from_kind(var.meta.kind))
    }

    /// Levels of ragged offsets.
    #[getter]
    fn lod_level(&self) -> PyResult<i32> {
        self.read(|var| var.meta.lod_level)
    }

    /// Whether it lives in the scope between runs, and is saved.
    #[getter]
    fn persistable(&self) -> PyResult<bool> {
        self.read(|var| var.persistable)
    }

    #[setter]
    fn set_persistable(&self, value: bool) -> PyResult<()> {
        self.write(|var| var.persistable = value)
    }

    /// Whether gradients stop here.
    #[getter]
    fn stop_gradient(&self) -> PyResult<bool> {
        self.read(|var| var.stop_gradient)
    }

    #[setter]
    fn set_stop_gradient(&self, value: bool) -> PyResult<()> {
        self.write(|var| var.stop_gradient = value)
    }

    /// Whether it is an input of the program.
    #[getter]
    fn is_data(&self) -> PyResult<bool> {
        self.read(|var| var.is_data)
    }

    /// Whether training changes it; None for a variable that is not a parameter.
    #[getter]
    fn trainable(&self) -> PyResult<Option<bool>> {
        self.read(|var| var.param.as_ref().map(|param| param.trainable))
    }

    #[setter]
    fn set_trainable(&self, value: bool) -> PyResult<()> {
        self.write(|var| {
            var.stop_gradient = !value;
            if let Some(param) = &mut var.param {
                param.trainable = value;
            }
        })
    }

    /// Whether it is a parameter.
    #[getter]
    fn is_parameter(&self) -> PyResult<bool> {
        self.read(|var| var.param.is_some())
    }

    /// The factor of its learning rate; None for a variable that is not a parameter.
    #[getter]
    fn optimize_attr<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let rate = self.read(|var| var.param.as_ref().map(|param| param.learning_rate))?;
        let Some(rate) = rate else { return Ok(None) };
        let attr = PyDict::new(py);
        attr.set_item("learning_rate", rate)?;
        Ok(Some(attr))
    }

    /// The term added to its gradient, if it has one of its own.
    #[getter]
    fn regularizer(&self) -> PyResult<Option<PyRegularizer>> {
        self.read(|var| var.param.as_ref().and_then(|param| param.regularizer).map(PyRegularizer))
    }

    /// How its gradient is bounded, if it has a bound of its own.
    #[getter]
    fn gradient_clip_attr(&self) -> PyResult<Option<PyGradClip>> {
        let clip = |var: &VarDesc| var.param.as_ref().and_then(|param| param.gradient_clip.clone());
        Ok(self.read(clip)?.map(PyGradClip))
    }

    /// Whether averages of parameters include it; None for a variable that is not a parameter.
    #[getter]
    fn do_model_average(&self) -> PyResult<Option<bool>> {
        self.read(|var| var.param.as_ref().map(|param| param.do_model_average))
    }

    /// Whether servers keep it; None for a variable that is not a parameter.
    #[getter]
    fn is_distributed(&self) -> PyResult<Option<bool>> {
        self.read(|var| var.param.as_ref().map(|param| param.is_distributed))
    }

    #[setter]
    fn set_is_distributed(&self, value: bool) -> PyResult<()> {
        self.write(|var| {
            if let Some(param) = &mut var.param {
                param.is_distributed = value;
            }
        })
    }

    /// The last operator that writes it; None if there is none.
    #[getter]
    fn op(&self, py: Python<'_>) -> Option<PyOperator> {
        let id = {
            let program = self.program.get().lock();
            let ops = &program.block(self.block).ops;
            ops.iter().rfind(|op| op.writes().any(|name| name == self.name))?.id
        };
        Some(PyOperator(InProgram { program: self.program.clone_ref(py), block: self.block, id }))
    }

    /// Bounds of its gradient between two operators of the backward pass (`ErrorClipByValue`).
    #[getter]
    fn error_clip(&self) -> PyResult<Option<PyErrorClip>> {
        self.read(|var| var.error_clip.map(|(min, max)| PyErrorClip { min, max }))
    }

    #[setter]
    fn set_error_clip(&self, clip: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let clip = clip.map(|clip| wanted::<PyErrorClip>(clip, "error_clip")).transpose()?;
        self.write(|var| var.error_clip = clip.map(|clip| (clip.get().min, clip.get().max)))
    }

    /// Bounds its gradient between two operators of the backward pass.
    fn _set_error_clip(&self, error_clip: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.set_error_clip(error_clip)
    }

    /// The name of its gradient.
    #[getter]
    fn grad_name(&self) -> String {
        program::names::grad(&self.name)
    }

    /// The block it belongs to.
    #[getter]
    fn block(&self, py: Python<'_>) -> PyBlock {
        PyBlock { program: self.program.clone_ref(py), id: self.block }
    }

    /// Its description, where everything is a method: `var.desc.name()`.
    #[getter]
    fn desc(&self, py: Python<'_>) -> PyVarDesc {
        PyVarDesc::new(self.program.clone_ref(py), self.block, &self.name)
    }

    /// The variable in another element type.
    fn astype(&self, py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (own, dtype) = (self.var(), crate::convert::any_dtype_from_py(dtype)?);
        let var = context::build_in(py, &self.program, |b| program::layers::cast(b, &own, dtype))?;
        self.sibling(py, &var)
    }

    fn __add__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Add, other, false)
    }

    fn __radd__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Add, other, true)
    }

    fn __sub__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Sub, other, false)
    }

    fn __rsub__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Sub, other, true)
    }

    fn __mul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Mul, other, false)
    }

    fn __rmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Mul, other, true)
    }

    fn __truediv__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Div, other, false)
    }

    fn __rtruediv__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Div, other, true)
    }

    fn __mod__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Mod, other, false)
    }

    fn __rmod__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::Mod, other, true)
    }

    fn __floordiv__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::FloorDiv, other, false)
    }

    fn __rfloordiv__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, Operator::FloorDiv, other, true)
    }

    fn __pow__(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let _ = modulo;
        self.binary(py, Operator::Pow, other, false)
    }

    fn __rpow__(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let _ = modulo;
        self.binary(py, Operator::Pow, other, true)
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let own = self.var();
        let var = context::build_in(py, &self.program, |b| math::negate(b, &own))?;
        self.sibling(py, &var)
    }

    /// A part of the variable: numbers, ranges with steps, `::-1`, `...` and variables of one number.
    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (own, places) = (self.var(), places(key)?);
        let var = context::build_in(py, &self.program, |b| layers::index(b, &own, &places))?;
        self.sibling(py, &var)
    }

    /// The parts along the first dimension, if it is known how many there are.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let size = self.read(|var| var.meta.dims.first().copied().unwrap_or(-1))?;
        if size < 0 {
            let text = format!("`{}` has no known size to iterate over", self.name);
            return Err(PyTypeError::new_err(text));
        }
        let own = self.var();
        let part = |at| {
            let place = [Index::At(Size::Is(at))];
            let part = context::build_in(py, &self.program, |b| layers::index(b, &own, &place));
            self.sibling(py, &part?)
        };
        let parts = (0..size).map(part).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, parts)?.try_iter()?.into_any())
    }

    fn __richcmp__(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        op: CompareOp,
    ) -> PyResult<Py<PyAny>> {
        let operator = match op {
            CompareOp::Lt => Operator::LessThan,
            CompareOp::Le => Operator::LessEqual,
            CompareOp::Gt => Operator::GreaterThan,
            CompareOp::Ge => Operator::GreaterEqual,
            CompareOp::Eq => Operator::Equal,
            CompareOp::Ne => Operator::NotEqual,
        };
        self.binary(py, operator, other, false)
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        hasher.finish()
    }

    /// The variable as text.
    #[pyo3(signature = (throw_on_error = true, with_details = false))]
    fn to_string(&self, throw_on_error: bool, with_details: bool) -> PyResult<String> {
        let _ = (throw_on_error, with_details);
        self.read(VarDesc::to_text)
    }

    fn __repr__(&self) -> PyResult<String> {
        self.read(VarDesc::to_text)
    }
}

/// The indices between the brackets of `x[...]`.
fn places(key: &Bound<'_, PyAny>) -> PyResult<Vec<Index>> {
    match key.cast::<PyTuple>() {
        Ok(keys) => keys.iter().map(|key| place(&key)).collect(),
        Err(_) => Ok(vec![place(key)?]),
    }
}

fn place(key: &Bound<'_, PyAny>) -> PyResult<Index> {
    if key.is(key.py().Ellipsis()) {
        return Ok(Index::Rest);
    }
    let Ok(range) = key.cast::<PySlice>() else {
        return Ok(Index::At(size(key)?));
    };
    let bound = |name: &str| -> PyResult<Option<Size>> {
        let bound = range.getattr(name)?;
        if bound.is_none() { Ok(None) } else { size(&bound).map(Some) }
    };
    let (start, end) = (bound("start")?, bound("stop")?);
    Ok(match bound("step")? {
        None | Some(Size::Is(1)) => Index::Range(start, end),
        Some(Size::Is(-1)) if start.is_none() && end.is_none() => Index::Reversed,
        Some(step) => Index::Steps(IndexSteps { start, end, step }),
    })
}

fn size(key: &Bound<'_, PyAny>) -> PyResult<Size> {
    if key.is_instance_of::<PyVariable>() {
        return Ok(Size::In(key.extract::<Input>()?.0));
    }
    let one = key.is_instance_of::<numpy::PyUntypedArray>() && key.len().is_ok_and(|n| n == 1);
    let number = if one { key.call_method0("item")? } else { key.clone() };
    number.extract::<i64>().map(Size::Is).map_err(|_| {
        let kind = key.get_type();
        PyTypeError::new_err(format!("a Variable cannot be indexed by {kind}"))
    })
}

/// The name of a variable, given itself or by name.
pub(crate) fn name_of(object: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(variable) = object.cast::<PyVariable>() {
        return Ok(variable.get().name.clone());
    }
    if let Ok(text) = object.cast::<PyString>() {
        return text.extract();
    }
    let kind = object.get_type();
    Err(PyTypeError::new_err(format!("expected a Variable or its name, but got {kind}")))
}

/// The names of one variable or a list of them.
pub(crate) fn names_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return object.try_iter()?.map(|item| name_of(&item?)).collect();
    }
    Ok(vec![name_of(object)?])
}

/// A variable as an argument of a layer: it must be of the program that is being built.
pub(crate) struct Input(pub(crate) Var);

impl<'a, 'py> FromPyObject<'a, 'py> for Input {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let Ok(variable) = object.cast::<PyVariable>() else {
            let kind = object.get_type();
            let text = format!("the input of a layer must be a Variable, but got {kind}");
            return Err(PyTypeError::new_err(text));
        };
        let variable = variable.get();
        let main = context::default_main_program(object.py())?;
        let known = || main.get().lock().find_var(0, &variable.name).is_some();
        if !variable.program.is(&main) && !known() {
            let text = format!("variable `{}` belongs to another program", variable.name);
            return Err(PyValueError::new_err(text));
        }
        Ok(Input(variable.var()))
    }
}

/// One variable or a list of them as an argument of a layer.
pub(crate) struct Inputs(pub(crate) Vec<Var>);

impl<'a, 'py> FromPyObject<'a, 'py> for Inputs {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            let items = object.try_iter()?;
            let vars: PyResult<Vec<Var>> =
                items.map(|item| Ok(item?.extract::<Input>()?.0)).collect();
            return Ok(Inputs(vars?));
        }
        Ok(Inputs(vec![object.extract::<Input>()?.0]))
    }
}
