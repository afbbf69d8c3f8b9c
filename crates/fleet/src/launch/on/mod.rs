//! `launch_ps --on slurm|mpi|ray|k8s`: submits a job to an engine and follows it to its end.
//!
//! Slurm, `mpirun` and Kubernetes start the processes themselves, and these find their roles by
//! `engine`. A process that an engine starts again resumes from the last snapshot. On Ray, our own
//! supervisor watches one stand-in for each process.
//! *Add an engine: a file and a case of [`Target`].*

mod job;
mod kubernetes;
mod mpi;
mod ray;
mod slurm;
mod tail;

use std::path::PathBuf;

use super::begin_log;
use super::console::Console;
use super::plan::Host;
use crate::error::Result;
use crate::lines;
use crate::render::RenderOptions;
use crate::signals::UNFINISHED;
use job::EngineJob;

pub use ray::launch as launch_on_ray;

/// The engine that starts the processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Slurm, by a batch script.
    Slurm,
    /// `mpirun`.
    Mpi,
    /// Kubernetes, by `kubectl`.
    Kubernetes,
}

/// A job that an engine is to run.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOptions {
    /// Where it runs.
    pub target: Target,
    /// The job.
    pub job: RenderOptions,
    /// The folder of the log and of the submitted text.
    pub log_dir: PathBuf,
    /// The user has not named a folder: the job gets its own inside that one.
    pub own_logs: bool,
    /// Where snapshots go, on a disk that all machines share; beside the script without one.
    pub snapshot_dir: Option<PathBuf>,
    /// The machines of `mpirun`.
    pub hosts: Vec<String>,
    /// Which `mpirun`.
    pub mpirun: PathBuf,
    /// Options that it is given.
    pub mpi_args: Vec<String>,
}

/// Submits a job to an engine and follows it to its end; returns the exit code.
pub fn launch_on(options: EngineOptions, host: &Host, console: &mut Console) -> Result<i32> {
    let target = options.target;
    begin_log(options.job.log_format)?;
    let job = EngineJob::take(options, host)?;
    job.lines().iter().for_each(|line| console.say(line));
    let code = match target {
        Target::Slurm => slurm::run(&job, console)?,
        Target::Mpi => mpi::run(&job, console)?,
        Target::Kubernetes => kubernetes::run(&job, console)?,
    };
    job.finish(code)?;
    match code {
        0 => console.say(lines::JOB_FINISHED),
        UNFINISHED => console.say(&lines::goes_on_later(code)),
        _ => {}
    }
    Ok(code)
}

#[cfg(test)]
mod tests;
