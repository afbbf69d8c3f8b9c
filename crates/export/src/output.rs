//! Files that are there whole or not at all, and replace others only if that is wanted.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use durable::Access;

use crate::error::{Error, Result};

/// A file or folder that is made beside its place.
#[derive(Debug)]
pub(crate) struct NewOutput {
    path: PathBuf,
}

impl NewOutput {
    /// Refuses to replace a file or folder, unless that is wanted.
    pub(crate) fn new(path: &Path, force: bool) -> Result<Self> {
        if !force && fs::symlink_metadata(path).is_ok() {
            return Err(Error::Exists { path: path.to_path_buf() });
        }
        Ok(Self { path: path.to_path_buf() })
    }

    /// Writes the file.
    pub(crate) fn file(
        self,
        write: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
    ) -> Result<()> {
        let placed = durable::replace(&self.path, Access::Umask, |file| {
            let mut file = BufWriter::new(file);
            write(&mut file)?;
            file.flush()
        });
        placed.map_err(|source| failed(&self.path, source))
    }

    /// Writes the file. Errors of its contents are told apart from errors of the disk.
    pub(crate) fn file_of(
        self,
        write: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>,
    ) -> Result<()> {
        let mut wrong = None;
        let written = self.file(|file| {
            write(file).map_err(|error| {
                wrong = Some(error);
                io::ErrorKind::InvalidData.into()
            })
        });
        wrong.map_or(written, Err)
    }

    /// Makes the folder; `fill` writes into it.
    pub(crate) fn folder(self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let failed = |source| failed(&self.path, source);
        let new = durable::beside(&self.path).map_err(failed)?;
        fs::create_dir(&new).map_err(failed)?;
        let filled = fill(&new);
        let placed =
            filled.and_then(|()| durable::replace_folder(&new, &self.path).map_err(failed));
        placed.inspect_err(|_| {
            // Best effort: the error that matters is the first one.
            let _ = fs::remove_dir_all(&new);
        })
    }
}

pub(crate) fn failed(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_path_buf(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_replaced_only_by_force_and_never_by_half() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        NewOutput::new(&path, false).unwrap().file(|file| file.write_all(b"one")).unwrap();
        assert!(matches!(NewOutput::new(&path, false), Err(Error::Exists { .. })));
        let half = NewOutput::new(&path, true).unwrap().file(|file| {
            file.write_all(b"tw")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(matches!(half, Err(Error::Write { .. })), "{half:?}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
        let fill = |new: &Path| fs::write(new.join("y"), "y").map_err(|e| failed(new, e));
        NewOutput::new(&path, true).unwrap().folder(fill).unwrap();
        NewOutput::new(&path, true).unwrap().folder(fill).unwrap();
        assert_eq!(fs::read(path.join("y")).unwrap(), b"y");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
