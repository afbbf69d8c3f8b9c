//! Clips of gradients that a script calls by itself.

use std::collections::HashSet;

use program::backward::ParamGrad;
use pyo3::prelude::*;

use crate::framework::context::{build, wrap};
use crate::framework::param::PyGradClip;
use crate::framework::variable::{PyVariable, name_of};

/// Adds what this file has.
pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(clip_gradients, m)?)
}

/// Pairs of a parameter and its gradient, if it has one.
type Pairs = Vec<(Py<PyAny>, Option<Py<PyAny>>)>;

/// The pairs with clipped gradients: as `clip` says except those in `skipped`, or as each parameter
/// says for itself.
#[pyfunction]
#[pyo3(signature = (clip, params_grads, skipped))]
fn clip_gradients(
    py: Python<'_>,
    clip: Option<&Bound<'_, PyGradClip>>,
    params_grads: Pairs,
    skipped: HashSet<String>,
) -> PyResult<Vec<(Py<PyAny>, PyVariable)>> {
    let mut pairs = Vec::new();
    for (param, grad) in &params_grads {
        if let Some(grad) = grad {
            let (param, grad) = (name_of(param.bind(py))?, name_of(grad.bind(py))?);
            pairs.push(ParamGrad { param, grad });
        }
    }
    let clip = clip.map(|clip| &clip.get().0);
    let clipped = build(py, |b| program::optimizer::clip_gradients(b, &pairs, clip, &skipped))?;
    // A parameter without a gradient is left out, as in Fluid.
    let with_grads = params_grads.into_iter().filter(|(_, grad)| grad.is_some());
    let result = with_grads.zip(clipped);
    result.map(|((param, _), pair)| Ok((param, wrap(py, pair.grad.as_str().into())?))).collect()
}
