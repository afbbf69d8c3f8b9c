//! The Python face of the core: newtypes that convert, call and map errors.
//!
//! **Invariant:** no behaviour. Whatever is worth testing from Rust lives in the crates above.

use pyo3::prelude::*;

#[pymodule]
fn _core(_m: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
