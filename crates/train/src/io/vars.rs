//! Variables to files and back: one file each under its name, or all in one file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use program::{Program, VarDesc, VarKind, stream};
use tensor::{KeyedTable, Tensor, Value};

use super::file::{cannot_load, file_of, file_to_load, place_of};
use super::kept::{is_kept, read_kept, write_kept};
use super::other_model::explained;
use super::tensors::read_tensors;
use crate::error::{Error, Result};
use crate::folder::{About, FileWriter, Folder, SavedVar, Stage, Transaction, is_list};
use crate::scope::Scope;

/// Whether a variable belongs to a saved model: it lives between runs and is not plumbing.
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
    // A list that a program loaded with all files of a folder: the new one takes its place.
    let vars = by_name(vars.into_iter().filter(|var| !is_list(&var.name)));
    check_savable(scope, &vars, FileLayout::new(filename))?;
    let (dir, filename) = match filename {
        Some(filename) => place_of(dir, filename).map(|(dir, name)| (dir, Some(name)))?,
        None => (dir.to_path_buf(), None),
    };
    let transaction = Transaction::begin(&dir)?;
    write_vars(transaction.stage(), scope, &vars, FileLayout::new(filename.as_deref()))?;
    transaction.commit(About::new(VARIABLES))
}

/// Which files variables are in.
#[derive(Clone, Copy, Debug)]
pub(super) enum FileLayout<'a> {
    /// One each, with this before its name.
    Each(&'a str),
    /// All in one.
    One(&'a str),
}

impl<'a> FileLayout<'a> {
    /// One file if it is named, else one for each.
    pub(super) fn new(filename: Option<&'a str>) -> Self {
        filename.map_or(FileLayout::Each(""), FileLayout::One)
    }
}

/// The kind of a save of variables.
pub(super) const VARIABLES: &str = "variables";

/// Finds every fault before the first file is written.
pub(super) fn check_savable(
    scope: &Scope,
    vars: &BTreeMap<&str, &VarDesc>,
    layout: FileLayout<'_>,
) -> Result<()> {
    let op = if matches!(layout, FileLayout::One(_)) { "save_combine" } else { "save" };
    check_filled(scope, vars, op)?;
    vars.keys().try_for_each(|name| file_of(name).map(|_| ()))
}

/// Writes variables that are there.
pub(super) fn write_vars(
    stage: &Stage,
    scope: &Scope,
    vars: &BTreeMap<&str, &VarDesc>,
    layout: FileLayout<'_>,
) -> Result<()> {
    let sizes = vars.keys().map(|name| scope.read(name, n_bytes_of).unwrap_or(0));
    stage.expect(sizes.sum());
    match layout {
        FileLayout::Each(prefix) => {
            for name in vars.keys() {
                if let Some(table) = kept_table(scope, name) {
                    write_kept(stage, name, &table)?;
                    continue;
                }
                let mut file = stage.create(&format!("{prefix}{}", file_of(name)?))?;
                write_var(&mut file, scope, name, true)?;
                file.finish()?;
            }
            Ok(())
        }
        FileLayout::One(filename) => {
            let mut file = stage.create(filename)?;
            let mut tables = Vec::new();
            for name in vars.keys() {
                match kept_table(scope, name) {
                    Some(table) => tables.push((name, table)),
                    None => write_var(&mut file, scope, name, false)?,
                }
            }
            file.finish()?;
            tables.into_iter().try_for_each(|(name, table)| write_kept(stage, name, &table))
        }
    }
}

/// How much of a variable is written, about.
fn n_bytes_of(value: &Value) -> u64 {
    let n_bytes = match value {
        Value::Keyed(table) => table.n_bytes(),
        other => other.tensor().map_or(0, |tensor| tensor.bytes().len()),
    };
    n_bytes as u64
}

/// The table that a variable is, if it is kept by rows.
fn kept_table(scope: &Scope, name: &str) -> Option<Arc<KeyedTable>> {
    let table = |value: &Value| match value {
        Value::Keyed(table) => Some(table.clone()),
        _ => None,
    };
    scope.read(name, table).flatten()
}

fn write_var(file: &mut FileWriter<'_>, scope: &Scope, name: &str, with_rows: bool) -> Result<()> {
    let write = |value: &Value| {
        let (head, tensor) = match value {
            Value::Rows(rows) if with_rows => (stream::head_of_rows(rows), &rows.value),
            other => {
                let tensor = other.tensor().ok_or_else(|| wrong_kind(name, value, "a tensor"))?;
                (stream::head_of_tensor(tensor), tensor)
            }
        };
        let dims = tensor.shape().to_i64();
        file.holds(SavedVar { name: name.to_string(), dtype: tensor.dtype(), dims });
        let written = file.write_all(&head).and_then(|()| file.write_all(tensor.bytes()));
        written.map_err(|source| file.failed(source))
    };
    scope.read(name, write).unwrap_or(Ok(()))
}

/// Finds every missing variable before the first file is touched.
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

/// The bytes that [`save_vars`] would write into one file.
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

pub(super) fn wrong_kind(var: &str, value: &Value, expected: &'static str) -> Error {
    let (port, var) = ("X".to_string(), var.to_string());
    program::Error::WrongKind { port, var, expected, actual: value.kind() }.into()
}

/// Each variable once, in byte order of the names. Raw ones are never saved.
pub(super) fn by_name<'a>(
    vars: impl IntoIterator<Item = &'a VarDesc>,
) -> BTreeMap<&'a str, &'a VarDesc> {
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
    let Some(filename) = filename else {
        let read = Folder::consistently(dir, |folder| {
            read_vars(folder, "", &vars).map_err(|error| explained(folder, &vars, error))
        })?;
        return put(scope, &vars, read);
    };
    if vars.is_empty() {
        return Ok(());
    }
    let (dir, name) = place_of(dir, filename)?;
    put(scope, &vars, Folder::consistently(&dir, |folder| read_combined(folder, &name, &vars))?)
}

/// The values of variables that have a file each, with `prefix` before its name.
pub(super) fn read_vars(
    folder: &Folder,
    prefix: &str,
    vars: &BTreeMap<&str, &VarDesc>,
) -> Result<Vec<Value>> {
    vars.values().map(|var| read_one(folder, prefix, var)).collect()
}

/// The values of variables that are in one file; tables that servers kept by rows have their own.
pub(super) fn read_combined(
    folder: &Folder,
    name: &str,
    vars: &BTreeMap<&str, &VarDesc>,
) -> Result<Vec<Value>> {
    let mut tables = BTreeMap::new();
    for (&name, var) in vars {
        if is_kept(folder, "", name)? {
            tables.insert(name, read_kept(folder, var)?);
        }
    }
    let dense = vars.iter().filter(|(name, _)| !tables.contains_key(**name));
    let dense: BTreeMap<&str, &VarDesc> = dense.map(|(&name, &var)| (name, var)).collect();
    let mut others =
        if dense.is_empty() { Vec::new() } else { read_dense(folder, name, &dense)? }.into_iter();
    Ok(vars.keys().filter_map(|name| tables.remove(name).or_else(|| others.next())).collect())
}

fn read_dense(folder: &Folder, name: &str, vars: &BTreeMap<&str, &VarDesc>) -> Result<Vec<Value>> {
    if let Some(tensors) = read_tensors(folder, name, vars.len())? {
        return Ok(tensors.into_iter().map(Value::Tensor).collect());
    }
    let bytes = folder.read(name).map_err(|error| cannot_load(error, true))?;
    let tensors = stream::combined_from_bytes(&bytes, vars.len());
    let tensors = tensors.map_err(|source| Error::in_file(&folder.dir().join(name), source))?;
    Ok(tensors.into_iter().map(Value::Tensor).collect())
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

/// Loads values that were read, all or none.
pub(super) fn put(
    scope: &Scope,
    vars: &BTreeMap<&str, &VarDesc>,
    values: Vec<Value>,
) -> Result<()> {
    for (var, value) in vars.values().zip(&values) {
        check_shape(var, value)?;
    }
    let values: Result<Vec<Value>> =
        vars.keys().zip(values).map(|(name, value)| for_scope(scope, name, value)).collect();
    for (name, value) in vars.keys().zip(values?) {
        scope.set(name, value);
    }
    Ok(())
}

/// The new value of a variable: a whole table stays whole, to be trained.
pub(super) fn for_scope(scope: &Scope, name: &str, value: Value) -> Result<Value> {
    let Value::Keyed(table) = &value else { return Ok(value) };
    let dims = [table.height(), table.width() as i64];
    let is_whole = |old: &Value| old.tensor().is_some_and(|old| old.shape().to_i64() == dims);
    match scope.read(name, is_whole) {
        Some(true) => Ok(Value::Tensor(table.to_dense()?)),
        _ => Ok(value),
    }
}

pub(super) fn read_one(folder: &Folder, prefix: &str, var: &VarDesc) -> Result<Value> {
    let name = format!("{prefix}{}", file_to_load(&var.name)?);
    if is_kept(folder, prefix, &var.name)? {
        return read_kept(folder, var);
    }
    if var.meta.kind != VarKind::SelectedRows {
        return read_tensor(folder, &name).map(Value::Tensor);
    }
    let bytes = folder.read(&name).map_err(|error| cannot_load(error, false))?;
    let rows = stream::rows_from_bytes(&bytes).map(Value::Rows);
    rows.map_err(|source| Error::in_file(&folder.dir().join(name), source))
}

/// The tensor of a file of one variable.
pub(super) fn read_tensor(folder: &Folder, name: &str) -> Result<Tensor> {
    if let Some(tensor) = read_tensors(folder, name, 1)?.and_then(|mut tensors| tensors.pop()) {
        return Ok(tensor);
    }
    let bytes = folder.read(name).map_err(|error| cannot_load(error, false))?;
    let tensor = stream::tensor_from_bytes(&bytes);
    tensor.map_err(|source| Error::in_file(&folder.dir().join(name), source))
}

/// A parameter must have the shape its program gives it.
pub(super) fn check_shape(var: &VarDesc, value: &Value) -> Result<()> {
    let found = match (&var.param, value) {
        (Some(_), Value::Keyed(table)) => vec![table.height(), table.width() as i64],
        (Some(_), value) => match value.tensor() {
            Some(tensor) => tensor.shape().to_i64(),
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
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
