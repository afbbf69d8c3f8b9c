//! Locks that end with their process, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Held while a save is committed.
const LOCK: &str = "lock";
/// How long others may hold it; what they do under it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until nobody else commits a save into the folder with this private folder.
pub(super) fn exclusive(private: &Path) -> Result<File> {
    let path = private.join(LOCK);
    let open = || OpenOptions::new().read(true).append(true).create(true).open(&path);
    let file = open().map_err(|source| Error::WriteFile { path: path.clone(), source })?;
    wait(file, &path, File::try_lock)
}

/// Keeps others from committing a save; `None` if there is nobody who could.
pub(super) fn shared(private: &Path) -> Result<Option<File>> {
    let path = private.join(LOCK);
    match File::open(&path) {
        Ok(file) => wait(file, &path, File::try_lock_shared).map(Some),
        Err(_) => Ok(None),
    }
}

fn wait(
    file: File,
    path: &Path,
    lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<File> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match lock(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let (path, secs) = (path.to_path_buf(), PATIENCE.as_secs());
                return Err(Error::FolderInUse { path, secs });
            }
            // File systems without locks have one user at a time, as they always had.
            Err(TryLockError::Error(source)) if has_no_locks(&source) => return Ok(file),
            Err(TryLockError::Error(source)) => {
                return Err(Error::WriteFile { path: path.to_path_buf(), source });
            }
        }
    }
}

fn has_no_locks(error: &io::Error) -> bool {
    const ENOLCK: i32 = 37;
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(ENOLCK)
}

/// Makes a file that is locked as long as this process has it open.
pub(super) fn own(path: &Path) -> io::Result<File> {
    let file = File::create_new(path)?;
    match file.try_lock() {
        Err(TryLockError::Error(source)) if !has_no_locks(&source) => Err(source),
        _ => Ok(file),
    }
}

/// Whether the process that made such a file is gone, or there is none.
pub(super) fn is_left(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => file.try_lock().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
