//! How servers replace what they saved of a table before: all of it or nothing.
//!
//! Each server first writes its part beside the old one. Once all have, each puts its part in its
//! place, and then a note says how many parts there are and older files are removed. Whatever fails
//! before the places are taken, the old save stays as it was.

use std::fs;
use std::path::{Path, PathBuf};

use super::distributed::TABLES;
use super::file::{path_of, write_atomically};
use crate::error::{Error, Result};

/// Suffix of a part that is not in its place yet.
const BESIDE: &str = ".saving";
/// Suffix of the note that says how many parts a variable has.
const PARTS: &str = "_parts";

/// Where a part waits for its place.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(BESIDE);
    PathBuf::from(name)
}

/// Puts a part in its place.
pub(super) fn place(path: &Path) -> Result<()> {
    let placed = fs::rename(beside(path), path);
    placed.map_err(|source| Error::WriteFile { path: path.to_path_buf(), source })
}

/// Gives up a part that waits for its place.
pub(super) fn give_up(path: &Path) {
    // There may be none; it is in nobody's way.
    let _ = fs::remove_file(beside(path));
}

/// Removes a file that others may have removed meanwhile.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::WriteFile { path: path.to_path_buf(), source })
        }
        _ => Ok(()),
    }
}

fn note_path(dir: &Path, var: &str) -> Result<PathBuf> {
    path_of(&dir.join(TABLES), &format!("{var}{PARTS}"))
}

/// Notes how many parts a variable has.
pub(super) fn note_parts(dir: &Path, var: &str, n: usize) -> Result<()> {
    write_atomically(&note_path(dir, var)?, n.to_string().as_bytes())
}

/// How many parts a variable has, if that was noted.
pub(super) fn noted_parts(dir: &Path, var: &str) -> Result<Option<usize>> {
    let path = note_path(dir, var)?;
    let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
    match text.trim().parse() {
        Ok(n) if n > 0 => Ok(Some(n)),
        _ => Err(Error::RowsFile { path, problem: "it should say how many parts a table has" }),
    }
}

/// Numbers of the files of a table spread by id, ascending.
pub(super) fn shards_in(dir: &Path, table: &str) -> Result<Vec<usize>> {
    let whole = path_of(&dir.join(TABLES), table)?;
    let (Some(folder), Some(stem)) = (whole.parent(), whole.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{}_", stem.to_string_lossy());
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let number = |entry: fs::DirEntry| {
        entry.file_name().to_str()?.strip_prefix(&prefix)?.parse::<usize>().ok()
    };
    let mut numbers: Vec<usize> = entries.filter_map(|entry| number(entry.ok()?)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
