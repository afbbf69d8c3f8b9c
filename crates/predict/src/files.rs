//! Which files of a folder are the model.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use program::Program;
use train::io::is_persistable;

/// The usual name of a program.
const MODEL: &str = "__model__";
/// How a file of parameters begins: version 0.
const PARAMS: [u8; 4] = [0; 4];

/// The files of a model, where they do not have their usual names. Others are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFiles {
    /// The program, instead of `__model__`.
    pub model: Option<String>,
    /// One file with all parameters.
    pub params: Option<String>,
}

impl ModelFiles {
    /// The files of a folder. A name that is not given and cannot be found stays open: loading the model
    /// names the missing file.
    pub(crate) fn found_in(&self, dir: &Path) -> Self {
        let mut found = self.clone();
        if found.model.is_some() && found.params.is_some() {
            return found;
        }
        let names = file_names(dir);
        if found.model.is_none() && !names.contains(MODEL) {
            found.model = only(names.iter().filter(|name| is_program(&dir.join(name))));
        }
        if found.params.is_none() {
            let model = found.model.as_deref().unwrap_or(MODEL);
            found.params = combined(dir, model, &names);
        }
        found
    }
}

/// The file of all parameters, if no variable has a file of its own.
fn combined(dir: &Path, model: &str, names: &BTreeSet<String>) -> Option<String> {
    let program = Program::from_bytes(&fs::read(dir.join(model)).ok()?).ok()?;
    let mut vars = program.list_vars().filter(|var| is_persistable(var));
    if vars.any(|var| names.contains(&var.name)) {
        return None;
    }
    let others = names.iter().filter(|name| *name != model);
    only(others.filter(|name| holds_params(&dir.join(name))))
}

fn holds_params(path: &Path) -> bool {
    let mut head = [1; PARAMS.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == PARAMS
}

fn only<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<String> {
    let first = names.next()?;
    names.next().is_none().then(|| first.clone())
}

fn is_program(path: &Path) -> bool {
    let program = fs::read(path).ok().and_then(|bytes| Program::from_bytes(&bytes).ok());
    program.is_some_and(|program| program.blocks().iter().any(|block| !block.ops.is_empty()))
}

/// The files right in the folder, without hidden ones.
fn file_names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    let names = files.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}
