//! Roles, strategies, flags and launchers for Python.

mod flags;
mod lifecycle;
mod role;
mod strategy;

use pyo3::prelude::*;

pub(crate) use lifecycle::PyFleet;

pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "fleet")?;
    role::add(&m)?;
    strategy::add(&m)?;
    flags::add(&m)?;
    m.add_class::<PyFleet>()?;
    parent.add_submodule(&m)
}
