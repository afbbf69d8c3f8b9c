//! Jobs of Volcano: its `env` plugin numbers the pods of a task, its `svc` plugin lists their names.

use base::Endpoint;

use super::{Identity, JobMembers};
use crate::env::{self, EnvVars, FoundVar};
use crate::error::Result;
use crate::role::{self, Role, RoleKind};

const ENGINE: &str = "Volcano";

pub(super) fn identity(vars: EnvVars<'_>, members: JobMembers) -> Result<Option<Identity>> {
    let lists = [env::VOLCANO_SERVERS, env::VOLCANO_TRAINERS];
    let listed = lists.into_iter().find_map(|names| vars.first(names));
    let Some(seen) = vars.first(env::VOLCANO_INDEX).or(listed) else { return Ok(None) };
    let index = vars.with(env::VOLCANO_INDEX, ENGINE, &seen)?;
    let found = vars.with(env::VOLCANO_TRAINERS, ENGINE, &seen)?;
    let trainers = endpoints(vars, &found)?;
    let n_trainers = trainers.len() as u32;
    if members == JobMembers::Trainers {
        let (kind, id) = (RoleKind::Trainer, role::below(&index, n_trainers)?);
        let role = Role { kind, id, n_trainers, servers: Vec::new(), trainers };
        return Ok(Some(Identity::Known(role)));
    }
    let servers = endpoints(vars, &vars.with(env::VOLCANO_SERVERS, ENGINE, &seen)?)?;
    let kind = kind(vars, &seen, &servers, &trainers)?;
    let n = if kind == RoleKind::Server { servers.len() as u32 } else { n_trainers };
    let id = role::below(&index, n)?;
    let role = Role { kind, id, n_trainers, servers, trainers: Vec::new() };
    Ok(Some(Identity::Known(role)))
}

/// The role of this pod: from `TRAINING_ROLE`, or by the list that has its name.
fn kind(
    vars: EnvVars<'_>,
    seen: &FoundVar,
    servers: &[Endpoint],
    trainers: &[Endpoint],
) -> Result<RoleKind> {
    if vars.first(env::ROLE).is_some() {
        return role::kind_from(vars);
    }
    let is_in =
        |list: &[Endpoint]| role::by_name(vars, list.iter().map(|one| one.host.as_str())).is_some();
    let name = vars.with(&env::HOST_NAME[1..], ENGINE, seen)?;
    match (is_in(servers), is_in(trainers)) {
        (true, false) => Ok(RoleKind::Server),
        (false, true) => Ok(RoleKind::Trainer),
        _ => Err(name.bad("in one of the lists VC_…_HOSTS; or set TRAINING_ROLE")),
    }
}

/// The pods of a task, each at the port of servers.
fn endpoints(vars: EnvVars<'_>, found: &FoundVar) -> Result<Vec<Endpoint>> {
    let port = vars.port()?.unwrap_or(env::PORT);
    let with_port = found.items().map(|host| format!("{host}:{port}"));
    let list = with_port.collect::<Vec<_>>().join(",");
    FoundVar { name: found.name, value: list }.endpoints()
}
