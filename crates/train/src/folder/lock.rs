//! Locks that end with their process, however it ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::away;
use super::disk::{create_dir_all, remove_file, write_failed};
use super::left::is_on_one_machine;
use super::private_of;
use crate::error::{Error, Result};

/// The file that is locked among the stages of saves.
const LOCK: &str = "lock";
/// The file that is locked in a folder that cannot be locked itself.
const LOCK_INSIDE: &str = ".paddlewheel.lock";
/// How long others may hold it; what they do under it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// The lock of a folder, or of a file in it, which its last holder removes: only saved files are left.
#[derive(Debug)]
pub(super) struct FolderLock {
    file: File,
    what: Locked,
}

/// What is locked.
#[derive(Clone, Debug)]
enum Locked {
    /// A folder itself: nothing is seen of it.
    Folder(PathBuf),
    /// A file in a folder.
    File(PathBuf),
    /// A file in a folder that is removed with it when it is empty.
    Only(PathBuf),
}

impl Locked {
    /// The folder itself, if its system has such locks for all processes and no other user may hold it.
    fn of(dir: &Path) -> Self {
        let file = private_of(dir, LOCK_INSIDE);
        let is_shared = file != dir.join(LOCK_INSIDE);
        if is_on_one_machine(dir) && !is_shared {
            Self::Folder(dir.to_path_buf())
        } else {
            Self::File(file)
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::File(path) | Self::Only(path) => path,
        }
    }

    /// Makes what is not there.
    fn open(&self) -> io::Result<File> {
        let folder = self.path().parent().unwrap_or(self.path());
        match self {
            Self::Folder(path) => {
                create_dir_all(path)?;
                return File::open(path);
            }
            Self::File(_) => create_dir_all(folder)?,
            Self::Only(_) => away::make(folder)?,
        }
        OpenOptions::new().read(true).append(true).create(true).open(self.path())
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        let path = self.what.path();
        if matches!(self.what, Locked::Folder(_)) {
            return;
        }
        let is_alone = match self.file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(source)) => has_no_locks(&source),
        };
        // A file that cannot be removed does no harm; the next holder tries again.
        let is_removed = is_alone && is_at(&self.file, path) && remove_file(path).is_ok();
        if is_removed && matches!(self.what, Locked::Only(_)) {
            let _ = path.parent().map(fs::remove_dir);
        }
    }
}

/// Waits until nobody else commits a save into a folder, which is made.
pub(super) fn exclusive(dir: &Path) -> Result<FolderLock> {
    // What is locked depends on where it is.
    create_dir_all(dir).map_err(write_failed(dir))?;
    wait_for(Locked::of(dir))
}

/// The same for the folder of all saves of this user.
pub(super) fn of_stages(stages: &Path) -> Result<FolderLock> {
    wait_for(Locked::Only(stages.join(LOCK)))
}

fn wait_for(what: Locked) -> Result<FolderLock> {
    let dir = what.path().parent().unwrap_or(what.path()).to_path_buf();
    let deadline = Instant::now() + PATIENCE;
    loop {
        match what.open() {
            Ok(file) => {
                let lock = wait(file, &what, deadline, File::try_lock)?;
                if is_at(&lock.file, what.path()) {
                    return Ok(lock);
                }
            }
            // The last one has just removed the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < deadline => {}
            Err(source) => return Err(write_failed(&dir)(source)),
        }
    }
}

/// The lock of a folder that exists, if nobody has it at this moment and this process may take it.
pub(super) fn at_once(dir: &Path) -> Option<FolderLock> {
    let what = Locked::of(dir);
    let file = what.open().ok()?;
    file.try_lock().ok()?;
    is_at(&file, what.path()).then_some(FolderLock { file, what })
}

/// Keeps others from committing a save; `None` if this process cannot.
pub(super) fn shared(dir: &Path) -> Result<Option<FolderLock>> {
    let what = Locked::of(dir);
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A process without the right to write here may read a lock that others made.
        let file = match what.open().or_else(|_| File::open(what.path())) {
            Ok(file) => file,
            Err(_) => return Ok(None),
        };
        let lock = wait(file, &what, deadline, File::try_lock_shared)?;
        if is_at(&lock.file, what.path()) {
            return Ok(Some(lock));
        }
    }
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
    what: &Locked,
    deadline: Instant,
    lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<FolderLock> {
    let path = what.path().to_path_buf();
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
    Ok(FolderLock { file, what: what.clone() })
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
