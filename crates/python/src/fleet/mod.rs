//! Roles, strategies, flags and launchers for Python.

mod flags;
mod launch;
mod role;
mod strategy;

use pyo3::prelude::*;

pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "fleet")?;
    role::add(&m)?;
    strategy::add(&m)?;
    flags::add(&m)?;
    launch::add(&m)?;
    parent.add_submodule(&m)
}
