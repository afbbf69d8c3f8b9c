//! Files of a save that is not committed yet.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::thread;

use base::EvenIfPoisoned;
use metrics::Phase;

use rustix::fs::{Advice, fadvise};

use super::disk::{self, create_dir, create_dir_all, remove_dir_all, sync, write_failed};
use super::manifest::{SavedFile, SavedPart, SavedVar, is_safe};
use super::{BLOCK_BYTES, lock};
use crate::error::{Error, Result};

/// Where the files of a stage are, as they will be in the folder.
pub(super) const FILES: &str = "files";
/// The folder with the lists of other processes that added files.
pub(super) const LISTS: &str = "lists";
/// How the names of files begin that are locked while the processes live that write into the stage.
const OWNER: &str = "owner-";
/// Bytes after which the disk begins to write.
const BEGIN_BYTES: u64 = 8 << 20;
/// For fewer bytes another thread is not worth it.
const LARGE_BYTES: usize = 16 << 20;
/// How the name of a stage begins.
const PREFIX: &str = "stage-";

/// A folder with files of a save.
#[derive(Debug)]
pub struct Stage {
    pub(super) path: PathBuf,
    /// The folder that is saved into.
    dir: PathBuf,
    /// Complete files.
    files: Mutex<Vec<SavedFile>>,
    /// The progress, for watchers.
    phase: Phase,
}

impl Stage {
    /// A path for a new stage. No other has it, not even on another disk.
    pub(super) fn new_path(saving: &Path) -> PathBuf {
        // Only names of files that are gone when the save is done depend on it.
        let id = RandomState::new().build_hasher().finish();
        saving.join(format!("{PREFIX}{id:016x}"))
    }

    /// The stage at a path, which is made if it is not there; it belongs to this process as long as the
    /// file is open. The caller holds the lock.
    pub(super) fn own(path: &Path, dir: &Path) -> Result<(Self, File)> {
        match create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(write_failed(path))?,
        }
        let id = RandomState::new().build_hasher().finish();
        let owner = lock::own(&path.join(format!("{OWNER}{id:016x}")));
        let phase = Phase::begin("saving", "bytes");
        Ok((Self { phase, ..Self::at(path, dir) }, owner.map_err(write_failed(path))?))
    }

    /// The stage at a path, of a save into a folder.
    pub(super) fn at(path: &Path, dir: &Path) -> Self {
        let (path, dir) = (path.to_path_buf(), dir.to_path_buf());
        Self { path, dir, files: Mutex::default(), phase: Phase::default() }
    }

    /// So many bytes are about to be written, all in all.
    pub fn expect(&self, n_bytes: u64) {
        self.phase.set_total(n_bytes);
    }

    /// The same stage, with its own line of progress.
    pub(super) fn shown(self) -> Self {
        Self { phase: Phase::begin("saving", "bytes"), ..self }
    }

    /// Begins a file.
    pub fn create(&self, name: &str) -> Result<FileWriter<'_>> {
        if !is_safe(name) {
            return Err(Error::UnsafeName { var: name.to_string() });
        }
        let (path, target) = (self.path.join(FILES).join(name), self.target(name));
        let create = || {
            if let Some(parent) = path.parent() {
                create_dir_all(parent)?;
            }
            disk::create(&path)
        };
        let file = create().map_err(write_failed(&target))?;
        let saved = SavedFile {
            name: name.to_string(),
            n_bytes: 0,
            checksum: 0,
            vars: Vec::new(),
            part: None,
        };
        let (checksum, block) = (crc32fast::Hasher::new(), Vec::new());
        Ok(FileWriter { stage: self, target, file, checksum, block, n_begun: 0, saved })
    }

    /// Where a file will be.
    fn target(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a whole file.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut file = self.create(name)?;
        file.write_all(bytes).map_err(|source| file.failed(source))?;
        file.finish()
    }

    fn files(&self) -> MutexGuard<'_, Vec<SavedFile>> {
        self.files.lock().even_if_poisoned()
    }

    /// Makes what was written durable, and says what it is, in order of the names.
    pub(super) fn synced(&self) -> Result<Vec<SavedFile>> {
        let mut files = self.files().clone();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        // The last of several with one name is the one that is there.
        files.reverse();
        files.dedup_by(|a, b| a.name == b.name);
        files.reverse();
        let root = self.path.join(FILES);
        let mut folders = BTreeSet::from([self.path.clone()]);
        for file in &files {
            let path = root.join(&file.name);
            sync(&path).map_err(write_failed(&self.target(&file.name)))?;
            let inside = path.ancestors().skip(1).take_while(|folder| folder.starts_with(&root));
            folders.extend(inside.map(Path::to_path_buf));
        }
        folders.iter().try_for_each(|folder| sync(folder).map_err(write_failed(folder)))?;
        Ok(files)
    }

    /// Removes the stage with all that is in it.
    pub(super) fn remove(&self) {
        remove_dir_all(&self.path);
    }
}

/// Removes stages of processes that are gone. The caller holds the lock.
pub(super) fn clean(saving: &Path) {
    let Ok(entries) = fs::read_dir(saving) else { return };
    for entry in entries.flatten() {
        let is_stage = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_stage && is_left(&entry.path()) {
            remove_dir_all(&entry.path());
        }
    }
}

/// Whether all processes that wrote into a stage are gone.
fn is_left(stage: &Path) -> bool {
    let Ok(entries) = fs::read_dir(stage) else { return false };
    let is_owner = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(OWNER);
    let mut owners = entries.flatten().filter(is_owner);
    owners.all(|owner| lock::is_left(&owner.path()))
}

/// A file of a save, while it is written. It is part of the save when it is finished.
#[derive(Debug)]
pub struct FileWriter<'a> {
    stage: &'a Stage,
    /// Where it will be.
    target: PathBuf,
    file: File,
    checksum: crc32fast::Hasher,
    /// Bytes that are not written yet.
    block: Vec<u8>,
    /// Bytes that the disk was asked to write.
    n_begun: u64,
    saved: SavedFile,
}

impl FileWriter<'_> {
    /// Says that a variable is in the file.
    pub fn holds(&mut self, var: SavedVar) {
        self.saved.vars.push(var);
    }

    /// Says that the file is a part of a variable.
    pub fn is_part(&mut self, part: SavedPart) {
        self.saved.part = Some(part);
    }

    /// The file is complete.
    pub fn finish(mut self) -> Result<()> {
        self.flush().map_err(write_failed(&self.target))?;
        self.saved.checksum = self.checksum.finalize();
        self.stage.files().push(self.saved);
        Ok(())
    }

    /// Turns an I/O error of this file into an error of this crate.
    pub fn failed(&self, source: io::Error) -> Error {
        write_failed(&self.target)(source)
    }

    fn write_block(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < LARGE_BYTES {
            self.checksum.update(bytes);
            return self.write_blocks(bytes);
        }
        // Another core takes the checksum meanwhile.
        let checksum = thread::scope(|scope| {
            let checksum = scope.spawn(|| {
                let mut checksum = crc32fast::Hasher::new();
                checksum.update(bytes);
                checksum
            });
            let written = self.write_blocks(bytes);
            let checksum = checksum.join().map_err(|_| io::Error::other("no checksum was taken"));
            written.and(checksum)
        })?;
        self.checksum.combine(&checksum);
        Ok(())
    }

    fn write_blocks(&mut self, bytes: &[u8]) -> io::Result<()> {
        for block in bytes.chunks(BLOCK_BYTES) {
            self.file.write_all(block)?;
            self.saved.n_bytes += block.len() as u64;
            self.stage.phase.add(block.len() as u64);
            if self.saved.n_bytes - self.n_begun >= BEGIN_BYTES {
                self.begin_writing();
            }
        }
        Ok(())
    }

    /// Lets the disk begin with what was written, so that less is left when all must be durable.
    fn begin_writing(&mut self) {
        let n = NonZeroU64::new(self.saved.n_bytes - self.n_begun);
        // The system may drop these pages once they are written. Nothing depends on it.
        let _ = fadvise(&self.file, self.n_begun, n, Advice::DontNeed);
        self.n_begun = self.saved.n_bytes;
    }
}

impl Write for FileWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.len() + bytes.len() > BLOCK_BYTES {
            self.flush()?;
        }
        if bytes.len() < BLOCK_BYTES {
            self.block.extend_from_slice(bytes)
        } else {
            self.write_block(bytes)?
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let block = std::mem::take(&mut self.block);
        self.write_block(&block)?;
        self.block = block;
        self.block.clear();
        Ok(())
    }
}
