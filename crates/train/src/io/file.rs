//! Whole files in and out.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    read_regular(path).map_err(|source| Error::ReadFile { path: path.to_path_buf(), source })
}

/// Reads a file of variables; its absence is told in the words Fluid's users know.
pub(crate) fn read_vars(path: &Path, combined: bool) -> Result<Vec<u8>> {
    read_regular(path).map_err(|source| {
        let path = path.to_path_buf();
        if combined {
            Error::CannotLoadCombined { path, source }
        } else {
            Error::CannotLoad { path, source }
        }
    })
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe or a device would never end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    fs::read(path)
}

/// Writes a file whole or not at all, and makes the directories around it.
///
/// Whatever goes wrong, an older file of that name stays as it was and nothing is left beside it.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically_with(path, |out| out.write_all(bytes))
}

/// The same for a file that is written bit by bit.
pub(crate) fn write_atomically_with(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<()> {
    write(path, fill).map_err(|source| Error::WriteFile { path: path.to_path_buf(), source })
}

fn write(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory)?;
    let temporary = temporary_in(directory);
    let written = write_and_rename(&temporary, path, fill);
    if written.is_err() {
        // Best effort: the error that matters is the first one.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // The new name itself must survive a power cut too.
    File::open(directory)?.sync_all()
}

/// A short name of its own: that of the file may already be as long as names can be.
fn temporary_in(directory: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    directory.join(format!(".tmp-{}-{n}", std::process::id()))
}

fn write_and_rename(
    temporary: &Path,
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = File::create_new(temporary)?;
    fill(&mut file)?;
    file.sync_all()?;
    drop(file);
    fs::rename(temporary, path)
}

/// The file of a variable. A slash in its name makes a directory; a name that would lead out of
/// `dir` is refused, since names come from program files of others.
pub(super) fn path_of(dir: &Path, var: &str) -> Result<PathBuf> {
    let relative = Path::new(var);
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    if var.is_empty() || var.ends_with('/') || var.contains('\0') || !is_plain {
        return Err(Error::UnsafeName { var: var.to_string() });
    }
    Ok(dir.join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_in(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn makes_directories_and_replaces_whole_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/file");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(read(&path).unwrap(), b"new");
        assert_eq!(files_in(path.parent().unwrap()), ["file"]);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        // A directory in the file's place: the rename fails.
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), b"").unwrap();
        let error = write_atomically(&path, b"bytes").unwrap_err();
        assert!(matches!(error, Error::WriteFile { path: ref at, .. } if *at == path), "{error}");
        assert_eq!(files_in(dir.path()), ["taken"]);
    }

    #[test]
    fn names_stay_inside_of_the_directory() {
        let dir = Path::new("dir");
        assert_eq!(path_of(dir, "a/b").unwrap(), Path::new("dir/a/b"));
        for name in ["../x", "a/../../x", "/etc/passwd", "", "..", ".", "a/", "a\0b"] {
            let error = path_of(dir, name).unwrap_err();
            assert!(matches!(error, Error::UnsafeName { ref var } if var == name), "{error}");
        }
    }

    #[test]
    fn refuses_to_read_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read(dir.path()), Err(Error::ReadFile { .. })));
    }
}
