//! Rounds (sync, SSP): a step closes its part of a round on all servers, and receives what the round led to.

use std::sync::Arc;

use program::Result;
use program::distributed::ServerId;
use program::distributed::route::{LookUpRoute, Recv, Send};
use tensor::{Tensor, Value};

use super::{Direct, Exchange, ExchangeStep};
use crate::remote::links::Links;
use crate::remote::rows;
use crate::remote::session::host;
use crate::scope::Scope;

/// Exchanges in step with the program.
pub(in crate::remote) struct Rounds {
    direct: Arc<Direct>,
}

impl Rounds {
    pub(super) fn new(direct: Arc<Direct>) -> Self {
        Self { direct }
    }
}

impl Exchange for Rounds {
    fn send(&self, step: &mut ExchangeStep<'_>, send: &Send, values: &[&Value]) -> Result<()> {
        self.direct.send(step, send, values)
    }

    fn memory(&self, links: &Links, n_bytes: usize) -> Tensor {
        self.direct.memory(links, n_bytes)
    }

    fn close(&self, links: &Links, servers: &[ServerId]) -> Result<()> {
        self.direct.barrier(links, servers)
    }

    fn receive(&self, step: &mut ExchangeStep<'_>, recv: &Recv, out: &mut [Tensor]) -> Result<()> {
        self.direct.receive(step.links, recv, out)
    }

    fn look_up(
        &self,
        step: &mut ExchangeStep<'_>,
        route: &Arc<LookUpRoute>,
        ids: &[&Tensor],
        out: &mut [Tensor],
    ) -> Result<()> {
        self.direct.flush(step.links).map_err(host)?;
        rows::look_up(self, step, route, ids, out)
    }

    fn end(&self, step: &mut ExchangeStep<'_>, _: &Scope) -> crate::error::Result<()> {
        self.direct.flush(step.links)
    }

    fn settle(&self, links: &Links) -> crate::error::Result<()> {
        self.direct.flush(links)
    }

    fn forget(&self) {
        self.direct.forget();
    }
}
