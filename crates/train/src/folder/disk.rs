//! Every change of a folder goes through here, so that tests can stop between any two.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::Error;

pub(super) fn write_failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::WriteFile { path: path.to_path_buf(), source }
}

/// Makes a folder.
pub(super) fn create_dir(path: &Path) -> io::Result<()> {
    before(&Change::Make)?;
    fs::create_dir(path)
}

/// Makes a folder and those around it.
pub(super) fn create_dir_all(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    before(&Change::Make)?;
    match fs::create_dir_all(path) {
        // Something else has the name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Errno::NOTDIR.into()),
        made => made,
    }
}

/// Writes a whole file, which is not durable yet.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    before(&Change::Write(path))?;
    fs::write(path, bytes)
}

/// Begins a file, which is written bit by bit.
pub(super) fn create(path: &Path) -> io::Result<File> {
    before(&Change::Write(path))?;
    File::create(path)
}

/// Whether there is memory for some more threads. Where there is none for what the system keeps of a thread, it ends the
/// process.
pub(super) fn has_room_for_threads() -> bool {
    const THREADS_BYTES: usize = 32 << 20;
    Vec::<u8>::new().try_reserve_exact(THREADS_BYTES).is_ok()
}

/// A file of this size takes the system long to remove.
const LARGE_BYTES: u64 = 16 << 20;

/// Gives a file or a folder another name, and replaces what has that name.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    before(&Change::Rename(from, to))?;
    let is_large = fs::metadata(to).is_ok_and(|old| old.is_file() && old.len() >= LARGE_BYTES);
    let is_later = is_large && has_room_for_threads();
    let old = is_later.then(|| File::open(to).ok()).flatten();
    fs::rename(from, to)?;
    if let Some(old) = old {
        // The last process that has it open waits for its removal. Without a thread that is this one.
        let _ = thread::Builder::new().spawn(move || drop(old));
    }
    Ok(())
}

/// Gives a file another name; what has that name does not matter. Where the system cannot (a quota of its own), the
/// file is copied, and is durable then.
pub(super) fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            fs::copy(from, to)?;
            sync(to)
        }
        moved => moved,
    }
}

/// Replaces a file at one moment. Where that needs a copy, this is `beside` it first.
pub(super) fn replace_file(from: &Path, to: &Path, beside: &Path) -> io::Result<()> {
    match rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            move_file(from, beside)?;
            rename(beside, to)
        }
        moved => moved,
    }
}

/// Gives a file the name of a folder, and the folder the name of the file, at one moment where the system can. Where
/// it cannot, the folder moves to `aside` first.
pub(super) fn exchange(file: &Path, folder: &Path, aside: &Path) -> io::Result<()> {
    before(&Change::Rename(file, folder))?;
    if renameat_with(CWD, file, CWD, folder, RenameFlags::EXCHANGE).is_ok() {
        return fs::rename(file, aside);
    }
    fs::rename(folder, aside)?;
    fs::rename(file, folder)
}

/// Removes a file that others may have removed meanwhile.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    before(&Change::Remove)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a folder with all that is in it, as far as that goes: nobody will look at it.
pub(super) fn remove_dir_all(path: &Path) {
    let _ = before(&Change::Remove).and_then(|()| fs::remove_dir_all(path));
}

/// Makes a file or a folder durable.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    before(&Change::Sync(path))?;
    File::open(path)?.sync_all()
}

/// A change of the disk.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), allow(dead_code))] // Tests read the paths.
pub(super) enum Change<'a> {
    Make,
    Write(&'a Path),
    Rename(&'a Path, &'a Path),
    Remove,
    Sync(&'a Path),
}

#[cfg(not(test))]
pub(super) fn before(_: &Change<'_>) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(super) use watched::{before, watch};

#[cfg(test)]
mod watched {
    use std::cell::RefCell;
    use std::io;

    use super::Change;

    type Watcher = Box<dyn FnMut(&Change<'_>) -> io::Result<()>>;

    thread_local! {
        static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
    }

    /// Calls a function before every change that this thread makes, until the next one is set. An error of
    /// the function is an error of the disk, and the change does not happen.
    pub(in super::super) fn watch(watcher: Option<Watcher>) {
        WATCHER.set(watcher);
    }

    pub(in super::super) fn before(change: &Change<'_>) -> io::Result<()> {
        // A watcher that looks at the disk through these functions is not watched.
        let Some(mut watcher) = WATCHER.take() else { return Ok(()) };
        let answer = watcher(change);
        WATCHER.set(Some(watcher));
        answer
    }
}
