//! Tensors, places and scopes as Python sees them.

use std::sync::Mutex;

use base::EvenIfPoisoned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use tensor::{DType, Lod, Rows, Shape, Tensor, Value};
use train::Scope;

use crate::array::{copy_array, to_numpy};
use crate::convert::{VarType, Whole, dtype_from_py};
use crate::error::{EnforceNotMet, from_tensor};

/// Where a tensor's numbers are: its own, or a variable of a scope.
enum Home {
    Own(Mutex<Tensor>),
    Scope { scope: Scope, name: String },
}

/// A dense tensor, with ragged offsets if it holds sequences.
#[pyclass(name = "LoDTensor", module = "paddlewheel._core", frozen, weakref)]
pub(crate) struct PyTensor(Home);

impl PyTensor {
    pub(crate) fn own(tensor: Tensor) -> Self {
        Self(Home::Own(Mutex::new(tensor)))
    }

    /// Looks at the tensor; a variable that holds nothing is an empty tensor.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Tensor) -> R) -> R {
        match &self.0 {
            Home::Own(tensor) => look(&tensor.lock().even_if_poisoned()),
            Home::Scope { scope, name } => {
                let mut look = Some(look);
                let found = scope.read(name, |value| match value {
                    Value::Tensor(tensor) => look.take().map(|look| look(tensor)),
                    Value::Shared(tensor) => look.take().map(|look| look(tensor)),
                    Value::Rows(rows) => look.take().map(|look| look(&rows.value)),
                    Value::Keyed(table) => look.take().map(|look| look(table.value())),
                    _ => None,
                });
                match (found.flatten(), look) {
                    (Some(result), _) => result,
                    (None, Some(look)) => look(&Tensor::default()),
                    (None, None) => unreachable!("called only when a tensor was found"),
                }
            }
        }
    }

    fn write<R>(&self, change: impl FnOnce(&mut Tensor) -> R) -> R {
        match &self.0 {
            Home::Own(tensor) => change(&mut tensor.lock().even_if_poisoned()),
            Home::Scope { scope, name } => scope.write(name, |value| {
                if let Value::Rows(rows) = value {
                    return change(&mut rows.value);
                }
                value.unshare();
                if !matches!(value, Value::Tensor(_)) {
                    *value = Value::Tensor(Tensor::default());
                }
                let Value::Tensor(tensor) = value else { unreachable!("made above") };
                change(tensor)
            }),
        }
    }

    /// Gives the tensor a type and a shape, if there is memory for it.
    fn resize(&self, wanted: impl FnOnce(&Tensor) -> (DType, Shape)) -> PyResult<()> {
        self.write(|tensor| {
            let (dtype, shape) = wanted(tensor);
            Tensor::check_room(dtype, shape).map_err(from_tensor)?;
            let lod = tensor.lod().clone();
            tensor.resize_as(dtype, shape);
            self.keep_lod(tensor, lod);
            Ok(())
        })
    }

    /// As in Fluid other numbers leave the sequences as they are; those of a variable must fit,
    /// because operators rely on them.
    fn keep_lod(&self, tensor: &mut Tensor, lod: Lod) {
        let n_rows = tensor.dims().first().copied().unwrap_or(0);
        if matches!(self.0, Home::Own(_)) || lod.check(n_rows).is_ok() {
            tensor.set_lod(lod);
        }
    }

    fn set_offsets(&self, lod: Lod) -> PyResult<()> {
        self.write(|tensor| {
            // As in Fluid the numbers may come later.
            let later = lod.last().and_then(|offsets| offsets.last()).copied().unwrap_or(0);
            lod.check(tensor.dims().first().copied().unwrap_or(later))?;
            tensor.set_lod(lod);
            Ok(())
        })
        .map_err(from_tensor)
    }
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (recursive_sequence_lengths = None))]
    fn new(recursive_sequence_lengths: Option<Vec<Vec<usize>>>) -> PyResult<Self> {
        let tensor = Self::own(Tensor::default());
        if let Some(lengths) = recursive_sequence_lengths {
            tensor.set_recursive_sequence_lengths(lengths)?;
        }
        Ok(tensor)
    }

    /// Copies an array (or a list) in, with its type and shape.
    #[pyo3(signature = (array, place = None))]
    fn set(&self, array: &Bound<'_, PyAny>, place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _ = place;
        let array = match array.cast::<PyTensor>() {
            Ok(other) => array_of(other)?,
            Err(_) => array.py().import("numpy")?.call_method1("asarray", (array,))?,
        };
        self.write(|tensor| {
            let lod = tensor.lod().clone();
            copy_array(&array, tensor)?;
            self.keep_lod(tensor, lod);
            Ok(())
        })
    }

    /// The sizes of the dimensions.
    fn shape(&self) -> Vec<usize> {
        self.read(|tensor| tensor.dims().to_vec())
    }

    fn _get_dims(&self) -> Vec<usize> {
        self.shape()
    }

    /// The sizes of the dimensions.
    fn get_dims(&self) -> Vec<usize> {
        self.shape()
    }

    fn _set_dims(&self, dims: Vec<i64>) -> PyResult<()> {
        let shape = Shape::from_dims(&dims).map_err(from_tensor)?;
        self.resize(|tensor| (tensor.dtype(), shape))
    }

    fn _dtype(&self) -> VarType {
        self.read(|tensor| VarType::from_dtype(tensor.dtype()))
    }

    /// Where its numbers are: in the memory of this machine.
    fn _place(&self) -> CpuPlace {
        CpuPlace
    }

    fn _is_initialized(&self) -> bool {
        self.read(Tensor::is_initialized)
    }

    fn _clear(&self) {
        self.write(Tensor::clear);
    }

    #[pyo3(signature = (place = None))]
    fn _alloc_float(&self, place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _ = place;
        self.resize(|tensor| (DType::F32, tensor.shape()))
    }

    #[pyo3(signature = (place = None))]
    fn _alloc_int(&self, place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _ = place;
        self.resize(|tensor| (DType::I32, tensor.shape()))
    }

    /// One number of a tensor of 32-bit floats, counted in the order of its memory.
    fn _get_float_element(&self, offset: Whole) -> PyResult<f32> {
        let offset: usize = offset.fit("offset")?;
        let found = self.read(|tensor| tensor.data::<f32>().map(|all| all.get(offset).copied()));
        found.map_err(from_tensor)?.ok_or_else(|| no_element(offset))
    }

    /// Changes one number of a tensor of 32-bit floats.
    fn _set_float_element(&self, offset: Whole, value: f32) -> PyResult<()> {
        let offset: usize = offset.fit("offset")?;
        let changed = self.write(|tensor| {
            let all = tensor.data_mut::<f32>();
            all.map(|all| all.get_mut(offset).map(|place| *place = value))
        });
        changed.map_err(from_tensor)?.ok_or_else(|| no_element(offset))
    }

    #[pyo3(signature = (place = None))]
    fn _alloc_double(&self, place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _ = place;
        self.resize(|tensor| (DType::F64, tensor.shape()))
    }

    /// Memory for the numbers, in another type if one is given; returns its address.
    #[pyo3(signature = (place = None, dtype = None))]
    fn _mutable_data(
        &self,
        place: Option<&Bound<'_, PyAny>>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let _ = place;
        let dtype = dtype.map(dtype_from_py).transpose()?;
        self.resize(|tensor| (dtype.unwrap_or(tensor.dtype()), tensor.shape()))?;
        Ok(self.read(|tensor| tensor.bytes().as_ptr() as usize))
    }

    /// The ragged offsets, outermost level first.
    fn lod(&self) -> Vec<Vec<usize>> {
        self.read(|tensor| tensor.lod().levels().to_vec())
    }

    /// Sets the ragged offsets.
    fn set_lod(&self, lod: Vec<Vec<usize>>) -> PyResult<()> {
        self.set_offsets(Lod::from_offsets(lod))
    }

    /// The lengths of the sequences, outermost level first.
    fn recursive_sequence_lengths(&self) -> Vec<Vec<usize>> {
        self.read(|tensor| tensor.lod().lengths())
    }

    /// Sets the lengths of the sequences.
    fn set_recursive_sequence_lengths(
        &self,
        recursive_sequence_lengths: Vec<Vec<usize>>,
    ) -> PyResult<()> {
        self.set_offsets(Lod::from_recursive_lengths(&recursive_sequence_lengths)).map_err(|_| {
            EnforceNotMet::new_err("the provided recursive_sequence_lengths info is invalid")
        })
    }

    /// Whether the offsets describe this tensor.
    fn has_valid_recursive_sequence_lengths(&self) -> bool {
        self.read(|t| t.lod().check(t.shape().dims().first().copied().unwrap_or(0)).is_ok())
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = copy;
        let array = array_of(slf)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        array_of(slf)?.get_item(key)
    }

    fn __len__(&self) -> usize {
        self.read(|tensor| tensor.dims().first().copied().unwrap_or(0))
    }

    fn __repr__(&self) -> String {
        self.read(|tensor| format!("LoDTensor {tensor:?}"))
    }
}

fn no_element(offset: usize) -> PyErr {
    pyo3::exceptions::PyIndexError::new_err(format!("the tensor has no element {offset}"))
}

fn array_of<'py>(tensor: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let held = tensor.get();
    if !held.read(Tensor::is_initialized) {
        return Err(EnforceNotMet::new_err(
            "Tensor holds no memory. Call Tensor::mutable_data first.",
        ));
    }
    Ok(held.read(|tensor| to_numpy(py, tensor))?.into_bound(py))
}

/// A variable of a scope.
#[pyclass(name = "ScopeVariable", module = "paddlewheel._core", frozen)]
pub(crate) struct PyScopeVariable {
    scope: Scope,
    name: String,
}

#[pymethods]
impl PyScopeVariable {
    /// The tensor it holds; an empty variable becomes one when it is set.
    fn get_tensor(&self) -> PyTensor {
        PyTensor(Home::Scope { scope: self.scope.clone(), name: self.name.clone() })
    }

    /// The keyed rows it holds.
    fn get_selected_rows(&self) -> PyRows {
        self.scope.write(&self.name, |value| {
            if value.is_empty() {
                *value = Value::Rows(Rows::default());
            }
        });
        PyRows { scope: self.scope.clone(), name: self.name.clone() }
    }

    /// Makes it hold one integer.
    fn set_int(&self, value: i32) {
        self.scope.set(&self.name, Tensor::full([1], value));
    }

    /// The first number it holds, as an integer.
    fn get_int(&self) -> PyResult<i64> {
        let first =
            self.scope.read(&self.name, |value| value.tensor().map(|t| t.get_f64(0) as i64));
        first
            .flatten()
            .ok_or_else(|| PyValueError::new_err(format!("`{}` holds nothing", self.name)))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
}

/// Keyed rows of a variable.
#[pyclass(name = "SelectedRows", module = "paddlewheel._core", frozen)]
pub(crate) struct PyRows {
    scope: Scope,
    name: String,
}

impl PyRows {
    fn write<R>(&self, change: impl FnOnce(&mut Rows) -> R) -> PyResult<R> {
        self.scope.write(&self.name, |value| match value {
            Value::Rows(rows) => Ok(change(rows)),
            other => {
                let text = format!("`{}` holds {}, not selected rows", self.name, other.kind());
                Err(PyTypeError::new_err(text))
            }
        })
    }
}

#[pymethods]
impl PyRows {
    /// Rows of their own, in no variable of a program.
    #[new]
    #[pyo3(signature = (rows = Vec::new(), height = 0))]
    fn new(rows: Vec<i64>, height: i64) -> Self {
        let (scope, name) = (Scope::new(), "rows".to_string());
        scope.set(&name, Value::Rows(Rows { ids: rows, height, value: Tensor::default() }));
        Self { scope, name }
    }

    /// The keys of the rows.
    fn rows(&self) -> PyResult<Vec<i64>> {
        self.write(|rows| rows.ids.clone())
    }

    /// Sets the keys of the rows.
    fn set_rows(&self, rows: Vec<i64>) -> PyResult<()> {
        self.write(|held| held.ids = rows)
    }

    /// How many rows the whole table has.
    fn height(&self) -> PyResult<i64> {
        self.write(|rows| rows.height)
    }

    /// Says how many rows the whole table has.
    fn set_height(&self, height: i64) -> PyResult<()> {
        self.write(|rows| rows.height = height)
    }

    /// The rows as a tensor.
    fn get_tensor(&self) -> PyTensor {
        PyTensor(Home::Scope { scope: self.scope.clone(), name: self.name.clone() })
    }
}

/// Named variables, with the scope around them.
#[pyclass(name = "Scope", module = "paddlewheel._core", frozen, weakref)]
#[derive(Default)]
pub(crate) struct PyScope(pub(crate) Scope);

#[pymethods]
impl PyScope {
    #[new]
    fn new() -> Self {
        Self(Scope::new())
    }

    /// A variable of this scope itself, made if it is not there.
    fn var(&self, name: String) -> PyScopeVariable {
        self.0.var(&name);
        PyScopeVariable { scope: self.0.clone(), name }
    }

    /// A variable here or around; None if there is none.
    fn find_var(&self, name: String) -> Option<PyScopeVariable> {
        let scope = self.0.find(&name)?.clone();
        Some(PyScopeVariable { scope, name })
    }

    /// A scope inside this one.
    fn new_scope(&self) -> Self {
        Self(self.0.new_scope())
    }

    /// Forgets the scopes inside.
    fn drop_kids(&self) {
        self.0.drop_kids();
    }

    /// Removes variables of this scope itself.
    fn erase(&self, names: Vec<String>) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.0.erase(&names);
    }

    /// The names of the variables of this scope itself.
    fn local_var_names(&self) -> Vec<String> {
        self.0.names()
    }
}

/// A list of tensors.
#[pyclass(name = "LoDTensorArray", module = "paddlewheel._core", frozen)]
#[derive(Default)]
pub(crate) struct PyTensorArray(Mutex<Vec<Py<PyTensor>>>);

#[pymethods]
impl PyTensorArray {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Puts a tensor at the end.
    fn append(&self, tensor: Py<PyTensor>) {
        self.0.lock().even_if_poisoned().push(tensor);
    }

    fn __len__(&self) -> usize {
        self.0.lock().even_if_poisoned().len()
    }

    fn __getitem__(&self, py: Python<'_>, index: usize) -> PyResult<Py<PyTensor>> {
        let held = self.0.lock().even_if_poisoned();
        let tensor = held.get(index).map(|tensor| tensor.clone_ref(py));
        tensor.ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("list index out of range"))
    }
}

/// The processor as a place to compute.
#[pyclass(name = "CPUPlace", module = "paddlewheel._core", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct CpuPlace;

#[pymethods]
impl CpuPlace {
    #[new]
    fn new() -> Self {
        Self
    }

    fn __repr__(&self) -> &'static str {
        "CPUPlace"
    }

    /// A number for this kind of place.
    fn _type(&self) -> u8 {
        0
    }

    /// Whether another is the same place.
    fn _equals(&self, other: &Bound<'_, PyAny>) -> bool {
        other.is_instance_of::<Self>()
    }
}

/// A graphics card as a place to compute; there is none here, so the processor stands in for it.
#[pyclass(name = "CUDAPlace", module = "paddlewheel._core", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct CudaPlace(i32);

#[pymethods]
impl CudaPlace {
    #[new]
    fn new(id: i32) -> Self {
        Self(id)
    }

    fn __repr__(&self) -> String {
        format!("CUDAPlace({})", self.0)
    }

    /// A number for this kind of place.
    fn _type(&self) -> u8 {
        1
    }

    /// Whether another is the same place.
    fn _equals(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get() == self)
    }
}

/// Pinned memory as a place; the same as any other here.
#[pyclass(name = "CUDAPinnedPlace", module = "paddlewheel._core", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct CudaPinnedPlace;

#[pymethods]
impl CudaPinnedPlace {
    #[new]
    fn new() -> Self {
        Self
    }

    fn __repr__(&self) -> &'static str {
        "CUDAPinnedPlace"
    }

    fn _equals(&self, other: &Bound<'_, PyAny>) -> bool {
        other.is_instance_of::<Self>()
    }

    fn _type(&self) -> i32 {
        2
    }
}
