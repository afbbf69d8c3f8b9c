//! Locks that end with their process, however it ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::away;
use super::disk::{create_dir_all, remove_file, write_failed};
use crate::error::{Error, Result};

/// Held while a save is committed.
const LOCK: &str = "lock";
/// How long others may hold it; what they do under it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// The lock of a folder. Its last holder removes its file, and the folder of saves if that is empty: only saved files are left.
#[derive(Debug)]
pub(super) struct FolderLock {
    file: File,
    saving: PathBuf,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        let path = self.saving.join(LOCK);
        let is_alone = match self.file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(source)) => has_no_locks(&source),
        };
        // A file that cannot be removed does no harm; the next holder tries again.
        if is_alone && is_at(&self.file, &path) && remove_file(&path).is_ok() {
            let _ = fs::remove_dir(&self.saving);
        }
    }
}

/// Waits until nobody else commits a save into the folder with this folder of saves, which is made.
pub(super) fn exclusive(saving: &Path) -> Result<FolderLock> {
    exclusive_in(saving, create_dir_all)
}

/// The same for the folder of all saves of this user.
pub(super) fn of_stages(stages: &Path) -> Result<FolderLock> {
    exclusive_in(stages, away::make)
}

fn exclusive_in(saving: &Path, make: impl Fn(&Path) -> io::Result<()>) -> Result<FolderLock> {
    let path = saving.join(LOCK);
    let dir = saving.parent().unwrap_or(saving);
    let deadline = Instant::now() + PATIENCE;
    loop {
        make(saving).map_err(write_failed(dir))?;
        match open(&path) {
            Ok(file) => {
                let lock = wait(file, saving, deadline, File::try_lock)?;
                if is_at(&lock.file, &path) {
                    return Ok(lock);
                }
            }
            // The last one has just removed the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < deadline => {}
            Err(source) => return Err(write_failed(dir)(source)),
        }
    }
}

/// The lock of a folder of saves that exists, if nobody has it at this moment and this process may take it.
pub(super) fn at_once(saving: &Path) -> Option<FolderLock> {
    let path = saving.join(LOCK);
    let file = open(&path).ok()?;
    file.try_lock().ok()?;
    is_at(&file, &path).then(|| FolderLock { file, saving: saving.to_path_buf() })
}

/// Keeps others from committing a save; `None` if this process cannot.
pub(super) fn shared(saving: &Path) -> Result<Option<FolderLock>> {
    let path = saving.join(LOCK);
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A process without the right to write here may read a lock that others made.
        let made = create_dir_all(saving).and_then(|()| open(&path));
        let file = match made.or_else(|_| File::open(&path)) {
            Ok(file) => file,
            Err(_) => return Ok(None),
        };
        let lock = wait(file, saving, deadline, File::try_lock_shared)?;
        if is_at(&lock.file, &path) {
            return Ok(Some(lock));
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

/// Whether a file is still the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |own: fs::Metadata, other: fs::Metadata| {
        own.ino() == other.ino() && own.dev() == other.dev()
    };
    file.metadata().is_ok_and(|own| fs::metadata(path).is_ok_and(|other| same(own, other)))
}

fn wait(
    file: File,
    saving: &Path,
    deadline: Instant,
    lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<FolderLock> {
    let path = saving.join(LOCK);
    loop {
        match lock(&file) {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::FolderInUse { path, secs: PATIENCE.as_secs() });
            }
            // File systems without locks have one user at a time, as they always had.
            Err(TryLockError::Error(source)) if has_no_locks(&source) => break,
            Err(TryLockError::Error(source)) => return Err(Error::WriteFile { path, source }),
        }
    }
    Ok(FolderLock { file, saving: saving.to_path_buf() })
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
