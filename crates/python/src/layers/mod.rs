//! `fluid.layers`: Fluid's signatures over the core's layers. One file per family.
//!
//! A binding converts its arguments, calls the layer of the same name, and wraps the result.

mod activation;
pub(crate) mod arguments;
mod arithmetic;
mod basic;
mod elementwise;
mod embedding;
mod image;
mod loss;
mod metric;
mod normalize;

pub(crate) use basic::param_attrs;

use pyo3::prelude::*;

/// Adds the module `_core.layers`.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "layers")?;
    activation::add(&m)?;
    arithmetic::add(&m)?;
    basic::add(&m)?;
    elementwise::add(&m)?;
    embedding::add(&m)?;
    image::add(&m)?;
    loss::add(&m)?;
    metric::add(&m)?;
    normalize::add(&m)?;
    parent.add_submodule(&m)
}
