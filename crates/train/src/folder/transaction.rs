//! A save, from the first file to the commit.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base::EvenIfPoisoned;
use rustix::fs::Access;

use super::disk::{self, create_dir_all, sync, write_failed};
use super::lock::{self, FolderLock};
use super::manifest::{About, FolderSave, Manifest, SavedFile};
use super::place::{commit, finish};
use super::read::Folder;
use super::spot::{self, Spot};
use super::stage::{FileWriter, Stage, new_id};
use super::{SAVING, list_of, saving_of};
use crate::error::{Error, Result};

/// How the names of stages begin for other processes.
const STAGE: &str = "stage-";

/// A save into a folder. Without [`Transaction::commit`], the folder stays as it was.
#[derive(Debug)]
pub struct Transaction {
    dir: PathBuf,
    id: String,
    stage: Stage,
    /// Files that others wrote into the stage.
    others: Vec<SavedFile>,
    /// Locked: this process lives.
    _owner: File,
}

impl Transaction {
    /// Begins a save, and removes what dead processes left behind. Creates the folder.
    pub fn begin(dir: &Path) -> Result<Self> {
        create_dir_all(dir).map_err(write_failed(dir))?;
        if rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK).is_err() {
            return Err(write_failed(dir)(io::ErrorKind::PermissionDenied.into()));
        }
        if spot::is_anything(dir) || list_of(dir).is_dir() {
            let lock = lock::exclusive(dir)?;
            finish(dir, &lock)?;
            spot::clean_inside(dir);
        }
        let id = new_id();
        let (stage, owner) = Stage::own(dir, &id)?;
        Ok(Self { dir: dir.to_path_buf(), id, stage, others: Vec::new(), _owner: owner })
    }

    /// Lets other processes write files of this save, and says which it is: see [`StagePart`]. They know the folder that
    /// is saved into, and find the place of the stage by themselves.
    pub fn open_to_others(&self) -> PathBuf {
        saving_of(&self.dir).join(format!("{STAGE}{}", self.id))
    }

    /// Begins a file. A name with a slash makes a folder.
    pub fn create(&self, name: &str) -> Result<FileWriter<'_>> {
        self.stage.create(name)
    }

    /// Writes a whole file.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.stage.write(name, bytes)
    }

    /// Where its files are until the commit.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Takes over the files that another process listed under this name. False if the list does not exist here: the other process
    /// has a disk of its own.
    pub fn take_list(&mut self, list: &str) -> Result<bool> {
        let files = read_list(&self.stage.spot.list(list))?;
        self.others.extend(files.iter().flatten().cloned());
        Ok(files.is_some())
    }

    /// Makes all files durable and puts them into the folder, together.
    pub fn commit(self, about: About) -> Result<()> {
        let mut files = self.stage.synced()?;
        files.extend(self.others.iter().cloned());
        let lock = lock::exclusive(&self.dir)?;
        commit_files(&self.dir, &self.stage.spot, FolderSave { about, files }, &lock)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.stage.spot.remove();
    }
}

fn commit_files(dir: &Path, spot: &Spot, mut save: FolderSave, lock: &FolderLock) -> Result<()> {
    save.files.sort_by(|a, b| a.name.cmp(&b.name));
    // Several processes may write the same small file.
    save.files.dedup_by(|a, b| a.name == b.name);
    if save.files.is_empty() { Ok(()) } else { commit(dir, spot, save, lock) }
}

/// The files that another process adds to a transaction. If both share a disk, the transaction's process commits. If it has a
/// disk of its own, it commits its files there.
#[derive(Debug)]
pub struct StagePart {
    dir: PathBuf,
    spot: Spot,
    /// The added files.
    files: Mutex<Vec<SavedFile>>,
    /// Locked: this process lives.
    _owner: File,
}

impl StagePart {
    /// Joins the save with this stage. Creates the stage if it is not there.
    pub fn begin(stage: &Path) -> Result<Self> {
        let (dir, id) = parse(stage)?;
        create_dir_all(dir).map_err(write_failed(dir))?;
        let (stage, owner) = Stage::own(dir, id)?;
        let (dir, spot) = (dir.to_path_buf(), stage.spot);
        Ok(Self { dir, spot, files: Mutex::default(), _owner: owner })
    }

    /// Whether a process has begun the stage here.
    pub fn is_begun(stage: &Path) -> bool {
        let Ok((dir, id)) = parse(stage) else { return false };
        if !dir.is_dir() {
            return false;
        }
        let spot = Stage::spot_of(dir, id);
        let is_begun = spot.is_begun();
        if !is_begun {
            // Looking for it made its place.
            spot.remove();
        }
        is_begun
    }

    /// Writes files and then a list of them, all durable.
    pub fn add<E: From<Error>>(
        &self,
        list: &str,
        write: impl FnOnce(&Stage) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let stage = Stage::at(&self.dir, &self.spot).shown();
        write(&stage)?;
        let files = stage.synced()?;
        let save = FolderSave { about: About::default(), files: files.clone() };
        let (text, _) = Manifest { saves: vec![save], ..Manifest::default() }.to_text();
        let path = self.spot.list(list);
        let written = disk::write(&path, text.as_bytes())
            .and_then(|()| sync(&path))
            .and_then(|()| sync(self.spot.folder()));
        written.map_err(write_failed(&path))?;
        self.files.lock().even_if_poisoned().extend(files);
        Ok(())
    }

    /// Commits what is on a disk of its own. If the transaction's process has committed, it makes
    /// sure that everything is in the folder.
    pub fn commit(&self, about: About) -> Result<()> {
        let lock = lock::exclusive(&self.dir)?;
        if self.spot.is_begun() {
            let save = FolderSave { about, files: listed(&self.spot)? };
            let committed = commit_files(&self.dir, &self.spot, save, &lock);
            self.spot.remove();
            return committed;
        }
        let folder = Folder::open(&self.dir)?;
        let own = self.files.lock().even_if_poisoned();
        match own.iter().find(|file| folder.saved(&file.name) != Some(file)) {
            Some(file) => Err(Error::NotSaved { path: self.dir.join(&file.name) }),
            None => Ok(()),
        }
    }

    /// The save was given up.
    pub fn give_up(&self) {
        self.spot.remove();
    }
}

/// The folder and the id of a save, by the path of its stage: `<folder>/.paddlewheel.saving/stage-<id>`.
fn parse(stage: &Path) -> Result<(&Path, &str)> {
    let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let id = stage.file_name().and_then(|name| name.to_str()?.strip_prefix(STAGE)).filter(is_id);
    let is_saving = |path: &&Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SAVING))
    };
    let dir = stage.parent().filter(is_saving).and_then(Path::parent);
    dir.zip(id).ok_or_else(|| Error::NoStage { path: stage.to_path_buf() })
}

/// All files on the lists of a stage.
fn listed(spot: &Spot) -> Result<Vec<SavedFile>> {
    let failed = |source| Error::ReadFile { path: spot.folder().to_path_buf(), source };
    let mut files = Vec::new();
    for list in spot.lists().map_err(failed)? {
        files.extend(read_list(&list)?.unwrap_or_default());
    }
    Ok(files)
}

/// The files on a list; `None` if the list does not exist.
fn read_list(path: &Path) -> Result<Option<Vec<SavedFile>>> {
    let Ok(bytes) = fs::read(path) else { return Ok(None) };
    let (path, problem) = (path.to_path_buf(), "the list of another process's files is damaged");
    match Manifest::from_bytes(&bytes) {
        Ok((manifest, _)) => Ok(Some(manifest.files().cloned().collect())),
        Err(_) => Err(Error::BadManifest { path, line: 1, problem }),
    }
}
