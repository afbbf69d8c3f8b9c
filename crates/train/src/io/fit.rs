//! Loads what fits: models that have grown since they were saved.
//!
//! A variable that is not in the folder keeps the value that the startup program gave it. One that has another
//! size takes the numbers that both have, counted from the beginning of each dimension; the others keep their
//! start values. The result lists variables that were loaded and those that were not. If nothing fits, it is another model, or the path is
//! wrong: that is an error, because the script would train from the start without noticing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use program::{Distributed, Program, VarDesc};
use tensor::{Tensor, Value};

use super::distributed::{Fit, slices_that_fit};
use super::file::place_of;
use super::kept::kept_names;
use super::state::{has_state, pickled, state_vars};
use super::vars::{by_name, for_scope, is_persistable, read_one, read_tensor};
use super::{tensors, vars};
use crate::error::{Error, Result};
use crate::folder::{Folder, SavedFile};
use crate::scope::Scope;

/// The result of loading what fits. Names are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fitted {
    /// Variables that were loaded whole.
    pub loaded: Vec<String>,
    /// Variables that were loaded in part: what was saved, and what there is now.
    pub partly: Vec<(String, Vec<i64>, Vec<i64>)>,
    /// Variables that were not saved, and keep the values they had.
    pub new: Vec<String>,
    /// Saved values that are not used: the program has no such variable, or one of another kind.
    pub left_out: Vec<String>,
}

impl Fitted {
    /// A line for each list that is not empty.
    pub fn lines(&self) -> Vec<String> {
        let partly =
            self.partly.iter().map(|(name, from, to)| format!("{name} {from:?} -> {to:?}"));
        let partly: Vec<String> = partly.collect();
        let lists = [
            ("loaded", &self.loaded),
            ("loaded in part", &partly),
            ("new, with their start values", &self.new),
            ("saved, but left out", &self.left_out),
        ];
        let filled = lists.into_iter().filter(|(_, names)| !names.is_empty());
        filled
            .map(|(what, names)| format!("{what} ({}): {}", names.len(), names.join(", ")))
            .collect()
    }

    fn sort(mut self) -> Self {
        for list in [&mut self.loaded, &mut self.new, &mut self.left_out] {
            list.sort_unstable();
            list.dedup();
        }
        self.partly.sort_unstable();
        self.partly.dedup();
        self
    }
}

/// Loads the values that fit: from a file for each variable, or from the one file `filename`. The contents
/// of a file of several variables must be known: it was saved here, or it holds exactly these.
pub fn fit_vars<'a>(
    scope: &Scope,
    dir: &Path,
    wanted: impl IntoIterator<Item = &'a VarDesc>,
    filename: Option<&str>,
) -> Result<Fitted> {
    let wanted = by_name(wanted);
    let (dir, name) = match filename {
        Some(filename) => place_of(dir, filename).map(|(dir, name)| (dir, Some(name)))?,
        None => (dir.to_path_buf(), None),
    };
    need_folder(&dir)?;
    let saved = Folder::consistently(&dir, |folder| match &name {
        Some(name) => combined(folder, name, &wanted),
        None => separate(folder, &wanted),
    })?;
    put(scope, &wanted, saved, &dir)
}

/// Loads what fits of what `fluid.save` wrote, or of a folder with a file for each variable.
pub fn fit_state(scope: &Scope, program: &Program, prefix: &Path) -> Result<Fitted> {
    if prefix.is_dir() && !has_state(prefix) {
        let vars = program.list_vars().filter(|var| is_persistable(var));
        return fit_vars(scope, prefix, vars, None);
    }
    let vars = by_name(state_vars(program));
    let state = pickled(prefix)?;
    let all = state.into_iter();
    let (values, others): (BTreeMap<String, Value>, BTreeMap<String, Value>) =
        all.partition(|(name, _)| vars.contains_key(name.as_str()));
    put(scope, &vars, SavedValues { values, others: others.into_keys().collect() }, prefix)
}

/// A path that is empty is the current folder.
fn need_folder(dir: &Path) -> Result<()> {
    if dir.is_dir() || dir.as_os_str().is_empty() {
        Ok(())
    } else {
        Err(Error::NoDirectory { path: dir.to_path_buf() })
    }
}

/// The values of a folder.
struct SavedValues {
    /// Of variables that are wanted.
    values: BTreeMap<String, Value>,
    /// The names of others.
    others: BTreeSet<String>,
}

fn separate(folder: &Folder, wanted: &BTreeMap<&str, &VarDesc>) -> Result<SavedValues> {
    let mut values = BTreeMap::new();
    let tables = kept_names(folder);
    let is_saved = |name: &str| folder.has(name) || tables.contains(name);
    for (&name, var) in wanted.iter().filter(|(name, _)| is_saved(name)) {
        values.insert(name.to_string(), read_one(folder, "", var)?);
    }
    let files = folder.manifest().into_iter().flat_map(|list| list.files());
    let names = files.flat_map(names_in).filter(|name| !wanted.contains_key(name.as_str()));
    Ok(SavedValues { values, others: names.collect() })
}

/// The variables of a file.
pub(super) fn names_in(file: &SavedFile) -> Vec<String> {
    file.vars.iter().map(|var| var.name.clone()).collect()
}

fn combined(folder: &Folder, name: &str, wanted: &BTreeMap<&str, &VarDesc>) -> Result<SavedValues> {
    let names = folder.saved(name).map(names_in).unwrap_or_default();
    if names.is_empty() {
        let values = vars::read_combined(folder, name, wanted)?;
        let names = wanted.keys().map(|name| name.to_string());
        return Ok(SavedValues { values: names.zip(values).collect(), others: BTreeSet::new() });
    }
    let tensors = tensors::read_tensors(folder, name, names.len())?;
    let path = folder.dir().join(name);
    let problem = "it holds other variables".into();
    let tensors = tensors.ok_or(Error::RowsFile { path, problem })?;
    let all = names.into_iter().zip(tensors.into_iter().map(Value::Tensor));
    let (values, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        all.partition(|(name, _)| wanted.contains_key(name.as_str()));
    Ok(SavedValues { values, others: others.into_keys().collect() })
}

/// Changes all variables that something was saved of, or none. If nothing fits, `path` holds another model.
fn put(
    scope: &Scope,
    wanted: &BTreeMap<&str, &VarDesc>,
    saved: SavedValues,
    path: &Path,
) -> Result<Fitted> {
    let SavedValues { mut values, others } = saved;
    let mut fitted = Fitted { left_out: others.into_iter().collect(), ..Fitted::default() };
    let mut changed = Vec::new();
    for (&name, var) in wanted {
        let is_empty = scope.read(name, Value::is_empty).unwrap_or(true);
        let Some(value) = values.remove(name) else {
            if is_empty {
                return Err(Error::NotInScope { var: name.to_string() });
            }
            fitted.new.push(name.to_string());
            continue;
        };
        let old = scope.read(name, |value| value.tensor().cloned()).flatten();
        let fits = match (for_scope(scope, name, value)?, old) {
            (Value::Tensor(saved), Some(old)) => fit(saved, old, var),
            // Unfilled variables and rows stay as they were saved.
            (value, _) => Some((value, None)),
        };
        match fits {
            None => fitted.left_out.push(name.to_string()),
            Some((value, from)) => {
                let dims = |value: &Value| value.tensor().map(|tensor| tensor.shape().to_i64());
                match from {
                    Some(from) => {
                        let now = dims(&value).unwrap_or_default();
                        fitted.partly.push((name.to_string(), from, now));
                    }
                    None => fitted.loaded.push(name.to_string()),
                }
                changed.push((name, value));
            }
        }
    }
    if changed.is_empty() && !wanted.is_empty() {
        return Err(Error::nothing_fits(path, wanted.keys().copied(), &fitted.left_out));
    }
    for (name, value) in changed {
        scope.set(name, value);
    }
    Ok(fitted.sort())
}

/// The new value of a variable, and the shape of the saved one if only a part of it is used.
fn fit(saved: Tensor, old: Tensor, var: &VarDesc) -> Option<(Value, Option<Vec<i64>>)> {
    let from = saved.shape().to_i64();
    if saved.dtype() != old.dtype() {
        return None;
    }
    // Variables other than parameters may have other shapes than their programs say.
    let is_free = var.param.is_none() && saved.shape().rank() != old.shape().rank();
    if saved.shape() == old.shape() || is_free {
        return Some((Value::Tensor(saved), None));
    }
    let mut value = old;
    overlay(&mut value, &saved, 0).then_some((Value::Tensor(value), Some(from)))
}

/// Copies the numbers that two tensors both have; row 0 of `into` is row `first` of the other one. False if
/// they have different numbers of dimensions.
pub fn overlay(into: &mut Tensor, from: &Tensor, first: usize) -> bool {
    let (to_dims, from_dims) = (into.dims().to_vec(), from.dims().to_vec());
    if to_dims.len() != from_dims.len() || to_dims.is_empty() || into.dtype() != from.dtype() {
        return false;
    }
    let size = into.dtype().size();
    let (to, from) = (into.bytes_mut(), from.bytes());
    let mut both: Vec<usize> = to_dims.iter().zip(&from_dims).map(|(a, b)| *a.min(b)).collect();
    both[0] = to_dims[0].min(from_dims[0].saturating_sub(first));
    if both.contains(&0) {
        return true;
    }
    let last = both.len() - 1;
    let n_lines: usize = both[..last].iter().product();
    let line = both[last] * size;
    for number in 0..n_lines {
        // The position of a line in both, from its number among the lines that both have.
        let mut rest = number;
        let mut at_to = 0;
        let mut at_from = 0;
        let (mut step_to, mut step_from) = (to_dims[last], from_dims[last]);
        for dim in (0..last).rev() {
            let index = rest % both[dim];
            rest /= both[dim];
            at_to += index * step_to;
            at_from += (index + if dim == 0 { first } else { 0 }) * step_from;
            step_to *= to_dims[dim];
            step_from *= from_dims[dim];
        }
        if last == 0 {
            at_from += first;
        }
        to[at_to * size..][..line].copy_from_slice(&from[at_from * size..][..line]);
    }
    true
}

/// Loads what fits of a server's pieces, from whole variables and parts of tables.
pub fn fit_slices(job: &Distributed, scope: &Scope, dir: &Path) -> Result<Fitted> {
    need_folder(dir)?;
    let (pieces, others) = Folder::consistently(dir, |folder| slices_that_fit(job, scope, folder))?;
    let mut fitted = Fitted { left_out: others, ..Fitted::default() };
    for Fit { origin, now, from, values } in pieces {
        match (from, values.is_empty()) {
            (None, _) => fitted.new.push(origin),
            (Some(_), true) => fitted.left_out.push(origin),
            (Some(from), false) if from == now => fitted.loaded.push(origin),
            (Some(from), false) => fitted.partly.push((origin, from, now)),
        }
        for (name, value) in values {
            scope.set(&name, value);
        }
    }
    Ok(fitted.sort())
}

/// Whether a variable that is read from a file of its own is there.
pub(super) fn saved_tensor(folder: &Folder, name: &str) -> Result<Option<Tensor>> {
    if folder.has(name) { read_tensor(folder, name).map(Some) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dims: &[usize], first: f32) -> Tensor {
        let n: usize = dims.iter().product();
        let numbers: Vec<f32> = (0..n).map(|i| first + i as f32).collect();
        let dims: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let shape = tensor::Shape::from_dims(&dims).unwrap();
        let mut tensor = Tensor::new([n], &numbers).unwrap();
        tensor.reshape(shape).unwrap();
        tensor
    }

    #[track_caller]
    fn check(to: &[usize], from: &[usize], first: usize, expected: &[f32]) {
        let mut into = tensor(to, 100.0);
        assert!(overlay(&mut into, &tensor(from, 0.0), first));
        assert_eq!(into.data::<f32>().unwrap(), expected);
    }

    #[test]
    fn the_numbers_that_both_have_are_copied() {
        check(&[3], &[2], 0, &[0.0, 1.0, 102.0]);
        check(&[2], &[3], 0, &[0.0, 1.0]);
        check(&[2], &[3], 2, &[2.0, 101.0]);
        check(&[2], &[3], 7, &[100.0, 101.0]);
        check(&[2, 3], &[3, 2], 0, &[0.0, 1.0, 102.0, 2.0, 3.0, 105.0]);
        check(&[2, 3], &[3, 2], 2, &[4.0, 5.0, 102.0, 103.0, 104.0, 105.0]);
        check(&[1, 2, 2], &[2, 1, 3], 1, &[3.0, 4.0, 102.0, 103.0]);
        check(&[2, 0], &[2, 3], 0, &[]);
        let mut other = tensor(&[2], 0.0);
        assert!(!overlay(&mut other, &tensor(&[2, 1], 0.0), 0));
        assert!(!overlay(&mut other, &Tensor::full([2], 1i64), 0));
    }

    #[test]
    fn lists_are_told_in_lines() {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let fitted = Fitted {
            loaded: names(&["b", "a", "a"]),
            partly: vec![("w".to_string(), vec![2, 3], vec![2, 5])],
            new: names(&["n"]),
            left_out: Vec::new(),
        };
        let expected = [
            "loaded (2): a, b",
            "loaded in part (1): w [2, 3] -> [2, 5]",
            "new, with their start values (1): n",
        ];
        assert_eq!(fitted.sort().lines(), expected);
    }
}
