//! Where the logs of a job go. A job has a folder of its own, unless its user names one; two jobs that run at the
//! same time do not write into one folder either way.
//!
//! `logs/20261117-184501-3f9a` is the folder of a job that began then. `logs/latest` leads to the newest one, and
//! `logs/workerlog.0`, where Fluid's users look, into it. A launcher that resumes a job appends to its logs.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use durable::Access;
use metrics::CalendarTime;

use super::plan::Job;
use crate::error::{Error, Result};

/// Where locks lie: one file for each folder of logs ever used.
const FOLDER: &str = "paddlewheel-logs";
/// The end of a path says enough; file names have a limit.
const NAME_MAX: usize = 200;
/// Leads to the folder of the newest job.
const LATEST: &str = "latest";
/// In the folder of snapshots: where the logs of the job are.
const NOTE: &str = "logs";
/// The folder of snapshots inside the one of logs, unless the user names another.
const SNAPSHOTS: &str = "snapshots";
/// Names that are tried; more jobs do not begin in one second.
const TRIES: u32 = 1000;

/// The input for choosing a folder.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRequest<'a> {
    /// The folder that was named, or the one in which jobs have theirs.
    pub(super) folder: &'a Path,
    /// The user has not named one.
    pub(super) is_own: bool,
    /// This machine, if the command line names it.
    pub(super) node: Option<&'a str>,
    /// The folder of snapshots, if one was named.
    pub(super) snapshots: Option<&'a Path>,
}

/// A folder that is this job's as long as this lives.
#[derive(Debug)]
pub(super) struct Logs {
    pub(super) folder: PathBuf,
    /// The folder of snapshots, unless the user names another.
    pub(super) snapshots: PathBuf,
    /// A line for the user, if the folder differs from the one that was asked for.
    pub(super) line: Option<String>,
    /// The folder in which this job has its own.
    parent: Option<PathBuf>,
    /// That one was not there before.
    is_first: bool,
    node: Option<String>,
    _lock: Option<File>,
}

impl Logs {
    /// Takes a folder. Launchers of one job on several nodes may share one, because their files have different
    /// names.
    pub(super) fn take(request: &LogRequest<'_>) -> Result<Self> {
        if request.is_own {
            Self::own(request)
        } else {
            Ok(Self::named(request.folder, request.node))
        }
    }

    /// Takes a folder that was named, or a folder inside it while another job writes there. If no lock is possible
    /// (a full or foreign folder), it is used without one.
    pub(super) fn named(wanted: &Path, node: Option<&str>) -> Self {
        let lock = lock_file(wanted, node.unwrap_or_default());
        let (mut folder, mut line) = (wanted.to_path_buf(), None);
        if lock.as_ref().is_some_and(is_taken) {
            folder = wanted.join(format!("job.{}", std::process::id()));
            line = Some(format!(
                "another job is running and writes its logs to {}; those of this one go to {}",
                wanted.display(),
                folder.display()
            ));
        }
        let (snapshots, node) = (folder.join(SNAPSHOTS), node.map(str::to_string));
        let lock = lock.filter(|_| line.is_none());
        Self { folder, snapshots, line, parent: None, is_first: false, node, _lock: lock }
    }

    /// Makes a folder, or reuses the one of a job that has snapshots and is not over. The usual folder of
    /// snapshots stays where it is: the same command finds them again.
    fn own(request: &LogRequest<'_>) -> Result<Self> {
        let LogRequest { folder: parent, node, .. } = *request;
        let lock = lock_file(parent, node.unwrap_or_default());
        let is_first = !parent.exists();
        let usual = (!lock.as_ref().is_some_and(is_taken)).then(|| parent.join(SNAPSHOTS));
        let begun = request.snapshots.or(usual.as_deref()).and_then(|begun| noted(begun, node));
        let folder = match begun {
            Some(folder) => folder,
            None => new_folder(parent, CalendarTime::now()).map_err(|source| Error::File {
                what: "make a folder of logs in",
                path: parent.to_path_buf(),
                source,
            })?,
        };
        let snapshots = usual.clone().unwrap_or_else(|| folder.join(SNAPSHOTS));
        let (parent, node) = (Some(parent.to_path_buf()), node.map(str::to_string));
        let lock = lock.filter(|_| usual.is_some());
        Ok(Self { folder, snapshots, line: None, parent, is_first, node, _lock: lock })
    }

    /// Notes beside the snapshots of a job where its logs are. Without the note a launcher that resumes the job
    /// makes another folder; that is not a reason to end.
    pub(super) fn note(&self, snapshots: &Path) {
        let full = std::path::absolute(&self.folder);
        if let (Ok(full), Some(_)) = (full, &self.parent) {
            let name = node_file(NOTE, self.node.as_deref());
            let note = full.to_string_lossy();
            let _ = durable::replace_with(&snapshots.join(name), Access::Owner, note.as_bytes());
        }
    }

    /// Lets people find the logs: `latest`, and the names that Fluid's users know.
    pub(super) fn publish(&self, job: &Job) {
        let logs = job.processes.iter().filter_map(|process| process.log.as_ref());
        // Create the files, so that no link dangles. The start of a process reports errors.
        if self.parent.is_some() {
            let create = |log: &PathBuf| File::options().create(true).append(true).open(log);
            logs.clone().for_each(|log| _ = create(log));
        }
        let names = logs.filter_map(|log| Some(log.file_name()?.to_string_lossy().into_owned()));
        self.lead_to(names.chain(["metrics.jsonl".to_string()]));
    }

    /// Makes links for `latest` and these files. A file system without links has none.
    pub(super) fn lead_to(&self, names: impl Iterator<Item = String>) {
        let Some(parent) = &self.parent else { return };
        let folder = match (self.folder.parent(), self.folder.file_name()) {
            (Some(home), Some(name)) if home == parent => PathBuf::from(name),
            _ => self.folder.clone(),
        };
        link(&parent.join(LATEST), &folder);
        names.for_each(|name| link(&parent.join(&name), &Path::new(LATEST).join(&name)));
    }
}

impl Drop for Logs {
    /// A job that was not begun leaves no empty folder.
    fn drop(&mut self) {
        if let Some(parent) = &self.parent {
            // A folder with something in it stays.
            let _ = fs::remove_dir(&self.folder);
            if self.is_first {
                let _ = fs::remove_dir(parent);
            }
        }
    }
}

/// Removes a link to the log of another job, if there is one where a log is to be written.
pub(super) fn unlink(log: &Path) {
    if fs::read_link(log).is_ok_and(|target| target.starts_with(LATEST)) {
        let _ = fs::remove_file(log);
    }
}

/// Makes or replaces a link at once. A file that is not a link stays: it belongs to the user.
fn link(path: &Path, target: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink()) {
        return;
    }
    // A job does without.
    let _ = durable::replace_link(path, target);
}

/// Makes a folder that does not exist yet.
fn new_folder(parent: &Path, now: CalendarTime) -> std::io::Result<PathBuf> {
    fs::create_dir_all(parent)?;
    let mut id = std::process::id();
    for _ in 0..TRIES {
        let folder = parent.join(format!("{}-{:04x}", now.compact(), id & 0xffff));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => id = id.wrapping_add(1),
            made => return made.map(|()| folder),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Where the logs of a job are that has begun and is not over, if its snapshots say so.
fn noted(snapshots: &Path, node: Option<&str>) -> Option<PathBuf> {
    let is_there = |name: &str| snapshots.join(name).exists();
    if is_there("finished") || node.is_some() && is_there(&node_file("finished", node)) {
        return None;
    }
    let text = fs::read_to_string(snapshots.join(node_file(NOTE, node))).ok()?;
    Some(PathBuf::from(text)).filter(|folder| folder.is_dir())
}

fn node_file(name: &str, node: Option<&str>) -> String {
    node.map_or_else(|| name.to_string(), |node| format!("{name}.{node}"))
}

fn is_taken(lock: &File) -> bool {
    matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
}

fn lock_file(wanted: &Path, node: &str) -> Option<File> {
    let folder = std::env::temp_dir().join(FOLDER);
    fs::create_dir_all(&folder).ok()?;
    let full = fs::canonicalize(wanted).or_else(|_| std::path::absolute(wanted)).ok()?;
    let name = format!("{}@{node}", full.to_string_lossy()).replace('/', "_");
    let letters: Vec<char> = name.chars().collect();
    let name: String = letters[letters.len().saturating_sub(NAME_MAX)..].iter().collect();
    let path = folder.join(name);
    File::open(&path).or_else(|_| File::create(&path)).ok()
}

#[cfg(test)]
mod tests;
