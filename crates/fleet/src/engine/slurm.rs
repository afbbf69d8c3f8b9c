//! Tasks of a Slurm step. Slurm writes lists of machines and of tasks in a short form.

mod short;

use super::master::Started;
use super::ranks::{self, Ranks};
use super::{Identity, JobMembers};
use crate::env::{self, EnvVars, FoundVar};
use crate::error::Result;

const ENGINE: &str = "Slurm";

/// The most machines or tasks that a list may name.
const N_MAX: usize = 1 << 16;

pub(super) fn identity(vars: EnvVars<'_>, members: JobMembers) -> Result<Option<Identity>> {
    let Some(seen) = vars.first(env::SLURM_RANK) else { return Ok(None) };
    let Some(Started { rank, n }) = started(vars)? else { return Ok(None) };
    let job = vars.with(env::SLURM_JOB, ENGINE, &seen)?;
    let step = vars.first(env::SLURM_STEP).map_or(String::new(), |found| found.value);
    let hosts = hosts(vars, &seen, n)?;
    let port = ranks::port_of(&format!("{}.{step}", job.value));
    let ranks = Ranks { engine: ENGINE, rank, hosts, port };
    ranks.role(vars, members).map(Identity::Known).map(Some)
}

/// The rank of a task. None if Slurm did not start it: `mpirun` inside of an allocation starts its
/// own processes, and Slurm's variables of the machine do not count for them.
pub(super) fn started(vars: EnvVars<'_>) -> Result<Option<Started>> {
    let by_mpi = [env::OPEN_MPI_SIZE, env::PMI_LOCAL_SIZE];
    let is_mpi = by_mpi.into_iter().any(|names| vars.first(names).is_some());
    let Some(seen) = vars.first(env::SLURM_RANK).filter(|_| !is_mpi) else { return Ok(None) };
    let n = vars.with(&env::SLURM_SIZE[1..], ENGINE, &seen);
    let n = vars.first(env::SLURM_SIZE).map_or(n, Ok)?.count()?;
    // The batch script itself has rank 0 of all tasks, and no step: it would wait for tasks that
    // never start.
    if n > 1 {
        vars.with(env::SLURM_STEP, ENGINE, &seen)?;
    }
    Ok(Some(Started { rank: ranks::rank(&seen, n)?, n: n as usize }))
}

/// The machine of each task.
fn hosts(vars: EnvVars<'_>, seen: &FoundVar, n: usize) -> Result<Vec<String>> {
    let found = vars.with(&env::SLURM_NODES[1..], ENGINE, seen);
    let nodes = vars.first(env::SLURM_NODES).map_or(found, Ok)?;
    let names = short::nodes(&nodes.value, N_MAX);
    let names = names.ok_or_else(|| nodes.bad("a list of machines such as node[01-04,07]"))?;
    if names.len() == 1 {
        return Ok(vec![names[0].clone(); n]);
    }
    let found = vars.with(&env::SLURM_TASKS[1..], ENGINE, seen);
    let tasks = vars.first(env::SLURM_TASKS).map_or(found, Ok)?;
    let counts = short::counts(&tasks.value, N_MAX);
    let fits =
        |counts: &Vec<usize>| counts.len() == names.len() && counts.iter().sum::<usize>() == n;
    let counts = counts.filter(fits);
    let counts = counts.ok_or_else(|| tasks.bad("the tasks of each machine, such as 2(x3),1"))?;
    match vars.first(env::SLURM_DISTRIBUTION) {
        None => Ok(block(&names, &counts)),
        Some(found) => {
            match found.value.split([',', ':']).next() {
                Some("block" | "pack" | "nopack") => Ok(block(&names, &counts)),
                Some("cyclic") => Ok(cyclic(&names, counts)),
                _ => Err(found
                    .bad("block or cyclic; or list the servers in PADDLE_PSERVERS_IP_PORT_LIST")),
            }
        }
    }
}

/// All tasks of the first machine, then all of the second, …
fn block(names: &[String], counts: &[usize]) -> Vec<String> {
    let each = names.iter().zip(counts);
    each.flat_map(|(name, &n)| std::iter::repeat_n(name.clone(), n)).collect()
}

/// One task of each machine, then the second of each, …
fn cyclic(names: &[String], mut left: Vec<usize>) -> Vec<String> {
    let mut hosts = Vec::new();
    while left.iter().any(|&n| n > 0) {
        for (name, n) in names.iter().zip(&mut left).filter(|(_, n)| **n > 0) {
            hosts.push(name.clone());
            *n -= 1;
        }
    }
    hosts
}
