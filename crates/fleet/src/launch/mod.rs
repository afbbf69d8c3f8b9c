//! Starts all processes of a job on this machine: `launch_ps` with parameter servers, `launch`
//! with trainers alone.
//!
//! **Invariant:** no process outlives its launcher. The processes and whatever they start are one
//! group that ends with the launcher: when the job is done, when one of them fails, on a signal,
//! and when the launcher itself is killed.

mod console;
mod logs;
mod member;
mod memory;
mod moving;
mod on;
pub mod options;
mod plan;
mod ports;
mod recover;
mod relay;
mod restarts;
mod scale;
mod secret;
mod snapshots;
mod supervisor;
mod watching;

pub use console::Console;
pub use on::{EngineOptions, Target, launch_on, launch_on_ray};
pub use plan::Host;

use ::logging::LogFormat;

use crate::env::{LOG_FORMAT, PROGRESS};
use crate::error::{Error, Result};
use crate::flags::Flags;
use crate::logging::{self, LogChoice};
use logs::{LogRequest, Logs};
use options::{CollectiveOptions, PsOptions, ScaleOptions, WatchedProcesses};
use plan::Job;
use watching::JobWatch;

/// Runs a job with parameter servers; returns the exit code.
pub fn launch_ps(options: PsOptions, host: &Host, console: &mut Console) -> Result<i32> {
    run_ps(options, host, console)
}

/// Runs a job with servers to its end. The number of servers may change meanwhile.
fn run_ps(mut options: PsOptions, host: &Host, console: &mut Console) -> Result<i32> {
    begin_log(options.log_format)?;
    let flags = Flags::from_environment(&crate::env::process)?;
    let logs = Logs::take(&LogRequest {
        folder: &options.log_dir,
        is_own: options.own_logs,
        node: options.node.as_deref(),
        snapshots: recover::named(&options.recovery, &flags).as_deref(),
    })?;
    options.log_dir = logs.folder.clone();
    let n_began = recover::go_on_scaled(&mut options, &logs, &flags)?;
    let mut job = Job { n_began, ..plan::ps(options.clone())? };
    job.lines.extend(logs.line.clone());
    job.shared = secret::prepare(&job, &options.safety, &crate::env::process)?;
    tell_form(&mut job, options.log_format);
    job.tolerates_lost_trainers = flags.tolerate_lost_trainers();
    let snapshots = recover::prepare(&mut job, &options, &logs, &flags)?;
    if let Some(folder) = &job.snapshots {
        logs.note(folder);
        // Drop the server list of an earlier launcher, and requests that have no waiting process.
        scale::begin(folder)?;
        let removed = server::server_list::remove(folder);
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
    logs.publish(&job);
    let watched = JobWatch::start(&mut job, &options.watch, Some(&options.log_dir), console);
    let ended = supervisor::run(&job, watched.as_ref(), host, console)?;
    // The job is done, whatever becomes of the note that says so.
    if let Some(Err(error)) = snapshots.filter(|_| ended.is_done).map(|all| all.finish()) {
        console.say(&format!(
            "the job has come to its end, but that could not be noted: {error}; remove the folder before \
             the next job uses it"
        ));
    }
    Ok(ended.code)
}

/// Gives a running job another number of servers, and waits until it has them.
pub fn scale(options: &ScaleOptions, console: &mut Console) -> Result<()> {
    scale::ask(options, console)
}

/// Shows the work of processes that others have started, until a signal comes; returns the exit code.
pub fn watch(processes: &WatchedProcesses, console: &mut Console) -> Result<i32> {
    watching::watch(processes, console)
}

/// Runs a job of trainers alone; returns the exit code.
pub fn launch(mut options: CollectiveOptions, host: &Host, console: &mut Console) -> Result<i32> {
    begin_log(options.log_format)?;
    let log_format = options.log_format;
    let logs = options.log_dir.as_deref();
    let logs = logs.map(|folder| Logs::named(folder, options.node.as_deref()));
    options.log_dir = logs.as_ref().map(|logs| logs.folder.clone());
    let safety = options.safety.clone();
    let watch = options.watch.clone();
    let mut job = plan::collective(options, &crate::env::process)?;
    job.shared = secret::prepare(&job, &safety, &crate::env::process)?;
    tell_form(&mut job, log_format);
    share_terminal(&mut job);
    job.lines.extend(logs.as_ref().and_then(|logs| logs.line.clone()));
    let folder = logs.as_ref().map(|logs| logs.folder.as_path());
    supervisor::check(&job.script.path)?;
    let watched = JobWatch::start(&mut job, &watch, folder, console);
    supervisor::run(&job, watched.as_ref(), host, console).map(|ended| ended.code)
}

/// Begins to write the log of this launcher.
fn begin_log(format: Option<LogFormat>) -> Result<()> {
    logging::begin_with(LogChoice { format, is_launcher: true })
}

/// Processes write their lines in the form that the command line names.
fn tell_form(job: &mut Job, format: Option<LogFormat>) {
    for (process, format) in job.processes.iter_mut().zip(std::iter::repeat(format)) {
        format.iter().for_each(|format| process.set(LOG_FORMAT[0], format.name()));
    }
}

/// Several processes on one terminal would draw over each other.
fn share_terminal(job: &mut Job) {
    let is_said = crate::env::process(PROGRESS[0]).is_some();
    if !is_said
        && job.processes.len() > 1
        && job.processes.iter().all(|process| process.log.is_none())
    {
        job.processes.iter_mut().for_each(|process| process.set(PROGRESS[0], "lines"));
    }
}
