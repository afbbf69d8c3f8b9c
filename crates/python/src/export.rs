//! Saved models, shown and in other formats.

use std::path::PathBuf;

use export::{Error, ExportFormat, ExportOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::io;

use crate::error::{detached_as, from_program, from_train};
use crate::tensor::PyScope;

fn from_export(error: Error) -> PyErr {
    let text = error.to_string();
    let kind = match &error {
        Error::NoFolder { .. } => Some(io::ErrorKind::NotFound),
        Error::Exists { .. } => Some(io::ErrorKind::AlreadyExists),
        Error::Write { source, .. } | Error::Read { source, .. } => Some(source.kind()),
        _ => None,
    };
    match (error, kind) {
        (_, Some(kind)) => io::Error::new(kind, text).into(),
        (Error::Train(error), _) => from_train(error),
        (Error::Program(error), _) => from_program(error),
        _ => PyValueError::new_err(text),
    }
}

/// The contents of a saved folder, as text.
#[pyfunction]
fn show(py: Python<'_>, dirname: PathBuf) -> PyResult<String> {
    detached_as(py, from_export, || export::text(&dirname))
}

/// Writes what a saved folder holds as `onnx`, `safetensors` or `parquet`; returns where it is.
#[pyfunction]
#[pyo3(name = "export")]
#[pyo3(signature = (dirname, to, out=None, force=false, table=None, one_id=false,
    table_bytes_max=1 << 30))]
fn export_folder(
    py: Python<'_>,
    dirname: PathBuf,
    to: &str,
    out: Option<PathBuf>,
    force: bool,
    table: Option<String>,
    one_id: bool,
    table_bytes_max: u64,
) -> PyResult<String> {
    let mut options = ExportOptions::new(ExportFormat::from_name(to).map_err(from_export)?);
    (options.out, options.force, options.table) = (out, force, table);
    (options.onnx.one_id, options.onnx.table_bytes_max) = (one_id, table_bytes_max);
    let exported = detached_as(py, from_export, || export::export(&dirname, &options))?;
    Ok(exported.path.to_string_lossy().into_owned())
}

/// Puts the rows of a Parquet or safetensors file into a table of a saved folder or of a scope; returns how
/// many rows were replaced, and how many were added.
#[pyfunction]
fn import_rows(target: &Bound<'_, PyAny>, table: &str, file: PathBuf) -> PyResult<(usize, usize)> {
    let py = target.py();
    let imported = match target.cast::<PyScope>() {
        Ok(scope) => {
            let scope = &scope.get().0;
            py.detach(|| export::import_rows_into_scope(scope, table, &file))
        }
        Err(_) => {
            let dir: PathBuf = target.extract().map_err(|_| {
                let kind = target.get_type();
                PyTypeError::new_err(format!("rows go into a folder or a scope, not {kind}"))
            })?;
            py.detach(|| export::import_rows(&dir, table, &file))
        }
    };
    let imported = imported.map_err(from_export)?;
    Ok((imported.replaced, imported.added))
}

pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(show, m)?)?;
    m.add_function(wrap_pyfunction!(export_folder, m)?)?;
    m.add_function(wrap_pyfunction!(import_rows, m)?)
}
