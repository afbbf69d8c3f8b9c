//! Ranks of `mpirun`: Open MPI, and MPICH with its relatives.
//!
//! Ranks cannot ask one another where they are without MPI itself. On one machine they need not. On
//! several, `PADDLE_PSERVERS_IP_PORT_LIST` (or `PADDLE_PSERVERS`, addresses alone) lists the servers
//! in the order of ranks, or `PADDLE_MASTER` is an address to meet at: `mpirun -x PADDLE_MASTER=…`.

use super::master::{self, Started};
use super::ranks::{self, Ranks};
use super::{Identity, JobMembers};
use crate::env::{self, EnvVars, FoundVar};
use crate::error::{Error, Result};

/// The variables of one kind of `mpirun`.
struct Names {
    engine: &'static str,
    rank: &'static [&'static str],
    size: &'static [&'static str],
    local_size: &'static [&'static str],
    job: &'static [&'static str],
}

const OPEN_MPI: Names = Names {
    engine: "Open MPI",
    rank: env::OPEN_MPI_RANK,
    size: env::OPEN_MPI_SIZE,
    local_size: env::OPEN_MPI_LOCAL_SIZE,
    job: env::OPEN_MPI_JOB,
};

const MPICH: Names = Names {
    engine: "MPICH",
    rank: env::PMI_RANK,
    size: env::PMI_SIZE,
    local_size: env::PMI_LOCAL_SIZE,
    job: &[],
};

pub(super) fn open_mpi(vars: EnvVars<'_>, members: JobMembers) -> Result<Option<Identity>> {
    OPEN_MPI.identity(vars, members)
}

pub(super) fn mpich(vars: EnvVars<'_>, members: JobMembers) -> Result<Option<Identity>> {
    MPICH.identity(vars, members)
}

/// The rank that `mpirun` gave this process.
pub(super) fn started(vars: EnvVars<'_>) -> Result<Option<Started>> {
    match OPEN_MPI.started(vars)? {
        Some(started) => Ok(Some(started)),
        None => MPICH.started(vars),
    }
}

impl Names {
    fn started(&self, vars: EnvVars<'_>) -> Result<Option<Started>> {
        let seen = vars.first(self.rank).or_else(|| vars.first(self.size));
        let Some(seen) = seen else { return Ok(None) };
        let n = vars.with(self.size, self.engine, &seen)?.count()?;
        let rank = vars.with(self.rank, self.engine, &seen)?;
        Ok(Some(Started { rank: ranks::rank(&rank, n)?, n: n as usize }))
    }

    fn identity(&self, vars: EnvVars<'_>, members: JobMembers) -> Result<Option<Identity>> {
        let Some(Started { rank, n }) = self.started(vars)? else { return Ok(None) };
        let local = vars.first(self.local_size).map(|found| found.number()).transpose()?;
        let is_listed = members == JobMembers::Both && vars.first(env::SERVERS).is_some();
        if local != Some(n as u32) && !is_listed {
            let (name, aliases) = (env::MPI_SERVERS[0], &env::MPI_SERVERS[1..]);
            return Err(Error::MissingVariable { name, aliases });
        }
        let port = match vars.first(self.job) {
            Some(job) => ranks::port_of(&job.value),
            None => usual_port(n),
        };
        let hosts = vec!["127.0.0.1".to_string(); n];
        let ranks = Ranks { engine: self.engine, rank, hosts, port };
        ranks.role(vars, members).map(Identity::Known).map(Some)
    }
}

/// Without a name of the job, each rank computes the same port from the number of servers.
fn usual_port(n: usize) -> u16 {
    let n = (n as u32 / 2).min(2000);
    (60_001 + (n.wrapping_mul(2_654_435_761) >> 8) % (4_000 - n)) as u16
}

/// Two processes a machine: even ranks are servers, odd ones trainers.
pub(super) fn symmetric(vars: EnvVars<'_>) -> Result<Identity> {
    let size: FoundVar = vars.need(env::MPI_SIZE)?;
    let n = size.number()?;
    if n == 0 || n % 2 != 0 {
        return Err(size.bad("an even number: each machine runs a server and a trainer"));
    }
    if let Some(found) = vars.first(env::N_SERVERS)
        && found.number()? != n / 2
    {
        return Err(found.bad("half of the processes, or not set"));
    }
    let listed = vars.first(env::SERVERS);
    if let Some(found) =
        listed.filter(|_| vars.servers().is_ok_and(|all| all.len() as u32 != n / 2))
    {
        return Err(found.bad("one server for each two processes of mpirun"));
    }
    if let Some(found) = master::identity(vars, JobMembers::Both)? {
        return Ok(found);
    }
    let found = open_mpi(vars, JobMembers::Both)?;
    let found = found.map_or_else(|| mpich(vars, JobMembers::Both), |found| Ok(Some(found)))?;
    found.ok_or(Error::MissingVariable { name: env::MPI_SIZE[0], aliases: &env::MPI_SIZE[1..] })
}
