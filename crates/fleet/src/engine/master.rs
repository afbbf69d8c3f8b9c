//! A job whose processes know one address: `PADDLE_MASTER`, and how many they are.
//!
//! Kubeflow's PaddleJob sets it. It also helps `mpirun` and `srun` on several machines: ranks and
//! roles come from there, addresses from the rendezvous.

use base::Endpoint;
use net::tcp::Rendezvous;
use protocol::rendezvous::{Report, Side};

use super::ranks::Division;
use super::{Identity, JobMembers, mpi, slurm};
use crate::env::{self, EnvVars, FoundVar};
use crate::error::{Error, Result};
use crate::role::{self, RoleKind};

const ENGINE: &str = "a job with a rendezvous";

pub(super) fn identity(vars: EnvVars<'_>, members: JobMembers) -> Result<Option<Identity>> {
    let Some(seen) = vars.first(env::MASTER) else { return Ok(None) };
    let master: Endpoint = seen.value.parse().map_err(|_| seen.bad("host:port"))?;
    let n = number(vars, &seen)?;
    let who = who(vars, members, n, &seen)?;
    let listens = members == JobMembers::Trainers || who.side == Side::Server;
    let given = vars.port()?.filter(|_| listens);
    // Jobs of a machine have masters of their own, so they look for ports at different places.
    let first = master.port.checked_add(1).unwrap_or(env::PORT);
    let report = Report {
        job: vars.first(env::JOB_ID).map(|found| found.value).unwrap_or_default(),
        n,
        n_servers: who.n_servers,
        side: who.side,
        rank: who.rank,
        name: vars.first(env::HOST_NAME).map(|found| found.value).unwrap_or_default(),
        endpoint: Endpoint {
            host: vars.first(env::OWN_IP).map(|found| found.value).unwrap_or_default(),
            port: given.unwrap_or(if listens { first } else { 0 }),
        },
        is_fixed: given.is_some(),
    };
    let (limit, access) = (std::time::Duration::ZERO, net::Access::default());
    Ok(Some(Identity::Asks(Box::new(Rendezvous { master, report, limit, access }))))
}

/// How many processes there are.
fn number(vars: EnvVars<'_>, seen: &FoundVar) -> Result<u32> {
    if let Some(found) = vars.first(env::N_NODES) {
        return found.count();
    }
    if let Some(started) = started(vars)? {
        return Ok(started.n as u32);
    }
    match (vars.first(env::N_SERVERS), vars.first(env::N_TRAINERS)) {
        (Some(servers), Some(_)) => Ok(servers.count()? + vars.n_trainers()?),
        _ => vars.with(env::N_NODES, ENGINE, seen)?.count(),
    }
}

/// A rank that another engine gave.
pub(super) struct Started {
    pub(super) rank: usize,
    pub(super) n: usize,
}

fn started(vars: EnvVars<'_>) -> Result<Option<Started>> {
    match mpi::started(vars)? {
        Some(started) => Ok(Some(started)),
        None => slurm::started(vars),
    }
}

/// The facts that a process states about itself at the rendezvous.
struct Who {
    side: Side,
    rank: Option<u32>,
    n_servers: Option<u32>,
}

fn who(vars: EnvVars<'_>, members: JobMembers, n: u32, seen: &FoundVar) -> Result<Who> {
    let given = |names| vars.first(names).map(|found: FoundVar| found.number()).transpose();
    if members == JobMembers::Trainers {
        let rank = match vars.first(&env::TRAINER_ID[..2]) {
            Some(found) => Some(role::below(&found, n)?),
            None => started(vars)?.map(|started| started.rank as u32),
        };
        return Ok(Who { side: Side::Trainer, rank, n_servers: Some(0) });
    }
    let n_servers = vars.first(env::N_SERVERS).map(|found| found.count()).transpose()?;
    let kind = match (one_of(vars, env::POD_SERVERS)?, one_of(vars, env::POD_TRAINERS)?) {
        (Some(server), Some(_)) => return Err(server.bad("not set beside PADDLE_TRAINER_NUM")),
        (Some(_), None) => Some(RoleKind::Server),
        (None, Some(_)) => Some(RoleKind::Trainer),
        (None, None) => vars.first(env::ROLE).map(|_| role::kind_from(vars)).transpose()?,
    };
    match kind {
        Some(RoleKind::Server) => {
            Ok(Who { side: Side::Server, rank: given(env::SERVER_ID)?, n_servers })
        }
        Some(RoleKind::Trainer) => {
            Ok(Who { side: Side::Trainer, rank: given(&env::TRAINER_ID[..2])?, n_servers })
        }
        None => by_rank(vars, seen),
    }
}

/// By the rank that `mpirun` or `srun` gave.
fn by_rank(vars: EnvVars<'_>, seen: &FoundVar) -> Result<Who> {
    let missing = || vars.with(env::ROLE, ENGINE, seen).expect_err("it is not set");
    let Started { rank, n } = started(vars)?.ok_or_else(missing)?;
    let division = Division::of(vars, ENGINE, n)?;
    let side = if division.is_server(rank) { Side::Server } else { Side::Trainer };
    let n_servers = Some(division.n_servers as u32);
    Ok(Who { side, rank: Some(division.id(rank)), n_servers })
}

/// A count of the processes of a pod: there is one.
fn one_of(vars: EnvVars<'_>, names: &'static [&'static str]) -> Result<Option<FoundVar>> {
    let Some(found) = vars.first(names) else { return Ok(None) };
    match found.number()? {
        0 => Ok(None),
        1 => Ok(Some(found)),
        _ => Err::<_, Error>(found.bad("1: a pod has one process here; start more pods")),
    }
}
