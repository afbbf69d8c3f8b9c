//! Where the files of a save are before they have their usual names. Inside the saved folder they are files, never
//! folders: programs take each folder that they find there for an epoch.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::disk::{create_dir, remove_dir_all, remove_file};
use super::text::{hash, word};
use super::{PRIVATE, lock, private_of};

/// How the name of a stage away from its folder begins.
const AWAY: &str = "stage-";
/// How the names of a stage's files in its folder begin.
const STAGE: &str = ".paddlewheel.stage";
/// How the names of committed files begin until they have their usual names.
const COMMIT: &str = ".paddlewheel.commit";
/// How the names of files begin that are locked while the processes live that write into the stage.
const OWNER: &str = "owner.";
/// How the names of the files begin that were saved.
const FILE: &str = "file.";
/// How the names of the lists begin of what other processes added.
const LIST: &str = "list.";
/// The next manifest.
const NEXT: &str = "next";
/// The private folder of an earlier version, before it is removed.
const OLDER: &str = "older";
/// Longer names are replaced by a number: with what is before them, they would be too long for the system.
const NAME_MAX: usize = 180;

/// A place for the files of one stage.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    folder: PathBuf,
    /// How all names begin.
    prefix: String,
}

impl Spot {
    /// In a folder of its own, among other stages. Its name has the number of the saved folder: servers of one job may save
    /// into folders of their own on one disk, all with the id that the trainer chose.
    pub(super) fn away(stages: &Path, dir: &Path, id: &str) -> Self {
        let number = fs::metadata(dir).map_or(0, |found| found.ino());
        Self { folder: stages.join(format!("{AWAY}{id}-{number}")), prefix: String::new() }
    }

    /// In the folder that is saved into, as files.
    pub(super) fn inside(dir: &Path, id: &str) -> Self {
        Self { folder: dir.to_path_buf(), prefix: format!("{}{id}.", prefix_of(dir, STAGE)) }
    }

    /// The folder that has the files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn is_away(&self) -> bool {
        self.prefix.is_empty()
    }

    fn path(&self, kind: &str, name: &str) -> PathBuf {
        self.folder.join(format!("{}{kind}{}", self.prefix, flat(name)))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path(FILE, name)
    }

    pub(super) fn list(&self, name: &str) -> PathBuf {
        self.path(LIST, name)
    }

    pub(super) fn owner(&self, id: &str) -> PathBuf {
        self.path(OWNER, id)
    }

    pub(super) fn next(&self) -> PathBuf {
        self.path(NEXT, "")
    }

    pub(super) fn older(&self) -> PathBuf {
        self.path(OLDER, "")
    }

    /// All lists.
    pub(super) fn lists(&self) -> io::Result<Vec<PathBuf>> {
        entries(&self.folder, &format!("{}{LIST}", self.prefix))
    }

    /// Makes its folder, which may be there.
    pub(super) fn make(&self) -> io::Result<()> {
        if !self.is_away() {
            return Ok(());
        }
        match create_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// Whether a process has begun it.
    pub(super) fn is_begun(&self) -> bool {
        let own = || entries(&self.folder, &self.prefix).is_ok_and(|own| !own.is_empty());
        if self.is_away() { self.folder.is_dir() } else { own() }
    }

    /// Removes it with all that is in it, and the folder of all stages if it was the last one.
    pub(super) fn remove(&self) {
        if self.is_away() {
            remove_dir_all(&self.folder);
            // It is not empty as long as somebody has its lock or a stage.
            let _ = self.folder.parent().map(fs::remove_dir);
            return;
        }
        entries(&self.folder, &self.prefix)
            .unwrap_or_default()
            .iter()
            .for_each(|path| remove(path));
    }

    /// Whether all processes that wrote into it are gone.
    fn is_left(&self) -> bool {
        let owners = entries(&self.folder, &format!("{}{OWNER}", self.prefix));
        owners.is_ok_and(|owners| owners.iter().all(|owner| lock::is_left(owner)))
    }
}

/// Where a committed file is until it has its usual name. The manifest has this hash.
pub(super) fn waiting(dir: &Path, manifest: u64, name: &str) -> PathBuf {
    dir.join(format!("{}{manifest:016x}.{}", prefix_of(dir, COMMIT), flat(name)))
}

/// Where a manifest from another disk is before it replaces one.
pub(super) fn next_beside(dir: &Path) -> PathBuf {
    dir.join(format!("{}{NEXT}", prefix_of(dir, COMMIT)))
}

/// Removes files of commits that never came to be: all but those of the manifest with this hash.
pub(super) fn remove_commits(dir: &Path, but: Option<u64>) {
    let prefix = prefix_of(dir, COMMIT);
    let own = but.map(|hash| format!("{prefix}{hash:016x}."));
    for path in entries(dir, &prefix).unwrap_or_default() {
        let is_own = own.as_ref().is_some_and(|own| name_of(&path).starts_with(own));
        if !is_own {
            remove(&path);
        }
    }
}

/// Whether a save left something in a folder, or is at work there.
pub(super) fn is_anything(dir: &Path) -> bool {
    entries(dir, &format!("{PRIVATE}.")).is_ok_and(|own| !own.is_empty())
}

/// Removes stages of processes that are gone. The caller holds the lock of the stages.
pub(super) fn clean_away(stages: &Path) {
    for folder in entries(stages, AWAY).unwrap_or_default() {
        let spot = Spot { folder, prefix: String::new() };
        if spot.is_left() {
            spot.remove();
        }
    }
}

/// Removes stages of processes that are gone from a folder. The caller holds its lock.
pub(super) fn clean_inside(dir: &Path) {
    let prefix = prefix_of(dir, STAGE);
    for path in entries(dir, &prefix).unwrap_or_default() {
        let id = name_of(&path)[prefix.len()..].split('.').next().unwrap_or_default().to_string();
        let spot = Spot::inside(dir, &id);
        if spot.is_left() {
            spot.remove();
        }
    }
}

/// How names begin in a folder. In one of all users, each has others.
fn prefix_of(dir: &Path, name: &str) -> String {
    format!("{}.", name_of(&private_of(dir, name)))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A name as one of a file, without folders.
fn flat(name: &str) -> String {
    let flat = word(name).replace('/', "%2F");
    if flat.len() <= NAME_MAX { flat } else { format!("%~{:016x}", hash(name.as_bytes())) }
}

/// The entries of a folder whose names begin like this.
fn entries(folder: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.flatten();
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    Ok(own.map(|entry| entry.path()).collect())
}

/// Removes a file, or a folder with all that is in it, as far as that goes.
fn remove(path: &Path) {
    if path.is_dir() {
        remove_dir_all(path)
    } else {
        let _ = remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        let long = "x".repeat(250);
        let other = format!("{long}y");
        let names = ["a", "a/b", "a%2Fb", " ", &long, &other];
        let flat: std::collections::BTreeSet<String> =
            names.iter().map(|name| flat(name)).collect();
        assert_eq!(flat.len(), names.len());
        for name in flat {
            assert!(!name.contains('/') && name.len() <= NAME_MAX, "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        for path in [
            waiting(dir.path(), 7, &long),
            Spot::inside(dir.path(), "0123456789abcdef").file(&long),
        ] {
            fs::write(&path, "").unwrap();
        }
    }

    #[test]
    fn a_stage_in_a_folder_is_of_files_and_leaves_with_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let spot = Spot::inside(dir.path(), "7");
        assert!(!spot.is_begun());
        spot.make().unwrap();
        let owner = lock::own(&spot.owner("1")).unwrap();
        fs::write(spot.file("a/b"), "1").unwrap();
        fs::write(spot.list("a/b"), "1").unwrap();
        assert!(spot.is_begun() && is_anything(dir.path()));
        assert!(fs::read_dir(dir.path()).unwrap().all(|entry| entry.unwrap().path().is_file()));
        assert_eq!(spot.lists().unwrap(), [spot.list("a/b")]);
        clean_inside(dir.path());
        assert!(spot.file("a/b").exists());
        drop(owner);
        clean_inside(dir.path());
        assert!(!spot.is_begun() && !is_anything(dir.path()));
    }
}
