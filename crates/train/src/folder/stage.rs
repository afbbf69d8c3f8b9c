//! Files of a save that is not committed yet.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::thread;

use base::EvenIfPoisoned;
use metrics::Phase;

use rustix::fs::{Advice, fadvise};

use super::BLOCK_BYTES;
use super::away::stages_of;
use super::disk::{self, has_room_for_threads, sync, write_failed};
use super::lock::{self, FolderLock};
use super::manifest::{SavedFile, SavedPart, SavedVar, is_safe};
use super::spot::{self, Spot};
use crate::error::{Error, Result};

/// Bytes after which the disk begins to write.
const BEGIN_BYTES: u64 = 8 << 20;
/// For fewer bytes another thread is not worth it.
const LARGE_BYTES: usize = 16 << 20;
/// A folder with files of a save.
#[derive(Debug)]
pub struct Stage {
    pub(super) spot: Spot,
    /// The folder that is saved into.
    dir: PathBuf,
    /// Complete files.
    files: Mutex<Vec<SavedFile>>,
    /// The progress, for watchers.
    phase: Phase,
}

impl Stage {
    /// The stage with this id of a save into a folder. It is made if it is not there, and it belongs to this process
    /// as long as the file is open.
    pub(super) fn own(dir: &Path, id: &str) -> Result<(Self, File)> {
        match stages_of(dir) {
            Some(stages) => Self::own_away(dir, &stages, id),
            None => Self::own_inside(dir, id, &lock::exclusive(dir)?),
        }
    }

    /// The same for a process that has the lock of the folder.
    pub(super) fn own_locked(dir: &Path, id: &str, lock: &FolderLock) -> Result<(Self, File)> {
        match stages_of(dir) {
            Some(stages) => Self::own_away(dir, &stages, id),
            None => Self::own_inside(dir, id, lock),
        }
    }

    /// Where the stage with this id would be.
    pub(super) fn spot_of(dir: &Path, id: &str) -> Spot {
        match stages_of(dir) {
            Some(stages) => Spot::away(&stages, dir, id),
            None => Spot::inside(dir, id),
        }
    }

    fn own_away(dir: &Path, stages: &Path, id: &str) -> Result<(Self, File)> {
        let _lock = lock::of_stages(stages)?;
        spot::clean_away(stages);
        Self::begin(dir, Spot::away(stages, dir, id))
    }

    pub(super) fn own_inside(dir: &Path, id: &str, _: &FolderLock) -> Result<(Self, File)> {
        Self::begin(dir, Spot::inside(dir, id))
    }

    /// The caller keeps others from removing what has no owner.
    fn begin(dir: &Path, spot: Spot) -> Result<(Self, File)> {
        let owner = spot.make().and_then(|()| lock::own(&spot.owner(&new_id())));
        let phase = Phase::begin("saving", "bytes");
        Ok((Self { phase, ..Self::at(dir, &spot) }, owner.map_err(write_failed(dir))?))
    }

    /// The stage at a place, of a save into a folder.
    pub(super) fn at(dir: &Path, spot: &Spot) -> Self {
        let (spot, dir) = (spot.clone(), dir.to_path_buf());
        Self { spot, dir, files: Mutex::default(), phase: Phase::default() }
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
        let target = self.target(name);
        let file = disk::create(&self.spot.file(name)).map_err(write_failed(&target))?;
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
        for file in &files {
            let path = self.spot.file(&file.name);
            sync(&path).map_err(write_failed(&self.target(&file.name)))?;
        }
        sync(self.spot.folder()).map_err(write_failed(self.spot.folder()))?;
        Ok(files)
    }
}

/// A number that no other has, not even on another machine.
pub(super) fn new_id() -> String {
    // Only names of files that are gone when the save is done depend on it.
    format!("{:016x}", RandomState::new().build_hasher().finish())
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
        if bytes.len() < LARGE_BYTES || !has_room_for_threads() {
            self.checksum.update(bytes);
            return self.write_blocks(bytes);
        }
        // Another core takes the checksum meanwhile.
        let checksum = thread::scope(|scope| {
            let take = || {
                let mut checksum = crc32fast::Hasher::new();
                checksum.update(bytes);
                checksum
            };
            let taken = thread::Builder::new().spawn_scoped(scope, take);
            let written = self.write_blocks(bytes);
            let checksum = match taken {
                Ok(taken) => taken.join().map_err(|_| io::Error::other("no checksum was taken")),
                // Without another thread it is this one.
                Err(_) => Ok(take()),
            };
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
