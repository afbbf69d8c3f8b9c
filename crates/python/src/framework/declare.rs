//! The arguments of `Block.create_var` and `Block.create_parameter` besides the shape of a
//! variable.

use program::{ParamInfo, VarKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::context::unique_name_generate;
use super::param::{PyErrorClip, PyGradClip, PyRegularizer, wanted};
use super::program::PyBlock;
use super::variable::PyVariable;

/// The keyword arguments that are not in a signature. As in Fluid, unknown ones are ignored.
pub(crate) struct More<'a, 'py>(pub(crate) Option<&'a Bound<'py, PyDict>>);

impl<'py> More<'_, 'py> {
    fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(more) = self.0 else { return Ok(None) };
        Ok(more.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// Puts the operator of `initializer=` before all others of the block.
    pub(crate) fn initialize(&self, var: &Bound<'py, PyVariable>, block: PyBlock) -> PyResult<()> {
        let Some(initializer) = self.get("initializer")? else { return Ok(()) };
        initializer.call1((var, block)).map(|_| ())
    }

    /// The levels of ragged offsets, and the bounds of the gradient between two operators.
    pub(crate) fn of_tensor(&self) -> PyResult<(i32, Option<(f32, f32)>)> {
        let lod_level = self.get("lod_level")?.map(|level| level.extract()).transpose()?;
        let clip = self.get("error_clip")?;
        let clip = clip.map(|clip| wanted::<PyErrorClip>(&clip, "error_clip")).transpose()?;
        Ok((lod_level.unwrap_or(0), clip.map(|clip| (clip.get().min, clip.get().max))))
    }

    /// The attributes that make a variable a parameter.
    pub(crate) fn parameter(&self, trainable: bool, is_distributed: bool) -> PyResult<ParamInfo> {
        let mut info = ParamInfo { trainable, is_distributed, ..ParamInfo::default() };
        if let Some(regularizer) = self.get("regularizer")? {
            let held = wanted::<PyRegularizer>(&regularizer, "regularizer")?;
            info.regularizer = Some(held.get().0);
        }
        if let Some(clip) = self.get("gradient_clip_attr")? {
            info.gradient_clip =
                Some(wanted::<PyGradClip>(&clip, "gradient_clip_attr")?.get().0.clone());
        }
        if let Some(average) = self.get("do_model_average")? {
            info.do_model_average = average.is_truthy()?;
        }
        if let Some(optimize) = self.get("optimize_attr")?
            && let Some(rate) = optimize.cast::<PyDict>()?.get_item("learning_rate")?
        {
            info.learning_rate = rate.extract::<f64>()? as f32;
        }
        Ok(info)
    }
}

/// The name given, or a new one.
pub(crate) fn name_or_new(py: Python<'_>, name: Option<String>) -> PyResult<String> {
    name.map_or_else(|| unique_name_generate(py, "_generated_var"), Ok)
}

/// The kind of a variable, by its number in Fluid.
pub(crate) fn kind_of(code: Option<i64>) -> PyResult<VarKind> {
    let Some(code) = code else { return Ok(VarKind::LodTensor) };
    let unknown = || PyValueError::new_err(format!("{code} is not a type of a variable"));
    VarKind::from_code(code).ok_or_else(unknown)
}

/// A parameter has a shape without open sizes.
pub(crate) fn check_parameter(shape: Option<&[i64]>, has_dtype: bool) -> PyResult<()> {
    let refuse = |text: String| Err(PyValueError::new_err(text));
    let Some(shape) = shape else {
        return refuse("The shape of Parameter should not be None".to_string());
    };
    if !has_dtype {
        return refuse("The dtype of Parameter should not be None".to_string());
    }
    if shape.is_empty() {
        let text = "The dimensions of shape for Parameter must be greater than 0";
        return refuse(text.to_string());
    }
    if shape.iter().any(|&size| size <= 0) {
        return refuse(format!(
            "Each dimension of shape for Parameter must be greater than 0, but received {shape:?}"
        ));
    }
    Ok(())
}
