//! The identity of a process, from the environment variables of the engine that started it.
//!
//! One function for each engine. It gives nothing if the engine did not start this process, and an
//! error that names a variable if the engine's environment is not complete. *Add an engine: a
//! function, its line in [`ENGINES`], its variables in `env`, a captured environment in the tests.*

mod kubernetes;
mod master;
mod mpi;
mod ranks;
mod slurm;
mod volcano;

use std::time::Duration;

use net::tcp::{self, Rendezvous};
use protocol::rendezvous::{Place, Side};

use crate::access;
use crate::env::{self, EnvVars};
use crate::error::{Error, Result};
use crate::lines;
use crate::ready::Watch;
use crate::role::{self, Role, RoleKind};

/// The kinds of processes in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobMembers {
    /// Servers and trainers.
    Both,
    /// Trainers that work without servers.
    Trainers,
}

/// The identity of a process, as far as its environment tells it.
#[derive(Clone, Debug)]
pub enum Identity {
    /// All that there is to know.
    Known(Role),
    /// It must ask at an address that all know.
    Asks(Box<Rendezvous>),
}

/// Reads the environment of one engine.
type Read = fn(EnvVars<'_>, JobMembers) -> Result<Option<Identity>>;

/// The engines, in the order in which they are asked. One that starts others goes behind them: an
/// `mpirun` inside of a pod says more than the pod.
const ENGINES: &[(&str, Read)] = &[
    ("Paddle's variables", paddle),
    ("PADDLE_MASTER", master::identity),
    ("a JobSet", kubernetes::jobset),
    ("an indexed Job", kubernetes::indexed_job),
    ("Volcano", volcano::identity),
    ("Slurm", slurm::identity),
    ("Open MPI", mpi::open_mpi),
    ("MPICH", mpi::mpich),
];

/// The identity of this process: Fluid's `PaddleCloudRoleMaker`, on every engine.
pub fn identity(var: &dyn Fn(&str) -> Option<String>, members: JobMembers) -> Result<Identity> {
    for (_, read) in ENGINES {
        if let Some(found) = read(EnvVars(var), members)? {
            return Ok(found);
        }
    }
    // No engine started this process: name the missing one of Paddle's variables.
    explicit(var, members).map(Identity::Known)
}

/// The identity of this process among those of `mpirun`, two a machine: Fluid's
/// `MPISymetricRoleMaker`.
pub fn mpi_identity(var: &dyn Fn(&str) -> Option<String>) -> Result<Identity> {
    mpi::symmetric(EnvVars(var))
}

/// The role of this process. It meets the others if it must; `limit` is how long they are waited for.
pub fn role_of(identity: Identity, limit: Duration, watch: &mut Watch<'_>) -> Result<Role> {
    let meeting = match identity {
        Identity::Known(role) => return Ok(role),
        Identity::Asks(meeting) => Rendezvous { limit, access: access::current()?, ..*meeting },
    };
    let Watch { on_line, stops } = watch;
    let mut last = String::new();
    let mut on_wait = |who: &str| {
        if who != last {
            on_line(&lines::meeting(&meeting.master, who));
            last = who.to_string();
        }
    };
    match tcp::find_others(&meeting, &mut on_wait, stops) {
        Ok(place) => placed(&meeting, place),
        Err(wire::Error::Interrupted { endpoint }) => {
            Err(Error::Interrupted { endpoints: vec![endpoint] })
        }
        Err(error) => Err(error.into()),
    }
}

fn placed(meeting: &Rendezvous, place: Place) -> Result<Role> {
    let kind = match meeting.report.side {
        Side::Server => RoleKind::Server,
        Side::Trainer => RoleKind::Trainer,
    };
    let n_trainers = place.trainers.len() as u32;
    // Those with port 0 do not listen.
    let trainers: Vec<_> = place.trainers.into_iter().filter(|one| one.port > 0).collect();
    let is_job = n_trainers > 0 && !(trainers.is_empty() && place.servers.is_empty());
    if is_job {
        Ok(Role { kind, id: place.id, n_trainers, servers: place.servers, trainers })
    } else {
        Err(Error::OneSided { n_servers: place.servers.len(), n_trainers })
    }
}

/// From Paddle's own variables, if they are there.
fn paddle(vars: EnvVars<'_>, members: JobMembers) -> Result<Option<Identity>> {
    let is_here = match members {
        JobMembers::Both => vars.first(env::ROLE).is_some() && vars.first(env::SERVERS).is_some(),
        JobMembers::Trainers => vars.first(env::TRAINERS).is_some(),
    };
    let role = is_here.then(|| explicit(vars.0, members)).transpose()?;
    Ok(role.map(Identity::Known))
}

fn explicit(var: &dyn Fn(&str) -> Option<String>, members: JobMembers) -> Result<Role> {
    match members {
        JobMembers::Both => role::from_environment(var),
        JobMembers::Trainers => role::collective_from_environment(var),
    }
}

#[cfg(test)]
mod tests;
