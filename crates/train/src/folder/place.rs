//! The commit: the moment when a new manifest replaces the old one, and what comes after it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;

use super::disk::{
    self, create_dir_all, exchange, move_file, remove_dir_all, remove_file, rename, replace_file,
    sync, write_failed,
};
use super::lock::{self, FolderLock};
use super::manifest::{FolderSave, Manifest, SavedFile};
use super::parts::part_files;
use super::read::{ReadManifest, read_manifest};
use super::spot::{self, Spot};
use super::stage::{Stage, new_id};
use super::{SAVING, list_file, list_of, saving_of};
use crate::error::{Error, Result};

/// How the name of a folder with committed files began in earlier versions, and where they were in it.
const PREFIX: &str = "commit-";
const FILES: &str = "files";
/// Moved last: a folder that has a program has its variables too, for programs that know no manifest.
const PROGRAM: &str = "__model__";

/// Committed files until they have their usual names.
#[derive(Debug)]
pub(super) struct CommittedFiles<'a> {
    pub(super) dir: &'a Path,
    /// Where they were in earlier versions.
    pub(super) home: &'a Path,
    /// That of their manifest.
    pub(super) hash: u64,
}

impl CommittedFiles<'_> {
    /// The places where a file may be, before its usual one.
    pub(super) fn places(&self, name: &str) -> [PathBuf; 2] {
        [spot::waiting(self.dir, self.hash, name), self.earlier().join(FILES).join(name)]
    }

    /// The folder of an earlier version.
    fn earlier(&self) -> PathBuf {
        self.home.join(format!("{PREFIX}{:016x}", self.hash))
    }

    fn has(&self, name: &str) -> bool {
        self.places(name).iter().any(|path| path.exists())
    }
}

/// Puts the files of a stage into a folder, together.
pub(super) fn commit(dir: &Path, stage: &Spot, save: FolderSave, lock: &FolderLock) -> Result<()> {
    let old = finish(dir, lock)?.unwrap_or_default();
    let removed = replaced(dir, &old, &save.files);
    prepare(dir, &save.files)?;
    let names: Vec<String> = save.files.iter().map(|file| file.name.clone()).collect();
    let is_there = |file: &SavedFile| dir.join(&file.name).exists();
    let (text, hash) = old.with(save, removed.clone(), is_there).to_text();
    let (next, list) = (stage.next(), list_of(dir));
    let committed = (|| {
        write_list(&next, &text)?;
        for name in &names {
            let to = spot::waiting(dir, hash, name);
            move_file(&stage.file(name), &to).map_err(write_failed(&to))?;
        }
        sync(dir).map_err(write_failed(dir))?;
        replace_file(&next, &list, &spot::next_beside(dir)).map_err(write_failed(&list))
    })();
    if let Err(error) = committed {
        // Best effort: the error that matters is the first one.
        let _ = remove_file(&next);
        spot::remove_commits(dir, None);
        return Err(error);
    }
    sync(dir).map_err(write_failed(&list))?;
    place(&CommittedFiles { dir, home: &saving_of(dir), hash }, &names, &removed)
}

/// Writes a list that is durable, but in no folder yet.
fn write_list(path: &Path, text: &str) -> Result<()> {
    let written = disk::write(path, &list_file::to_bytes(text)).and_then(|()| sync(path));
    written.map_err(write_failed(path))
}

/// Finishes a commit that another process could not finish, and removes what others left.
pub(super) fn finish(dir: &Path, lock: &FolderLock) -> Result<Option<Manifest>> {
    let found = match read_manifest(dir) {
        // A damaged list keeps nobody from saving again.
        Err(Error::BadManifest { .. } | Error::ManifestHash { .. }) => None,
        found => found?,
    };
    let Some(ReadManifest { manifest, hash, home, .. }) = found else {
        spot::remove_commits(dir, None);
        replace_older(dir, None, lock)?;
        remove_saving(dir);
        return Ok(None);
    };
    spot::remove_commits(dir, Some(hash));
    let own = CommittedFiles { dir, home: &home, hash };
    let waiting: Vec<&SavedFile> = manifest.files().filter(|file| own.has(&file.name)).collect();
    if !waiting.is_empty() || own.earlier().exists() {
        let names: Vec<String> = waiting.iter().map(|file| file.name.clone()).collect();
        prepare(dir, waiting)?;
        place(&own, &names, &manifest.removed)?;
    }
    replace_older(dir, Some(&manifest), lock)?;
    remove_saving(dir);
    Ok(Some(manifest))
}

/// Replaces the private folder of an earlier version by a file. All that was committed is in its place, so that
/// nothing is mixed at any moment, even for readers that find neither.
fn replace_older(dir: &Path, manifest: Option<&Manifest>, lock: &FolderLock) -> Result<()> {
    let list = list_of(dir);
    if !list.is_dir() {
        return Ok(());
    }
    let (stage, _owner) = Stage::own_locked(dir, &new_id(), lock)?;
    let (next, aside) = (stage.spot.next(), stage.spot.older());
    let replaced = match manifest {
        Some(manifest) => write_list(&next, &manifest.to_text().0)
            .and_then(|()| exchange(&next, &list, &aside).map_err(write_failed(&list))),
        None => rename(&list, &aside).map_err(write_failed(&list)),
    };
    let synced = replaced.and_then(|()| sync(dir).map_err(write_failed(&list)));
    stage.spot.remove();
    synced
}

/// Removes the folder in which earlier versions saved, unless one of them is at it.
fn remove_saving(dir: &Path) {
    // In a folder of all users, stages of other saves have the same place.
    let saving = dir.join(SAVING);
    let Ok(entries) = fs::read_dir(&saving) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let mut owners = fs::read_dir(&path).into_iter().flatten().flatten().map(|own| own.path());
        if !path.is_dir() {
            let _ = remove_file(&path);
        } else if owners.all(|owner| !owner.is_file() || lock::is_left(&owner)) {
            remove_dir_all(&path);
        }
    }
    let _ = fs::remove_dir(&saving);
}

/// Files that hold variables, or parts of them, that a save holds in other files.
fn replaced(dir: &Path, old: &Manifest, files: &[SavedFile]) -> BTreeSet<String> {
    let names: BTreeSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let mut removed = BTreeSet::new();
    let (mut parts, mut whole) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        match &file.part {
            Some(part) => {
                parts.insert(part.var.as_str());
                // Older versions listed nothing.
                let stem = file.name.rsplit_once('_').map_or(file.name.as_str(), |(stem, _)| stem);
                removed.extend(part_files(dir, stem).into_iter().map(|part| part.name));
            }
            None => whole.extend(file.vars.iter().map(|var| var.name.as_str())),
        }
    }
    for file in old.files() {
        let is_replaced = match &file.part {
            Some(part) => parts.contains(part.var.as_str()) || whole.contains(part.var.as_str()),
            // A file of several variables stays as long as it holds others.
            None => matches!(&file.vars[..], [var] if parts.contains(var.name.as_str())),
        };
        if is_replaced {
            removed.insert(file.name.clone());
        }
    }
    removed.retain(|name| !names.contains(name.as_str()));
    removed
}

/// Makes sure that files can be put under their names: what can fail fails before the commit.
fn prepare<'a>(dir: &Path, files: impl IntoIterator<Item = &'a SavedFile>) -> Result<()> {
    let mut folders = BTreeSet::new();
    for file in files {
        let path = dir.join(&file.name);
        if path.is_dir() {
            return Err(write_failed(&path)(io::ErrorKind::IsADirectory.into()));
        }
        folders.extend(path.parent().map(Path::to_path_buf));
    }
    for folder in folders {
        create_dir_all(&folder).map_err(write_failed(&folder))?;
        probe(&folder).map_err(write_failed(&folder))?;
    }
    Ok(())
}

/// Whether a file can be made in a folder: one without a name, where the system has such files.
fn probe(folder: &Path) -> io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            Ok(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        opened => Ok(opened.map(drop)?),
    }
}

/// Moves committed files to their usual names, and removes those that they replace.
fn place(own: &CommittedFiles<'_>, names: &[String], removed: &BTreeSet<String>) -> Result<()> {
    let dir = own.dir;
    let not_placed = |path: &Path| {
        let path = path.to_path_buf();
        |source| Error::NotPlaced { path, source }
    };
    let (program, others): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.as_str() == PROGRAM);
    let ordered: Vec<&String> = others.into_iter().chain(program).collect();
    let mut folders = BTreeSet::new();
    let mut move_to_place = |name: &String| -> Result<()> {
        let path = dir.join(name);
        for from in own.places(name) {
            match rename(&from, &path) {
                // It is at the other place, or where it belongs already.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                moved => moved.map_err(not_placed(&path))?,
            }
        }
        folders.extend(path.parent().map(Path::to_path_buf));
        Ok(())
    };
    // As long as the last one waits, all of this is done again after a crash.
    let n_first = ordered.len().saturating_sub(1);
    ordered[..n_first].iter().try_for_each(|name| move_to_place(name))?;
    for path in removed.iter().map(|name| dir.join(name)) {
        remove_file(&path).map_err(not_placed(&path))?;
    }
    ordered[n_first..].iter().try_for_each(|name| move_to_place(name))?;
    let removed = removed.iter().filter_map(|name| dir.join(name).parent().map(Path::to_path_buf));
    folders.extend(removed.filter(|folder| folder.exists()));
    folders.iter().try_for_each(|folder| sync(folder).map_err(not_placed(folder)))?;
    if own.earlier().exists() {
        remove_dir_all(&own.earlier());
    }
    Ok(())
}
