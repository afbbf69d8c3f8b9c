//! Variables to files and back: one file each under its name, or all in one file.

use std::collections::BTreeMap;
use std::path::Path;

use program::{Program, VarDesc, VarKind, stream};
use tensor::Value;

use super::file::{path_of, read_vars, write_atomically};
use crate::error::{Error, Result};
use crate::scope::Scope;

/// Whether a variable belongs to a saved model: it lives between runs and is no plumbing.
pub fn is_persistable(var: &VarDesc) -> bool {
    let is_plumbing =
        matches!(var.meta.kind, VarKind::FeedMinibatch | VarKind::FetchList | VarKind::Reader);
    var.persistable && !is_plumbing
}

/// Saves variables: a file each, or in order of their names in the one file `filename`.
pub fn save_vars<'a>(
    scope: &Scope,
    dir: &Path,
    vars: impl IntoIterator<Item = &'a VarDesc>,
    filename: Option<&str>,
) -> Result<()> {
    let vars = by_name(vars);
    let op = if filename.is_some() { "save_combine" } else { "save" };
    check_filled(scope, &vars, op)?;
    for name in vars.keys() {
        path_of(dir, name)?;
    }
    match filename {
        Some(filename) => write_atomically(&dir.join(filename), &combined(scope, &vars)?),
        None => {
            std::fs::create_dir_all(dir)
                .map_err(|source| Error::WriteFile { path: dir.to_path_buf(), source })?;
            for name in vars.keys() {
                let bytes = scope.read(name, |value| {
                    stream::to_bytes(value).ok_or_else(|| wrong_kind(name, value, "a tensor"))
                });
                write_atomically(&path_of(dir, name)?, &bytes.transpose()?.unwrap_or_default())?;
            }
            Ok(())
        }
    }
}

/// Whatever is missing is found before the first file is touched.
fn check_filled(scope: &Scope, vars: &BTreeMap<&str, &VarDesc>, op: &str) -> Result<()> {
    for name in vars.keys() {
        let is_empty = scope.read(name, Value::is_empty).unwrap_or(true);
        if is_empty {
            let (op, var) = (op.to_string(), name.to_string());
            return Err(program::Error::SavesNothing { op, var }.into());
        }
    }
    Ok(())
}

/// What [`save_vars`] would write into one file.
pub fn vars_to_bytes<'a>(
    scope: &Scope,
    vars: impl IntoIterator<Item = &'a VarDesc>,
) -> Result<Vec<u8>> {
    let vars = by_name(vars);
    check_filled(scope, &vars, "save_combine")?;
    combined(scope, &vars)
}

fn combined(scope: &Scope, vars: &BTreeMap<&str, &VarDesc>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for name in vars.keys() {
        let append = |value: &Value| match value.tensor() {
            Some(tensor) => {
                stream::write_tensor(&mut bytes, tensor);
                Ok(())
            }
            None => Err(wrong_kind(name, value, "a tensor")),
        };
        scope.read(name, append).transpose()?;
    }
    Ok(bytes)
}

fn wrong_kind(var: &str, value: &Value, expected: &'static str) -> Error {
    let (port, var) = ("X".to_string(), var.to_string());
    program::Error::WrongKind { port, var, expected, actual: value.kind() }.into()
}

/// Each variable once, in byte order of the names. Raw ones are never saved.
fn by_name<'a>(vars: impl IntoIterator<Item = &'a VarDesc>) -> BTreeMap<&'a str, &'a VarDesc> {
    let savable = vars.into_iter().filter(|var| var.meta.kind != VarKind::Raw);
    savable.map(|var| (var.name.as_str(), var)).collect()
}

/// Saves the parameters of a program.
pub fn save_params(
    scope: &Scope,
    dir: &Path,
    program: &Program,
    filename: Option<&str>,
) -> Result<()> {
    save_vars(scope, dir, program.parameters(), filename)
}

/// Saves all that lives between runs: parameters, optimizer state, statistics.
pub fn save_persistables(
    scope: &Scope,
    dir: &Path,
    program: &Program,
    filename: Option<&str>,
) -> Result<()> {
    save_vars(scope, dir, program.list_vars().filter(|var| is_persistable(var)), filename)
}

/// Loads variables that [`save_vars`] saved; changes all of them or none.
pub fn load_vars<'a>(
    scope: &Scope,
    dir: &Path,
    vars: impl IntoIterator<Item = &'a VarDesc>,
    filename: Option<&str>,
) -> Result<()> {
    let vars = by_name(vars);
    let values = match filename {
        None => vars.values().map(|var| read_one(dir, var)).collect::<Result<Vec<_>>>()?,
        Some(_) if vars.is_empty() => Vec::new(),
        Some(filename) => {
            let path = dir.join(filename);
            let bytes = read_vars(&path, true)?;
            let tensors = stream::combined_from_bytes(&bytes, vars.len());
            let tensors = tensors.map_err(|source| Error::in_file(&path, source))?;
            tensors.into_iter().map(Value::Tensor).collect()
        }
    };
    put(scope, &vars, values)
}

/// Loads variables from what [`vars_to_bytes`] gave; changes all of them or none.
pub fn load_vars_from_bytes<'a>(
    scope: &Scope,
    bytes: &[u8],
    vars: impl IntoIterator<Item = &'a VarDesc>,
) -> Result<()> {
    let vars = by_name(vars);
    let tensors = stream::combined_from_bytes(bytes, vars.len())?;
    put(scope, &vars, tensors.into_iter().map(Value::Tensor).collect())
}

fn put(scope: &Scope, vars: &BTreeMap<&str, &VarDesc>, values: Vec<Value>) -> Result<()> {
    for (var, value) in vars.values().zip(&values) {
        check_shape(var, value)?;
    }
    for (name, value) in vars.keys().zip(values) {
        scope.set(name, value);
    }
    Ok(())
}

fn read_one(dir: &Path, var: &VarDesc) -> Result<Value> {
    let path = path_of(dir, &var.name)?;
    let bytes = read_vars(&path, false)?;
    let value = if var.meta.kind == VarKind::SelectedRows {
        stream::rows_from_bytes(&bytes).map(Value::Rows)
    } else {
        stream::tensor_from_bytes(&bytes).map(Value::Tensor)
    };
    value.map_err(|source| Error::in_file(&path, source))
}

/// A parameter must have the shape its program gives it.
pub(super) fn check_shape(var: &VarDesc, value: &Value) -> Result<()> {
    let (Some(_), Some(tensor)) = (&var.param, value.tensor()) else { return Ok(()) };
    let found = tensor.shape().to_i64();
    if found == var.meta.dims {
        return Ok(());
    }
    Err(Error::LoadedShape { var: var.name.clone(), expected: var.meta.dims.clone(), found })
}

/// Loads the parameters of a program.
pub fn load_params(
    scope: &Scope,
    dir: &Path,
    program: &Program,
    filename: Option<&str>,
) -> Result<()> {
    load_vars(scope, dir, program.parameters(), filename)
}

/// Loads all that lives between runs.
pub fn load_persistables(
    scope: &Scope,
    dir: &Path,
    program: &Program,
    filename: Option<&str>,
) -> Result<()> {
    load_vars(scope, dir, program.list_vars().filter(|var| is_persistable(var)), filename)
}
