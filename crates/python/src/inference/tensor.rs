//! `PaddleTensor` and its buffer: name, shape, type and bytes, which scripts set one by one.

use std::sync::{Arc, Mutex, MutexGuard};

use ::tensor::{DType, Lod, Shape, Tensor};
use base::EvenIfPoisoned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::array::{copy_array, to_numpy};
use crate::error::from_tensor;

/// The types of tensors that predictors take.
#[pyclass(name = "PaddleDType", module = "paddlewheel._core", frozen, eq, eq_int, hash)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::upper_case_acronyms)] // Fluid's names.
pub(crate) enum PaddleDType {
    /// Real numbers.
    #[default]
    FLOAT32,
    /// Ids.
    INT64,
    /// Small integers.
    INT32,
}

impl PaddleDType {
    pub(super) fn of(dtype: DType) -> Self {
        match dtype {
            DType::I64 => PaddleDType::INT64,
            DType::I32 => PaddleDType::INT32,
            _ => PaddleDType::FLOAT32,
        }
    }

    fn dtype(self) -> DType {
        match self {
            PaddleDType::FLOAT32 => DType::F32,
            PaddleDType::INT64 => DType::I64,
            PaddleDType::INT32 => DType::I32,
        }
    }
}

pub(super) fn checked_lod(tensor: &mut Tensor, lod: Vec<Vec<usize>>) -> PyResult<()> {
    let lod = Lod::from_offsets(lod);
    if !lod.is_empty() {
        lod.check(tensor.dims().first().copied().unwrap_or(0)).map_err(from_tensor)?;
    }
    tensor.set_lod(lod);
    Ok(())
}

pub(super) fn taken(data: &Bound<'_, PyAny>, tensor: &mut Tensor) -> PyResult<()> {
    if !copy_array(data, tensor)? {
        let kind = data.get_type();
        return Err(PyTypeError::new_err(format!("a tensor is made of an array, not of {kind}")));
    }
    match tensor.dtype() {
        DType::F32 | DType::I64 | DType::I32 => Ok(()),
        other => {
            let text = format!("a predictor takes float32, int64 or int32, not {}", other.name());
            Err(PyTypeError::new_err(text))
        }
    }
}

/// A tensor for a predictor, or from one.
#[pyclass(name = "PaddleTensor", module = "paddlewheel._core", frozen)]
#[derive(Default)]
pub(crate) struct PyPaddleTensor(Mutex<PaddleParts>);

/// Only together they must fit: scripts set them in any order.
#[derive(Default)]
struct PaddleParts {
    name: String,
    shape: Vec<usize>,
    dtype: PaddleDType,
    lod: Vec<Vec<usize>>,
    data: Buffer,
}

impl PyPaddleTensor {
    fn lock(&self) -> MutexGuard<'_, PaddleParts> {
        self.0.lock().even_if_poisoned()
    }

    pub(super) fn of(name: &str, tensor: &Tensor) -> Self {
        Self(Mutex::new(PaddleParts {
            name: name.to_string(),
            shape: tensor.dims().to_vec(),
            dtype: PaddleDType::of(tensor.dtype()),
            lod: tensor.lod().levels().to_vec(),
            data: Buffer::of(tensor),
        }))
    }

    /// All parts together, if they fit.
    pub(super) fn tensor(&self) -> PyResult<Tensor> {
        let parts = self.lock();
        let PaddleParts { name, shape, dtype, lod, data } = &*parts;
        let held = data.lock();
        let wrong = |text: String| PyValueError::new_err(format!("PaddleTensor `{name}`: {text}"));
        if held.dtype.is_some_and(|held| held != *dtype) {
            let held = held.dtype.unwrap_or_default();
            return Err(wrong(format!(
                "its dtype is {dtype:?}, but its data are {held:?}; make PaddleBuf of an array of that type"
            )));
        }
        let dims: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
        let whole = Shape::from_dims(&dims).map_err(from_tensor)?;
        let n_elements = shape.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim));
        let n_bytes = n_elements.and_then(|n| n.checked_mul(dtype.dtype().size()));
        if n_bytes != Some(held.bytes.len()) {
            let n = held.bytes.len() / dtype.dtype().size();
            return Err(wrong(format!("its shape is {shape:?}, but its data have {n} elements")));
        }
        let mut tensor = Tensor::default();
        tensor.try_resize_as(dtype.dtype(), whole).map_err(from_tensor)?;
        tensor.bytes_mut().copy_from_slice(&held.bytes);
        checked_lod(&mut tensor, lod.clone())?;
        Ok(tensor)
    }
}

#[pymethods]
impl PyPaddleTensor {
    #[new]
    #[pyo3(signature = (data=None, name="", lod=Vec::new(), copy=true))]
    fn new(
        data: Option<&Bound<'_, PyAny>>,
        name: &str,
        lod: Vec<Vec<usize>>,
        copy: bool,
    ) -> PyResult<Self> {
        let _ = copy;
        let Some(data) = data else {
            let parts = PaddleParts { name: name.to_string(), lod, ..PaddleParts::default() };
            return Ok(Self(Mutex::new(parts)));
        };
        let mut tensor = Tensor::default();
        taken(data, &mut tensor)?;
        checked_lod(&mut tensor, lod)?;
        Ok(Self::of(name, &tensor))
    }

    /// The variable.
    #[getter]
    pub(super) fn name(&self) -> String {
        self.lock().name.clone()
    }

    #[setter]
    fn set_name(&self, name: String) {
        self.lock().name = name;
    }

    /// The sizes of the dimensions.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.lock().shape.clone()
    }

    #[setter]
    fn set_shape(&self, shape: Vec<usize>) {
        self.lock().shape = shape;
    }

    /// Sequence offsets.
    #[getter]
    fn lod(&self) -> Vec<Vec<usize>> {
        self.lock().lod.clone()
    }

    #[setter]
    fn set_lod(&self, lod: Vec<Vec<usize>>) {
        self.lock().lod = lod;
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self) -> PaddleDType {
        self.lock().dtype
    }

    #[setter]
    fn set_dtype(&self, dtype: &PaddleDType) {
        self.lock().dtype = *dtype;
    }

    /// The numbers.
    #[getter]
    fn data(&self) -> PyPaddleBuf {
        PyPaddleBuf(self.lock().data.clone())
    }

    #[setter]
    fn set_data(&self, data: &PyPaddleBuf) {
        self.lock().data = data.0.copied();
    }

    /// The numbers as an array.
    fn as_ndarray(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_numpy(py, &self.tensor()?)
    }
}

/// Bytes that a tensor and its buffer share.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<BufferBytes>>);

#[derive(Clone, Default)]
struct BufferBytes {
    bytes: Vec<u8>,
    /// The type of the contents, where it is known.
    dtype: Option<PaddleDType>,
}

impl Buffer {
    fn of(tensor: &Tensor) -> Self {
        let (bytes, dtype) = (tensor.bytes().to_vec(), Some(PaddleDType::of(tensor.dtype())));
        Self(Arc::new(Mutex::new(BufferBytes { bytes, dtype })))
    }

    fn lock(&self) -> MutexGuard<'_, BufferBytes> {
        self.0.lock().even_if_poisoned()
    }

    fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().clone())))
    }
}

/// The numbers of a tensor.
#[pyclass(name = "PaddleBuf", module = "paddlewheel._core", frozen)]
pub(crate) struct PyPaddleBuf(Buffer);

/// An array as it is; a list is of real numbers, as in Fluid.
fn buffer(data: &Bound<'_, PyAny>) -> PyResult<BufferBytes> {
    let mut tensor = Tensor::default();
    match data.extract::<Vec<f32>>() {
        Ok(numbers) if data.getattr_opt("dtype")?.is_none() => {
            let shape = [numbers.len()];
            tensor = Tensor::new(shape, &numbers).map_err(from_tensor)?;
        }
        _ => taken(data, &mut tensor)?,
    }
    let dtype = Some(PaddleDType::of(tensor.dtype()));
    Ok(BufferBytes { bytes: tensor.bytes().to_vec(), dtype })
}

impl PyPaddleBuf {
    fn numbers<const N: usize, T>(
        &self,
        dtype: PaddleDType,
        number: fn([u8; N]) -> T,
    ) -> PyResult<Vec<T>> {
        let held = self.0.lock();
        if let Some(held) = held.dtype.filter(|held| *held != dtype) {
            let text = format!("the buffer holds {held:?}, not {dtype:?}");
            return Err(PyTypeError::new_err(text));
        }
        let (words, _) = held.bytes.as_chunks::<N>();
        Ok(words.iter().map(|word| number(*word)).collect())
    }
}

#[pymethods]
impl PyPaddleBuf {
    #[new]
    fn new(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let held = match data.extract::<usize>() {
            Ok(n_bytes) => BufferBytes { bytes: vec![0; n_bytes], dtype: None },
            Err(_) => buffer(data)?,
        };
        Ok(Self(Buffer(Arc::new(Mutex::new(held)))))
    }

    /// Takes other numbers.
    fn reset(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        *self.0.lock() = buffer(data)?;
        Ok(())
    }

    /// Changes the number of bytes.
    fn resize(&self, length: usize) {
        self.0.lock().bytes.resize(length, 0);
    }

    /// As a list of real numbers.
    fn float_data(&self) -> PyResult<Vec<f32>> {
        self.numbers(PaddleDType::FLOAT32, f32::from_le_bytes)
    }

    /// As a list of integers.
    fn int64_data(&self) -> PyResult<Vec<i64>> {
        self.numbers(PaddleDType::INT64, i64::from_le_bytes)
    }

    /// As a list of small integers.
    fn int32_data(&self) -> PyResult<Vec<i32>> {
        self.numbers(PaddleDType::INT32, i32::from_le_bytes)
    }

    /// As a flat list; of this type, if one is named.
    #[pyo3(signature = (dtype=None))]
    fn tolist(&self, py: Python<'_>, dtype: Option<&str>) -> PyResult<Py<PyAny>> {
        let known = self.0.lock().dtype.unwrap_or_default();
        let list = |made: Bound<'_, PyAny>| made.unbind();
        match (dtype, known) {
            (Some("int64"), _) | (None, PaddleDType::INT64) => {
                self.int64_data()?.into_pyobject(py).map(list)
            }
            (Some("int32"), _) | (None, PaddleDType::INT32) => {
                self.int32_data()?.into_pyobject(py).map(list)
            }
            (Some("float32") | None, _) => self.float_data()?.into_pyobject(py).map(list),
            (Some(other), _) => {
                let text = format!("a buffer holds float32, int64 or int32, not {other}");
                Err(PyValueError::new_err(text))
            }
        }
    }

    /// Bytes.
    fn length(&self) -> usize {
        self.0.lock().bytes.len()
    }

    /// Whether there is none.
    fn empty(&self) -> bool {
        self.0.lock().bytes.is_empty()
    }
}
