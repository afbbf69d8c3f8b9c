//! Single files, in and out. Each belongs to the folder it is in.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::folder::{About, Folder, Transaction, is_inside, is_safe};

/// Reads a whole file. If it was saved by us, it is compared with its checksum.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let (dir, name) = split(path).map_err(|source| read_failed(path, source))?;
    Folder::consistently(&dir, |folder| folder.read(&name))
}

pub(super) fn read_failed(path: &Path, source: io::Error) -> Error {
    Error::ReadFile { path: path.to_path_buf(), source }
}

/// Reads a file of variables; if it is missing, the error has the words that Fluid's users know.
pub(crate) fn read_vars(path: &Path, combined: bool) -> Result<Vec<u8>> {
    read(path).map_err(|error| cannot_load(error, combined))
}

/// An error of reading a file of variables in the words Fluid's users know.
pub(super) fn cannot_load(error: Error, combined: bool) -> Error {
    match error {
        Error::ReadFile { path, source } if combined => Error::CannotLoadCombined { path, source },
        Error::ReadFile { path, source } => Error::CannotLoad { path, source },
        other => other,
    }
}

/// Writes a file whole or not at all, and makes the directories around it.
///
/// After any failure, an older file of that name is unchanged.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |source| Error::WriteFile { path: path.to_path_buf(), source };
    let (dir, name) = split(path).map_err(failed)?;
    let transaction = Transaction::begin(&dir)?;
    transaction.write(&name, bytes)?;
    transaction.commit(About::new("file"))
}

/// The folder of a file, and its name there.
pub(super) fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let dir = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().and_then(|name| name.to_str());
    let name =
        name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no name of a file"))?;
    Ok((dir.to_path_buf(), name.to_string()))
}

/// The folder and the name in it of a file that is given relative to a folder, if it stays inside.
pub(super) fn place_of(dir: &Path, filename: &str) -> Result<(PathBuf, String)> {
    if is_safe(filename) {
        return Ok((dir.to_path_buf(), filename.to_string()));
    }
    let path = dir.join(filename);
    split(&path).map_err(|source| Error::WriteFile { path, source })
}

/// The file of a variable. A slash in its name makes a directory; a name that would lead out of
/// its folder is refused, since names come from program files of others.
pub(super) fn file_of(var: &str) -> Result<&str> {
    if is_safe(var) { Ok(var) } else { Err(Error::UnsafeName { var: var.to_string() }) }
}

/// The file of a variable that is loaded. Programs that load every file of a folder load our list of its files too.
pub(super) fn file_to_load(var: &str) -> Result<&str> {
    if is_inside(var) { Ok(var) } else { file_of(var) }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        assert_eq!(files_in(path.parent().unwrap()), [".paddlewheel", "file"]);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        // A directory in the file's place.
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), b"").unwrap();
        let error = write_atomically(&path, b"bytes").unwrap_err();
        assert!(matches!(error, Error::WriteFile { path: ref at, .. } if *at == path), "{error}");
        assert_eq!(files_in(dir.path()), ["taken"]);
    }

    #[test]
    fn names_stay_inside_of_the_directory() {
        assert_eq!(file_of("a/b").unwrap(), "a/b");
        for name in ["../x", "a/../../x", "/etc/passwd", "", "..", ".", "a/", "a\0b"] {
            let error = file_of(name).unwrap_err();
            assert!(matches!(error, Error::UnsafeName { ref var } if var == name), "{error}");
        }
        // A file name may contain a path.
        let dir = Path::new("dir");
        assert_eq!(place_of(dir, "a/b").unwrap(), (dir.into(), "a/b".to_string()));
        assert_eq!(place_of(dir, "/a/b").unwrap(), ("/a".into(), "b".to_string()));
        assert_eq!(place_of(dir, "../b").unwrap(), ("dir/..".into(), "b".to_string()));
        assert!(matches!(place_of(dir, ".."), Err(Error::WriteFile { .. })));
    }

    #[test]
    fn refuses_to_read_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read(dir.path()), Err(Error::ReadFile { .. })));
    }
}
