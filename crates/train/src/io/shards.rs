//! How servers replace what they saved of a table before: all of it or nothing.
//!
//! Each server first writes its part beside the old one. Once all have, each puts its part in its
//! place, and then a note says how many parts there are and older files are removed. Whatever fails
//! before the places are taken, the old save stays as it was.

use std::fs;
use std::path::{Path, PathBuf};

use program::distributed::Spread;

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

/// What is noted of a variable that servers saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// How many files there are.
    pub(super) n_parts: usize,
    /// Which of them has a row.
    pub(super) spread: Spread,
}

/// Notes how a variable was saved: `3`, or `3 hash`.
pub(super) fn write_note(dir: &Path, var: &str, note: Note) -> Result<()> {
    let text = match note.spread {
        Spread::Range => note.n_parts.to_string(),
        Spread::Hash => format!("{} {}", note.n_parts, note.spread.name()),
    };
    write_atomically(&note_path(dir, var)?, text.as_bytes())
}

/// How a variable was saved, if that was noted.
pub(super) fn read_note(dir: &Path, var: &str) -> Result<Option<Note>> {
    let path = note_path(dir, var)?;
    let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
    let text = text.trim();
    let (number, spread) = match text.strip_suffix(" hash") {
        Some(number) => (number, Spread::Hash),
        None => (text, Spread::Range),
    };
    match number.parse() {
        Ok(n_parts) if n_parts > 0 => Ok(Some(Note { n_parts, spread })),
        _ => Err(Error::RowsFile { path, problem: "it should say how many parts a table has" }),
    }
}
