//! Describes a folder that has other variables than a program.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use program::{VarDesc, stream};

use super::file::file_of;
use super::kept::is_kept;
use crate::error::Error;
use crate::folder::Folder;

/// Bytes in which the description of a tensor is looked for.
const HEAD_BYTES: u64 = 1 << 16;
/// Names in a message.
const SHOWN_MAX: usize = 8;

/// The error of a load. A file that was never in the folder is not damage: the folder belongs to another model, and the error
/// lists its variables and those that the program needs.
pub(super) fn explained(folder: &Folder, vars: &BTreeMap<&str, &VarDesc>, error: Error) -> Error {
    let (path, source) = match error {
        Error::CannotLoad { path, source } => (path, source),
        other => return other,
    };
    if source.kind() != ErrorKind::NotFound || !folder.dir().is_dir() {
        return Error::CannotLoad { path, source };
    }
    let is_there = |var: &VarDesc| {
        let file = file_of(&var.name);
        is_kept(folder, "", &var.name).unwrap_or(false) || file.is_ok_and(|file| folder.has(file))
    };
    let missing = vars.values().filter(|var| !is_there(var));
    let missing = missing.map(|var| format!("{} {:?}", var.name, var.meta.dims));
    let missing = some_of(missing.collect());
    let found = names_in(folder.dir());
    let mut saved = some_of(others(folder.dir(), vars));
    if let [one] = &found[..] {
        saved = format!("{saved} (if that file holds all variables, name it: filename=\"{one}\")");
    }
    Error::OtherModel { path, missing, saved }
}

/// The error of loading a model for inference. Where its parameters are in other files than those that were asked for, it
/// lists them, and says which argument names them.
pub(super) fn of_inference(
    folder: &Folder,
    model: &str,
    vars: &BTreeMap<&str, &VarDesc>,
    error: Error,
) -> Error {
    let is_combined = matches!(error, Error::CannotLoadCombined { .. });
    let (path, source) = match error {
        Error::CannotLoad { path, source } | Error::CannotLoadCombined { path, source } => {
            (path, source)
        }
        other => return other,
    };
    let names = names_in(folder.dir());
    let others = names.iter().filter(|name| *name != model);
    let (own, unknown): (Vec<&String>, Vec<&String>) =
        others.partition(|name| vars.contains_key(name.as_str()));
    let advice = match &unknown[..] {
        _ if source.kind() != ErrorKind::NotFound => None,
        _ if is_combined && !own.is_empty() => {
            Some("Each parameter has a file of its own: load without params_filename".to_string())
        }
        _ if !own.is_empty() => None,
        [] => None,
        [one] => {
            Some(format!("If all parameters are in one file, name it: params_filename=\"{one}\""))
        }
        _ => Some(
            "If all parameters are in one of these files, name it with params_filename="
                .to_string(),
        ),
    };
    match advice {
        Some(advice) => Error::OtherFiles { path, found: some_of(names), advice },
        None if is_combined => Error::CannotLoadCombined { path, source },
        None => Error::CannotLoad { path, source },
    }
}

/// The error of a program that is not in a folder.
pub(super) fn without_program(folder: &Folder, error: Error) -> Error {
    match error {
        Error::ReadFile { path, source } if source.kind() == ErrorKind::NotFound => {
            let found = some_of(names_in(folder.dir()));
            let text = format!(
                "{source}. The folder has {found}; if the program is in another file, name it with \
                 model_filename="
            );
            Error::ReadFile { path, source: io::Error::new(ErrorKind::NotFound, text) }
        }
        other => other,
    }
}

/// The names of the files in a folder, but ours.
fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let files = entries.flatten().filter(|entry| entry.path().is_file());
    // Names with a leading dot are ours.
    let names = files.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// Variables of the folder that the program has not, with their shapes.
fn others(dir: &Path, vars: &BTreeMap<&str, &VarDesc>) -> Vec<String> {
    let names = names_in(dir).into_iter().filter(|name| !vars.contains_key(name.as_str()));
    let described = |name: String| dims(&dir.join(&name)).map(|dims| format!("{name} {dims:?}"));
    names.filter_map(described).collect()
}

/// The shape of the tensor in a file; `None` if it has no tensor.
fn dims(path: &Path) -> Option<Vec<i64>> {
    let mut head = Vec::new();
    fs::File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(stream::StreamReader::new(&head).tensor_head().ok()?.shape.to_i64())
}

fn some_of(names: Vec<String>) -> String {
    match names.len() {
        0 => "nothing else".to_string(),
        n if n <= SHOWN_MAX => names.join(", "),
        n => format!("{}, … ({n} in all)", names[..SHOWN_MAX].join(", ")),
    }
}
