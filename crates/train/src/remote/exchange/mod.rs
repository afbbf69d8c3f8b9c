//! The ways in which a trainer exchanges what it learns. [`Mode`] says which of them a job uses.
//!
//! Each is one implementation of [`Exchange`]: [`Rounds`] (sync, SSP), [`Background`] (async, half-async),
//! [`Differences`] (GEO), and [`Group`] (collective, without servers).

mod background;
mod differences;
mod direct;
mod rounds;

use std::sync::Arc;
use std::time::Instant;

use program::distributed::route::{LookUpRoute, Recv, Send};
use program::distributed::{ExchangeKind, Mode, ServerId};
use program::remote::HeldLookUp;
use program::{Distributed, Error, Result};
use tensor::{Tensor, Value};

pub(super) use background::{Background, StartedSender};
pub(super) use differences::Differences;
pub(super) use direct::Direct;
pub(super) use rounds::Rounds;

use super::collective::Group;
use super::communicator::Bundle;
use super::in_flight::Seen;
use super::links::Links;
use super::prefetch::Prefetch;
use super::rows;
use super::session::host;
use crate::recover::LocalState;
use crate::scope::Scope;

/// The exchanges of one run.
pub(super) struct ExchangeStep<'a> {
    pub(super) links: &'a Links,
    /// The job of the program, if it belongs to one.
    pub(super) job: Option<Arc<Distributed>>,
    /// The next batch.
    pub(super) prefetch: &'a mut Prefetch,
    /// Gradients for the sender in the background.
    pub(super) bundle: Bundle,
    /// This trainer's own steps that the parameters contain, if this run put them to use.
    pub(super) seen: Option<Seen>,
    /// When the run began to compute.
    pub(super) start: Instant,
    /// The parameters must be noted when the run is over (GEO).
    pub(super) notes_params: bool,
    /// A training step was run (GEO).
    pub(super) is_geo_step: bool,
}

impl<'a> ExchangeStep<'a> {
    pub(super) fn new(
        links: &'a Links,
        job: Option<Arc<Distributed>>,
        prefetch: &'a mut Prefetch,
    ) -> Self {
        Self {
            links,
            job,
            prefetch,
            bundle: Bundle::default(),
            seen: None,
            start: Instant::now(),
            notes_params: false,
            is_geo_step: false,
        }
    }
}

/// A way of exchanging. Ops of a step call the first methods; the others are for the job as a whole. What a way does not
/// do in its own manner goes straight to the servers.
pub(super) trait Exchange: std::marker::Send + Sync {
    /// What goes straight to the servers; nothing where there are none.
    fn direct(&self) -> Option<&Direct>;

    /// A run begins: parameters that came meanwhile go into the scope.
    fn begin(&self, _step: &mut ExchangeStep<'_>, _scope: &Scope) {}

    /// Hands values over.
    fn send(&self, step: &mut ExchangeStep<'_>, send: &Send, values: &[&Value]) -> Result<()> {
        self.direct().ok_or_else(no_servers)?.send(step, send, values)
    }

    /// Memory for the next value of a variable that was handed over for good.
    fn memory(&self, links: &Links, n_bytes: usize) -> Tensor {
        self.direct().map_or_else(Tensor::default, |direct| direct.memory(links, n_bytes))
    }

    /// Everything of this step was handed over.
    fn close(&self, links: &Links, servers: &[ServerId]) -> Result<()> {
        self.direct().ok_or_else(no_servers)?.barrier(links, servers)
    }

    /// Fills variables with what servers have.
    fn receive(&self, step: &mut ExchangeStep<'_>, recv: &Recv, out: &mut [Tensor]) -> Result<()> {
        self.direct().ok_or_else(no_servers)?.receive(step.links, recv, out)
    }

    /// Rows of a table.
    fn look_up(
        &self,
        step: &mut ExchangeStep<'_>,
        route: &Arc<LookUpRoute>,
        ids: &[&Tensor],
        out: &mut [Tensor],
    ) -> Result<()> {
        self.direct().ok_or_else(no_servers)?.flush(step.links).map_err(host)?;
        rows::look_up(self, step, route, ids, out)
    }

    /// Rows of a table of which this trainer holds some (GEO).
    fn look_up_held(
        &self,
        _step: &mut ExchangeStep<'_>,
        _look_up: HeldLookUp<'_>,
        _out: &mut [Tensor],
    ) -> Result<()> {
        Err(no_servers())
    }

    /// A run is over: sends what ops left to be sent. The scope is free again.
    fn end(&self, step: &mut ExchangeStep<'_>, _scope: &Scope) -> crate::error::Result<()> {
        self.settle(step.links)
    }

    /// Waits until background messages are on their way. Returns this trainer's own steps that later answers of servers contain:
    /// all of them.
    fn wait_written(&self) -> Seen {
        Seen::default()
    }

    /// Sends what is queued.
    fn settle(&self, links: &Links) -> crate::error::Result<()> {
        self.direct().map_or(Ok(()), |direct| direct.flush(links))
    }

    /// The last exchange of a trainer: what it learnt goes out, and the parameters come into the scope.
    fn stop(&self, _links: &Links, _scope: &Scope) -> crate::error::Result<()> {
        Ok(())
    }

    /// Drops what is under way: the job goes back, or another one begins.
    fn forget(&self) {
        if let Some(direct) = self.direct() {
            direct.forget();
        }
    }

    /// Adds what only this trainer knows to the state for a cut.
    fn save(&self, _state: &mut LocalState, _scope: Option<&Scope>) {}
}

fn no_servers() -> Error {
    Error::NoHost { op: String::new(), what: "parameter servers" }
}

/// All ways of exchanging; a job uses one of them.
pub(super) struct Exchanges {
    pub(super) rounds: Rounds,
    pub(super) background: Background,
    pub(super) differences: Differences,
    pub(super) group: Group,
}

impl Exchanges {
    pub(super) fn new() -> Self {
        let direct = Arc::new(Direct::default());
        Self {
            rounds: Rounds::new(direct.clone()),
            background: Background::new(direct.clone()),
            differences: Differences::new(direct),
            group: Group::default(),
        }
    }

    /// The way of a mode. A program without a job may belong to any job with servers: what is sent in the
    /// background is waited for, if anything is.
    pub(super) fn of(&self, mode: Option<Mode>) -> &dyn Exchange {
        match mode.map(Mode::exchange) {
            Some(ExchangeKind::Rounds) => &self.rounds,
            Some(ExchangeKind::Background) | None => &self.background,
            Some(ExchangeKind::Differences) => &self.differences,
            Some(ExchangeKind::Collective) => &self.group,
        }
    }

    fn all(&self) -> [&dyn Exchange; 4] {
        [&self.rounds, &self.differences, &self.background, &self.group]
    }

    /// Sends what is queued.
    pub(super) fn settle(&self, links: &Links) -> crate::error::Result<()> {
        self.all().into_iter().try_for_each(|exchange| exchange.settle(links))
    }

    /// The last exchange of a trainer.
    pub(super) fn stop(&self, links: &Links, scope: &Scope) -> crate::error::Result<()> {
        self.all().into_iter().try_for_each(|exchange| exchange.stop(links, scope))
    }

    /// Drops what is under way: the job goes back.
    pub(super) fn forget(&self) {
        self.all().into_iter().for_each(Exchange::forget);
    }

    /// Another job begins.
    pub(super) fn begin_job(&self) {
        self.rounds.forget();
        self.differences.forget();
        self.background.forget_started();
    }

    /// Adds what only this trainer knows to the state for a cut.
    pub(super) fn save(&self, state: &mut LocalState, scope: Option<&Scope>) {
        self.all().into_iter().for_each(|exchange| exchange.save(state, scope));
    }
}
