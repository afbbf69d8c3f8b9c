//! GEO: a trainer trains alone, and exchanges differences every few steps.

use std::sync::Arc;

use program::distributed::route::Send;
use program::remote::HeldLookUp;
use program::{Distributed, Result};
use tensor::{Tensor, Value};

use super::{Direct, Exchange, ExchangeStep};
use crate::recover::{GeoState, LocalState};
use crate::remote::geo::Geo;
use crate::remote::links::Links;
use crate::remote::locks::{Ordered, OrderedGuard, Rank};
use crate::remote::session::host;
use crate::scope::Scope;

/// Exchanges differences.
pub(in crate::remote) struct Differences {
    direct: Arc<Direct>,
    geo: Ordered<Geo>,
}

impl Differences {
    pub(super) fn new(direct: Arc<Direct>) -> Self {
        Self { direct, geo: Ordered::new(Rank::Exchange, Geo::default()) }
    }

    fn geo(&self) -> OrderedGuard<'_, Geo> {
        self.geo.lock()
    }

    /// Continues with the state of a cut, from the values that servers have.
    pub(in crate::remote) fn restore(
        &self,
        job: &Arc<Distributed>,
        scope: &Scope,
        params: impl Iterator<Item = (String, Tensor)>,
        state: &GeoState,
    ) {
        self.geo().restore(job, scope, params, state);
    }

    /// The same for tables of which this trainer holds some rows.
    pub(in crate::remote) fn restore_held(
        &self,
        links: &Links,
        scope: &Scope,
        state: &GeoState,
    ) -> crate::error::Result<()> {
        self.geo().restore_held(links, scope, state)
    }
}

impl Exchange for Differences {
    fn direct(&self) -> Option<&Direct> {
        Some(&self.direct)
    }

    fn send(&self, step: &mut ExchangeStep<'_>, send: &Send, values: &[&Value]) -> Result<()> {
        match send {
            Send::Grads(_) => self.direct.send(step, send, values),
            Send::NoteParams => {
                step.notes_params = true;
                Ok(())
            }
            Send::NoteRows(tables) => {
                step.is_geo_step = true;
                let mut geo = self.geo();
                for (table, value) in tables.iter().zip(values) {
                    if let Some(ids) = value.tensor() {
                        geo.touch(table, ids.data::<i64>()?);
                    }
                }
                Ok(())
            }
        }
    }

    fn look_up_held(
        &self,
        step: &mut ExchangeStep<'_>,
        look_up: HeldLookUp<'_>,
        out: &mut [Tensor],
    ) -> Result<()> {
        self.direct.flush(step.links).map_err(host)?;
        self.geo().look_up(step.links, look_up, out)
    }

    fn end(&self, step: &mut ExchangeStep<'_>, scope: &Scope) -> crate::error::Result<()> {
        let Some(job) = &step.job else { return Ok(()) };
        if step.notes_params {
            self.geo().snapshot(job, scope);
        }
        if step.is_geo_step {
            return self.geo().step(step.links, job, scope);
        }
        self.direct.flush(step.links)
    }

    fn stop(&self, links: &Links, scope: &Scope) -> crate::error::Result<()> {
        self.geo().finish(links, scope)
    }

    fn forget(&self) {
        *self.geo() = Geo::default();
        self.direct.forget();
    }

    fn save(&self, state: &mut LocalState, scope: Option<&Scope>) {
        state.geo = scope.and_then(|scope| self.geo().save(scope));
    }
}
