//! Layers that say their own name when an argument is of a wrong type.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

/// A layer: calls a function; a TypeError about an argument begins with the layer's name.
#[pyclass(name = "Layer", module = "paddlewheel._core", frozen, dict)]
pub(super) struct Layer {
    function: Py<PyAny>,
    name: String,
}

#[pymethods]
impl Layer {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        self.function.call(py, args, kwargs).map_err(|error| self.named(py, error))
    }

    fn __repr__(&self) -> String {
        format!("<layer {}>", self.name)
    }
}

impl Layer {
    /// PyO3 names the argument ("argument 'axis': …"), but not the function.
    fn named(&self, py: Python<'_>, error: PyErr) -> PyErr {
        if !error.is_instance_of::<PyTypeError>(py) {
            return error;
        }
        let text = error.value(py).to_string();
        match text.strip_prefix("argument ") {
            Some(rest) => PyTypeError::new_err(format!("{}(): argument {rest}", self.name)),
            None => error,
        }
    }
}

/// Puts a [`Layer`] in the place of each function of a module.
pub(super) fn name_errors(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for (name, function) in m.dict().iter() {
        let name: String = name.extract()?;
        if !function.is_instance_of::<PyCFunction>() || name.starts_with('_') {
            continue;
        }
        let layer = Layer { function: function.clone().unbind(), name: name.clone() };
        let layer = Bound::new(m.py(), layer)?;
        for attribute in ["__name__", "__qualname__", "__doc__"] {
            layer.setattr(attribute, function.getattr(attribute)?)?;
        }
        layer.setattr("__module__", "paddlewheel.fluid.layers")?;
        layer.setattr("__wrapped__", &function)?;
        m.setattr(&*name, layer)?;
    }
    Ok(())
}
