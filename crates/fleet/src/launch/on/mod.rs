//! `launch_ps --on slurm|mpi|ray|k8s`: submits a job to an engine and follows it to its end.
//!
//! Slurm, `mpirun` and Kubernetes start the processes themselves, and these find their roles by
//! `engine`. An engine that starts a process again meets our recovery: the process goes on from the
//! last snapshot. On Ray, our own supervisor watches one stand-in for each process.
//! *Add an engine: a file, a case of [`Target`], its line in [`TARGETS`].*

mod job;
mod kubernetes;
mod mpi;
mod ray;
mod slurm;
mod tail;
mod tool;

use tensor::DidYouMean;

use super::console::Console;
use super::plan::Host;
use crate::error::{Result, Usage};
use job::EngineJob;

/// What `launch_ps --on ENGINE --help` says.
pub(super) const USAGE: &str = "\
usage: launch_ps --on slurm|mpi|ray|k8s [options] script [arguments]
submits the job and follows it: prints what its processes say, ends with its exit code. SIGINT and SIGTERM end the job.
  --server_num N     servers (2)
  --worker_num N     trainers (2)
  --name NAME        of the job (the script's)
  --cpus N           processors of each process (1)
  --log_dir DIR      where the log and what is submitted go (a new folder in logs)
  --snapshot_dir DIR slurm, mpi: where snapshots go, on a disk that all machines share (NAME-snapshots)
  --snapshot_secs S  how often snapshots are written (10)
  --max_restarts N   how often what died is started again (5)
  --grace_secs S     how long processes may take to end after SIGTERM (60)
  --port P           port of the servers (mpi: the first of each machine, or where ranks meet)
  --hosts LIST       mpi: the machines, host,host
  --mpirun PROGRAM   mpi: which mpirun (mpirun)
  --memory SIZE      slurm, k8s: memory of each process (2Gi)
  --time TIME        slurm: the limit of the job (1-00:00:00)
  --partition NAME   slurm: where it runs
  --image IMAGE      k8s: the container image with paddlewheel and the script
  --storage SIZE, --storage_class C   k8s: disks for snapshots
On ray, the options of launch_ps hold (launch_ps --help), and --cpus; RAY_ADDRESS says which cluster.";

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Slurm,
    Mpi,
    Ray,
    Kubernetes,
}

const TARGETS: &[(&str, Target)] = &[
    ("slurm", Target::Slurm),
    ("mpi", Target::Mpi),
    ("ray", Target::Ray),
    ("k8s", Target::Kubernetes),
];

/// A command line that names an engine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OnCommand {
    pub(super) target: Target,
    /// The words without `--on` and the engine.
    pub(super) rest: Vec<String>,
}

/// Looks for `--on` among the options before the script.
pub(super) fn find(arguments: &[String]) -> Result<Option<OnCommand>> {
    let mut at = 0;
    while let Some(word) = arguments.get(at).filter(|word| word.starts_with('-') && *word != "--") {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        // Options other than help have a value, here or in the next word.
        let n_words = if value.is_some() || name == "-h" || name == "--help" { 1 } else { 2 };
        if name == "--on" {
            let engine = value.or(arguments.get(at + 1).map(String::as_str));
            let engine = engine.ok_or_else(|| Usage::NoValue("--on".to_string()))?;
            let target = target(engine)?;
            let rest = [&arguments[..at], &arguments[at + n_words..]].concat();
            return Ok(Some(OnCommand { target, rest }));
        }
        at += n_words;
    }
    Ok(None)
}

fn target(word: &str) -> Result<Target> {
    let found = TARGETS.iter().find(|(name, _)| *name == word);
    let near = || DidYouMean::among(word, TARGETS.iter().map(|(name, _)| *name));
    let unknown = || Usage::UnknownTarget { engine: word.to_string(), near: near() };
    found.map(|(_, target)| *target).ok_or_else(|| unknown().into())
}

/// Runs a job on an engine; returns the exit code, or nothing if the command line asks for help.
pub(super) fn launch(
    command: &OnCommand,
    host: &Host,
    console: &mut Console,
) -> Result<Option<i32>> {
    if command.target == Target::Ray {
        return ray::launch(&command.rest, host, console);
    }
    let Some(job) = EngineJob::read(command, host)? else { return Ok(None) };
    job.lines().iter().for_each(|line| console.say(line));
    let code = match command.target {
        Target::Slurm => slurm::run(&job, console)?,
        Target::Mpi => mpi::run(&job, console)?,
        Target::Kubernetes | Target::Ray => kubernetes::run(&job, console)?,
    };
    job.finish(code)?;
    Ok(Some(code))
}

#[cfg(test)]
mod tests;
