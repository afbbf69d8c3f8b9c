//! Who a process is: trainer or server, which of them, and who the others are.
//!
//! Fluid's role makers are functions here that give a [`Role`]: from the environment, from
//! arguments, from MPI. They compute and connect to nobody.

use ps::Endpoint;

use crate::env::{self, EnvVars, FoundVar};
use crate::error::{Error, Result};

/// Trainer or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleKind {
    /// It trains; Fluid: worker.
    Trainer,
    /// It keeps parameters.
    Server,
}

/// The role of a process, and the others of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// What it does.
    pub kind: RoleKind,
    /// Which of the trainers or servers it is.
    pub id: u32,
    /// How many trainers there are.
    pub n_trainers: u32,
    /// Where the servers are, in the order that all processes share.
    pub servers: Vec<Endpoint>,
    /// Where the trainers are, if they connect to one another.
    pub trainers: Vec<Endpoint>,
}

impl Role {
    /// Whether it trains.
    pub fn is_trainer(&self) -> bool {
        self.kind == RoleKind::Trainer
    }

    /// Whether it keeps parameters.
    pub fn is_server(&self) -> bool {
        self.kind == RoleKind::Server
    }

    /// Whether it is the trainer that does what only one trainer may do.
    pub fn is_first_trainer(&self) -> bool {
        self.is_trainer() && self.id == 0
    }

    /// Where this server listens. None for a trainer.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.servers.get(self.id as usize).filter(|_| self.is_server())
    }

    /// This trainer's share of `files`: neighbouring files, and one more for the first trainers if
    /// the number is not divisible.
    pub fn split<'a, T>(&self, files: &'a [T]) -> &'a [T] {
        let (n, id) = (self.n_trainers as usize, self.id as usize);
        if id >= n {
            return &[];
        }
        let (each, rest) = (files.len() / n, files.len() % n);
        let start = each * id + rest.min(id);
        &files[start..start + each + usize::from(id < rest)]
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            RoleKind::Trainer => 1,
            RoleKind::Server => 2,
        };
        let (trainers, servers) = (repr(&self.trainers), repr(&self.servers));
        write!(
            f,
            "role: {kind}, current_id: {}, worker_endpoints: {trainers}, \
             server_endpoints: {servers}",
            self.id
        )
    }
}

/// A list as Python writes it; users compare logs with documents.
pub(crate) fn repr(endpoints: &[Endpoint]) -> String {
    let quoted: Vec<_> = endpoints.iter().map(|endpoint| format!("'{endpoint}'")).collect();
    format!("[{}]", quoted.join(", "))
}

/// From the variables of a PaddleCloud job, a launcher, Kubernetes, or a shell: Fluid's
/// `PaddleCloudRoleMaker`.
pub fn from_environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Role> {
    let vars = EnvVars(var);
    let servers = vars.servers()?;
    let n_trainers = vars.n_trainers()?;
    let cloud = |error| match error {
        missing @ Error::MissingVariable { .. } => missing,
        other => Error::Cloud(Box::new(other)),
    };
    let kind = kind_from(vars).map_err(cloud)?;
    let id = match kind {
        RoleKind::Trainer => trainer_id(vars, n_trainers),
        RoleKind::Server => server_id(vars, &servers),
    };
    Ok(Role { kind, id: id.map_err(cloud)?, n_trainers, servers, trainers: Vec::new() })
}

/// The role of this process, where a script may also run alone: `None` if no variable says it.
pub fn in_a_job(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<Role>> {
    match EnvVars(var).first(env::ROLE) {
        Some(_) => from_environment(var).map(Some),
        None => Ok(None),
    }
}

fn kind_from(vars: EnvVars<'_>) -> Result<RoleKind> {
    let found = vars.need(env::ROLE)?;
    match found.value.as_str() {
        "TRAINER" => Ok(RoleKind::Trainer),
        "PSERVER" => Ok(RoleKind::Server),
        _ => Err(Error::UnknownRole { name: found.name, value: found.value }),
    }
}

fn below(found: &FoundVar, n: u32) -> Result<u32> {
    let id = found.number()?;
    if id >= n {
        return Err(Error::IdTooLarge { name: found.name, id, n });
    }
    Ok(id)
}

fn trainer_id(vars: EnvVars<'_>, n_trainers: u32) -> Result<u32> {
    below(&vars.need(env::TRAINER_ID)?, n_trainers)
}

/// The id of a trainer whose script does not give it: from the variables, or else 0.
pub fn unsaid_trainer_id(var: &dyn Fn(&str) -> Option<String>, n_trainers: u32) -> Result<u32> {
    let Some(found) = EnvVars(var).first(env::TRAINER_ID) else { return Ok(0) };
    // Servers have a number too, in some scripts any; it does not matter to them.
    Ok(Some(found.number()?).filter(|&id| id < n_trainers).unwrap_or(0))
}

/// By address and port; by number where no address is set.
fn server_id(vars: EnvVars<'_>, servers: &[Endpoint]) -> Result<u32> {
    let Some(ip) = vars.first(env::OWN_IP) else {
        let found = vars.first(env::SERVER_ID);
        let missing = || vars.need(env::OWN_IP).expect_err("it is not set");
        return below(&found.ok_or_else(missing)?, servers.len() as u32);
    };
    let here: Vec<_> = servers.iter().filter(|server| server.host == ip.value).collect();
    let port = match (vars.port_of(ip.name)?.as_deref(), here.as_slice()) {
        (Some([port]), _) => *port,
        // Without a port of its own, the address alone must say which server it is.
        (_, [only]) => only.port,
        (Some(_), _) => return Err(ip.bad("an address of one server, or PADDLE_PORT one port")),
        (None, _) if here.iter().any(|server| server.port == env::PORT) => env::PORT,
        (None, _) => {
            let aliases = &["PADDLE_PSERVER_PORT"];
            return Err(Error::MissingVariable { name: "PADDLE_PORT", aliases });
        }
    };
    let own = Endpoint { host: ip.value, port };
    let at = servers.iter().position(|server| *server == own);
    let missing = || Error::NotAServer { endpoint: own.clone(), servers: servers.to_vec() };
    at.map(|at| at as u32).ok_or_else(missing)
}

/// From the variables of trainers that work without servers: Fluid's
/// `PaddleCloudRoleMaker(is_collective=True)`.
pub fn collective_from_environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Role> {
    let vars = EnvVars(var);
    let found = vars.first(env::TRAINERS).ok_or(Error::NoTrainerEndpoints)?;
    let trainers = found.endpoints()?;
    let n_trainers = trainers.len() as u32;
    let id = match (vars.first(env::TRAINER_ID), vars.first(env::OWN_ENDPOINT)) {
        (Some(id), _) => below(&id, n_trainers)?,
        (None, None) => 0,
        (None, Some(own)) => {
            let at = trainers.iter().position(|trainer| trainer.to_string() == own.value);
            at.ok_or_else(|| own.bad("one of PADDLE_TRAINER_ENDPOINTS"))? as u32
        }
    };
    Ok(Role { kind: RoleKind::Trainer, id, n_trainers, servers: Vec::new(), trainers })
}

/// From the variables of a job whose trainers have end points too: Fluid's `GeneralRoleMaker`.
/// Servers are known by `PADDLE_PSERVER_ID`, or as elsewhere by address and port.
pub fn general_from_environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Role> {
    let vars = EnvVars(var);
    let trainers = vars.first(env::TRAINERS).ok_or(Error::NoTrainerEndpoints)?.endpoints()?;
    let (servers, n_trainers) = (vars.servers()?, trainers.len() as u32);
    let kind = kind_from(vars)?;
    let id = match (kind, vars.first(env::SERVER_ID)) {
        (RoleKind::Trainer, _) => trainer_id(vars, n_trainers)?,
        (RoleKind::Server, Some(found)) => below(&found, servers.len() as u32)?,
        (RoleKind::Server, None) => server_id(vars, &servers)?,
    };
    Ok(Role { kind, id, n_trainers, servers, trainers })
}

/// A role given by the user: Fluid's `UserDefinedRoleMaker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDefined {
    /// Which of the trainers or servers it is.
    pub current_id: i64,
    /// What it does.
    pub kind: RoleKind,
    /// How many trainers there are.
    pub n_trainers: i64,
    /// Where the servers are.
    pub servers: Vec<String>,
}

/// The role that a user describes.
pub fn user_defined(wanted: &UserDefined) -> Result<Role> {
    let servers = unique(&wanted.servers, "server_endpoints")?;
    let id = u32::try_from(wanted.current_id).map_err(|_| Error::NegativeId)?;
    if wanted.kind == RoleKind::Server && id as usize >= servers.len() {
        return Err(Error::NoSuchServer);
    }
    let n_trainers = u32::try_from(wanted.n_trainers).ok().filter(|&n| n > 0);
    let n_trainers = n_trainers.ok_or(Error::NoTrainers)?;
    Ok(Role { kind: wanted.kind, id, n_trainers, servers, trainers: Vec::new() })
}

/// The role of a trainer among trainers: Fluid's `UserDefinedCollectiveRoleMaker`.
pub fn user_defined_collective(current_id: i64, trainers: &[String]) -> Result<Role> {
    let trainers = unique(trainers, "worker_endpoints")?;
    let id = u32::try_from(current_id).map_err(|_| Error::NegativeId)?;
    if id as usize >= trainers.len() {
        return Err(Error::NoSuchTrainer);
    }
    let n_trainers = trainers.len() as u32;
    Ok(Role { kind: RoleKind::Trainer, id, n_trainers, servers: Vec::new(), trainers })
}

fn unique(texts: &[String], list: &'static str) -> Result<Vec<Endpoint>> {
    let endpoints: Vec<Endpoint> =
        texts.iter().map(|text| text.parse()).collect::<ps::Result<_>>()?;
    if endpoints.is_empty() {
        return Err(Error::NoEndpoints { list });
    }
    let repeats = |at: &usize| endpoints[..*at].contains(&endpoints[*at]);
    match (1..endpoints.len()).find(repeats) {
        Some(at) => Err(Error::RepeatedEndpoint { list, endpoint: endpoints[at].clone() }),
        None => Ok(endpoints),
    }
}

/// From what `mpirun` sets, two processes a machine: even ranks are servers, odd ones trainers.
/// Fluid's `MPISymetricRoleMaker`.
///
/// Ranks cannot ask one another where they are without MPI itself. On one machine they need not;
/// on several, `PADDLE_PSERVERS_IP_PORT_LIST` (or `PADDLE_PSERVERS`, addresses alone) lists the
/// machines in the order of ranks: `mpirun -x PADDLE_PSERVERS=…`.
pub fn mpi_symmetric(var: &dyn Fn(&str) -> Option<String>) -> Result<Role> {
    let vars = EnvVars(var);
    let found = vars.need(env::MPI_SIZE)?;
    let size = found.number()?;
    if size == 0 || size % 2 != 0 {
        return Err(found.bad("an even number: each machine runs a server and a trainer"));
    }
    let rank = below(&vars.need(env::MPI_RANK)?, size)?;
    let n = size / 2;
    let servers = mpi_servers(vars, size)?;
    if servers.len() != n as usize {
        let found = vars.need(env::SERVERS)?;
        return Err(found.bad("one server for each two processes of mpirun"));
    }
    let kind = if rank % 2 == 0 { RoleKind::Server } else { RoleKind::Trainer };
    Ok(Role { kind, id: rank / 2, n_trainers: n, servers, trainers: Vec::new() })
}

/// The servers of an MPI job. Without a list of them, and all on one machine, each rank computes
/// the same ports from the number of servers.
fn mpi_servers(vars: EnvVars<'_>, size: u32) -> Result<Vec<Endpoint>> {
    let local = vars.first(env::MPI_LOCAL_SIZE);
    let is_alone = local.map(|found| found.number()).transpose()? == Some(size);
    if vars.first(env::SERVERS).is_none() && is_alone {
        let n = (size / 2).min(2000);
        let first = 60_001 + (n.wrapping_mul(2_654_435_761) >> 8) % (4_000 - n);
        let server = |at| Endpoint { host: "127.0.0.1".into(), port: (first + at) as u16 };
        return Ok((0..n).map(server).collect());
    }
    vars.servers()
}

#[cfg(test)]
mod tests;
