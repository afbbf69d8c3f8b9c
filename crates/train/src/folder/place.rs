//! The commit: the moment when a new manifest replaces the old one, and what comes after it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{
    self, create_dir_all, exchange, move_folder, remove_dir_all, remove_file, rename, sync,
    write_failed,
};
use super::manifest::{FolderSave, Manifest, SavedFile};
use super::parts::part_files;
use super::read::{ReadManifest, read_manifest};
use super::stage::FILES;
use super::{PRIVATE, list_file, list_of, saving_of};
use crate::error::{Error, Result};

/// Where the next manifest is written.
const NEXT: &str = "manifest.next";
/// The private folder of an earlier version, before it is removed.
const OLDER: &str = "older";
/// How the name of a folder with committed files begins.
const PREFIX: &str = "commit-";
/// Moved last: a folder that has a program has its variables too, for programs that know no manifest.
const PROGRAM: &str = "__model__";

/// Where the files of a manifest are until they are under their usual names.
pub(super) fn committed(saving: &Path, hash: u64) -> PathBuf {
    saving.join(format!("{PREFIX}{hash:016x}")).join(FILES)
}

/// Puts the files of a stage into a folder, together. The caller holds the lock.
pub(super) fn commit(dir: &Path, stage: &Path, save: FolderSave) -> Result<()> {
    let saving = saving_of(dir);
    let old = finish(dir)?.unwrap_or_default();
    let removed = replaced(dir, &old, &save.files);
    prepare(dir, &save.files)?;
    let names: Vec<String> = save.files.iter().map(|file| file.name.clone()).collect();
    let is_there = |file: &SavedFile| dir.join(&file.name).exists();
    let (text, hash) = old.with(save, removed.clone(), is_there).to_text();
    let next = saving.join(NEXT);
    let own = committed(&saving, hash);
    let folder = own.parent().unwrap_or(&own);
    let list = list_of(dir);
    let committed = (|| {
        move_folder(stage, folder).map_err(write_failed(folder))?;
        write_list(&next, &text)?;
        sync(&saving).and_then(|()| sync(dir)).map_err(write_failed(&next))?;
        rename(&next, &list).map_err(write_failed(&list))
    })();
    if let Err(error) = committed {
        // Best effort: the error that matters is the first one.
        let _ = remove_file(&next);
        remove_dir_all(folder);
        return Err(error);
    }
    sync(dir).map_err(write_failed(&list))?;
    place(dir, &own, &names, &removed)
}

/// Writes a list that is durable, but in no folder yet.
fn write_list(path: &Path, text: &str) -> Result<()> {
    let written = disk::write(path, &list_file::to_bytes(text)).and_then(|()| sync(path));
    written.map_err(write_failed(path))
}

/// Finishes a commit that another process could not finish, and removes what others left.
pub(super) fn finish(dir: &Path) -> Result<Option<Manifest>> {
    let saving = saving_of(dir);
    let found = match read_manifest(dir) {
        // A damaged list keeps nobody from saving again.
        Err(Error::BadManifest { .. } | Error::ManifestHash { .. }) => None,
        found => found?,
    };
    let Some(ReadManifest { manifest, hash, home, .. }) = found else {
        remove_commits(&saving, None);
        replace_older(dir, None)?;
        return Ok(None);
    };
    let own = committed(&home, hash);
    remove_commits(&home, own.parent());
    if own.exists() {
        let waiting = manifest.files().filter(|file| own.join(&file.name).exists());
        let waiting: Vec<&SavedFile> = waiting.collect();
        let names: Vec<String> = waiting.iter().map(|file| file.name.clone()).collect();
        prepare(dir, waiting)?;
        place(dir, &own, &names, &manifest.removed)?;
    }
    replace_older(dir, Some(&manifest))?;
    Ok(Some(manifest))
}

/// Replaces the private folder of an earlier version by a file. All that was committed is in its place, so that
/// nothing is mixed at any moment, even for readers that find neither.
fn replace_older(dir: &Path, manifest: Option<&Manifest>) -> Result<()> {
    let (saving, list) = (saving_of(dir), list_of(dir));
    let aside = saving.join(OLDER);
    remove_dir_all(&aside);
    if !list.is_dir() {
        return Ok(());
    }
    match manifest {
        Some(manifest) => {
            let next = saving.join(NEXT);
            write_list(&next, &manifest.to_text().0)?;
            exchange(&next, &list, &aside).map_err(write_failed(&list))?;
        }
        None => rename(&list, &aside).map_err(write_failed(&list))?,
    }
    sync(dir).map_err(write_failed(&list))?;
    remove_dir_all(&aside);
    Ok(())
}

/// Removes the folders of commits that never came to be.
fn remove_commits(saving: &Path, but: Option<&Path>) {
    let Ok(entries) = fs::read_dir(saving) else { return };
    for entry in entries.flatten() {
        let is_commit = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_commit && Some(entry.path().as_path()) != but {
            remove_dir_all(&entry.path());
        }
    }
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
        let probe = folder.join(format!("{PRIVATE}.probe"));
        let is_open = File::create(&probe).and_then(|_| fs::remove_file(&probe));
        is_open.map_err(write_failed(&folder))?;
    }
    Ok(())
}

/// Moves committed files to their usual names, and removes those that they replace.
fn place(dir: &Path, own: &Path, names: &[String], removed: &BTreeSet<String>) -> Result<()> {
    let not_placed = |path: &Path| {
        let path = path.to_path_buf();
        |source| Error::NotPlaced { path, source }
    };
    let (last, first): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.as_str() == PROGRAM);
    let mut folders = BTreeSet::new();
    for name in first.into_iter().chain(last) {
        let path = dir.join(name);
        match rename(&own.join(name), &path) {
            // It is in its place already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved.map_err(not_placed(&path))?,
        }
        folders.extend(path.parent().map(Path::to_path_buf));
    }
    for name in removed {
        let path = dir.join(name);
        remove_file(&path).map_err(not_placed(&path))?;
        folders.extend(path.parent().filter(|folder| folder.exists()).map(Path::to_path_buf));
    }
    folders.iter().try_for_each(|folder| sync(folder).map_err(not_placed(folder)))?;
    remove_dir_all(own.parent().unwrap_or(own));
    Ok(())
}
