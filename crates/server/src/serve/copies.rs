//! Second copies of the files of cuts. Those of large files are made when the cut is kept: nobody waits for them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use super::cuts::{CutStore, warn};
use super::snapshot::{Known, copy, remove_copy};
use crate::bad_snapshot::SnapshotResult;

/// Larger files are copied later.
const AT_ONCE_BYTES_MAX: u64 = 4 << 20;

/// Files to be copied, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Copies {
    files: VecDeque<Known>,
    /// Whether a thread copies them.
    has_thread: bool,
}

impl Copies {
    /// The next file to be copied; the thread ends without one.
    fn next(&mut self) -> Option<Known> {
        let file = self.files.pop_front();
        self.has_thread = file.is_some();
        file
    }
}

impl CutStore {
    /// Makes the second copy of a file that was written, at once or later.
    pub(super) fn copy(self: &Arc<Self>, file: Known) {
        if file.n_bytes <= AT_ONCE_BYTES_MAX {
            let path = self.folder().path_of(&file);
            let copied = path.map_or(Ok(()), |path| copy(&path, file.n_bytes));
            return self.warn_of(copied);
        }
        let copies = &mut self.progress().copies;
        copies.files.push_back(file);
        if !std::mem::replace(&mut copies.has_thread, true) {
            let store = Arc::downgrade(self);
            std::thread::spawn(move || copy_all(&store));
        }
    }

    /// The next file to be copied, and its place. Leaves out files that are not needed any more.
    fn next_copy(&self) -> Option<(Known, PathBuf)> {
        loop {
            let file = self.progress().copies.next()?;
            if let Some(path) = self.folder().path_of(&file) {
                return Some((file, path));
            }
        }
    }

    fn warn_of(&self, copied: SnapshotResult<()>) {
        if let Err(error) = copied {
            warn(&self.log, format!("a cut has no second copy: {error}"));
        }
    }
}

/// Copies files until all are copied. A store that is closed meanwhile is not kept open.
fn copy_all(store: &Weak<CutStore>) {
    while let Some((file, path)) = store.upgrade().and_then(|store| store.next_copy()) {
        let copied = copy(&path, file.n_bytes);
        let Some(store) = store.upgrade() else { return };
        let folder = store.folder();
        match folder.path_of(&file) {
            Some(_) => {
                drop(folder);
                store.warn_of(copied);
            }
            // It was removed meanwhile.
            None => remove_copy(&path),
        }
    }
}
