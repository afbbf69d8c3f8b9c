//! `fluid.save` and `fluid.load`: a program's state as pickled dictionaries of arrays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use program::{Program, VarDesc, stream};
use tensor::{Tensor, Value};

use super::file::{file_of, read, read_failed, split};
use super::kept::{is_kept, kept_names, read_any};
use super::pickle;
use super::vars::{
    by_name, check_shape, for_scope, is_persistable, load_vars, put, read_tensor, read_vars,
    wrong_kind,
};
use crate::error::{Error, Result};
use crate::folder::{About, Folder, Manifest, SavedVar, Transaction, is_safe};
use crate::scope::Scope;

const PARAMS: &str = ".pdparams";
const OPTIMIZER: &str = ".pdopt";
const MODEL: &str = ".pdmodel";
/// The program of an inference model, beside its variables.
const INFERENCE: &str = "__model__";

/// Writes `<prefix>.pdparams`, `<prefix>.pdopt` and `<prefix>.pdmodel`.
pub fn save(scope: &Scope, program: &Program, prefix: &Path) -> Result<()> {
    if prefix.file_name().is_none() || ends_with_slash(prefix) {
        return Err(Error::NoFileName { path: prefix.to_path_buf() });
    }
    let params = collect(scope, program.parameters())?;
    let optimizer = collect(scope, optimizer_vars(program))?;
    let failed = |source| Error::WriteFile { path: prefix.to_path_buf(), source };
    let (dir, stem) = split(prefix).map_err(failed)?;
    let transaction = Transaction::begin(&dir)?;
    let all = params.iter().chain(&optimizer);
    transaction.stage().expect(all.map(|(_, tensor)| tensor.bytes().len() as u64).sum());
    for (suffix, state) in [(PARAMS, &params), (OPTIMIZER, &optimizer)] {
        let mut file = transaction.create(&format!("{stem}{suffix}"))?;
        for (name, tensor) in state {
            let (dtype, dims) = (tensor.dtype(), tensor.shape().to_i64());
            file.holds(SavedVar { name: name.clone(), dtype, dims });
        }
        file.write_all(&pickle::write(state)?).map_err(|source| file.failed(source))?;
        file.finish()?;
    }
    transaction.write(&format!("{stem}{MODEL}"), &program.to_bytes())?;
    transaction.commit(About::new("state"))
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The suffix is appended, not put in place of what follows a dot: `model.v1` is a fine prefix.
fn with_suffix(prefix: &Path, suffix: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// The variables that [`save`] writes.
pub(super) fn state_vars(program: &Program) -> impl Iterator<Item = &VarDesc> {
    program.parameters().chain(optimizer_vars(program))
}

/// Whether there is a pickled state of this name.
pub(super) fn has_state(prefix: &Path) -> bool {
    with_suffix(&without_suffix(prefix), PARAMS).exists()
}

/// All arrays of a pickled state.
pub(super) fn pickled(prefix: &Path) -> Result<HashMap<String, Value>> {
    load_state(&with_suffix(&without_suffix(prefix), PARAMS), None)
}

/// Fluid counts every persistable variable other than a parameter as the optimizer's.
fn optimizer_vars(program: &Program) -> impl Iterator<Item = &VarDesc> {
    let is_state = |var: &&VarDesc| var.param.is_none() && !var.need_check_feed;
    program.list_vars().filter(is_state).filter(|var| is_persistable(var))
}

fn collect<'a>(
    scope: &Scope,
    vars: impl Iterator<Item = &'a VarDesc>,
) -> Result<BTreeMap<String, Tensor>> {
    let mut state = BTreeMap::new();
    for var in vars {
        let found = scope.read(&var.name, |value| match value {
            Value::Keyed(_) => Err(wrong_kind(&var.name, value, "a tensor")),
            value => Ok(value.tensor().cloned()),
        });
        let nothing =
            || program::Error::SavesNothing { op: "save".to_string(), var: var.name.clone() };
        let tensor = found.transpose()?.flatten();
        state.insert(var.name.clone(), tensor.ok_or_else(nothing)?);
    }
    Ok(state)
}

/// The arrays of a pickled state: `<prefix>.pdparams`, and `<prefix>.pdopt` if it is there.
///
/// Without a `.pdparams` file, `prefix` may be a directory or a combined file that the other save
/// functions wrote; of a combined file `vars` must say which variables it holds. Tables that servers kept
/// by rows are what they were, with the rows that exist.
pub fn load_state(path: &Path, vars: Option<&[String]>) -> Result<HashMap<String, Value>> {
    let prefix = without_suffix(path);
    let (dir, stem) = split(&prefix).map_err(|source| read_failed(path, source))?;
    let state = Folder::consistently(&dir, |folder| {
        if !folder.has(&format!("{stem}{PARAMS}")) && path.exists() {
            return Ok(None);
        }
        let mut state = read_pickle(folder, &format!("{stem}{PARAMS}"))?;
        let optimizer = format!("{stem}{OPTIMIZER}");
        if folder.has(&optimizer) {
            state.extend(read_pickle(folder, &optimizer)?);
        }
        Ok(Some(state))
    })?;
    let values = |state: HashMap<String, Tensor>| {
        state.into_iter().map(|(name, tensor)| (name, Value::Tensor(tensor))).collect()
    };
    state.map_or_else(|| other_state(path, vars), |state| Ok(values(state)))
}

fn other_state(path: &Path, vars: Option<&[String]>) -> Result<HashMap<String, Value>> {
    if path.is_dir() {
        return Folder::consistently(path, |folder| {
            let names = match vars {
                Some(names) => names.to_vec(),
                None => files_in(folder)?,
            };
            let value = |name: String| {
                let value = if is_kept(folder, "", &name)? {
                    read_any(folder, &name)?
                } else {
                    Value::Tensor(read_tensor(folder, file_of(&name)?)?)
                };
                Ok((name, value))
            };
            names.into_iter().map(value).collect()
        });
    }
    let Some(names) = vars else { return Err(Error::WhichVars { path: path.to_path_buf() }) };
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    let tensors = stream::combined_from_bytes(&read(path)?, names.len());
    let tensors = tensors.map_err(|source| Error::in_file(path, source))?;
    Ok(names.into_iter().zip(tensors.into_iter().map(Value::Tensor)).collect())
}

/// Names of the variables in a directory; those with a slash in their name are in another one.
fn files_in(folder: &Folder) -> Result<Vec<String>> {
    let failed = |source| read_failed(folder.dir(), source);
    let listed = folder.manifest().into_iter().flat_map(Manifest::files);
    let mut names: BTreeSet<String> = listed.map(|file| file.name.clone()).collect();
    for entry in std::fs::read_dir(folder.dir()).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && is_safe(&name) && folder.has(&name) {
            names.insert(name);
        }
    }
    let is_var = |name: &String| name != INFERENCE && !name.contains('/');
    names.retain(is_var);
    names.extend(kept_names(folder));
    Ok(names.into_iter().collect())
}

/// Puts arrays into the variables of a program that the startup program has filled; changes all of
/// them or none. Returns the names that the program does not have.
pub fn set_state(
    scope: &Scope,
    program: &Program,
    mut state: HashMap<String, Value>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for var in program.list_vars().filter(|var| is_persistable(var)) {
        if let Some(Value::Keyed(_)) = state.get(&var.name) {
            // It may be too large to have been started here.
            let table = state.remove(&var.name).unwrap_or_default();
            check_shape(var, &table)?;
            found.push((var.name.as_str(), for_scope(scope, &var.name, table)?));
            continue;
        }
        let old = scope.read(&var.name, |value| value.tensor().map(|t| (t.shape(), t.dtype())));
        let missing = || Error::NotInScope { var: var.name.clone() };
        let (shape, dtype) = old.flatten().ok_or_else(missing)?;
        let Some(value) = state.remove(&var.name) else { continue };
        let Some(tensor) = value.tensor() else {
            return Err(wrong_kind(&var.name, &value, "a tensor"));
        };
        if tensor.shape() != shape {
            let (expected, found) = (shape.to_i64(), tensor.shape().to_i64());
            return Err(Error::StateShape { var: var.name.clone(), expected, found });
        }
        if tensor.dtype() != dtype {
            let (expected, found) = (dtype, tensor.dtype());
            return Err(Error::StateDType { var: var.name.clone(), expected, found });
        }
        found.push((var.name.as_str(), value));
    }
    for (name, value) in found {
        scope.set(name, value);
    }
    let mut unused: Vec<String> = state.into_keys().collect();
    unused.sort_unstable();
    Ok(unused)
}

fn read_pickle(folder: &Folder, name: &str) -> Result<HashMap<String, Tensor>> {
    let (parsed, path) = (pickle::read(&folder.read(name)?), folder.dir().join(name));
    parsed.map_err(|(offset, problem)| Error::BadPickle { path, offset, problem })
}

fn without_suffix(prefix: &Path) -> PathBuf {
    let text = prefix.to_string_lossy();
    let stripped = [PARAMS, OPTIMIZER, MODEL].iter().find_map(|suffix| text.strip_suffix(suffix));
    stripped.map_or_else(|| prefix.to_path_buf(), PathBuf::from)
}

/// Loads what [`save`] wrote into the variables of `program`; changes all of them or none.
///
/// Without a `.pdparams` file, `prefix` may be a directory or a combined file that the other save
/// functions wrote; of a combined file `vars` must say which variables it holds.
pub fn load(scope: &Scope, program: &Program, prefix: &Path, vars: Option<&[&str]>) -> Result<()> {
    let stem = without_suffix(prefix);
    let (dir, stem) = split(&stem).map_err(|source| read_failed(prefix, source))?;
    let (params, optimizer) = (format!("{stem}{PARAMS}"), format!("{stem}{OPTIMIZER}"));
    let found = Folder::consistently(&dir, |folder| {
        if !folder.has(&params) {
            return Ok(None);
        }
        let path = dir.join(&params);
        let mut found = pick(program.parameters(), read_pickle(folder, &params)?, &path)?;
        let mut state = optimizer_vars(program).peekable();
        if state.peek().is_some() {
            let path = dir.join(&optimizer);
            if !folder.has(&optimizer) {
                return Err(Error::NoOptimizerFile { path });
            }
            let pickled = read_pickle(folder, &optimizer).map_err(|error| match error {
                Error::FileLost { path, .. } => Error::NoOptimizerFile { path },
                error => error,
            });
            found.extend(pick(state, pickled?, &path)?);
        }
        Ok(Some(found))
    })?;
    let Some(found) = found else { return load_other(scope, program, prefix, vars) };
    for (name, value) in found {
        scope.set(name, value);
    }
    Ok(())
}

/// The value of each variable, of the shape it must have.
fn pick<'a>(
    vars: impl Iterator<Item = &'a VarDesc>,
    mut state: HashMap<String, Tensor>,
    path: &Path,
) -> Result<BTreeMap<&'a str, Value>> {
    let mut picked = BTreeMap::new();
    for var in vars.filter(|var| !var.name.is_empty()) {
        if picked.contains_key(var.name.as_str()) {
            continue;
        }
        let missing = || Error::NotInFile { var: var.name.clone(), path: path.to_path_buf() };
        let value = Value::Tensor(state.remove(&var.name).ok_or_else(missing)?);
        check_shape(var, &value)?;
        picked.insert(var.name.as_str(), value);
    }
    Ok(picked)
}

fn load_other(scope: &Scope, program: &Program, path: &Path, vars: Option<&[&str]>) -> Result<()> {
    let wanted = |var: &&VarDesc| vars.is_none_or(|names| names.contains(&var.name.as_str()));
    if path.is_dir() {
        // As far as there are files: what is absent keeps its value.
        let (vars, values) = Folder::consistently(path, |folder| {
            let tables = kept_names(folder);
            let has_file = |var: &&VarDesc| folder.has(&var.name) || tables.contains(&var.name);
            let vars = by_name(program.list_vars().filter(wanted).filter(has_file));
            let values = read_vars(folder, "", &vars)?;
            Ok((vars, values))
        })?;
        return put(scope, &vars, values);
    }
    let (Some(dir), Some(name), true) = (path.parent(), path.file_name(), path.is_file()) else {
        return read(&with_suffix(&without_suffix(path), PARAMS)).map(|_| ());
    };
    let Some(names) = vars else {
        return Err(Error::WhichVars { path: path.to_path_buf() });
    };
    for name in names {
        program.need_var(0, name)?;
    }
    let vars = program.list_vars().filter(wanted);
    load_vars(scope, dir, vars, Some(&name.to_string_lossy()))
}
