//! What a trainer says of itself when it greets servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use program::Distributed;
use program::distributed::{PlacedKind, Placement, ServerId};
use ps::Refusal;
use ps::message::VarInfo;
use ps::tcp::Client;

use super::Cluster;
use crate::error::Result;

/// The checkpoint that a process of a job begins from. All must begin from the same: the processes compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStart {
    /// Its number; none if there is no whole one.
    pub serial: Option<u64>,
    /// The machine and the folder that it was looked for in.
    pub place: String,
}

impl JobStart {
    /// As others are told.
    pub(crate) fn told(&self) -> VarInfo {
        VarInfo::start(self.serial, &self.place)
    }
}

impl Cluster {
    /// Says what this process begins from, before it speaks to others.
    pub fn begins_from(&self, start: JobStart) {
        self.state().start = Some(start);
    }

    /// What this process begins from, if it has looked for checkpoints.
    pub fn start(&self) -> Option<JobStart> {
        self.state().start.clone()
    }

    /// Greets all servers, if this process has looked for checkpoints: they compare where they begin. `first` has
    /// agreed.
    pub(super) fn agree_on_start(&self, first: &Client) -> Result<()> {
        if self.start().is_none() {
            return Ok(());
        }
        for server in self.servers_but(first.endpoint()) {
            let client = self.new_client(server)?;
            if let Err(error) = client.ensure_connected() {
                self.pass_on(&error);
                return Err(error.into());
            }
            self.add_client(server, client);
        }
        Ok(())
    }

    /// Tells all other servers why a server does not let the job begin, if it does not: a server that no trainer meets
    /// would wait for them.
    pub(super) fn pass_on(&self, error: &ps::Error) {
        let ps::Error::Refused { endpoint, refusal: Refusal::Failed(why) } = error else { return };
        if self.start().is_none() {
            return;
        }
        self.close();
        let told = VarInfo::no_start(&format!("server {endpoint} cannot begin: {why}"));
        for server in self.servers_but(endpoint) {
            // One that cannot be reached, or that has ended, is not waited for: this process ends with the error.
            if let Ok(client) = self.client_that_tells(server, Some(told.clone())) {
                let _ = client.ensure_connected();
                client.close();
            }
        }
    }

    /// The numbers of the servers that are at other end points.
    fn servers_but(&self, endpoint: &ps::Endpoint) -> Vec<ServerId> {
        let own = endpoint.to_string();
        let all = self.endpoints().into_iter().enumerate();
        all.filter(|(_, other)| *other != own).map(|(at, _)| ServerId(at)).collect()
    }

    fn add_client(&self, server: ServerId, client: Arc<Client>) {
        let mut state = self.state();
        let n_servers = state.me.as_ref().map_or(0, |me| me.endpoints.len());
        state.clients.resize(n_servers, None);
        state.clients[server.0] = Some(client);
    }
}

/// The variables that a trainer names, by server and number.
pub(super) fn held(job: &Distributed) -> Vec<Vec<VarInfo>> {
    let of = |(names, endpoint): (&Vec<String>, &String)| {
        let placed = job.on(endpoint).filter(|placed| placed.kind != PlacedKind::Optimizer);
        let params: BTreeMap<&str, &Placement> =
            placed.map(|placed| (placed.piece.name.as_str(), placed)).collect();
        let held = |name: &String| match params.get(name.as_str()) {
            Some(placed) => VarInfo::param(name, &placed.dims()),
            None => VarInfo::other(name),
        };
        names.iter().map(held).collect()
    };
    job.vars.iter().zip(&job.endpoints).map(of).collect()
}
