//! The servers, as the ops of one run see them.

use std::path::Path;
use std::sync::Arc;

use program::distributed::ServerId;
use program::distributed::route::{LookUpRoute, Recv, SaveRoute, Send};
use program::remote::{HeldLookUp, Remote};
use program::{Distributed, Result};
use tensor::{Tensor, Value};

use super::exchange::{Exchange, ExchangeStep};
use super::prefetch::Prefetch;
use super::{SavedPart, Saving, TrainerJob};
use crate::error::Error;
use crate::folder::{About, Transaction};
use crate::scope::Scope;

/// One run's view of the servers.
pub(crate) struct Session<'a> {
    trainer: &'a TrainerJob,
    exchange: &'a dyn Exchange,
    step: ExchangeStep<'a>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        trainer: &'a TrainerJob,
        job: Option<Arc<Distributed>>,
        prefetch: &'a mut Prefetch,
    ) -> Self {
        let exchange = trainer.exchanges().of(job.as_ref().map(|job| job.mode));
        Self { trainer, exchange, step: ExchangeStep::new(trainer.links(), job, prefetch) }
    }

    /// Takes part in the program's job; parameters that came meanwhile go into the scope.
    pub(crate) fn start(&mut self, scope: &Scope) {
        let Some(job) = &self.step.job else { return };
        self.trainer.join_shared(job);
        self.exchange.begin(&mut self.step, scope);
    }

    /// Sends what ops left to be sent; the scope is free again.
    pub(crate) fn finish(&mut self, scope: &Scope) -> crate::error::Result<()> {
        self.exchange.end(&mut self.step, scope)
    }
}

pub(super) fn host(error: Error) -> program::Error {
    program::op::host_error(error)
}

impl Remote for Session<'_> {
    fn send(&mut self, send: &Send, values: &[&Value]) -> Result<()> {
        self.exchange.send(&mut self.step, send, values)
    }

    fn memory(&mut self, n_bytes: usize) -> Tensor {
        self.exchange.memory(self.step.links, n_bytes)
    }

    fn send_barrier(&mut self, servers: &[ServerId]) -> Result<()> {
        self.exchange.close(self.step.links, servers)
    }

    fn recv(&mut self, recv: &Recv, out: &mut [Tensor]) -> Result<()> {
        self.exchange.receive(&mut self.step, recv, out)
    }

    fn fetch_barrier(&mut self, _servers: &[ServerId]) -> Result<()> {
        // A server's values of a round stay as they are until every trainer has closed the next
        // one, and a trainer does that after it has received them: nothing is left to wait for.
        Ok(())
    }

    fn prefetch(
        &mut self,
        look_up: &Arc<LookUpRoute>,
        ids: &[&Tensor],
        out: &mut [Tensor],
    ) -> Result<()> {
        self.exchange.look_up(&mut self.step, look_up, ids, out)
    }

    fn look_up_held(&mut self, look_up: HeldLookUp<'_>, out: &mut [Tensor]) -> Result<()> {
        self.exchange.look_up_held(&mut self.step, look_up, out)
    }

    fn checkpoint_notify(&mut self, save: &SaveRoute) -> Result<()> {
        let table = || save.table.clone();
        let part = |&server: &ServerId| SavedPart { server, table: table(), weights_only: false };
        let parts = save.servers.iter().map(part).collect();
        let save = || {
            let transaction = Transaction::begin(Path::new(&save.dir))?;
            let saving = Saving::begin(self.step.links, parts, &transaction)?;
            saving.commit(transaction, About::new("tables"))
        };
        save().map_err(host)
    }
}

/// The tensor of an answer, or what it is instead; nobody else holds it, so nothing is copied.
pub(super) fn tensor_of(value: Arc<Value>) -> std::result::Result<Tensor, &'static str> {
    match Arc::try_unwrap(value).unwrap_or_else(|shared| (*shared).clone()) {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(other.kind()),
    }
}

/// Pieces of a variable, one below the other; what is left of them comes back.
pub(crate) fn join(mut parts: Vec<Tensor>, out: &mut Tensor) -> Result<Vec<Tensor>> {
    if let [part] = &mut parts[..]
        && part.lender().is_none()
    {
        std::mem::swap(out, part);
        return Ok(parts);
    }
    // Memory that a server lends is given back soon: the server waits for it.
    let Some(first) = parts.first() else { return Ok(parts) };
    let n_rows = parts.iter().map(|part| part.dims().first().copied().unwrap_or(0)).sum();
    out.resize_as(first.dtype(), first.shape().with_dim(0, n_rows));
    let mut at = 0;
    for part in &parts {
        let bytes = part.bytes();
        let Some(place) = out.bytes_mut().get_mut(at..at + bytes.len()) else {
            return Err(program::Error::Shapes {
                rule: "pieces of one variable have rows of one width",
                left: String::new(),
                left_dims: first.shape().to_i64(),
                right: String::new(),
                right_dims: part.shape().to_i64(),
            });
        };
        place.copy_from_slice(bytes);
        at += bytes.len();
    }
    Ok(parts)
}
