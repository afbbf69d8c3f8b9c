//! The identity of a process: trainer or server, its number, and the addresses of the others.
//!
//! Fluid's role makers are functions here that give a [`Role`]: from Paddle's variables, from
//! arguments. They compute and open no connections. `engine` reads the variables of others.

use base::{BadEndpoint, Endpoint};

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
    /// Trainer or server.
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

/// The role of this process, where a script may also run alone: `None` if no variable says it. A list of
/// trainers says that there are no servers.
pub fn in_a_job(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<Role>> {
    let vars = EnvVars(var);
    if let Some(trainers) = vars.trainers_by_ip()? {
        let n_trainers = trainers.len() as u32;
        let (kind, id) = (RoleKind::Trainer, trainer_id(vars, n_trainers)?);
        return Ok(Some(Role { kind, id, n_trainers, servers: Vec::new(), trainers }));
    }
    match vars.first(env::ROLE) {
        Some(_) => from_environment(var).map(Some),
        None => Ok(None),
    }
}

pub(crate) fn kind_from(vars: EnvVars<'_>) -> Result<RoleKind> {
    let found = vars.need(env::ROLE)?;
    match found.value.as_str() {
        "TRAINER" => Ok(RoleKind::Trainer),
        "PSERVER" => Ok(RoleKind::Server),
        _ => Err(Error::UnknownRole { name: found.name, value: found.value }),
    }
}

/// A number below `n`.
pub(crate) fn below(found: &FoundVar, n: u32) -> Result<u32> {
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

/// Which of these machines this one is, by its name: `job-server-1` is `job-server-1.job`. None if
/// none is, or more than one.
pub(crate) fn by_name<'a>(
    vars: EnvVars<'_>,
    hosts: impl IntoIterator<Item = &'a str>,
) -> Option<u32> {
    let name = vars.first(env::HOST_NAME)?.value;
    let first = |host: &str| host.split('.').next().unwrap_or_default().to_string();
    // An address is not a name: 10.0.0.1 is not the machine `10`.
    let is_name = first(&name).parse::<u32>().is_err();
    let is_same = |host: &str| host == name || (is_name && first(host) == first(&name));
    let mut found = (0..).zip(hosts).filter(|(_, host)| is_same(host)).map(|(at, _)| at);
    found.next().filter(|_| found.next().is_none())
}

/// By address and port; by name or number where no address is set.
fn server_id(vars: EnvVars<'_>, servers: &[Endpoint]) -> Result<u32> {
    let named = || by_name(vars, servers.iter().map(|server| server.host.as_str()));
    let Some(ip) = vars.first(env::OWN_IP) else {
        if let Some(id) = named().filter(|_| vars.first(env::SERVER_ID).is_none()) {
            return Ok(id);
        }
        let found = vars.first(env::SERVER_ID);
        let missing = || vars.need(env::OWN_IP).expect_err("it is not set");
        return below(&found.ok_or_else(missing)?, servers.len() as u32);
    };
    let here: Vec<_> = servers.iter().filter(|server| server.host == ip.value).collect();
    // A list of names, and an address of this pod.
    if let (true, Some(id)) = (here.is_empty(), named()) {
        return Ok(id);
    }
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
    /// Trainer or server.
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
        texts.iter().map(|text| text.parse()).collect::<std::result::Result<_, BadEndpoint>>()?;
    if endpoints.is_empty() {
        return Err(Error::NoEndpoints { list });
    }
    let repeats = |at: &usize| endpoints[..*at].contains(&endpoints[*at]);
    match (1..endpoints.len()).find(repeats) {
        Some(at) => Err(Error::RepeatedEndpoint { list, endpoint: endpoints[at].clone() }),
        None => Ok(endpoints),
    }
}

#[cfg(test)]
mod tests;
