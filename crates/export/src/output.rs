//! Files that are there whole or not at all, and replace others only if that is wanted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A file or folder that is made beside its place.
#[derive(Debug)]
pub(crate) struct NewOutput {
    path: PathBuf,
    new: PathBuf,
}

impl NewOutput {
    /// Refuses to replace what is there, unless that is wanted.
    pub(crate) fn new(path: &Path, force: bool) -> Result<Self> {
        if !force && fs::symlink_metadata(path).is_ok() {
            return Err(Error::Exists { path: path.to_path_buf() });
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| {
            failed(path, io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a file"))
        })?;
        let new = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
        Ok(Self { path: path.to_path_buf(), new })
    }

    /// Writes the file.
    pub(crate) fn file(
        self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<()> {
        let made = || {
            let file = OpenOptions::new().write(true).create_new(true).open(&self.new)?;
            let mut file = BufWriter::new(file);
            write(&mut file)?;
            file.flush()?;
            file.get_ref().sync_all()
        };
        let placed = made().and_then(|()| fs::rename(&self.new, &self.path));
        placed.map_err(|source| failed(&self.path, source))
    }

    /// Writes the file. What is wrong with its contents is another error than what is wrong with the disk.
    pub(crate) fn file_of(
        self,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
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
        fs::create_dir(&self.new).map_err(|source| failed(&self.path, source))?;
        fill(&self.new)?;
        let place = || {
            // A folder is not renamed over another. The old one is only gone when the new one is whole.
            let old = self.new.with_extension("old");
            match fs::rename(&self.path, &old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => fs::rename(&self.new, &self.path)?,
            }
            match fs::symlink_metadata(&old) {
                Ok(kind) if kind.is_dir() => fs::remove_dir_all(&old),
                Ok(_) => fs::remove_file(&old),
                Err(_) => Ok(()),
            }
        };
        place().map_err(|source| failed(&self.path, source))
    }
}

impl Drop for NewOutput {
    fn drop(&mut self) {
        // What was placed has another name.
        let _ = fs::remove_file(&self.new);
        let _ = fs::remove_dir_all(&self.new);
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
