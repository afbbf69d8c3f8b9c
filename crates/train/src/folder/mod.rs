//! A save into a folder is a transaction. A reader sees the complete result of one save, or of the save
//! before it, no matter when a process or the machine stops.
//!
//! Files have their usual names directly in the folder, so other programs can read it. Beside them is the file
//! `.paddlewheel`, the manifest: the files of the folder with sizes and checksums. The listed files were saved. It
//! is not a folder, because programs take every folder inside a model's folder for an epoch, and it has the form of
//! a variable, because programs load every file of a folder as a variable.
//!
//! A save is written elsewhere (see `away.rs`): a folder beside the files would be taken for an epoch. Only while it is
//! committed, or after it was killed then, there are more files (see `spot.rs`), and never a folder:
//!
//! | file | what it is |
//! |---|---|
//! | `.paddlewheel.commit.<hash>.<name>` | a file of the save that the manifest of that hash lists, until it is under its usual name |
//! | `.paddlewheel.stage.<id>.…` | a save that is not committed, where no place around the folder is usable |
//! | `.paddlewheel.lock` | held while a save is committed, where the folder itself cannot be locked |
//!
//! Earlier versions left a folder `.paddlewheel` with the manifest, as plain text, and the same for files in it, later a folder
//! `.paddlewheel.saving`. Both are read as they are; the next save removes them.
//!
//! A save writes its files into a stage and makes them durable. Then it moves them into the folder, under names with the hash of
//! the new manifest, and the new manifest over the old one: that is the moment of the commit. Last, it moves the
//! files to their usual names. Readers look for the names with the manifest's hash first, so it does not
//! matter how many files were moved; these are in the folder, because a reader may be another user, or on another machine, and
//! sees nothing else. The next save, or the next load on a local disk, finishes what a dead process had
//! committed, and removes what it had not.
//!
//! Decision: `docs/internals/decisions/037-saved-folders.md`. Format: `docs/reference/formats.md`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

mod away;
pub mod check;
mod disk;
mod left;
mod list_file;
mod lock;
mod manifest;
mod parts;
mod place;
mod read;
mod spot;
mod stage;
#[cfg(test)]
mod tests;
mod text;
mod transaction;

pub use manifest::{About, FolderSave, Manifest, SavedFile, SavedPart, SavedVar};
pub use read::{FileReader, Folder};
pub use stage::{FileWriter, Stage};
pub use transaction::{StagePart, Transaction};

pub(crate) use manifest::{is_inside, is_safe};
pub(crate) use parts::{PartFile, part_files};

/// The list of what was saved, beside the saved files. The names of all that is ours begin like this.
const PRIVATE: &str = ".paddlewheel";
/// The folder of a save that is not finished, in earlier versions and for other processes.
const SAVING: &str = ".paddlewheel.saving";
/// The list in the folder [`PRIVATE`] of earlier versions.
const OLDER_MANIFEST: &str = "manifest";
/// Bytes that are read or written at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Whether a name is that of the list of a folder, for any user.
pub(crate) fn is_list(name: &str) -> bool {
    let rest = name.strip_prefix(PRIVATE);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The list of what was saved into a folder.
fn list_of(dir: &Path) -> PathBuf {
    private_of(dir, PRIVATE)
}

/// Where a save into a folder was until it was finished.
fn saving_of(dir: &Path) -> PathBuf {
    private_of(dir, SAVING)
}

/// An entry beside the saved files. In a folder where all users may write but only the owner of a
/// file may remove it (`/tmp`), each user has one of their own.
fn private_of(dir: &Path, name: &str) -> PathBuf {
    const STICKY_AND_OPEN: u32 = 0o1002;
    let is_shared =
        fs::metadata(dir).is_ok_and(|dir| dir.mode() & STICKY_AND_OPEN == STICKY_AND_OPEN);
    let user = fs::metadata("/proc/self").map(|process| process.uid()).ok().filter(|_| is_shared);
    match user {
        Some(user) => dir.join(format!("{name}-{user}")),
        None => dir.join(name),
    }
}
