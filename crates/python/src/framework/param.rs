//! Settings of a parameter: attributes, initializers, regularizers.

use program::init;
use program::{GradClip, Initializer, ParamAttr, Regularizer, VarDesc, WeightNorm};
use pyo3::PyClass;
use pyo3::exceptions::{PyAssertionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use tensor::Tensor;

use super::op_desc::InProgram;
use super::operator::PyOperator;
use super::program::PyBlock;
use super::variable::PyVariable;
use crate::array::copy_array;
use crate::error::from_program;

/// How a parameter starts; made by the functions of `fluid.initializer`.
#[pyclass(name = "Initializer", module = "paddlewheel._core", frozen)]
pub(crate) struct PyInitializer(pub(crate) Initializer);

#[pymethods]
impl PyInitializer {
    /// One number everywhere.
    #[staticmethod]
    fn constant(value: f32) -> Self {
        Self(Initializer::Constant { value })
    }

    /// A uniform distribution.
    #[staticmethod]
    fn uniform(low: f32, high: f32, seed: i32) -> PyResult<Self> {
        if low > high {
            let text = format!("the range of a uniform initializer is empty: {low} to {high}");
            return Err(PyAssertionError::new_err(text));
        }
        Ok(Self(Initializer::Uniform { low, high, seed }))
    }

    /// A normal distribution.
    #[staticmethod]
    fn normal(loc: f32, scale: f32, seed: i32) -> Self {
        Self(Initializer::Normal { loc, scale, seed })
    }

    /// A normal distribution within two standard deviations.
    #[staticmethod]
    fn truncated_normal(loc: f32, scale: f32, seed: i32) -> Self {
        Self(Initializer::TruncatedNormal { loc, scale, seed })
    }

    /// Glorot's scheme, by the numbers of inputs and outputs.
    #[staticmethod]
    #[pyo3(signature = (uniform, fan_in, fan_out, seed))]
    fn xavier(uniform: bool, fan_in: Option<f32>, fan_out: Option<f32>, seed: i32) -> Self {
        Self(Initializer::Xavier { uniform, fan_in, fan_out, seed })
    }

    /// He's scheme, by the number of inputs.
    #[staticmethod]
    #[pyo3(signature = (uniform, fan_in, seed))]
    fn msra(uniform: bool, fan_in: Option<f32>, seed: i32) -> Self {
        Self(Initializer::Msra { uniform, fan_in, seed })
    }

    /// Weights that interpolate, for transposed convolutions.
    #[staticmethod]
    fn bilinear() -> Self {
        Self(Initializer::Bilinear)
    }

    /// These numbers.
    #[staticmethod]
    fn array(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut tensor = Tensor::default();
        if !copy_array(value, &mut tensor)? {
            return Err(PyAssertionError::new_err("NumpyArrayInitializer needs a numpy array"));
        }
        Ok(Self(Initializer::Array(tensor)))
    }

    /// Puts the operator that fills a variable before all others of a block.
    fn fill(&self, py: Python<'_>, var: &PyVariable, block: &PyBlock) -> PyResult<PyOperator> {
        let desc = var.read(VarDesc::clone)?;
        let mut program = block.program.get().lock();
        let op = init::op(&self.0, &desc, program.random_seed).map_err(from_program)?;
        program.insert_op(block.id, 0, op).map_err(from_program)?;
        let id = program.block(block.id).ops[0].id;
        Ok(PyOperator(InProgram { program: block.program.clone_ref(py), block: block.id, id }))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A term added to a gradient; made by `fluid.regularizer.L1Decay` and `L2Decay`.
#[pyclass(name = "Regularizer", module = "paddlewheel._core", frozen)]
pub(crate) struct PyRegularizer(pub(crate) Regularizer);

#[pymethods]
impl PyRegularizer {
    /// A penalty on absolute values.
    #[staticmethod]
    fn l1(coeff: f32) -> Self {
        Self(Regularizer::L1(coeff))
    }

    /// A penalty on squares.
    #[staticmethod]
    fn l2(coeff: f32) -> Self {
        Self(Regularizer::L2(coeff))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// How a gradient is bounded; made by the classes of `fluid.clip`.
#[pyclass(name = "GradientClip", module = "paddlewheel._core", frozen)]
pub(crate) struct PyGradClip(pub(crate) GradClip);

#[pymethods]
impl PyGradClip {
    /// Cuts off what is out of bounds.
    #[staticmethod]
    #[pyo3(signature = (max, min = None))]
    fn by_value(max: f32, min: Option<f32>) -> PyResult<Self> {
        let (min, max) = bounds(max, min)?;
        Ok(Self(GradClip::Value { min, max }))
    }

    /// The upper and the lower bound of `by_value`.
    #[getter]
    fn bounds(&self) -> Option<(f32, f32)> {
        match self.0 {
            GradClip::Value { min, max } => Some((max, min)),
            _ => None,
        }
    }

    /// Scales a gradient to a norm.
    #[staticmethod]
    fn by_norm(max_norm: f32) -> Self {
        Self(GradClip::Norm { max_norm })
    }

    /// Scales the gradients of a group by the norm of all of them.
    #[staticmethod]
    fn by_global_norm(max_norm: f32, group: String) -> Self {
        Self(GradClip::GlobalNorm { max_norm, group })
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Bounds of a gradient between two operators; made by `fluid.clip.ErrorClipByValue`.
#[pyclass(name = "ErrorClip", module = "paddlewheel._core", frozen, get_all)]
pub(crate) struct PyErrorClip {
    /// The lower bound.
    pub(crate) min: f32,
    /// The upper bound.
    pub(crate) max: f32,
}

#[pymethods]
impl PyErrorClip {
    #[new]
    #[pyo3(signature = (max, min = None))]
    fn new(max: f32, min: Option<f32>) -> PyResult<Self> {
        let (min, max) = bounds(max, min)?;
        Ok(Self { min, max })
    }

    fn __repr__(&self) -> String {
        format!("ByValue, min={:.6}, max={:.6}", self.min, self.max)
    }
}

/// The lower and the upper bound; without a lower one, the upper one's negative.
fn bounds(max: f32, min: Option<f32>) -> PyResult<(f32, f32)> {
    match min {
        None if max > 0.0 => Ok((-max, max)),
        None => Err(PyAssertionError::new_err(format!("max must be positive, got {max}"))),
        Some(min) => Ok((min, max)),
    }
}

/// Refuses a Python `ParamAttr` with fields that layers could not use.
#[pyfunction]
pub(crate) fn check_param_attr(attr: &Bound<'_, PyAny>) -> PyResult<()> {
    let check =
        |field: &str, rule: &str, fits: &dyn Fn(&Bound<'_, PyAny>) -> bool| -> PyResult<()> {
            let value = attr.getattr(field)?;
            if fits(&value) {
                return Ok(());
            }
            let kind = value.get_type();
            let text =
                format!("The type of '{field}' in ParamAttr must be {rule}, but received {kind}.");
            Err(PyTypeError::new_err(text))
        };
    check("name", "str or None", &|v| v.is_none() || v.is_instance_of::<PyString>())?;
    check("learning_rate", "float or int", &|v| v.extract::<f64>().is_ok())?;
    check("trainable", "bool", &|v| v.is_instance_of::<PyBool>())?;
    check("do_model_average", "bool", &|v| v.is_instance_of::<PyBool>())?;
    read_param_attr(attr).map(|_| ())
}

/// Finds one of our objects in an argument: itself, or what a Python class keeps as `_core`.
pub(crate) fn held<'py, T: PyClass>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, T>> {
    if let Ok(own) = object.cast::<T>() {
        return Some(own.clone());
    }
    let core = object.getattr_opt("_core").ok().flatten()?;
    core.cast_into::<T>().ok()
}

/// A `param_attr` or `bias_attr` argument: `None` means "no parameter" (the user said False).
///
/// Anything else follows Fluid: None is the default, a string a name, an initializer or a
/// regularizer stands for itself, a `ParamAttr` for all it says.
pub(crate) fn param_attr(object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<ParamAttr>> {
    let Some(object) = object.filter(|object| !object.is_none()) else {
        return Ok(Some(ParamAttr::default()));
    };
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(flag.is_true().then(ParamAttr::default));
    }
    if let Ok(name) = object.cast::<PyString>() {
        return Ok(Some(ParamAttr::named(&name.extract::<String>()?)));
    }
    if let Some(initializer) = held::<PyInitializer>(object) {
        return Ok(Some(ParamAttr::init(initializer.get().0.clone())));
    }
    if let Some(regularizer) = held::<PyRegularizer>(object) {
        let regularizer = Some(regularizer.get().0);
        return Ok(Some(ParamAttr { regularizer, ..ParamAttr::default() }));
    }
    if object.hasattr("do_model_average")? && object.hasattr("learning_rate")? {
        return Ok(Some(read_param_attr(object)?));
    }
    let kind = object.get_type();
    Err(PyTypeError::new_err(format!("{kind} cast to ParamAttr is not supported")))
}

/// Reads Python's `ParamAttr`, whose fields a script may have changed.
fn read_param_attr(object: &Bound<'_, PyAny>) -> PyResult<ParamAttr> {
    let field = |name: &str| object.getattr_opt(name).map(|f| f.filter(|f| !f.is_none()));
    let initializer =
        field("initializer")?.map(|object| wanted::<PyInitializer>(&object, "initializer"));
    let regularizer =
        field("regularizer")?.map(|object| wanted::<PyRegularizer>(&object, "regularizer"));
    let clip = field("gradient_clip")?.map(|object| wanted::<PyGradClip>(&object, "gradient_clip"));
    Ok(ParamAttr {
        name: field("name")?.map(|name| name.extract()).transpose()?,
        initializer: initializer.transpose()?.map(|held| held.get().0.clone()),
        learning_rate: object.getattr("learning_rate")?.extract::<f64>()? as f32,
        regularizer: regularizer.transpose()?.map(|held| held.get().0),
        trainable: object.getattr("trainable")?.extract()?,
        gradient_clip: clip.transpose()?.map(|held| held.get().0.clone()),
        do_model_average: object.getattr("do_model_average")?.is_truthy()?,
        weight_norm: weight_norm(object)?,
    })
}

/// What a `WeightNormParamAttr` says besides: it alone has a `dim`.
fn weight_norm(object: &Bound<'_, PyAny>) -> PyResult<Option<WeightNorm>> {
    let Some(dim) = object.getattr_opt("dim")? else { return Ok(None) };
    Ok(Some(WeightNorm { dim: dim.extract()? }))
}

/// One of our objects, or the error that says which field of a `ParamAttr` is something else.
pub(crate) fn wanted<'py, T: PyClass>(
    object: &Bound<'py, PyAny>,
    field: &str,
) -> PyResult<Bound<'py, T>> {
    held::<T>(object).ok_or_else(|| {
        let kind = object.get_type();
        PyTypeError::new_err(format!("{field} cannot be a {kind}"))
    })
}
