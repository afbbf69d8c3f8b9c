//! Jobs of Kubernetes: the pods of an indexed Job have numbers, those of a JobSet also a role.
//!
//! A manifest that lists the servers itself (`paddlewheel render k8s`) uses Paddle's variables: then
//! only the number of a pod comes from here, or its name.

use base::Endpoint;

use super::ranks::{self, Ranks};
use super::{Identity, JobMembers};
use crate::env::{self, EnvVars, FoundVar};
use crate::error::Result;
use crate::role::{self, Role, RoleKind};

/// The usual names of replicated jobs: one serves, one trains.
const NAMES: &[(&str, &str)] =
    &[("server", "trainer"), ("servers", "trainers"), ("ps", "worker"), ("pserver", "trainer")];

/// The pods of a JobSet.
struct JobSet<'a> {
    vars: EnvVars<'a>,
    seen: FoundVar,
    name: String,
    subdomain: String,
}

const JOBSET: &str = "a JobSet";

pub(super) fn jobset(vars: EnvVars<'_>, members: JobMembers) -> Result<Option<Identity>> {
    let Some(seen) = vars.first(env::JOBSET) else { return Ok(None) };
    let name = seen.value.clone();
    let subdomain = vars.first(env::SUBDOMAIN).map_or(name.clone(), |found| found.value);
    let jobset = JobSet { vars, seen, name, subdomain };
    jobset.role(members).map(Identity::Known).map(Some)
}

impl JobSet<'_> {
    fn role(&self, members: JobMembers) -> Result<Role> {
        let own = self.vars.with(env::REPLICATED_JOB, JOBSET, &self.seen)?;
        let n_trainers = self.vars.with(env::N_TRAINERS, JOBSET, &self.seen)?.count()?;
        if members == JobMembers::Trainers {
            let id = self.rank(n_trainers)?;
            let trainers = self.endpoints(&own.value, n_trainers)?;
            let (kind, servers) = (RoleKind::Trainer, Vec::new());
            return Ok(Role { kind, id, n_trainers, servers, trainers });
        }
        let n_servers = self.vars.with(env::N_SERVERS, JOBSET, &self.seen)?.count()?;
        let (kind, server_job) = self.kind(&own)?;
        let n = if kind == RoleKind::Server { n_servers } else { n_trainers };
        let (id, servers) = (self.rank(n)?, self.endpoints(&server_job, n_servers)?);
        Ok(Role { kind, id, n_trainers, servers, trainers: Vec::new() })
    }

    /// The role of this pod, and the name of the replicated job that serves.
    fn kind(&self, own: &FoundVar) -> Result<(RoleKind, String)> {
        if let Some((server, _)) = NAMES.iter().find(|(server, _)| *server == own.value) {
            return Ok((RoleKind::Server, server.to_string()));
        }
        match NAMES.iter().find(|(_, trainer)| *trainer == own.value) {
            Some((server, _)) => Ok((RoleKind::Trainer, server.to_string())),
            None => Err(own.bad("server or trainer (ps or worker)")),
        }
    }

    /// How many pods a replicated job of `n` has, if there are several such jobs.
    fn pods_per_job(&self, n: u32) -> Result<u32> {
        let index = self.vars.first(env::JOB_INDEX).map(|found| found.number()).transpose()?;
        match (self.vars.first(env::PODS_PER_JOB), index) {
            (Some(found), _) => found.count(),
            (None, None | Some(0)) => Ok(n),
            (None, Some(_)) => self.vars.with(env::PODS_PER_JOB, JOBSET, &self.seen)?.count(),
        }
    }

    fn rank(&self, n: u32) -> Result<u32> {
        let index = self.vars.with(env::COMPLETION_INDEX, JOBSET, &self.seen)?;
        let job = self.vars.first(env::JOB_INDEX).map(|found| found.number()).transpose()?;
        let before = job.unwrap_or(0).saturating_mul(self.pods_per_job(n)?);
        let rank = before.saturating_add(index.number()?);
        let found = FoundVar { name: index.name, value: rank.to_string() };
        role::below(&found, n)
    }

    fn endpoints(&self, job: &str, n: u32) -> Result<Vec<Endpoint>> {
        let port = self.vars.port()?.unwrap_or(env::PORT);
        let per_job = self.pods_per_job(n)?.max(1);
        let host = |at: u32| {
            let (job_index, pod) = (at / per_job, at % per_job);
            format!("{}-{job}-{job_index}-{pod}.{}", self.name, self.subdomain)
        };
        Ok((0..n).map(|at| Endpoint { host: host(at), port }).collect())
    }
}

const INDEXED: &str = "an indexed Job";

/// One indexed Job of servers and trainers, behind a headless Service.
pub(super) fn indexed_job(vars: EnvVars<'_>, members: JobMembers) -> Result<Option<Identity>> {
    let Some(seen) = vars.first(env::COMPLETION_INDEX) else { return Ok(None) };
    let n_trainers = vars.with(env::N_TRAINERS, INDEXED, &seen)?.count()?;
    let n = match members {
        JobMembers::Trainers => n_trainers,
        JobMembers::Both => n_trainers + vars.with(env::N_SERVERS, INDEXED, &seen)?.count()?,
    };
    let rank = ranks::rank(&seen, n)?;
    let own = vars.with(&env::HOST_NAME[1..], INDEXED, &seen)?;
    let ending = format!("-{rank}");
    let job = own.value.split('.').next().and_then(|name| name.strip_suffix(&ending));
    let job = job.ok_or_else(|| own.bad("the name of the Job, a hyphen and its number"))?;
    let subdomain = vars.first(env::SUBDOMAIN).map_or(job.to_string(), |found| found.value);
    let hosts = (0..n).map(|at| format!("{job}-{at}.{subdomain}")).collect();
    let ranks = Ranks { engine: INDEXED, rank, hosts, port: env::PORT };
    ranks.role(vars, members).map(Identity::Known).map(Some)
}
