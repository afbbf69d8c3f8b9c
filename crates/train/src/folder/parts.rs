//! The names of files that hold parts of a variable.

use std::fs;
use std::path::Path;

/// A file that holds a part of a variable, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartFile {
    /// Its name below the folder.
    pub(crate) name: String,
    pub(crate) number: usize,
    /// How many parts its name says there are.
    pub(crate) n: Option<usize>,
}

impl PartFile {
    /// Parses the name of a part of the variable that would be in the file `whole`: `<whole>_<number>` or
    /// `<whole>_<number>of<n>`.
    fn parse(name: &str, whole: &str) -> Option<Self> {
        let numbers = name.strip_prefix(whole)?.strip_prefix('_')?;
        let (number, n) = match numbers.split_once("of") {
            Some((number, n)) => (number.parse().ok()?, Some(n.parse().ok()?)),
            None => (numbers.parse().ok()?, None),
        };
        Some(Self { name: name.to_string(), number, n })
    }
}

/// All files in a folder that hold parts of the variable that would be in the file `whole`.
pub(crate) fn part_files(dir: &Path, whole: &str) -> Vec<PartFile> {
    let (parent, prefix) = match whole.rsplit_once('/') {
        Some((parent, _)) => (dir.join(parent), format!("{parent}/")),
        None => (dir.to_path_buf(), String::new()),
    };
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let of_var = |name: String| PartFile::parse(&format!("{prefix}{name}"), whole);
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<_> = names.filter_map(of_var).collect();
    found.sort();
    found
}
