//! A job that an engine is to run: the command line, the folder of its logs, that of its snapshots.

use std::fs;
use std::path::{Path, PathBuf};

use super::{EngineOptions, Target};
use crate::env::{self, GLOG_MIN_LEVEL, GLOG_V, LOG, LOG_FORMAT, PROGRESS, PROGRESS_SECS};
use crate::error::{Error, Result};
use crate::launch::logs::{LogRequest, Logs};
use crate::launch::plan::Host;
use crate::launch::snapshots::{FolderRequest, Identity, Snapshots, folder_of};
use crate::render::{Engine, RenderOptions};
use crate::role::RoleKind;
use crate::signals::Signals;

/// A job with its folders and signals.
pub(super) struct EngineJob {
    pub(super) options: RenderOptions,
    /// Machines that were named.
    pub(super) hosts: Vec<String>,
    pub(super) mpirun: PathBuf,
    pub(super) mpi_args: Vec<String>,
    pub(super) signals: Signals,
    logs: Logs,
    /// Not there if the engine gives each process a disk.
    snapshots: Option<Snapshots>,
    is_new: bool,
}

impl EngineJob {
    /// Takes the folders of a job.
    pub(super) fn take(asked: EngineOptions, host: &Host) -> Result<Self> {
        let EngineOptions { target, log_dir, own_logs, .. } = asked.clone();
        let mut options = asked.job;
        options.safety = options.safety.or_environment(&env::process)?;
        options.check(match target {
            Target::Kubernetes => Engine::Kubernetes,
            Target::Slurm | Target::Mpi => Engine::Slurm,
        })?;
        check_script(&options.script.path, target)?;
        options.safety.check_files()?;
        options.variables.extend(log_variables(&options, &env::process));
        let (has_disk, folder) = (target != Target::Kubernetes, asked.snapshot_dir);
        let usual = || PathBuf::from(format!("{}-snapshots", options.name));
        let folder = has_disk.then(|| folder.unwrap_or_else(usual));
        let logs = Logs::take(&LogRequest {
            folder: &log_dir,
            is_own: own_logs,
            node: None,
            snapshots: folder.as_deref(),
        })?;
        let make = |source| Error::File { what: "make", path: logs.folder.clone(), source };
        fs::create_dir_all(&logs.folder).map_err(make)?;
        let (mut snapshots, mut is_new) = (None, true);
        if let Some(folder) = folder {
            let mut taken = take(&options, &folder)?;
            taken.clear_finished(processes(&options))?;
            logs.note(&taken.folder);
            options.snapshot_dir = Some(taken.folder.clone());
            // The environment of this command may not be that of the processes.
            options.program = host.program.clone();
            is_new = !taken.is_begun;
            snapshots = Some(taken);
        }
        logs.lead_to(std::iter::empty());
        let EngineOptions { hosts, mpirun, mpi_args, .. } = asked;
        let signals = Signals::watch()?;
        Ok(Self { options, hosts, mpirun, mpi_args, signals, logs, snapshots, is_new })
    }

    /// The lines to print before anything is submitted.
    pub(super) fn lines(&self) -> Vec<String> {
        let words = |snapshots: &Snapshots| {
            if self.is_new {
                format!("snapshots go to {}", snapshots.folder.display())
            } else {
                format!("resuming the job in {}", snapshots.folder.display())
            }
        };
        self.logs.line.iter().cloned().chain(self.snapshots.as_ref().map(words)).collect()
    }

    /// The folder of snapshots, if processes share one.
    pub(super) fn snapshot_dir(&self) -> Option<&Path> {
        self.snapshots.as_ref().map(|snapshots| snapshots.folder.as_path())
    }

    /// A file in the folder of logs, with its full path: engines have other working directories.
    pub(super) fn file(&self, ending: &str) -> PathBuf {
        let path = self.logs.folder.join(format!("{}{ending}", self.options.name));
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Writes the submitted text beside the logs, where people can read it.
    pub(super) fn write(&self, ending: &str, text: &str) -> Result<PathBuf> {
        let path = self.file(ending);
        let failed = |source| Error::File { what: "write", path: path.clone(), source };
        fs::write(&path, text).map_err(failed)?;
        Ok(path)
    }

    /// A job that came to its end is begun anew by the next command.
    pub(super) fn finish(&self, code: i32) -> Result<()> {
        match self.snapshots.as_ref().filter(|_| code == 0) {
            Some(snapshots) => snapshots.finish(),
            None => Ok(()),
        }
    }
}

/// Settings of logs of this command, which its processes need, too: they have another environment.
pub(super) fn log_variables(
    options: &RenderOptions,
    var: &dyn Fn(&str) -> Option<String>,
) -> Vec<(&'static str, String)> {
    let format = if options.log_format.is_none() { LOG_FORMAT } else { &[] };
    let names = [LOG, format, PROGRESS, PROGRESS_SECS, GLOG_V, GLOG_MIN_LEVEL].concat();
    names.into_iter().filter_map(|name| Some((name, var(name)?))).collect()
}

fn take(options: &RenderOptions, folder: &Path) -> Result<Snapshots> {
    let identity = Identity::of_script(&options.script, options.n_servers, options.n_trainers);
    Snapshots::take(&FolderRequest { folder, resume: None, node: None, identity })
}

/// The folders of all processes.
fn processes(options: &RenderOptions) -> impl Iterator<Item = String> {
    let servers = (0..options.n_servers).map(|id| folder_of(RoleKind::Server, id));
    servers.chain((0..options.n_trainers).map(|id| folder_of(RoleKind::Trainer, id)))
}

/// Reports a missing script before the job waits in a queue, where processes see this disk.
fn check_script(path: &Path, target: Target) -> Result<()> {
    if target == Target::Kubernetes {
        return Ok(());
    }
    let failed = |source| Error::File { what: "find", path: path.to_path_buf(), source };
    fs::metadata(path).map(|_| ()).map_err(failed)
}
