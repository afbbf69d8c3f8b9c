//! `fluid.layers`: Fluid's signatures over the core's layers.
//!
//! Most come from the core's declarations ([`declared`]); the others, one file per family, convert
//! their arguments, call the layer of the same name, and wrap the result.

pub(crate) mod arguments;
mod basic;
mod choice;
mod control;
mod create;
mod declared;
mod embedding;
mod if_else;
mod image;
mod image_nd;
mod kinds;
mod loss;
mod lr;
mod metric;
mod named;
mod normalize;
mod recurrent;
mod sampled;
mod sequence;
mod shape;
mod sizes;
mod static_rnn;

pub(crate) use basic::param_attrs;

use pyo3::prelude::*;

/// Adds the module `_core.layers`.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "layers")?;
    basic::add(&m)?;
    choice::add(&m)?;
    control::add(&m)?;
    create::add(&m)?;
    declared::add(&m)?;
    embedding::add(&m)?;
    if_else::add(&m)?;
    image::add(&m)?;
    image_nd::add(&m)?;
    loss::add(&m)?;
    lr::add(&m)?;
    metric::add(&m)?;
    normalize::add(&m)?;
    recurrent::add(&m)?;
    sampled::add(&m)?;
    sequence::add(&m)?;
    shape::add(&m)?;
    static_rnn::add(&m)?;
    named::name_errors(&m)?;
    parent.add_submodule(&m)
}
