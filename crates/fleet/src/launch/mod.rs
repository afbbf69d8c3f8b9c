//! Starts all processes of a job on this machine: `launch_ps` with parameter servers, `launch`
//! with trainers alone.
//!
//! **Invariant:** nobody is left behind. The processes and whatever they start are one group that
//! ends with the launcher: when the job is done, when one of them fails, on a signal, and when the
//! launcher itself is killed.

mod console;
mod group;
mod logs;
mod member;
mod moving;
mod on;
pub mod options;
mod plan;
mod ports;
mod recover;
mod restarts;
mod scale;
mod secret;
mod snapshots;
mod supervisor;
mod watching;

pub use console::Console;
pub use on::{EngineOptions, Target, launch_on, launch_on_ray};
pub use plan::Host;

use crate::error::{Error, Result};
use crate::flags::Flags;
use logs::Logs;
use options::{CollectiveOptions, PsOptions, ScaleOptions, WatchedProcesses};
use watching::JobWatch;

/// Runs a job with parameter servers; returns the exit code.
pub fn launch_ps(mut options: PsOptions, host: &Host, console: &mut Console) -> Result<i32> {
    let logs = Logs::take(&options.log_dir, options.node.as_deref());
    options.log_dir = logs.folder.clone();
    run_ps(options, logs.line.clone(), host, console)
}

/// Runs a job with servers to its end. The number of servers may change meanwhile.
fn run_ps(
    options: PsOptions,
    line: Option<String>,
    host: &Host,
    console: &mut Console,
) -> Result<i32> {
    let flags = Flags::from_environment(&crate::env::process)?;
    let mut job = plan::ps(options.clone())?;
    job.lines.extend(line);
    job.shared = secret::prepare(&job, &options.safety, &crate::env::process)?;
    job.tolerates_lost_trainers = flags.tolerate_lost_trainers();
    let snapshots = recover::prepare(&mut job, &options, &flags)?;
    if let Some(folder) = &job.snapshots {
        // What was wanted of another launcher, and where its servers were, is out of date.
        scale::answer(folder, &format!("the job has {} servers", job.n_servers))?;
        let removed = train::server_list::remove(folder);
        let path = || folder.clone();
        removed.map_err(|source| Error::File { what: "clear", path: path(), source })?;
    }
    if snapshots.as_ref().is_some_and(|snapshots| snapshots.is_over(&job)) {
        let nodes = job.server_nodes.join(", ");
        console.say(&format!(
            "the job is over: it has come to its end on all machines with servers ({nodes})"
        ));
        snapshots.into_iter().try_for_each(|snapshots| snapshots.finish())?;
        return Ok(0);
    }
    supervisor::check(&job.script.path)?;
    let watched = JobWatch::start(&mut job, &options.watch, Some(&options.log_dir), console);
    let ended = supervisor::run(&job, watched.as_ref(), host, console)?;
    if let Some(snapshots) = snapshots.filter(|_| ended.is_done) {
        snapshots.finish()?;
    }
    Ok(ended.code)
}

/// Gives a running job another number of servers, and waits until it has them.
pub fn scale(options: &ScaleOptions, console: &mut Console) -> Result<()> {
    scale::ask(options, console)
}

/// Shows what processes do that others have started, until a signal comes; returns the exit code.
pub fn watch(processes: &WatchedProcesses, console: &mut Console) -> Result<i32> {
    watching::watch(processes, console)
}

/// Runs a job of trainers alone; returns the exit code.
pub fn launch(mut options: CollectiveOptions, host: &Host, console: &mut Console) -> Result<i32> {
    let logs = options.log_dir.as_deref();
    let logs = logs.map(|folder| Logs::take(folder, options.node.as_deref()));
    options.log_dir = logs.as_ref().map(|logs| logs.folder.clone());
    let safety = options.safety.clone();
    let watch = options.watch.clone();
    let mut job = plan::collective(options, &crate::env::process)?;
    job.shared = secret::prepare(&job, &safety, &crate::env::process)?;
    job.lines.extend(logs.as_ref().and_then(|logs| logs.line.clone()));
    let folder = logs.as_ref().map(|logs| logs.folder.as_path());
    supervisor::check(&job.script.path)?;
    let watched = JobWatch::start(&mut job, &watch, folder, console);
    supervisor::run(&job, watched.as_ref(), host, console).map(|ended| ended.code)
}
