//! Second copies: a disk may damage a file, and no server holds what another one has kept.
//!
//! The copy of `X` is `X.again`. It is not made durable, because `X` is: after a power cut it may be damaged, and then
//! nobody takes it. Without its file it is of no use, so it is removed first.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file::FileReader;
use crate::error::{BadSnapshot, SnapshotResult};

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
pub(super) fn copy(path: &Path, n_bytes: u64) -> io::Result<()> {
    match n_bytes <= BYTES_MAX {
        true => copy_to(path, &again(path)),
        false => Ok(()),
    }
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
    let is_damaged = matches!(check(path), Err(BadSnapshot::Damaged { .. }));
    if !is_damaged || check(&again(path)).is_err() {
        return false;
    }
    rename_damaged(path);
    copy_to(&again(path), path).is_ok()
}

/// Makes a file and its second copy whole, if one of them is. Large ones are left as they are: it takes long to look.
pub(super) fn level(path: &Path, n_bytes: u64) {
    let is_damaged = |path: &Path| matches!(check(path), Err(BadSnapshot::Damaged { .. }));
    if n_bytes <= LEVEL_BYTES_MAX && !mend(path) && is_damaged(&again(path)) && check(path).is_ok()
    {
        // It is tried again after the next rollback.
        let _ = copy(path, n_bytes);
    }
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
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let aside = path.with_file_name(format!("{DAMAGED}{}", name.unwrap_or_default()));
    // It stays where it is if that fails, and is found again at the next start.
    let _ = durable::rename(path, &aside);
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
