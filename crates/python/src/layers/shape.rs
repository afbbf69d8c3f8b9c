//! `split` and `where`.

use program::layers::{self, Parts};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::sizes::{Dim, Ints};
use crate::framework::context::{self, layer};
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(split, m)?)?;
    m.add_function(wrap_pyfunction!(r#where, m)?)
}

/// Consecutive parts along a dimension: so many equal ones, or of the sizes in a list.
#[pyfunction]
#[pyo3(signature = (input, num_or_sections, dim=None, name=None), text_signature = "(input, num_or_sections, dim=-1, name=None)")]
fn split(
    py: Python<'_>,
    input: Input,
    num_or_sections: &Bound<'_, PyAny>,
    dim: Option<Dim>,
    name: Option<&str>,
) -> PyResult<Vec<PyVariable>> {
    let parts = match (num_or_sections.extract::<i32>(), num_or_sections.extract::<Ints>()) {
        (Ok(num), _) => Parts::Equal(num),
        (_, Ok(sizes)) => Parts::Sizes(sizes.0),
        _ if num_or_sections.hasattr("__len__")? => {
            let sizes = num_or_sections.try_iter()?.map(|size| Ok(size?.extract::<Dim>()?.0));
            Parts::Computed(sizes.collect::<PyResult<_>>()?)
        }
        _ => {
            let kind = num_or_sections.get_type();
            return Err(PyTypeError::new_err(format!(
                "The type of 'num_or_sections' in split must be int, list or tuple, but received {kind}."
            )));
        }
    };
    let dim = dim.map_or(layers::Size::Is(-1), |dim| dim.0);
    context::layers(py, |b| layers::split(b, &input.0, &parts, dim, name))
}

/// The places where the condition holds.
#[pyfunction]
fn r#where(py: Python<'_>, condition: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::where_index(b, &condition.0))
}
