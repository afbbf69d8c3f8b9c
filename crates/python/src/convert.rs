//! Between Python's values and ours: whole numbers, element types.

use std::fmt;

use program::VarKind;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use tensor::DType;

use crate::error::from_tensor;

/// A whole number that a user gave. Python's have no limits and ours have: the error of one that does
/// not fit names the argument, which the error of an argument of type `u32` would not.
pub(crate) struct Whole(Result<i64, String>);

impl<'a, 'py> FromPyObject<'a, 'py> for Whole {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<i64>() {
            Ok(value) => Ok(Whole(Ok(value))),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                Ok(Whole(Err(object.str()?.to_string())))
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(value) => value.fmt(f),
            Err(text) => text.fmt(f),
        }
    }
}

impl Whole {
    /// The number as ours; `name` is what the user calls it.
    pub(crate) fn fit<T: TryFrom<i64>>(&self, name: &str) -> PyResult<T> {
        let value = self.0.as_ref().ok().and_then(|&value| T::try_from(value).ok());
        value.ok_or_else(|| match &self.0 {
            Ok(..0) => self.refuse(name, "0 or more"),
            _ => self.refuse(name, "smaller"),
        })
    }

    /// The number as a smaller type, if it is 1 or more.
    pub(crate) fn positive<T: TryFrom<i64>>(&self, name: &str) -> PyResult<T> {
        match &self.0 {
            Ok(..1) => Err(self.refuse(name, "1 or more")),
            _ => self.fit(name),
        }
    }

    fn refuse(&self, name: &str, wanted: &str) -> PyErr {
        PyValueError::new_err(format!("{name} must be {wanted}, but received {self}"))
    }
}

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

/// An element type as a variable takes it: numpy's names of types are accepted too ('double',
/// 'f4').
pub(crate) fn any_dtype_from_py(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    let Ok(text) = object.cast::<PyString>() else { return dtype_from_py(object) };
    match object.py().import("numpy")?.getattr("dtype")?.call1((text,)) {
        Ok(dtype) => dtype_from_py(&dtype),
        Err(_) => dtype_from_py(object),
    }
}
