//! `fluid.layers`: Fluid's signatures over the core's layers. One file per family.
//!
//! A binding converts its arguments, calls the layer of the same name, and wraps the result.

mod basic;

use pyo3::prelude::*;

/// Adds the module `_core.layers`.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "layers")?;
    basic::add(&m)?;
    parent.add_submodule(&m)
}
