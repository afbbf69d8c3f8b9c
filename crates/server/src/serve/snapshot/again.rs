//! Second copies: a disk may damage a file, and no server holds what another one has kept.
//!
//! The copy of `X` is `X.again`. It is not made durable, because `X` is: after a power cut it may be damaged, and then
//! nobody takes it. Without its file it is of no use, so it is removed first.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::file::FileReader;
use crate::bad_snapshot::{BadSnapshot, SnapshotResult};

/// Behind the name of a file that has a second copy.
const AGAIN: &str = ".again";
/// Larger files have no second copy: if one of them is damaged, the job goes back farther.
const BYTES_MAX: u64 = 1 << 30;
/// Larger files are not looked at before they are needed.
const LEVEL_BYTES_MAX: u64 = 16 << 20;
/// Before the name of a file that cannot be used.
const DAMAGED: &str = "damaged.";

/// Where the second copy of a file is.
pub(super) fn again(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(AGAIN);
    name.into()
}

/// The name of the file that this is the second copy of, if it is one.
pub(super) fn is_copy_of(name: &str) -> Option<&str> {
    name.strip_suffix(AGAIN)
}

/// Makes the second copy of a file.
pub(in crate::serve) fn copy(path: &Path, n_bytes: u64) -> SnapshotResult<()> {
    if n_bytes <= BYTES_MAX {
        copy_to(path, &again(path)).map_err(|source| BadSnapshot::writing(path, source))
    } else {
        Ok(())
    }
}

/// Removes the second copy of a file.
pub(in crate::serve) fn remove_copy(path: &Path) {
    // One that stays is removed at the next start.
    let _ = fs::remove_file(again(path));
}

/// Replaces a file by a copy of another one.
pub(super) fn copy_to(from: &Path, to: &Path) -> io::Result<()> {
    durable::copy(from, to)
}

/// Reads a whole file; an error if something in it is not what was written.
pub(super) fn check(path: &Path) -> SnapshotResult<()> {
    let (mut reader, _) = FileReader::open(path)?;
    while reader.next_section()?.is_some() {
        reader.skip()?;
    }
    Ok(())
}

/// Puts the second copy of a file in its place, if the file is damaged and the copy is not; whether that was done.
pub(super) fn mend(path: &Path) -> bool {
    let found = check(path).map_err(BadSnapshot::or_removed);
    if !matches!(found, Err(BadSnapshot::Damaged { .. })) || check(&again(path)).is_err() {
        return false;
    }
    // The file has its name all the time: a copy without its file is removed at a start.
    let aside = aside(path);
    let _ = fs::remove_file(&aside);
    let _ = fs::hard_link(path, &aside);
    let copied = copy_to(&again(path), path).and_then(|()| File::open(path)?.sync_all());
    copied.is_ok()
}

/// Makes a file and its second copy whole, if one of them is; whether there is a second copy, or need not be. Large ones
/// are left as they are: it takes long to look.
pub(super) fn level(path: &Path, n_bytes: u64) -> bool {
    let is_damaged = |path: &Path| matches!(check(path), Err(BadSnapshot::Damaged { .. }));
    let is_small = n_bytes <= LEVEL_BYTES_MAX;
    if is_small && !mend(path) && is_damaged(&again(path)) && check(path).is_ok() {
        // It is tried again after the next rollback.
        let _ = copy(path, n_bytes);
    }
    n_bytes > BYTES_MAX || again(path).exists()
}

/// A file that is whole: this one, or its second copy.
pub(super) fn whole(path: &Path) -> PathBuf {
    match check(path) {
        Err(BadSnapshot::Damaged { .. }) if check(&again(path)).is_ok() => again(path),
        _ => path.to_path_buf(),
    }
}

/// Puts a file and its second copy aside, so that a user can look at them.
pub(super) fn put_aside(path: &Path) {
    rename_damaged(&again(path));
    rename_damaged(path);
}

fn rename_damaged(path: &Path) {
    // It stays where it is if that fails, and is found again at the next start.
    let _ = durable::rename(path, &aside(path));
}

/// Where a file is put that cannot be used.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    path.with_file_name(format!("{DAMAGED}{}", name.unwrap_or_default()))
}

/// Removes a file and its second copy.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for path in [&again(path), path] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Moves a file and its second copy.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    durable::rename(from, to)?;
    match durable::rename(&again(from), &again(to)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
