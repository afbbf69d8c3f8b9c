//! For tests with damaged input: whether anything can be made of the files of a folder of snapshots.

use std::path::Path;

use super::file::{FileReader, read_header, sealed};
use super::header::Owner;
use super::journal::Journal;
use super::rows_state::All;
use super::source::ServerState;
use crate::bad_snapshot::BadSnapshot;

/// Reads a file as a snapshot, with all that is in it.
pub fn read(path: &Path) -> Result<(), BadSnapshot> {
    let header = read_header(path);
    let (mut file, _) = FileReader::open(path)?;
    ServerState::default().take(&mut file, &All)?;
    header.map(drop)
}

/// Reads the journal of a folder, of a server with its name.
pub fn read_journal(folder: &Path) -> Result<usize, BadSnapshot> {
    Journal::open(folder, &Owner::default())?.read_whole().map(|records| records.len())
}

/// The name of that journal.
pub fn journal_name() -> String {
    Journal::name(&Owner::default())
}

/// The bytes of a snapshot with checksums that fit whatever is in it: else nobody reads on.
pub fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    sealed(bytes)
}
