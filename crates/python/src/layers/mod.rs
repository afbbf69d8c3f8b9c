//! `fluid.layers`: Fluid's signatures over the core's layers. One file per family.
//!
//! A binding converts its arguments, calls the layer of the same name, and wraps the result.

mod basic;
mod control;
mod create;
mod lr;
mod named;
mod recurrent;
mod sequence;
mod shape;
mod sizes;

use pyo3::prelude::*;

/// Adds the module `_core.layers`.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "layers")?;
    basic::add(&m)?;
    control::add(&m)?;
    create::add(&m)?;
    lr::add(&m)?;
    recurrent::add(&m)?;
    sequence::add(&m)?;
    shape::add(&m)?;
    named::name_errors(&m)?;
    parent.add_submodule(&m)
}
