//! Processes that an engine started alike: which are servers, and where they listen.

use base::Endpoint;

use super::JobMembers;
use crate::env::{self, EnvVars};
use crate::error::{Error, Result};
use crate::role::{self, Role, RoleKind};

/// Ports of jobs begin here: below those that systems give to outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Processes that an engine started alike, by rank.
pub(super) struct Ranks {
    pub(super) engine: &'static str,
    /// Which of them this is.
    pub(super) rank: usize,
    /// The machine of each.
    pub(super) hosts: Vec<String>,
    /// The first port, unless `PADDLE_PORT` says another.
    pub(super) port: u16,
}

/// How the ranks of a job are divided. Servers are spread evenly: with half of them, even ranks are
/// servers and odd ones trainers, as Fluid does it under MPI.
#[derive(Clone, Copy)]
pub(super) struct Division {
    pub(super) n: usize,
    pub(super) n_servers: usize,
}

impl Division {
    /// As `PADDLE_PSERVERS_NUM` or a list of servers says; else half of them.
    pub(super) fn of(vars: EnvVars<'_>, engine: &'static str, n: usize) -> Result<Self> {
        let n_servers = match (vars.first(env::N_SERVERS), vars.first(env::SERVERS)) {
            (Some(found), _) => found.count()? as usize,
            (None, Some(_)) => vars.servers()?.len(),
            (None, None) => (n / 2).max(1),
        };
        if n_servers >= n {
            return Err(Error::TooFew { engine, n, n_servers });
        }
        let found = vars.first(env::N_TRAINERS);
        let n_trainers = n - n_servers;
        if found.is_some() && vars.n_trainers()? as usize != n_trainers {
            let found = vars.need(env::N_TRAINERS)?;
            return Err(found.bad("the number of processes without the servers, or not set"));
        }
        Ok(Self { n, n_servers })
    }

    pub(super) fn is_server(self, rank: usize) -> bool {
        (rank * self.n_servers) % self.n < self.n_servers
    }

    /// The number of a rank among those of its kind.
    pub(super) fn id(self, rank: usize) -> u32 {
        let servers_before =
            rank.checked_sub(1).map_or(0, |before| before * self.n_servers / self.n + 1);
        let id = if self.is_server(rank) { servers_before } else { rank - servers_before };
        id as u32
    }

    pub(super) fn kind(self, rank: usize) -> RoleKind {
        if self.is_server(rank) { RoleKind::Server } else { RoleKind::Trainer }
    }
}

impl Ranks {
    /// The role of this process.
    pub(super) fn role(self, vars: EnvVars<'_>, members: JobMembers) -> Result<Role> {
        let n = self.hosts.len();
        if members == JobMembers::Trainers {
            let trainers = self.endpoints(vars, |_| true)?;
            let (id, n_trainers) = (self.rank as u32, n as u32);
            let (kind, servers) = (RoleKind::Trainer, Vec::new());
            return Ok(Role { kind, id, n_trainers, servers, trainers });
        }
        let division = Division::of(vars, self.engine, n)?;
        let servers = match vars.first(env::SERVERS) {
            Some(_) => vars.servers()?,
            None => self.endpoints(vars, |rank| division.is_server(rank))?,
        };
        if servers.len() != division.n_servers {
            let found = vars.need(env::SERVERS)?;
            return Err(found.bad("one server for each process that serves"));
        }
        let (kind, id) = (division.kind(self.rank), division.id(self.rank));
        let n_trainers = (n - division.n_servers) as u32;
        Ok(Role { kind, id, n_trainers, servers, trainers: Vec::new() })
    }

    /// Where those listen that `listens` accepts: on one machine, each has the next port.
    fn endpoints(
        &self,
        vars: EnvVars<'_>,
        listens: impl Fn(usize) -> bool,
    ) -> Result<Vec<Endpoint>> {
        let first = vars.port()?.unwrap_or(self.port);
        let mut found: Vec<Endpoint> = Vec::new();
        for (_, host) in self.hosts.iter().enumerate().filter(|(rank, _)| listens(*rank)) {
            let here = found.iter().filter(|other| other.host == *host).count();
            let port = u16::try_from(first as usize + here)
                .map_err(|_| Error::NoFreePorts { n: self.hosts.len(), start: first })?;
            found.push(Endpoint { host: host.clone(), port });
        }
        Ok(found)
    }
}

/// The first port of a job, from its name: two jobs of a machine should not share ports.
pub(super) fn port_of(job: &str) -> u16 {
    let hash = job.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Jobs with neighbouring numbers are some ports apart.
    let places = u64::from((PORTS.end - PORTS.start) / 16);
    PORTS.start + 16 * (hash % places) as u16
}

/// The rank of this process among `n`.
pub(super) fn rank(found: &crate::env::FoundVar, n: u32) -> Result<usize> {
    Ok(role::below(found, n)? as usize)
}
