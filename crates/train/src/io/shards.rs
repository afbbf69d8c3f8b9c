//! The note that says how many parts servers saved a variable in, for programs that know no list of files.

use program::distributed::Spread;

use super::distributed::TABLES;
use crate::error::{Error, Result};
use crate::folder::{Folder, Stage};

/// Suffix of the note that says how many parts a variable has.
const PARTS: &str = "_parts";

fn note_name(var: &str) -> String {
    format!("{TABLES}/{var}{PARTS}")
}

/// The note on a variable that servers saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// How many files there are.
    pub(super) n_parts: usize,
    /// Which of them has a row.
    pub(super) spread: Spread,
}

/// Notes how a variable was saved: `3`, or `3 hash`.
pub(super) fn write_note(stage: &Stage, var: &str, note: Note) -> Result<()> {
    let text = match note.spread {
        Spread::Range => note.n_parts.to_string(),
        Spread::Hash => format!("{} {}", note.n_parts, note.spread.name()),
    };
    stage.write(&note_name(var), text.as_bytes())
}

/// How a variable was saved, if that was noted.
pub(super) fn read_note(folder: &Folder, var: &str) -> Result<Option<Note>> {
    let name = note_name(var);
    if !folder.has(&name) {
        return Ok(None);
    }
    let bytes = folder.read(&name)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    let (number, spread) = match text.strip_suffix(" hash") {
        Some(number) => (number, Spread::Hash),
        None => (text, Spread::Range),
    };
    match number.parse() {
        Ok(n_parts) if n_parts > 0 => Ok(Some(Note { n_parts, spread })),
        _ => Err(Error::RowsFile {
            path: folder.dir().join(name),
            problem: "it should say how many parts a table has".into(),
        }),
    }
}
