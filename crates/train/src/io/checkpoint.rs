//! Checkpoints: numbered folders with a model and the progress of every trainer. The newest whole one counts.
//!
//! ```text
//! <dir>/checkpoint_<serial>/__model__/<variable>    written by trainer 0, and _SUCCESS beside them
//!                           __lookup_table__/…      parts of tables, written by servers
//!                           trainer_<id>/<name>     arguments of a trainer, as text, and _SUCCESS
//! ```
//!
//! All that one trainer writes is one transaction, and trainers do not wait for each other: each finds its place
//! again by what it and trainer 0 wrote (see [`Checkpoints::progress`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use program::{Distributed, Program, VarDesc, VarKind};

use super::distributed::{JobSave, JobScope, job_about, load_slices_below};
use super::vars::{FileLayout, by_name, check_savable, is_persistable, put, read_vars, write_vars};
use crate::error::{Error, Result};
use crate::folder::{About, Folder, Transaction};
use crate::remote::TrainerJob;
use crate::scope::Scope;

/// How the names of folders begin.
const PREFIX: &str = "checkpoint_";
/// The folder of variables, and what stands before their names.
const MODEL: &str = "__model__/";
/// The file that says that a part is complete.
const SUCCESS: &str = "_SUCCESS";
/// How the name of one ends that is being removed.
const REMOVED: &str = ".removed";
/// The kind of its saves.
const KIND: &str = "checkpoint";
/// How often a trainer writes its part if another one removes it.
const TRIES: usize = 3;
/// Names of variables that belong to no checkpoint.
const FOREIGN: [&str; 3] = ["@GRAD", ".trainer_", ".block"];

/// The checkpoints of a folder.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    dir: PathBuf,
}

/// The newest checkpoint of a folder.
#[derive(Debug, Default)]
pub struct NewestCheckpoint {
    /// The newest that is whole.
    pub serial: Option<u64>,
    /// The faults of newer ones.
    pub errors: Vec<Error>,
}

/// The contents of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint<'a> {
    /// The variables.
    pub scope: &'a Scope,
    /// Which of them.
    pub program: &'a Program,
    /// The trainer that saves; only trainer 0 saves variables.
    pub trainer_id: usize,
    /// How far the trainer is, and what else it wants to remember: names and texts.
    pub arguments: &'a [(String, String)],
    /// How many checkpoints are kept.
    pub n_kept: usize,
    /// The text of `_SUCCESS`: the time.
    pub time: &'a str,
}

/// Whether a checkpoint holds a variable.
pub fn is_checkpoint_var(var: &VarDesc) -> bool {
    let is_foreign = FOREIGN.iter().any(|part| var.name.contains(part));
    is_persistable(var) && var.meta.kind != VarKind::Raw && !is_foreign
}

impl Checkpoints {
    /// Those in this folder, which may not be there yet.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf() }
    }

    /// The name of the folder that all are in.
    pub(super) fn folder_name(&self) -> String {
        self.dir.to_string_lossy().into_owned()
    }

    /// The folder of a checkpoint.
    pub fn folder(&self, serial: u64) -> PathBuf {
        self.dir.join(format!("{PREFIX}{serial}"))
    }

    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    }

    /// The numbers of all, ascending. Other entries of the folder are left alone.
    pub fn serials(&self) -> Vec<u64> {
        let serial = |name: String| {
            let digits = name.strip_prefix(PREFIX)?;
            digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let mut serials: Vec<u64> = self.names().into_iter().filter_map(serial).collect();
        serials.sort_unstable();
        serials
    }

    /// Whether trainer 0 has completed a checkpoint.
    fn is_complete(&self, serial: u64) -> bool {
        let model = format!("{MODEL}{SUCCESS}");
        match Folder::open(&self.folder(serial)) {
            Ok(folder) => folder.has(&model),
            // It was completed, and its list was damaged since: loading it will say so.
            Err(_) => self.folder(serial).join(model).is_file(),
        }
    }

    /// The numbers of complete ones, ascending.
    pub fn complete(&self) -> Vec<u64> {
        self.serials().into_iter().filter(|&serial| self.is_complete(serial)).collect()
    }

    /// Writes the next checkpoint and removes old ones; returns its number.
    pub fn save(&self, what: &Checkpoint<'_>) -> Result<u64> {
        let serial = self.next(what.trainer_id);
        self.write(serial, what, About::new(KIND), |transaction| {
            let vars = by_name(what.program.list_vars().filter(|var| is_checkpoint_var(var)));
            check_savable(what.scope, &vars, FileLayout::Each(MODEL))?;
            write_vars(transaction.stage(), what.scope, &vars, FileLayout::Each(MODEL))?;
            transaction.commit(About::new(KIND))
        })?;
        self.rotate(what.trainer_id, what.n_kept);
        Ok(serial)
    }

    /// The same in a job: parameters as they are on the servers, and tables. Returns no number if it was left
    /// out: a job that recovers goes back to its start until its first cut is kept, and must find the checkpoint
    /// there that it began with.
    pub fn save_of_job(
        &self,
        what: &Checkpoint<'_>,
        trainer: &TrainerJob,
        job: &Distributed,
    ) -> Result<Option<u64>> {
        trainer.join(job);
        let saved = trainer.saves(&self.folder_name(), &mut || {
            if trainer.keeps_its_start() {
                self.save_now(what, trainer, job).map(|serial| vec![serial.to_string()])
            } else {
                Ok(Vec::new())
            }
        })?;
        Ok(saved.first().and_then(|serial| serial.parse().ok()))
    }

    fn save_now(
        &self,
        what: &Checkpoint<'_>,
        trainer: &TrainerJob,
        job: &Distributed,
    ) -> Result<u64> {
        let mut n_tries = 0;
        let serial = loop {
            let serial = self.next(what.trainer_id);
            let about = job_about(KIND, trainer, job);
            let written = self.write(serial, what, about, |transaction| {
                let of = JobScope { trainer, scope: what.scope, job };
                let save = JobSave {
                    of,
                    layout: FileLayout::Each(MODEL),
                    kind: KIND,
                    weights_only: false,
                };
                save.persistables_of(what.program, is_checkpoint_var, transaction)
            });
            n_tries += 1;
            // Another trainer has removed it meanwhile, because it has written others since.
            let is_removed = written.is_err() && !self.folder(serial).exists();
            if !(is_removed && n_tries < TRIES) {
                break written.map(|()| serial)?;
            }
        };
        self.rotate(what.trainer_id, what.n_kept);
        Ok(serial)
    }

    /// The number for a trainer's next part: the one after the last complete one, which others may be writing
    /// too. Without models, because this trainer has a disk of its own, it is the one after its last.
    fn next(&self, trainer_id: usize) -> u64 {
        let complete = self.complete();
        let last = if complete.is_empty() && trainer_id > 0 {
            self.serials().last().copied()
        } else {
            complete.last().copied()
        };
        last.map_or(0, |last| last + 1)
    }

    /// Writes what a trainer has to write; `commit_model` adds the variables of trainer 0 and commits.
    fn write(
        &self,
        serial: u64,
        what: &Checkpoint<'_>,
        about: About,
        commit_model: impl FnOnce(Transaction) -> Result<()>,
    ) -> Result<()> {
        let transaction = Transaction::begin(&self.folder(serial))?;
        let own = own_folder(what.trainer_id);
        for (name, text) in what.arguments {
            transaction.write(&format!("{own}/{name}"), format!("{text}\n").as_bytes())?;
        }
        transaction.write(&format!("{own}/{SUCCESS}"), what.time.as_bytes())?;
        if what.trainer_id > 0 {
            return transaction.commit(about);
        }
        transaction.write(&format!("{MODEL}{SUCCESS}"), what.time.as_bytes())?;
        commit_model(transaction)
    }

    /// Removes all but the newest complete ones, and what crashes left. Only trainer 0 removes models.
    fn rotate(&self, trainer_id: usize, n_kept: usize) {
        let serials = self.removable(trainer_id);
        let counted = match trainer_id {
            0 => self.complete(),
            // On a disk without models, the newest are kept.
            _ => serials.clone(),
        };
        let first = counted.get(counted.len().saturating_sub(n_kept.max(1))).copied();
        let newest = counted.last().copied();
        let is_left = |serial: u64| newest.is_some_and(|newest| serial < newest);
        let goes = |serial: &u64| {
            first.is_some_and(|first| *serial < first)
                || is_left(*serial) && !counted.contains(serial)
        };
        serials.into_iter().filter(goes).for_each(|serial| self.remove(serial));
        self.remove_rests();
    }

    /// Those that a trainer may remove: trainer 0 all, another one those that nobody else has a part of.
    fn removable(&self, trainer_id: usize) -> Vec<u64> {
        let own = own_folder(trainer_id);
        let is_own = |serial: &u64| {
            let entries = fs::read_dir(self.folder(*serial)).into_iter().flatten().flatten();
            let mut names = entries.map(|entry| entry.file_name());
            names.all(|name| name == *own || name.to_string_lossy().starts_with('.'))
        };
        let is_alone = self.complete().is_empty();
        let may = |serial: &u64| trainer_id == 0 || is_alone && is_own(serial);
        self.serials().into_iter().filter(may).collect()
    }

    /// Removes one as a whole: if this process ends meanwhile, the remains are not a checkpoint.
    fn remove(&self, serial: u64) {
        let rest = self.dir.join(format!("{PREFIX}{serial}{REMOVED}"));
        // Others may do the same, and what cannot be removed is in nobody's way.
        if durable::rename(&self.folder(serial), &rest).is_ok() {
            let _ = fs::remove_dir_all(rest);
        }
    }

    /// Removes what trainers left of newer ones that trainer 0 did not complete.
    pub(super) fn remove_incomplete_after(&self, serial: u64) {
        let complete = self.complete();
        let is_left = |other: &u64| *other > serial && !complete.contains(other);
        self.serials().into_iter().filter(is_left).for_each(|serial| self.remove(serial));
    }

    /// Removes what is left of those that somebody did not come to remove.
    fn remove_rests(&self) {
        let is_rest = |name: &str| {
            let number = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(REMOVED));
            number.is_some_and(|number| number.parse::<u64>().is_ok())
        };
        for name in self.names().into_iter().filter(|name| is_rest(name)) {
            let _ = fs::remove_dir_all(self.dir.join(name));
        }
    }

    /// The newest that is whole, and the errors of newer ones that are not: all processes of a job, which read
    /// different files of it, find the same. One of a later format is an error: to take an older one would be to
    /// forget what a newer version has trained.
    pub fn newest(&self) -> Result<NewestCheckpoint> {
        let mut errors = Vec::new();
        for serial in self.complete().into_iter().rev() {
            match Folder::consistently(&self.folder(serial), Folder::verify) {
                Ok(()) => return Ok(NewestCheckpoint { serial: Some(serial), errors }),
                Err(error @ Error::ManifestVersion { .. }) => return Err(error),
                Err(error) => errors.push(error),
            }
        }
        Ok(NewestCheckpoint { serial: None, errors })
    }

    /// Loads the variables of a program from a checkpoint: this one, or the newest that is whole. Returns its
    /// number, and the errors of newer ones that are not whole.
    pub fn load(
        &self,
        scope: &Scope,
        program: &Program,
        serial: Option<u64>,
    ) -> Result<(u64, Vec<Error>)> {
        let NewestCheckpoint { serial, errors } = match serial {
            Some(serial) => NewestCheckpoint { serial: Some(serial), errors: Vec::new() },
            None => self.newest()?,
        };
        let Some(serial) = serial else {
            let none = || Error::NoCheckpoint { path: self.dir.clone() };
            // The newest one is what the user wanted.
            return Err(errors.into_iter().next().unwrap_or_else(none));
        };
        self.load_one(scope, program, serial)?;
        Ok((serial, errors))
    }

    fn load_one(&self, scope: &Scope, program: &Program, serial: u64) -> Result<()> {
        let dir = self.folder(serial);
        let job = program.distributed.as_deref();
        if let Some(job) = job.filter(|_| is_servers(program)) {
            return load_slices_below(job, scope, &dir, MODEL);
        }
        let is_here = |var: &&VarDesc| {
            let on_servers = |job: &Distributed| job.pieces(&var.name).next().is_some();
            is_checkpoint_var(var) && !job.is_some_and(on_servers)
        };
        let (vars, values) = Folder::consistently(&dir, |folder| {
            // A trainer's program has variables that only some trainers fill.
            let is_saved =
                |var: &&VarDesc| job.is_none() || folder.has(&format!("{MODEL}{}", var.name));
            let vars = by_name(program.list_vars().filter(is_here).filter(is_saved));
            let values = read_vars(folder, MODEL, &vars)?;
            Ok((vars, values))
        })?;
        put(scope, &vars, values)
    }

    /// The values that a trainer wrote with a checkpoint, by name; empty if it wrote nothing there.
    pub fn arguments(&self, serial: u64, trainer_id: usize) -> Result<BTreeMap<String, String>> {
        let own = format!("{}/", own_folder(trainer_id));
        Folder::consistently(&self.folder(serial), |folder| {
            let listed = folder.manifest().into_iter().flat_map(|list| list.files());
            let mut names: BTreeSet<String> = listed.map(|file| file.name.clone()).collect();
            // Those that others merged into the folder are on no list.
            let entries = fs::read_dir(folder.dir().join(&own)).into_iter().flatten().flatten();
            let on_disk = entries.filter_map(|entry| entry.file_name().into_string().ok());
            names.extend(on_disk.map(|name| format!("{own}{name}")));
            let mut arguments = BTreeMap::new();
            for name in &names {
                let Some(argument) = name.strip_prefix(&own) else { continue };
                if argument != SUCCESS && folder.has(name) {
                    let text = String::from_utf8_lossy(&folder.read(name)?).trim().to_string();
                    arguments.insert(argument.to_string(), text);
                }
            }
            Ok(arguments)
        })
    }

    /// Removes all checkpoints, and the folder if asked to and empty. A trainer that is not trainer 0 leaves
    /// those of trainer 0.
    pub fn clean(&self, trainer_id: usize, delete_dir: bool) {
        self.removable(trainer_id).into_iter().for_each(|serial| self.remove(serial));
        self.remove_rests();
        if delete_dir {
            // Only an empty one can be removed like this.
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

fn is_servers(program: &Program) -> bool {
    program.block(0).ops.iter().any(|op| op.kind == "listen_and_serv")
}

fn own_folder(trainer_id: usize) -> String {
    format!("trainer_{trainer_id}")
}
