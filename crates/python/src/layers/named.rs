//! Layers that say their own name when an argument is of a wrong type.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

/// A layer: calls a function; an error about an argument has the layer's name.
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
    /// The same error with the name of the layer before it, and of the argument if PyO3 noted it.
    ///
    /// Left alone is what has the name already, and what a function of the user's raised.
    fn named(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let kind = error.get_type(py);
        let ours = kind.is(py.get_type::<PyTypeError>()) || kind.is(py.get_type::<PyValueError>());
        let text = error.value(py).to_string();
        if !ours || error.traceback(py).is_some() || self.is_named_in(&text) {
            return error;
        }
        let argument = argument_of(&error, py).map(|name| format!("{name} ")).unwrap_or_default();
        PyErr::from_type(kind, format!("{}(): {argument}{text}", self.name))
    }

    fn is_named_in(&self, text: &str) -> bool {
        let name = &self.name;
        let forms = [format!("{name}()"), format!(" in {name} "), format!(" of {name}:")];
        text.starts_with(&format!("{name}:")) || forms.iter().any(|form| text.contains(form))
    }
}

/// The argument that PyO3 was at ("while processing 'axis'"); older Pythons have no notes.
fn argument_of(error: &PyErr, py: Python<'_>) -> Option<String> {
    let notes = error.value(py).getattr("__notes__").ok()?;
    let note: String = notes.try_iter().ok()?.last()?.ok()?.extract().ok()?;
    Some(note.strip_prefix("while processing ")?.to_string())
}

/// Puts a [`Layer`] in the place of each function of a module.
pub(super) fn name_errors(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for (name, function) in m.dict().iter() {
        let name: String = name.extract()?;
        if !function.is_instance_of::<PyCFunction>() || name.starts_with('_') {
            continue;
        }
        // `fluid.data` and its like have the names that `fluid.layers` gave to older ones.
        let shown = name.trim_end_matches("_v2").trim_end_matches("_checked").to_string();
        let layer = Layer { function: function.clone().unbind(), name: shown };
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
