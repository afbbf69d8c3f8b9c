//! Describes a folder that has other variables than a program.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
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
    let saved = some_of(others(folder.dir(), vars));
    Error::OtherModel { path, missing, saved }
}

/// Variables of the folder that the program has not, with their shapes.
fn others(dir: &Path, vars: &BTreeMap<&str, &VarDesc>) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let files = entries.flatten().filter(|entry| entry.path().is_file());
    // Names with a leading dot are ours.
    let names = files.filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| !name.starts_with('.'));
    let mut names: Vec<String> = names.filter(|name| !vars.contains_key(name.as_str())).collect();
    names.sort();
    let described = |name: String| dims(&dir.join(&name)).map(|dims| format!("{name} {dims:?}"));
    names.into_iter().filter_map(described).collect()
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
