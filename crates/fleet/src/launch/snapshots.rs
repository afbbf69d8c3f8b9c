//! The folder of a job's snapshots: the job that owns it, the lock that keeps other launchers out,
//! and a trial that it can be written to. All of it is checked before anything is started.
//!
//! `job` says whose snapshots these are. `launcher.lock` is locked while a launcher runs. `finished`
//! says that the job came to its end: the next start is a new job. On several machines, the last two
//! have the name of the machine in theirs, because launchers may share the folder. The processes have
//! the folders `server.N` and `trainer.N`.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use base::formats::JOB as JOB_FORMAT;
use durable::Access;
use server::server_list;

use super::options::ScriptCommand;
use super::plan::{Job, Process};
use crate::error::{Result, SnapshotError};
use crate::role::RoleKind;

/// How `job` begins, before the version.
const MAGIC: &str = "paddlewheel job";
/// The file with the identity of the job, and its copy.
const JOB: &str = "job";
const JOB_AGAIN: &str = "job.again";
/// Bytes that are written to see whether there is space.
const TRIAL_BYTES: usize = 4 << 20;
/// The largest file with the identity of a job; a larger one is something else.
const JOB_BYTES_MAX: u64 = 1 << 20;

/// How long a lock is waited for.
const LOCK_WAIT: Duration = Duration::from_millis(200);

type SnapshotResult<T> = std::result::Result<T, SnapshotError>;

/// The identity of a job: the same command is the same job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    script: PathBuf,
    arguments: Vec<String>,
    n_servers: usize,
    n_trainers: usize,
    /// Servers that it was started with, if their number was changed while it ran.
    n_began: Option<usize>,
}

impl Identity {
    pub(super) fn of(job: &Job) -> Self {
        let identity = Self::of_script(&job.script, job.n_servers, job.n_trainers);
        Self { n_began: job.n_began, ..identity }
    }

    pub(super) fn of_script(script: &ScriptCommand, n_servers: usize, n_trainers: usize) -> Self {
        let ScriptCommand { path, arguments } = script;
        let full = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        Self {
            script: full.unwrap_or_else(|_| path.clone()),
            arguments: arguments.clone(),
            n_servers,
            n_trainers,
            n_began: None,
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("{MAGIC} {}\nservers {}\n", JOB_FORMAT.version, self.n_servers);
        text += &format!("trainers {}\n", self.n_trainers);
        text += &self.n_began.map_or_else(String::new, |n| format!("began {n}\n"));
        text += &format!("script {}\n", escaped(&self.script.to_string_lossy()));
        for argument in &self.arguments {
            text += &format!("argument {}\n", escaped(argument));
        }
        let check = crc32fast::hash(text.as_bytes());
        text + &format!("check {check:08x}\nend\n")
    }

    fn from_text(text: &str, folder: &Path, path: &Path) -> SnapshotResult<Self> {
        let damaged = |problem| SnapshotError::Damaged { path: path.to_path_buf(), problem };
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| line.strip_prefix(MAGIC));
        let version: Option<u32> = version.and_then(|rest| rest.trim().parse().ok());
        match version.ok_or_else(|| damaged("it does not say what it is"))? {
            version if JOB_FORMAT.can_read(version) => {}
            _ if has_our_form(text) => return Err(damaged("its number is none that was written")),
            version => {
                let (folder, known) = (folder.to_path_buf(), JOB_FORMAT.version);
                return Err(SnapshotError::Newer { folder, version, known });
            }
        }
        let mut found = Self {
            script: PathBuf::new(),
            arguments: Vec::new(),
            n_servers: 0,
            n_trainers: 0,
            n_began: None,
        };
        if has_lost_check(text) {
            return Err(damaged("its checksum is not where it was written"));
        }
        for line in lines {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let number = || value.parse().map_err(|_| damaged("a number is none"));
            match name {
                "servers" => found.n_servers = number()?,
                "trainers" => found.n_trainers = number()?,
                "began" => found.n_began = Some(number()?),
                "check" => {
                    let start = text.find("\ncheck ").map_or("", |at| &text[..=at]);
                    if value != format!("{:08x}", crc32fast::hash(start.as_bytes())) {
                        return Err(damaged("it has other bytes than were written"));
                    }
                }
                "script" => found.script = unescaped(value).into(),
                "argument" => found.arguments.push(unescaped(value)),
                "end" => return Ok(found),
                _ => return Err(damaged("it has an unknown line")),
            }
        }
        Err(damaged("it has no end"))
    }

    /// The job in words.
    fn words(&self) -> String {
        let Self { script, arguments, n_servers, n_trainers, .. } = self;
        let words = [&[script.to_string_lossy().into_owned()], &arguments[..]].concat().join(" ");
        format!("{words}, {n_servers} servers, {n_trainers} trainers")
    }

    /// Whether this command resumes a job, whose number of servers may have been changed while it ran.
    fn goes_on_with(&self, job: &Self) -> bool {
        let n_began = job.n_began.unwrap_or(job.n_servers);
        self.has_command_of(job)
            && self.n_trainers == job.n_trainers
            && [job.n_servers, n_began].contains(&self.n_servers)
    }

    /// Whether the other has the same command, with whatever numbers of processes.
    fn has_command_of(&self, other: &Self) -> bool {
        (&self.script, &self.arguments) == (&other.script, &other.arguments)
    }
}

/// Whether the checksum is behind the line before: the end of that line is damaged. Releases before wrote none.
fn has_lost_check(text: &str) -> bool {
    let last = text.strip_suffix("\nend\n").and_then(|text| text.lines().next_back());
    let check = last.and_then(|last| last.rsplit_once("check "));
    check.is_some_and(|(before, sum)| !before.is_empty() && sum.len() == 8)
}

/// Whether the text has a checksum as this release writes it: then it is of this release, and its number is damaged. A
/// later release that changes the form changes the text before the number.
fn has_our_form(text: &str) -> bool {
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    let ours = format!("{MAGIC} {}\n{rest}", JOB_FORMAT.version);
    let Some(at) = ours.find("\ncheck ") else { return false };
    let check = ours[at + 7..].lines().next().and_then(|word| u32::from_str_radix(word, 16).ok());
    check == Some(crc32fast::hash(&ours.as_bytes()[..=at]))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.push(if letters.next() == Some('n') { '\n' } else { '\\' }),
            other => out.push(other),
        }
    }
    out
}

/// A launcher's request for the folder.
pub(super) struct FolderRequest<'a> {
    /// The folder.
    pub(super) folder: &'a Path,
    /// Snapshots to resume from, here or elsewhere.
    pub(super) resume: Option<&'a Path>,
    /// This machine, if there are several.
    pub(super) node: Option<&'a str>,
    pub(super) identity: Identity,
}

/// A folder that is this job's as long as this lives.
#[derive(Debug)]
pub(super) struct Snapshots {
    /// Its full path.
    pub(super) folder: PathBuf,
    /// Full path of the snapshots to resume from, if they were named.
    pub(super) resume: Option<PathBuf>,
    /// Whether another launcher has begun this job.
    pub(super) is_begun: bool,
    suffix: String,
    _lock: File,
}

impl Snapshots {
    /// Takes the folder, or returns why that is impossible.
    pub(super) fn take(wanted: &FolderRequest<'_>) -> Result<Self> {
        let resume = wanted.resume.map(checked).transpose()?;
        let folder = wanted.folder;
        let failed = |source| unusable(folder, source);
        durable::create_folder(folder, Access::Owner).map_err(failed)?;
        let folder = fs::canonicalize(folder).map_err(failed)?;
        let failed = |source| unusable(&folder, source);
        let suffix = wanted.node.map_or_else(String::new, |node| format!(".{node}"));
        let lock = folder.join(format!("launcher{suffix}.lock"));
        let lock = Access::Owner.options().create(true).append(true).open(lock).map_err(failed)?;
        if is_locked(&lock) {
            return Err(SnapshotError::InUse { folder }.into());
        }
        try_to_write(&folder, &suffix).map_err(failed)?;
        if wanted.node.is_none() {
            // Servers stood by when the last launcher died.
            server_list::clear_standby(&folder).map_err(failed)?;
        }
        let is_resumed = resume.as_ref() == Some(&folder);
        let found = read_job(&folder)?;
        if let Some(theirs) = &found {
            let ours = &wanted.identity;
            let is_ours =
                if is_resumed { ours.has_command_of(theirs) } else { ours.goes_on_with(theirs) };
            if !is_ours {
                let (ours, theirs) = (ours.words(), theirs.words());
                return Err(SnapshotError::OtherJob { folder, theirs, ours }.into());
            }
        }
        write_job(&folder, &wanted.identity).map_err(failed)?;
        let is_begun = found.is_some();
        Ok(Self { folder, resume, is_begun, suffix, _lock: lock })
    }

    /// Clears the folder of a job that has finished: the same command starts again from the
    /// beginning. In a shared folder, each launcher clears the folders of its own processes.
    pub(super) fn clear_finished(&mut self, own: impl Iterator<Item = String>) -> Result<bool> {
        let mark = self.finished();
        if !self.is_begun || self.resume.as_ref() == Some(&self.folder) || !mark.exists() {
            return Ok(false);
        }
        let is_server = |name: &String| name.starts_with("server.");
        // Of one machine: it may have had more servers when it finished.
        let all = names_in(&self.folder).into_iter().filter(|_| self.suffix.is_empty());
        for name in own.chain(all.filter(is_server)) {
            let folder = self.folder.join(name);
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(unusable(&folder, error).into());
                }
                _ => {}
            }
        }
        fs::remove_file(&mark).map_err(|source| unusable(&mark, source))?;
        self.is_begun = false;
        Ok(true)
    }

    /// The job came to its end.
    pub(super) fn finish(&self) -> Result<()> {
        let mark = self.finished();
        let done = durable::replace_with(&mark, Access::Owner, b"");
        done.map_err(|source| unusable(&mark, source).into())
    }

    fn finished(&self) -> PathBuf {
        self.folder.join(format!("finished{}", self.suffix))
    }

    /// Whether this machine comes back to a job that is over: it has no servers to say so, but those that have
    /// share this folder, and have noted their end. A machine that has noted its own begins a new job.
    pub(super) fn is_over(&self, job: &Job) -> bool {
        let is_server = |process: &Process| process.kind == RoleKind::Server;
        let has_finished = |node: &String| self.folder.join(format!("finished.{node}")).exists();
        self.is_begun
            && self.resume.is_none()
            && !job.processes.iter().any(is_server)
            && !job.server_nodes.is_empty()
            && job.server_nodes.iter().all(has_finished)
    }
}

/// Whether a launcher runs with this folder, of a job on one machine.
pub(super) fn is_in_use(folder: &Path) -> bool {
    is_held(&folder.join("launcher.lock"))
}

/// The machines whose launchers run with this folder, of a job on several.
pub(super) fn nodes_in_use(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let node = |name: String| {
        let node = name.strip_prefix("launcher.")?.strip_suffix(".lock")?;
        is_held(&folder.join(&name)).then(|| node.to_string())
    };
    let mut nodes: Vec<String> = names.filter_map(node).collect();
    nodes.sort();
    nodes
}

/// The names in a folder; none of one that cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

pub(super) fn is_held(lock: &Path) -> bool {
    let lock = File::options().append(true).open(lock);
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

/// How many servers the job in a folder has; none if there is no job.
pub(super) fn n_servers(folder: &Path) -> Result<Option<usize>> {
    Ok(read_job(folder)?.map(|job| job.n_servers))
}

/// A job that got another number of servers while it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scaled {
    /// The servers that it has.
    pub(super) n_servers: usize,
    /// Those that it was started with.
    pub(super) n_began: usize,
}

/// Whether the job in a folder got another number of servers, and this command resumes it.
pub(super) fn scaled(folder: &Path, ours: &Identity) -> Result<Option<Scaled>> {
    let is_over = folder.join("finished").exists();
    let found = read_job(folder)?.filter(|job| !is_over && ours.goes_on_with(job));
    let scaled = |job: Identity| {
        let n_began = job.n_began.filter(|&n| n != job.n_servers)?;
        Some(Scaled { n_servers: job.n_servers, n_began })
    };
    Ok(found.and_then(scaled))
}

/// Writes `job` and its second copy again, if one of them was damaged while the job ran.
pub(super) fn keep_job(folder: &Path) {
    let (first, second) = (read_job_file(folder, JOB), read_job_file(folder, JOB_AGAIN));
    let whole = match (first, second) {
        (Ok(Some(first)), Ok(Some(second))) if first == second => return,
        (Ok(Some(whole)), _) | (_, Ok(Some(whole))) => whole,
        _ => return,
    };
    // A disk that takes nothing now is tried again.
    let _ = write_job(folder, &whole);
}

/// The job has another number of servers from now on.
pub(super) fn renumber(folder: &Path, job: &Job, n_servers: usize) -> Result<()> {
    let n_began = Some(job.n_began.unwrap_or(job.n_servers)).filter(|&n| n != n_servers);
    let identity = Identity { n_servers, n_began, ..Identity::of(job) };
    write_job(folder, &identity).map_err(|source| unusable(folder, source).into())
}

/// Takes a lock. Returns whether another process has it. A process that was just started may hold
/// the locks of its parent for a moment.
pub(super) fn is_locked(lock: &File) -> bool {
    let deadline = Instant::now() + LOCK_WAIT;
    while matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
        if Instant::now() >= deadline {
            return true;
        }
        thread::sleep(LOCK_WAIT / 20);
    }
    false
}

/// The folder of a process, in that of the job.
pub(super) fn folder_of(kind: RoleKind, id: usize) -> String {
    match kind {
        RoleKind::Server => format!("server.{id}"),
        RoleKind::Trainer => format!("trainer.{id}"),
    }
}

/// The full path of a folder in which a job has left snapshots.
fn checked(folder: &Path) -> Result<PathBuf> {
    let nothing = || SnapshotError::Nothing { folder: folder.to_path_buf() };
    let full = fs::canonicalize(folder).map_err(|_| nothing())?;
    read_job(&full)?.ok_or_else(nothing)?;
    Ok(full)
}

/// The identity of the job of a folder. If the file is damaged, it comes from the copy.
fn read_job(folder: &Path) -> SnapshotResult<Option<Identity>> {
    match read_job_file(folder, JOB) {
        Err(damaged @ SnapshotError::Damaged { .. }) => match read_job_file(folder, JOB_AGAIN) {
            Ok(Some(identity)) => Ok(Some(identity)),
            _ => Err(damaged),
        },
        read => read,
    }
}

fn read_job_file(folder: &Path, name: &str) -> SnapshotResult<Option<Identity>> {
    let path = folder.join(name);
    match fs::metadata(&path) {
        Ok(data) if data.len() > JOB_BYTES_MAX => {
            return Err(SnapshotError::Damaged { path, problem: "it is too large" });
        }
        _ => {}
    }
    match fs::read(&path) {
        Ok(bytes) => {
            let problem = "it is not text";
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| SnapshotError::Damaged { path: path.clone(), problem })?;
            Identity::from_text(&text, folder, &path).map(Some)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unusable(folder, source)),
    }
}

/// Puts `job` in place as a whole: after a crash it is the old one or the new one. The second one is for a disk that
/// damages the first.
fn write_job(folder: &Path, identity: &Identity) -> io::Result<()> {
    for name in [JOB, JOB_AGAIN] {
        durable::replace_with(&folder.join(name), Access::Owner, identity.to_text().as_bytes())?;
    }
    Ok(())
}

/// Writes a few megabytes and removes them.
fn try_to_write(folder: &Path, suffix: &str) -> io::Result<()> {
    let path = folder.join(format!("trial{suffix}"));
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0; TRIAL_BYTES])?;
        file.sync_all()
    });
    let removed = fs::remove_file(&path);
    written.and(removed)
}

fn unusable(folder: &Path, source: io::Error) -> SnapshotError {
    let folder = folder.to_path_buf();
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            SnapshotError::NoSpace { folder, source }
        }
        _ => SnapshotError::NotWritable { folder, source },
    }
}

#[cfg(test)]
mod tests;
