//! Arrays of numpy in, arrays of numpy out. Nothing else here reads the memory of an array.

use numpy::ndarray::ArrayViewD;
use numpy::{
    PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods,
    ToPyArray,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyType};
use tensor::{DType, Element, Shape, Tensor, within_memory};

use crate::error::from_tensor;

/// Smaller arrays are made without asking numpy whether there is memory.
const LARGE_BYTES: usize = 1 << 16;

/// The elements of an array without gaps, where they lie.
pub(crate) enum PlainArray<'a> {
    Integers(&'a [i64]),
    Numbers(&'a [f32]),
}

/// Looks at an array of int64 or float32 and at its shape; `None` if it is something else.
pub(crate) fn look_at<R>(
    object: &Bound<'_, PyAny>,
    look: impl FnOnce(PlainArray<'_>, &[usize]) -> R,
) -> Option<R> {
    if let Ok(array) = object.cast::<PyArrayDyn<i64>>() {
        let held = array.try_readonly().ok()?;
        return Some(look(PlainArray::Integers(held.as_slice().ok()?), array.shape()));
    }
    let array = object.cast::<PyArrayDyn<f32>>().ok()?;
    let held = array.try_readonly().ok()?;
    Some(look(PlainArray::Numbers(held.as_slice().ok()?), array.shape()))
}

/// Copies an array into a tensor, reusing the tensor's memory. False if it is not an array.
pub(crate) fn copy_array(object: &Bound<'_, PyAny>, out: &mut Tensor) -> PyResult<bool> {
    let Ok(array) = object.cast::<PyUntypedArray>() else { return Ok(false) };
    let shape: Vec<i64> = array.shape().iter().map(|&size| size as i64).collect();
    // Fluid has no tensor without dimensions: a number becomes a vector of one.
    let shape = if shape.is_empty() {
        Shape::from([1])
    } else {
        Shape::from_dims(&shape).map_err(from_tensor)?
    };
    let dtype = element_type(array)?;
    Tensor::check_room(dtype, shape).map_err(from_tensor)?;
    match dtype {
        DType::F32 => copy_typed::<f32>(object, shape, out)?,
        DType::F64 => copy_typed::<f64>(object, shape, out)?,
        // Ids without a sign keep their bits, as Fluid's readers do.
        DType::I64 if is_unsigned(array) => copy_as::<i64>(object, "int64", dtype, shape, out)?,
        DType::I64 => copy_typed::<i64>(object, shape, out)?,
        DType::I32 => copy_typed::<i32>(object, shape, out)?,
        DType::I16 => copy_typed::<i16>(object, shape, out)?,
        DType::I8 => copy_typed::<i8>(object, shape, out)?,
        DType::U8 => copy_typed::<u8>(object, shape, out)?,
        // Of these numpy's Rust face has no elements: they travel as numbers of the same size.
        DType::Bool => copy_as::<u8>(object, "uint8", dtype, shape, out)?,
        DType::F16 => copy_as::<i16>(object, "int16", dtype, shape, out)?,
    }
    Ok(true)
}

fn is_unsigned(array: &Bound<'_, PyUntypedArray>) -> bool {
    array.dtype().kind() == b'u'
}

/// The type of the elements of an array; as in Fluid, 16 bits without a sign are a half float.
fn element_type(array: &Bound<'_, PyUntypedArray>) -> PyResult<DType> {
    let dtype = array.dtype();
    Ok(match (dtype.kind(), dtype.itemsize()) {
        (b'f', 4) => DType::F32,
        (b'f', 8) => DType::F64,
        (b'f' | b'u', 2) => DType::F16,
        (b'i' | b'u', 8) => DType::I64,
        (b'i', 4) => DType::I32,
        (b'i', 2) => DType::I16,
        (b'i', 1) => DType::I8,
        (b'u', 1) => DType::U8,
        (b'b', 1) => DType::Bool,
        _ => {
            let text =
                format!("an array of {dtype} cannot be fed; use float32, float64, int32, int64, …");
            return Err(PyTypeError::new_err(text));
        }
    })
}

fn copy_typed<T: Element + numpy::Element>(
    object: &Bound<'_, PyAny>,
    shape: Shape,
    out: &mut Tensor,
) -> PyResult<()> {
    let dense = dense::<T>(object)?;
    let held = dense.try_readonly().map_err(|error| PyValueError::new_err(error.to_string()))?;
    let held = held.as_slice()?;
    within_memory(|| out.resize::<T>(shape).copy_from_slice(held)).map_err(from_tensor)
}

/// Copies elements of a type of which `T` is the integer of the same size, called `name`.
fn copy_as<T: Element + numpy::Element>(
    object: &Bound<'_, PyAny>,
    name: &str,
    dtype: DType,
    shape: Shape,
    out: &mut Tensor,
) -> PyResult<()> {
    let native = in_native_order(object)?;
    copy_typed::<T>(&native.call_method1(intern!(object.py(), "view"), (name,))?, shape, out)?;
    // The same bytes under another name: a buffer of the same length stays as it is.
    out.resize_as(dtype, shape);
    Ok(())
}

/// The array itself if its elements lie in the order of its rows, as this machine reads them; a
/// copy that does otherwise: of Fortran's order, strided, reversed, repeated, foreign, unaligned.
fn dense<'py, T: numpy::Element>(
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    if let Ok(array) = object.cast::<PyArrayDyn<T>>() {
        let aligned = (array.data() as usize).is_multiple_of(align_of::<T>());
        if array.is_c_contiguous() && aligned {
            return Ok(array.clone());
        }
    }
    let native = native_type(object)?;
    let copy = object.call_method1(intern!(object.py(), "astype"), (native, "C"))?;
    Ok(copy.cast_into::<PyArrayDyn<T>>()?)
}

/// An array's element type in this machine's order of bytes.
fn native_type<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object.getattr("dtype")?.call_method1("newbyteorder", ("=",))
}

fn in_native_order<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let native = native_type(object)?;
    if object.getattr("dtype")?.eq(&native)? {
        Ok(object.clone())
    } else {
        object.call_method1(intern!(object.py(), "astype"), (native,))
    }
}

/// A tensor of one element from a number of Python or numpy, in the type it is wanted in. False if
/// it is not a number.
pub(crate) fn copy_number(
    object: &Bound<'_, PyAny>,
    dtype: DType,
    out: &mut Tensor,
) -> PyResult<bool> {
    let plain = object.is_instance_of::<PyFloat>()
        || object.is_instance_of::<PyInt>()
        || object.is_instance_of::<PyBool>();
    let numpy = object.py().import("numpy")?;
    if !plain && !object.is_instance(&numpy.getattr("number")?)? {
        let truth = numpy.getattr("bool_")?;
        if !object.is_instance(&truth)? {
            return Ok(false);
        }
    }
    let array = numpy.call_method1("array", ([object],))?;
    copy_array(&array.call_method1("astype", (dtype.name(),))?, out)
}

/// An array of a type out of what Python gave. Whole numbers of 2⁶³ and more become int64 by their bits.
pub(crate) fn array_of<'py>(
    values: &Bound<'py, PyAny>,
    dtype: DType,
) -> PyResult<Bound<'py, PyAny>> {
    let py = values.py();
    let numpy = py.import("numpy")?;
    numpy.call_method1("array", (values, dtype.name())).or_else(|error| {
        if dtype != DType::I64 || !error.is_instance_of::<PyOverflowError>(py) {
            return Err(error);
        }
        let exact = numpy.call_method1("array", (values, "object"))?;
        let fits =
            exact.call_method0("min")?.ge(i64::MIN)? && exact.call_method0("max")?.le(u64::MAX)?;
        match exact.call_method1("__and__", (u64::MAX,)) {
            Ok(bits) if fits => {
                bits.call_method1("astype", ("uint64",))?.call_method1("view", ("int64",))
            }
            _ => Err(error),
        }
    })
}

/// An array of what Python gave. Lists of whole numbers some of which have 2⁶³ and more become int64 by their bits; numpy
/// would make floats of them.
pub(crate) fn exact_array<'py>(values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = values.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (values,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    if values.hasattr("dtype")? || !(kind == "f" || kind == "O") {
        return Ok(array);
    }
    let is_large = |most: Bound<'_, PyAny>| most.ge(1u64 << 53);
    if kind == "f" && (array.len()? == 0 || !is_large(array.call_method0("max")?)?) {
        return Ok(array);
    }
    let objects = numpy.call_method1("array", (values, "object"))?;
    let objects = objects.call_method1("reshape", (-1,))?;
    for object in objects.try_iter()? {
        if !object?.is_instance_of::<PyInt>() {
            return Ok(array);
        }
    }
    array_of(values, DType::I64)
}

/// A numpy array with a tensor's numbers. Of one element it is a number to `float` and `int`, as
/// arrays were in the numpy of Fluid's time.
pub(crate) fn to_numpy(py: Python<'_>, tensor: &Tensor) -> PyResult<Py<PyAny>> {
    Tensor::check_room(tensor.dtype(), tensor.shape()).map_err(from_tensor)?;
    let array = match tensor.dtype() {
        DType::F32 => typed::<f32>(py, tensor),
        DType::F64 => typed::<f64>(py, tensor),
        DType::I64 => typed::<i64>(py, tensor),
        DType::I32 => typed::<i32>(py, tensor),
        DType::I16 => typed::<i16>(py, tensor),
        DType::I8 => typed::<i8>(py, tensor),
        DType::U8 => typed::<u8>(py, tensor),
        DType::Bool => viewed(py, tensor, "bool"),
        DType::F16 => viewed(py, tensor, "float16"),
    }?;
    Ok(array.call_method1(intern!(py, "view"), (fetched_class(py)?,))?.unbind())
}

/// The class of arrays that are handed out.
fn fetched_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "paddlewheel._array", "array")
}

fn typed<'py, T: Element + numpy::Element>(
    py: Python<'py>,
    tensor: &Tensor,
) -> PyResult<Bound<'py, PyAny>> {
    let values = tensor.data::<T>().map_err(from_tensor)?;
    if tensor.bytes().len() < LARGE_BYTES {
        let view = ArrayViewD::from_shape(tensor.dims(), values);
        let view = view.map_err(|error| PyValueError::new_err(error.to_string()))?;
        return Ok(view.to_pyarray(py).into_any());
    }
    filled(py, tensor.dims(), tensor.dtype().name(), values)
}

/// A new array. Where there is no memory, numpy says so.
fn filled<'py, T: numpy::Element + Copy>(
    py: Python<'py>,
    dims: &[usize],
    dtype: &str,
    values: &[T],
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1(intern!(py, "empty"), (dims.to_vec(), dtype))?;
    let array = array.cast_into::<PyArrayDyn<T>>()?;
    let mut held =
        array.try_readwrite().map_err(|error| PyValueError::new_err(error.to_string()))?;
    held.as_slice_mut()?.copy_from_slice(values);
    drop(held);
    Ok(array.into_any())
}

/// Types that numpy's Rust face has no element for travel as bytes.
fn viewed<'py>(py: Python<'py>, tensor: &Tensor, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    let bytes = filled(py, &[tensor.bytes().len()], "uint8", tensor.bytes())?;
    let array = bytes.call_method1("view", (dtype,))?;
    array.call_method1("reshape", (tensor.dims().to_vec(),))
}
