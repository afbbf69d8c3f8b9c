//! A save, from the first file to the commit.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base::EvenIfPoisoned;
use rustix::fs::Access;

use super::away::stages_of;
use super::disk::{self, create_dir_all, move_folder, sync, write_failed};
use super::manifest::{About, FolderSave, Manifest, SavedFile};
use super::place::{commit, finish};
use super::read::Folder;
use super::stage::{FileWriter, LISTS, Stage, clean};
use super::text::word;
use super::{SAVING, list_of, lock, saving_of};
use crate::error::{Error, Result};

/// A save into a folder. Without [`Transaction::commit`], the folder stays as it was.
#[derive(Debug)]
pub struct Transaction {
    dir: PathBuf,
    stage: Stage,
    /// Files that others wrote into the stage.
    others: Vec<SavedFile>,
    /// Locked: this process lives.
    _owner: File,
}

impl Transaction {
    /// Begins a save, and removes what dead processes left behind. Creates the folder.
    pub fn begin(dir: &Path) -> Result<Self> {
        let saving = saving_of(dir);
        create_dir_all(dir).map_err(write_failed(dir))?;
        let may_write = rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok();
        let is_left = saving.exists() || list_of(dir).is_dir();
        let stages = if may_write { stages_of(dir) } else { None };
        if is_left || stages.is_none() {
            let _lock = lock::exclusive(&saving)?;
            finish(dir)?;
            clean(&saving);
            if stages.is_none() {
                return Self::in_stage(dir, &saving);
            }
        }
        let stages = stages.unwrap_or(saving);
        let _lock = lock::of_stages(&stages)?;
        clean(&stages);
        Self::in_stage(dir, &stages)
    }

    /// Begins a save in a new stage. The caller holds the lock of the stages.
    fn in_stage(dir: &Path, stages: &Path) -> Result<Self> {
        let (stage, owner) = Stage::own(&Stage::new_path(stages), dir)?;
        Ok(Self { dir: dir.to_path_buf(), stage, others: Vec::new(), _owner: owner })
    }

    /// Lets other processes write files of this save, and says where: see [`StagePart`]. They know the folder that is
    /// saved into, and nothing else of this machine, so that the stage moves there.
    pub fn open_to_others(&mut self) -> Result<&Path> {
        let saving = saving_of(&self.dir);
        let _lock = lock::exclusive(&saving)?;
        let path = Stage::new_path(&saving);
        move_folder(&self.stage.path, &path).map_err(write_failed(&path))?;
        let away = std::mem::replace(&mut self.stage.path, path);
        away.parent().into_iter().for_each(remove_if_empty);
        Ok(&self.stage.path)
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
        let files = read_list(&list_path(&self.stage.path, list))?;
        self.others.extend(files.iter().flatten().cloned());
        Ok(files.is_some())
    }

    /// Makes all files durable and puts them into the folder, together.
    pub fn commit(self, about: About) -> Result<()> {
        let mut files = self.stage.synced()?;
        files.extend(self.others.iter().cloned());
        let _lock = lock::exclusive(&saving_of(&self.dir))?;
        commit_files(&self.dir, &self.stage.path, files, about)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // After a commit it has another name.
        self.stage.remove();
        self.stage.path.parent().into_iter().for_each(remove_if_empty);
        remove_if_empty(&saving_of(&self.dir));
    }
}

/// The caller holds the lock.
fn commit_files(dir: &Path, stage: &Path, mut files: Vec<SavedFile>, about: About) -> Result<()> {
    files.sort_by(|a, b| a.name.cmp(&b.name));
    // Several processes may write the same small file.
    files.dedup_by(|a, b| a.name == b.name);
    if files.is_empty() {
        return Ok(());
    }
    commit(dir, stage, FolderSave { about, files })
}

fn list_path(stage: &Path, list: &str) -> PathBuf {
    stage.join(LISTS).join(word(list).replace('/', "%2F"))
}

/// The files that another process adds to a transaction. If both share a disk, the transaction's process commits. If it has a
/// disk of its own, it commits its files there.
#[derive(Debug)]
pub struct StagePart {
    dir: PathBuf,
    path: PathBuf,
    /// The added files.
    files: Mutex<Vec<SavedFile>>,
    /// Locked: this process lives.
    _owner: File,
}

impl StagePart {
    /// Joins the save with this stage. Creates the stage if it is not there.
    pub fn begin(stage: &Path) -> Result<Self> {
        let no_stage = || Error::NoStage { path: stage.to_path_buf() };
        let saving = stage.parent().filter(|path| is_saving(path)).ok_or_else(no_stage)?;
        let dir = saving.parent().ok_or_else(no_stage)?;
        let _lock = lock::exclusive(saving)?;
        if !stage.exists() {
            clean(saving);
        }
        let (_, owner) = Stage::own(stage, dir)?;
        let (dir, path) = (dir.to_path_buf(), stage.to_path_buf());
        Ok(Self { dir, path, files: Mutex::default(), _owner: owner })
    }

    /// Writes files and then a list of them, all durable.
    pub fn add<E: From<Error>>(
        &self,
        list: &str,
        write: impl FnOnce(&Stage) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let stage = Stage::at(&self.path, &self.dir).shown();
        write(&stage)?;
        let files = stage.synced()?;
        let save = FolderSave { about: About::default(), files: files.clone() };
        let (text, _) = Manifest { saves: vec![save], ..Manifest::default() }.to_text();
        let path = list_path(&self.path, list);
        let folder = self.path.join(LISTS);
        let written = create_dir_all(&folder)
            .and_then(|()| disk::write(&path, text.as_bytes()))
            .and_then(|()| sync(&path))
            .and_then(|()| sync(&folder));
        written.map_err(write_failed(&path))?;
        self.files.lock().even_if_poisoned().extend(files);
        Ok(())
    }

    /// Commits what is on a disk of its own. If the transaction's process has committed, it makes
    /// sure that everything is in the folder.
    pub fn commit(&self, about: About) -> Result<()> {
        let _lock = lock::exclusive(&saving_of(&self.dir))?;
        if self.path.exists() {
            let files = listed(&self.path)?;
            return commit_files(&self.dir, &self.path, files, about);
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
        Stage::at(&self.path, &self.dir).remove();
        remove_if_empty(&saving_of(&self.dir));
    }
}

/// Removes the folder of saves if nobody saves any more.
fn remove_if_empty(saving: &Path) {
    // It is not empty as long as somebody has the lock or a stage.
    let _ = fs::remove_dir(saving);
}

fn is_saving(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SAVING))
}

/// All files on the lists of a stage.
fn listed(stage: &Path) -> Result<Vec<SavedFile>> {
    let folder = stage.join(LISTS);
    let failed = |source| Error::ReadFile { path: folder.clone(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        files.extend(read_list(&entry.map_err(failed)?.path())?.unwrap_or_default());
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
