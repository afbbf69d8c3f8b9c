//! Files that are replaced as a whole, and survive a power cut.
//!
//! [`replace`] is the only way in which this project replaces a file. It writes beside the file, under a name that no
//! other process and no other thread has, makes that durable and renames it. A reader finds the old file or the
//! new one, and several processes may replace one file at the same time: the last rename wins. A process that
//! ends in between leaves a file whose name ends with [`UNFINISHED`]; the next replacement removes it.
//!
//! Files of several sections have checksums ([`SectionWriter`], [`SectionReader`]), and so have records of files that only
//! grow ([`Record`]).
//!
//! Saves of several files into a folder, all or nothing, are `train::folder`.

mod damage;
mod records;
mod sections;

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub use damage::{FileStart, Problem, ReadResult};
pub use records::Record;
pub use sections::{SectionForm, SectionHead, SectionReader, SectionWriter, sealed};

/// How the name of a file ends that is not complete.
pub const UNFINISHED: &str = ".new";

/// How much of a file is copied at once.
const COPIED_AT_ONCE: usize = 1 << 20;

/// The readers of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All users, except those that the umask of the process excludes: logs and saves.
    Umask,
    /// Only the user: secrets, snapshots and journals.
    Owner,
}

impl Access {
    fn of_file(self) -> u32 {
        match self {
            Access::Umask => 0o666,
            Access::Owner => 0o600,
        }
    }

    fn of_folder(self) -> u32 {
        match self {
            Access::Umask => 0o777,
            Access::Owner => 0o700,
        }
    }

    /// How files are opened; those that are made get this access. Further options are up to the caller.
    pub fn options(self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.mode(self.of_file());
        options
    }
}

/// Makes a folder and those around it. One that is there stays as it is.
pub fn create_folder(path: &Path, access: Access) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(access.of_folder()).create(path)
}

/// Replaces a file by what `write` writes. After an error it is as it was.
pub fn replace(
    path: &Path,
    access: Access,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    clean(path);
    let mut fresh = Replacement::begin(path, access)?;
    write(fresh.file())?;
    fresh.commit()
}

/// Replaces a file by these bytes.
pub fn replace_with(path: &Path, access: Access, bytes: &[u8]) -> io::Result<()> {
    replace(path, access, |file| file.write_all(bytes))
}

/// Replaces a file by a copy of another. The copy is whole or not there, but not made durable.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let temporary = beside(to)?;
    let copied = copy_bytes(from, &temporary).and_then(|()| fs::rename(&temporary, to));
    copied.inspect_err(|_| remove(&temporary))
}

/// Reads and writes. Calls that copy for us let both files share their blocks where a file system can do that: what
/// damages one would damage the other.
fn copy_bytes(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mode = from.metadata()?.mode() & 0o777;
    let mut to = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
    let mut part = vec![0; COPIED_AT_ONCE];
    loop {
        match from.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(n_read) => to.write_all(&part[..n_read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Replaces a link by one to `target`.
pub fn replace_link(path: &Path, target: &Path) -> io::Result<()> {
    let temporary = beside(path)?;
    std::os::unix::fs::symlink(target, &temporary)?;
    fs::rename(&temporary, path).inspect_err(|_| remove(&temporary))
}

/// Puts a folder in the place of another, or of a file. The old one is only gone when the new one has its name.
pub fn replace_folder(fresh: &Path, path: &Path) -> io::Result<()> {
    // A folder is not renamed over another.
    let old = beside(path)?;
    match fs::rename(path, &old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(fresh, path)?,
        moved => {
            moved?;
            // Best effort: the error that matters is the first one.
            fs::rename(fresh, path).inspect_err(|_| drop(fs::rename(&old, path)))?;
        }
    }
    sync_folder_of(path)?;
    match fs::symlink_metadata(&old) {
        Ok(kind) if kind.is_dir() => fs::remove_dir_all(&old),
        Ok(_) => fs::remove_file(&old),
        Err(_) => Ok(()),
    }
}

/// Puts a file that another program wrote [`beside`] another in its place, durably.
pub fn place(fresh: &Path, path: &Path) -> io::Result<()> {
    let placed =
        File::open(fresh).and_then(|file| file.sync_all()).and_then(|()| rename(fresh, path));
    placed.inspect_err(|_| remove(fresh))
}

/// Moves a file to another name, durably.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_folder_of(to)
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems, those over a network among them, know no such thing.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    sync_folder(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that is not in its place yet. Without [`Replacement::commit`] it is removed.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl Replacement {
    /// Begins a file beside its place. It is locked while this process has it, so that no other process takes
    /// it for one that was left behind.
    pub fn begin(path: &Path, access: Access) -> io::Result<Self> {
        loop {
            let temporary = beside(path)?;
            let file = access.options().write(true).create_new(true).open(&temporary)?;
            let is_ours = match file.try_lock() {
                Ok(()) => is_at(&file, &temporary),
                Err(TryLockError::WouldBlock) => false,
                // A file system without locks: no process can lock, so none cleans.
                Err(TryLockError::Error(_)) => true,
            };
            if is_ours {
                return Ok(Self { file, temporary, path: path.to_path_buf() });
            }
        }
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Where it is until it has its name.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Makes the file durable and gives it its name.
    pub fn commit(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        sync_folder_of(&self.path)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // After the commit it has another name.
        remove(&self.temporary);
    }
}

/// Best effort: the next replacement removes a file that stays.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

/// A unique name beside a file: hidden, and not that of another process or machine.
pub fn beside(path: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "this is not the name of a file")
    })?;
    let (process, n) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    // Two machines that share a folder may have processes of one number.
    let random = RandomState::new().build_hasher().finish();
    let name =
        format!("{}{process}-{n}-{random:016x}{UNFINISHED}", prefix(&name.to_string_lossy()));
    Ok(path.with_file_name(name))
}

/// How the names of unfinished files of this name begin.
fn prefix(name: &str) -> String {
    // A long name would be too long with what is added.
    const BYTES_MAX: usize = 180;
    format!(".{}.", &name[..name.floor_char_boundary(BYTES_MAX)])
}

/// Removes what processes left that ended while they replaced this file.
fn clean(path: &Path) {
    let Some(name) = path.file_name() else { return };
    let prefix = prefix(&name.to_string_lossy());
    let Ok(entries) = fs::read_dir(folder_of(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let id = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(UNFINISHED));
        let is_id = |id: &str| id.bytes().all(|c| c.is_ascii_hexdigit() || c == b'-');
        if id.is_some_and(is_id) {
            remove_left(&entry.path());
        }
    }
}

/// Removes an unfinished file that no process writes. It is locked until it is gone: its maker, which may be about to
/// ask for the lock, finds that it has another one to make.
fn remove_left(path: &Path) {
    let Ok(file) = OpenOptions::new().append(true).open(path) else { return };
    if file.try_lock().is_ok() && is_at(&file, path) {
        remove(path);
    }
}

/// Whether a file is still the one at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let is_same = |own: fs::Metadata, other: fs::Metadata| {
        (own.ino(), own.dev()) == (other.ino(), other.dev())
    };
    file.metadata().is_ok_and(|own| fs::metadata(path).is_ok_and(|other| is_same(own, other)))
}

#[cfg(test)]
mod tests;
