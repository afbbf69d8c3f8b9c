//! Between Python's values and ours: element types, attributes.

use numpy::PyUntypedArray;
use program::{Attr, VarKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};
use tensor::DType;

use crate::error::from_tensor;

/// A type of elements or of variables, numbered as in Fluid.
#[pyclass(name = "VarType", module = "paddlewheel._core", eq, hash, frozen)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct VarType(pub(crate) i64);

const NAMES: [(&str, i64); 20] = [
    ("BOOL", 0),
    ("INT16", 1),
    ("INT32", 2),
    ("INT64", 3),
    ("FP16", 4),
    ("FP32", 5),
    ("FP64", 6),
    ("LOD_TENSOR", 7),
    ("SELECTED_ROWS", 8),
    ("FEED_MINIBATCH", 9),
    ("FETCH_LIST", 10),
    ("STEP_SCOPES", 11),
    ("LOD_RANK_TABLE", 12),
    ("LOD_TENSOR_ARRAY", 13),
    ("PLACE_LIST", 14),
    ("READER", 15),
    ("RAW", 17),
    ("TUPLE", 18),
    ("UINT8", 20),
    ("INT8", 21),
];

impl VarType {
    pub(crate) fn from_dtype(dtype: DType) -> Self {
        Self(i64::from(dtype.code()))
    }

    pub(crate) fn from_kind(kind: VarKind) -> Self {
        Self(kind as i64)
    }

    /// Puts the names on the class: `VarType.FP32`.
    pub(crate) fn add_names(py: Python<'_>) -> PyResult<()> {
        let class = py.get_type::<VarType>();
        NAMES.iter().try_for_each(|&(name, code)| class.setattr(name, VarType(code)))
    }
}

#[pymethods]
impl VarType {
    fn __int__(&self) -> i64 {
        self.0
    }

    fn __index__(&self) -> i64 {
        self.0
    }

    fn __repr__(&self) -> String {
        let name = NAMES.iter().find(|(_, code)| *code == self.0).map_or("?", |(name, _)| name);
        format!("VarType.{name}")
    }

    /// Its name in Fluid.
    #[getter]
    fn name(&self) -> &'static str {
        NAMES.iter().find(|(_, code)| *code == self.0).map_or("?", |(name, _)| name)
    }

    /// Its number in Fluid.
    #[getter]
    fn value(&self) -> i64 {
        self.0
    }
}

/// An element type given as a `VarType`, a numpy dtype, or a name.
pub(crate) fn dtype_from_py(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    if let Ok(kind) = object.cast::<VarType>() {
        return DType::from_code(kind.get().0).map_err(from_tensor);
    }
    if let Ok(code) = object.cast::<PyInt>() {
        return DType::from_code(code.extract()?).map_err(from_tensor);
    }
    let name: String = match object.cast::<PyString>() {
        // To numpy nothing is a double.
        _ if object.is_none() => "None".to_string(),
        Ok(text) => text.extract()?,
        Err(_) => {
            let dtype = object.py().import("numpy")?.getattr("dtype")?.call1((object,))?;
            dtype.getattr("name")?.extract()?
        }
    };
    DType::from_name(&name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "dtype must be any of [bool, float16, float32, float64, int8, int16, int32, int64, \
             uint8], but received {name}"
        ))
    })
}

/// An element type as a variable takes it: what numpy calls a type is one too ('double', 'f4').
pub(crate) fn any_dtype_from_py(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    let Ok(text) = object.cast::<PyString>() else { return dtype_from_py(object) };
    match object.py().import("numpy")?.getattr("dtype")?.call1((text,)) {
        Ok(dtype) => dtype_from_py(&dtype),
        Err(_) => dtype_from_py(object),
    }
}

/// An attribute of an operator from a Python value.
pub(crate) fn attr_from_py(value: &Bound<'_, PyAny>) -> PyResult<Attr> {
    if is_of_numpy(value)? {
        return attr_from_py(&value.call_method0("tolist")?);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Attr::Bool(flag.is_true()));
    }
    if let Ok(kind) = value.cast::<VarType>() {
        return Ok(Attr::Int(kind.get().0 as i32));
    }
    if let Ok(block) = value.cast::<crate::program::PyBlock>() {
        return Ok(Attr::Block(block.get().id as i32));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Attr::Float(value.extract::<f64>()? as f32));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Attr::Str(text.extract()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return list_attr(value);
    }
    if let Ok(number) = value.extract::<i64>() {
        return Ok(i32::try_from(number).map_or(Attr::Long(number), Attr::Int));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(Attr::Float(number as f32));
    }
    let kind = value.get_type();
    Err(PyTypeError::new_err(format!("an attribute cannot be a {kind}")))
}

/// Whether it is an array, or a number of numpy's that is none of Python's.
fn is_of_numpy(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_instance_of::<PyUntypedArray>() {
        return Ok(true);
    }
    let plain = value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyString>();
    Ok(!plain && value.is_instance(&value.py().import("numpy")?.getattr("generic")?)?)
}

/// A number of numpy's as one of Python's.
fn plain(item: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if is_of_numpy(&item)? { item.call_method0("tolist") } else { Ok(item) }
}

fn list_attr(value: &Bound<'_, PyAny>) -> PyResult<Attr> {
    let items = value.try_iter()?.map(|item| plain(item?)).collect::<PyResult<Vec<_>>>()?;
    let Some(first) = items.first().cloned() else { return Ok(Attr::Ints(Vec::new())) };
    let value = PyList::new(value.py(), items)?.into_any();
    if first.is_instance_of::<PyBool>() {
        return Ok(Attr::Bools(value.extract()?));
    }
    if first.is_instance_of::<PyString>() {
        return Ok(Attr::Strs(value.extract()?));
    }
    if let Ok(numbers) = value.extract::<Vec<i32>>() {
        return Ok(Attr::Ints(numbers));
    }
    if let Ok(numbers) = value.extract::<Vec<i64>>() {
        return Ok(Attr::Longs(numbers));
    }
    let numbers: Vec<f64> = value.extract()?;
    Ok(Attr::Floats(numbers.into_iter().map(|number| number as f32).collect()))
}

/// A Python value from an attribute.
pub(crate) fn attr_to_py(py: Python<'_>, attr: &Attr) -> PyResult<Py<PyAny>> {
    let object = match attr {
        Attr::Int(value) | Attr::Block(value) => value.into_pyobject(py)?.into_any(),
        Attr::Long(value) => value.into_pyobject(py)?.into_any(),
        Attr::Float(value) => f64::from(*value).into_pyobject(py)?.into_any(),
        Attr::Str(value) => value.into_pyobject(py)?.into_any(),
        Attr::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Attr::Ints(values) | Attr::Blocks(values) => values.into_pyobject(py)?.into_any(),
        Attr::Longs(values) => values.into_pyobject(py)?.into_any(),
        Attr::Floats(values) => {
            let values: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
            values.into_pyobject(py)?.into_any()
        }
        Attr::Strs(values) => values.into_pyobject(py)?.into_any(),
        Attr::Bools(values) => values.into_pyobject(py)?.into_any(),
    };
    Ok(object.unbind())
}
