//! Another number of servers for a job that runs. Its trainers live on.
//!
//! 1. The new servers are started beside the old ones. They take over what is to be theirs of the snapshots there are,
//!    and stand by.
//! 2. The old ones are asked to end: they make a cut first. Trainers look for servers now.
//! 3. When the old ones have ended, the list of servers names the new ones. They take over what the cut has changed,
//!    and trainers turn to them.
//!
//! Until step 2 nothing has changed: a new server that fails is the end of the attempt and of nothing
//! else. From step 3 on the new servers are the job's, and what dies is started again as always.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::{Endpoint, ProcessGroup};
use net::tcp;
use server::server_list;

use super::console::Console;
use super::member::{Member, Starter};
use super::plan::{self, OtherServers};
use super::ports::Ports;
use super::scale::{self, ScaleRequest};
use super::snapshots;
use crate::error::{Error, Result};
use crate::role::RoleKind;

/// How long new servers may take to get ready: they take over what there is of the snapshots, and the job trains on.
const READY: Duration = Duration::from_secs(600);
/// How long the last servers may take to end when the first one has: they have made the same cut.
const TOGETHER: Duration = Duration::from_millis(300);
/// How long servers may take to end, with a cut.
const END: Duration = Duration::from_secs(40);
/// The time in which new servers must listen; after it the user is told that they do not.
const LISTEN: Duration = Duration::from_secs(300);
/// How long one may take to accept a connection.
const ANSWER: Duration = Duration::from_millis(20);

/// Servers that take the place of others.
pub(super) struct Moving {
    folder: PathBuf,
    request: ScaleRequest,
    /// Where the new ones are.
    pub(super) endpoints: Vec<String>,
    newcomers: Vec<Member>,
    stage: MovePhase,
    since: Instant,
    /// Theirs until the job is over.
    pub(super) ports: Option<Ports>,
}

enum MovePhase {
    /// New servers get ready.
    Start,
    /// Old ones end; since when the first one has.
    End(Option<Instant>),
    /// New ones load their state.
    Load,
}

/// The state of the move.
pub(super) enum Moved {
    /// It continues.
    NotYet,
    /// The new servers have the job, as many as that.
    Done(usize),
    /// The job keeps its servers.
    GivenUp,
}

impl Moving {
    /// Starts the new servers.
    pub(super) fn start(
        starter: Starter<'_>,
        group: &ProcessGroup,
        folder: &Path,
        request: ScaleRequest,
        turn: usize,
    ) -> Result<Self> {
        let OtherServers { processes, endpoints, ports } =
            plan::other_servers(starter.job, request.n_servers, turn)?;
        clear_standby(folder)?;
        let mut newcomers = Vec::new();
        for process in &processes {
            newcomers.push(Member::start(starter, process, group)?);
        }
        let folder = folder.to_path_buf();
        let since = Instant::now();
        let ports = Some(ports);
        Ok(Self { folder, request, endpoints, newcomers, stage: MovePhase::Start, since, ports })
    }

    /// Takes the next step. Servers among `members` are replaced.
    pub(super) fn go_on(
        &mut self,
        starter: Starter<'_>,
        members: &mut Vec<Member>,
        console: &mut Console,
    ) -> Result<Moved> {
        match self.stage {
            MovePhase::Start => self.get_ready(members, console),
            MovePhase::End(first) => self.end_old(first, starter, members),
            MovePhase::Load => self.load(),
        }
    }

    fn get_ready(&mut self, members: &mut [Member], console: &mut Console) -> Result<Moved> {
        self.newcomers.iter_mut().for_each(Member::look);
        if let Some(failed) = self.newcomers.iter().find(|member| !member.is_running()) {
            failed.report(console);
            return self.give_up("a new server failed; the output of the launcher says how");
        }
        if self.since.elapsed() >= READY {
            return self.give_up("the new servers were not ready in time");
        }
        let is_ready =
            |endpoint: &String| server_list::standing_by(&self.folder, endpoint).exists();
        if self.endpoints.iter().all(is_ready) {
            servers(members).for_each(Member::retire);
            (self.stage, self.since) = (MovePhase::End(None), Instant::now());
        }
        Ok(Moved::NotYet)
    }

    /// The job keeps its servers.
    fn give_up(&mut self, why: &str) -> Result<Moved> {
        for member in &mut self.newcomers {
            member.kill();
            member.wait();
        }
        clear_standby(&self.folder)?;
        scale::refuse(&self.folder, &self.request, why)?;
        Ok(Moved::GivenUp)
    }

    fn end_old(
        &mut self,
        first: Option<Instant>,
        starter: Starter<'_>,
        members: &mut Vec<Member>,
    ) -> Result<Moved> {
        let n_running = servers(members).filter(|member| member.is_running()).count();
        let n_all = servers(members).count();
        if n_running > 0 {
            let first = first.or((n_running < n_all).then(Instant::now));
            let is_late = first.is_some_and(|first| first.elapsed() >= TOGETHER);
            if is_late || self.since.elapsed() >= END {
                // Nothing is lost: the job resumes from the last cut that all of them have.
                servers(members).for_each(Member::kill);
            }
            self.stage = MovePhase::End(first);
            return Ok(Moved::NotYet);
        }
        snapshots::renumber(&self.folder, starter.job, self.endpoints.len())?;
        let path = self.folder.clone();
        let written = server_list::write(&self.folder, &self.endpoints);
        written.map_err(|source| Error::File { what: "write", path, source })?;
        members.retain(|member| member.process.kind != RoleKind::Server);
        let list = self.endpoints.join(",");
        members.iter_mut().for_each(|member| member.set("PADDLE_PSERVERS_IP_PORT_LIST", &list));
        members.splice(0..0, self.newcomers.drain(..));
        self.endpoints.iter().try_for_each(|endpoint| forget(&self.folder, endpoint))?;
        (self.stage, self.since) = (MovePhase::Load, Instant::now());
        Ok(Moved::NotYet)
    }

    fn load(&mut self) -> Result<Moved> {
        let listens = |endpoint: &String| {
            endpoint.parse::<Endpoint>().is_ok_and(|endpoint| tcp::answers(&endpoint, ANSWER))
        };
        let n = self.endpoints.len();
        let is_late = self.since.elapsed() >= LISTEN;
        let text = if self.endpoints.iter().all(listens) {
            format!("the job has {n} servers")
        } else if is_late {
            format!("the job has {n} servers, which load")
        } else {
            return Ok(Moved::NotYet);
        };
        scale::done(&self.folder, &self.request, &text)?;
        Ok(Moved::Done(n))
    }
}

fn servers(members: &mut [Member]) -> impl Iterator<Item = &mut Member> {
    members.iter_mut().filter(|member| member.process.kind == RoleKind::Server)
}

/// Removes the files of servers that have stood by and are not needed.
fn clear_standby(folder: &Path) -> Result<()> {
    let path = || folder.to_path_buf();
    let cleared = server_list::clear_standby(folder);
    cleared.map_err(|source| Error::File { what: "clear", path: path(), source })
}

fn forget(folder: &Path, endpoint: &str) -> Result<()> {
    let removed = server_list::stood_by(folder, endpoint);
    let path = || server_list::standing_by(folder, endpoint);
    removed.map_err(|source| Error::File { what: "remove", path: path(), source })
}
