//! A folder as one save left it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base::formats::SAVED_FILES;
use metrics::Phase;

use super::disk::has_room_for_threads;
use super::left::tidy;
use super::manifest::{Flaw, Manifest, SavedFile, is_inside};
use super::place::CommittedFiles;
use super::{BLOCK_BYTES, OLDER_MANIFEST, list_file, list_of, lock, saving_of};
use crate::error::{Error, FileState, Result};

/// How often a folder may change while it is read, before processes that save must wait.
const ATTEMPTS: usize = 8;
/// Threads that read a large file together, each at least so many bytes.
const THREADS_MAX: usize = 4;
const LARGE_BYTES: usize = 8 << 20;
/// Larger lists are not read into memory.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// A manifest as it was read.
#[derive(Debug)]
pub(super) struct ReadManifest {
    pub(super) manifest: Manifest,
    pub(super) hash: u64,
    /// Where its files are that are not under their usual names yet.
    pub(super) home: PathBuf,
    bytes: Vec<u8>,
}

/// The bytes of a list, and where they were found.
#[derive(Debug)]
struct ListBytes {
    path: PathBuf,
    /// Where files are that are not under their usual names yet.
    home: PathBuf,
    bytes: Vec<u8>,
}

impl ListBytes {
    /// The list of a folder; `None` if it has none.
    fn read(dir: &Path) -> Result<Option<Self>> {
        let list = list_of(dir);
        let older = list.join(OLDER_MANIFEST);
        // A save may turn the folder of an earlier version into a file while this process looks.
        let places = [(&list, saving_of(dir)), (&older, list.clone()), (&list, saving_of(dir))];
        for (path, home) in places {
            match read_small(path) {
                Ok(bytes) => return Ok(Some(Self { path: path.clone(), home, bytes })),
                Err(error) if is_absent(&error) => {}
                Err(source) => return Err(Error::ReadFile { path: path.clone(), source }),
            }
        }
        Ok(None)
    }

    /// The text of the list. In the folder of an earlier version it is plain text.
    fn text(&self) -> &[u8] {
        // Other bytes are refused with the number of the bad line.
        list_file::text_of(&self.bytes).unwrap_or(&self.bytes)
    }
}

/// The manifest of a folder; `None` if it has none.
pub(super) fn read_manifest(dir: &Path) -> Result<Option<ReadManifest>> {
    let Some(found) = ListBytes::read(dir)? else { return Ok(None) };
    let read = Manifest::from_bytes(found.text());
    let ListBytes { path, home, bytes } = found;
    match read {
        Ok((manifest, hash)) => Ok(Some(ReadManifest { manifest, hash, home, bytes })),
        Err(Flaw::Version(found)) => {
            Err(Error::ManifestVersion { path, found, known: SAVED_FILES.version })
        }
        Err(Flaw::Line(line, problem)) => Err(Error::BadManifest { path, line, problem }),
        Err(Flaw::Hash { expected, found }) => Err(Error::ManifestHash { path, expected, found }),
    }
}

fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MANIFEST_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether there is no such file, for whatever reason.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

/// A folder with files, as one save left it. Files that we saved are compared with their checksums.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    manifest: Option<ReadManifest>,
    /// Where each file is in the list.
    places: HashMap<String, (usize, usize)>,
    /// Whether something was asked for that is on no list.
    is_unlisted: AtomicBool,
    /// The progress of reading, for watchers.
    phase: Arc<Phase>,
}

impl Folder {
    /// Reads the list of files. A folder without a list was written by others.
    pub fn open(dir: &Path) -> Result<Self> {
        let manifest = read_manifest(dir)?;
        let mut places = HashMap::new();
        for (at, save) in manifest.iter().flat_map(|read| read.manifest.saves.iter().enumerate()) {
            let names = save.files.iter().enumerate();
            places.extend(names.map(|(i, file)| (file.name.clone(), (at, i))));
        }
        let is_unlisted = AtomicBool::new(manifest.is_none());
        let phase = Arc::default();
        Ok(Self { dir: dir.to_path_buf(), manifest, places, is_unlisted, phase })
    }

    /// Counts bytes read from now on in `phase`.
    pub fn counted_by(self, phase: Phase) -> Self {
        Self { phase: Arc::new(phase), ..self }
    }

    /// Where it is counted.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Opens a folder that is about to be read whole.
    fn open_to_read(dir: &Path) -> Result<Self> {
        tidy(dir);
        let phase = Phase::begin("loading a model", "bytes");
        let folder = Self::open(dir)?;
        let files = folder.manifest().into_iter().flat_map(Manifest::files);
        phase.set_total(files.map(|file| file.n_bytes).sum());
        Ok(Self { phase: Arc::new(phase), ..folder })
    }

    /// Reads files of a folder so that all belong to one save, even if other processes save into it
    /// at the same time. `read` may be called several times.
    pub fn consistently<T>(dir: &Path, read: impl Fn(&Folder) -> Result<T>) -> Result<T> {
        for _ in 0..ATTEMPTS {
            let folder = Self::open_to_read(dir)?;
            let result = read(&folder);
            // Files that fit the checksums of one list belong to one save.
            let is_certain = result.is_ok() && !folder.is_unlisted.load(Ordering::Relaxed);
            if is_certain || !folder.has_changed() {
                return result.map_err(|error| offered(error, &folder));
            }
        }
        let _shared = lock::shared(dir)?;
        let folder = Self::open(dir)?;
        read(&folder).map_err(|error| offered(error, &folder))
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The list of what was saved into it, if we saved it.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref().map(|read| &read.manifest)
    }

    /// The record of a file that we saved.
    pub fn saved(&self, name: &str) -> Option<&SavedFile> {
        let &(save, at) = self.places.get(name)?;
        self.manifest()?.saves.get(save)?.files.get(at)
    }

    /// Whether there is a file of this name, or should be.
    pub fn has(&self, name: &str) -> bool {
        self.saved(name).is_some() || {
            self.is_unlisted.store(true, Ordering::Relaxed);
            !self.is_removed(name) && self.dir.join(name).is_file()
        }
    }

    /// Whether a save removed this file, though it may still be there.
    pub(crate) fn is_removed(&self, name: &str) -> bool {
        self.manifest().is_some_and(|manifest| manifest.removed.contains(name))
    }

    /// Reads a file whole.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut reader = self.reader(name)?;
        let mut bytes = Vec::new();
        let read = reader.read_all(&mut bytes);
        read.map_err(|source| Error::ReadFile { path: reader.path.clone(), source })?;
        reader.finish()?;
        Ok(bytes)
    }

    /// Opens a file that is read in parts. Call [`FileReader::finish`] at the end to compare the
    /// checksum.
    pub fn reader(&self, name: &str) -> Result<FileReader> {
        let path = self.dir.join(name);
        if !is_inside(name) {
            return Err(Error::UnsafeName { var: name.to_string() });
        }
        let saved = self.saved(name).cloned();
        let opened = match (&saved, &self.manifest) {
            (Some(_), Some(read)) => {
                let own = CommittedFiles { dir: &self.dir, home: &read.home, hash: read.hash };
                open_first(own.places(name).iter().chain([&path]))
            }
            _ => {
                self.is_unlisted.store(true, Ordering::Relaxed);
                if self.is_removed(name) {
                    Err(io::ErrorKind::NotFound.into())
                } else {
                    open(&path)
                }
            }
        };
        match (opened, saved) {
            (Ok((file, n_bytes)), saved) => {
                let checksum = crc32fast::Hasher::new();
                let phase = self.phase.clone();
                Ok(FileReader { path, file, n_bytes, n_read: 0, checksum, saved, phase })
            }
            (Err(error), Some(saved)) if is_absent(&error) => {
                let expected = FileState { n_bytes: saved.n_bytes, checksum: saved.checksum };
                Err(Error::FileLost { path, expected, offer: None })
            }
            (Err(source), _) => Err(Error::ReadFile { path, source }),
        }
    }

    /// Compares every file that was saved with its checksum.
    pub fn verify(&self) -> Result<()> {
        let mut files = self.manifest().into_iter().flat_map(Manifest::files);
        files.try_for_each(|file| self.reader(&file.name)?.finish())
    }

    /// Whether another save was committed since the folder was opened.
    fn has_changed(&self) -> bool {
        let now = ListBytes::read(&self.dir).ok().flatten();
        now.as_ref().map(|now| &now.bytes) != self.manifest.as_ref().map(|read| &read.bytes)
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    // A pipe or a device would never end, and opening one may wait for ever.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = File::open(path)?;
    let n_bytes = file.metadata()?.len();
    Ok((file, n_bytes))
}

/// The first file that is there.
fn open_first<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<(File, u64)> {
    let mut opened = Err(io::ErrorKind::NotFound.into());
    for path in paths {
        opened = open(path);
        if !matches!(&opened, Err(error) if is_absent(error)) {
            break;
        }
    }
    opened
}

/// A file of a folder, while it is read.
#[derive(Debug)]
pub struct FileReader {
    path: PathBuf,
    file: File,
    n_bytes: u64,
    n_read: u64,
    checksum: crc32fast::Hasher,
    saved: Option<SavedFile>,
    phase: Arc<Phase>,
}

impl FileReader {
    /// Where the file is, or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Reads what is left.
    fn read_all(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let left = usize::try_from(self.n_bytes - self.n_read).unwrap_or(usize::MAX);
        bytes.try_reserve_exact(left).map_err(|_| io::ErrorKind::OutOfMemory)?;
        loop {
            let before = bytes.len();
            self.file.by_ref().take(BLOCK_BYTES as u64).read_to_end(bytes)?;
            let block = &bytes[before..];
            if block.is_empty() {
                return Ok(());
            }
            self.n_read += block.len() as u64;
            self.phase.add(block.len() as u64);
            if self.saved.is_some() {
                self.checksum.update(block);
            }
        }
    }

    /// Fills memory with what comes next. Several threads share a large one: new memory costs the system
    /// more time than reading does.
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let n_threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let n_bytes = buffer.len().div_ceil(n_threads).next_multiple_of(BLOCK_BYTES);
        if n_bytes < LARGE_BYTES || n_threads == 1 || !has_room_for_threads() {
            return self.read_exact(buffer);
        }
        let (first, n_all) = (self.file.stream_position()?, buffer.len() as u64);
        let file = &self.file;
        let parts: io::Result<Vec<crc32fast::Hasher>> = thread::scope(|scope| {
            let starts = (0..).map(|at| first + at * n_bytes as u64);
            let parts = buffer.chunks_mut(n_bytes).zip(starts);
            let read = |(part, at)| {
                thread::Builder::new().spawn_scoped(scope, move || read_part(file, part, at))
            };
            let threads: Vec<_> = parts.map(read).collect();
            let lost = |_| Err(io::Error::other("reading was given up"));
            threads.into_iter().map(|thread| thread?.join().unwrap_or_else(lost)).collect()
        });
        let parts = match parts {
            // Without other threads it is this one.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return self.read_exact(buffer);
            }
            parts => parts?,
        };
        parts.iter().for_each(|part| self.checksum.combine(part));
        self.file.seek(io::SeekFrom::Start(first + n_all))?;
        self.n_read += n_all;
        self.phase.add(n_all);
        Ok(())
    }

    /// Compares what was read, and what is left, with what was saved.
    pub fn finish(mut self) -> Result<()> {
        let Some(saved) = self.saved.take() else { return Ok(()) };
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let n = self.file.read(&mut block);
            let n = n.map_err(|source| Error::ReadFile { path: self.path.clone(), source })?;
            if n == 0 {
                break;
            }
            self.n_read += n as u64;
            self.phase.add(n as u64);
            self.checksum.update(&block[..n]);
        }
        let expected = FileState { n_bytes: saved.n_bytes, checksum: saved.checksum };
        let found = FileState { n_bytes: self.n_read, checksum: self.checksum.finalize() };
        if found == expected {
            return Ok(());
        }
        Err(Error::FileDiffers { path: self.path, expected, found, offer: None })
    }
}

/// Reads a part of a file, which begins at this byte; its checksum.
fn read_part(file: &File, part: &mut [u8], mut at: u64) -> io::Result<crc32fast::Hasher> {
    let mut checksum = crc32fast::Hasher::new();
    for block in part.chunks_mut(BLOCK_BYTES) {
        file.read_exact_at(block, at)?;
        checksum.update(block);
        at += block.len() as u64;
    }
    Ok(checksum)
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The bytes are still in the cache when their checksum is computed.
        let n = buffer.len().min(BLOCK_BYTES);
        let n = self.file.read(&mut buffer[..n])?;
        self.n_read += n as u64;
        self.phase.add(n as u64);
        if self.saved.is_some() {
            self.checksum.update(&buffer[..n]);
        }
        Ok(n)
    }
}

/// The error, with another folder that holds the same files, whole, if there is one.
fn offered(error: Error, folder: &Folder) -> Error {
    match error {
        Error::FileDiffers { path, expected, found, .. } => {
            Error::FileDiffers { path, expected, found, offer: whole_beside(folder) }
        }
        Error::FileLost { path, expected, .. } => {
            Error::FileLost { path, expected, offer: whole_beside(folder) }
        }
        error => error,
    }
}

/// The newest folder beside this one with another number in its name that holds the same files, whole.
fn whole_beside(folder: &Folder) -> Option<PathBuf> {
    let own = fs::canonicalize(&folder.dir).ok()?;
    let stem = |path: &Path| {
        let name = path.file_name()?.to_str()?.replace(|c: char| c.is_ascii_digit(), "");
        Some(name)
    };
    let is_alike = |path: &Path| path != own && stem(path).is_some() && stem(path) == stem(&own);
    let names = |folder: &Folder| {
        let mut names: Vec<String> = folder.places.keys().cloned().collect();
        names.sort_unstable();
        names
    };
    let wanted = names(folder);
    let mut beside = Vec::new();
    for entry in fs::read_dir(own.parent()?).ok()?.flatten() {
        let Some(other) =
            is_alike(&entry.path()).then(|| Folder::open(&entry.path()).ok()).flatten()
        else {
            continue;
        };
        if other.manifest.is_some() && names(&other) == wanted {
            let list = list_of(&entry.path());
            let older = list.join(OLDER_MANIFEST);
            let written = fs::metadata(older).or_else(|_| fs::metadata(list));
            let written = written.and_then(|list| list.modified()).ok();
            beside.push((written, entry.path(), other));
        }
    }
    beside.sort_by(|a, b| (&b.0, &b.1).cmp(&(&a.0, &a.1)));
    beside.into_iter().find(|(_, _, other)| other.verify().is_ok()).map(|(_, path, _)| path)
}
