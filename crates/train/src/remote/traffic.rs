//! Messages under way between a trainer and its servers.
//!
//! Gradients are collected per server and go in few, large messages. The parameters that a step
//! received last time are asked for as soon as its gradients are gone, all in one question: by the
//! time the first `recv` runs, the answer is on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use net::tcp::{Client, Ticket};
use program::distributed::{Piece, ServerId};
use tensor::{Pool, Tensor, Value};
use wire::message::{Barrier, Grad, Pull, Push, Reply};
use wire::{SharedMemory, VarId};

use super::links::Links;
use super::{unexpected, wire_id};
use crate::error::Result;
use crate::gradients::merged;

/// Gradients go when so many bytes have come together: computing and sending overlap.
const PUSH_BYTES: usize = 256 << 10;
/// The limit where the server reads gradients in our memory: a push is then only a few bytes, and
/// every message wakes a thread.
const NEAR_PUSH_BYTES: usize = 64 << 20;

/// Gradients on their way whose memory is waited for.
const LEAVING_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// By the number of the server.
    queues: Vec<ServerQueue>,
    /// Gradients on their way that were not copied: memory for the next ones once they are served.
    leaving: Vec<Arc<Tensor>>,
}

/// Messages under way to and from one server.
#[derive(Debug, Default)]
struct ServerQueue {
    grads: Vec<Grad>,
    n_bytes: usize,
    /// The variables that this step has received so far, for the next one.
    received: BTreeSet<VarId>,
    /// The request made when the step's gradients had gone.
    asked: Option<(Vec<VarId>, Ticket)>,
    arrived: BTreeMap<VarId, Arc<Value>>,
    /// Memory of gradients that were served.
    pool: Pool,
}

impl Traffic {
    fn queue(&mut self, server: ServerId) -> &mut ServerQueue {
        if self.queues.len() <= server.0 {
            self.queues.resize_with(server.0 + 1, ServerQueue::default);
        }
        &mut self.queues[server.0]
    }

    /// Memory for the next gradient of this size.
    pub(super) fn memory_for_next(&mut self, memory: &SharedMemory, n_bytes: usize) -> Tensor {
        if let Some(tensor) = memory.tensor(n_bytes) {
            return tensor;
        }
        // A served gradient has no other holder.
        let is_served = |leaving: &Arc<Tensor>| Arc::strong_count(leaving) == 1;
        let fits = |old: &Arc<Tensor>| is_served(old) && old.bytes().len() == n_bytes;
        let at = self.leaving.iter().position(fits);
        let old = at.and_then(|at| Arc::into_inner(self.leaving.swap_remove(at)));
        old.unwrap_or_default()
    }

    /// A gradient goes that its variable gave away. Lent memory finds its way back by itself.
    pub(super) fn leave(&mut self, whole: &Arc<Tensor>) {
        if whole.lender().is_some() {
            return;
        }
        let is_known = self.leaving.iter().any(|leaving| Arc::ptr_eq(leaving, whole));
        if !is_known && self.leaving.len() < LEAVING_MAX {
            self.leaving.push(whole.clone());
        }
    }

    /// Sends a piece of a value: memory that its variable gave away, or a copy; keyed rows merged.
    pub(super) fn push_piece(&mut self, links: &Links, piece: &Piece, value: &Value) -> Result<()> {
        let value = match (value, value.tensor()) {
            (Value::Shared(whole), Some(tensor)) if tensor.shape().rank() > 0 => {
                let queue = self.queue(piece.server);
                links.client(piece.server)?.reclaim(&mut queue.pool);
                let height = tensor.dims().first().copied().unwrap_or(0);
                let part = Tensor::part(whole, piece.rows_of(height));
                self.leave(whole);
                Value::Tensor(part.map_err(program::Error::from)?)
            }
            (_, Some(tensor)) => Value::Tensor(self.copy(links, piece, tensor)?),
            (_, None) => merged(value),
        };
        self.push(links, piece.server, Grad { var: wire_id(piece), value })
    }

    /// A copy of some rows of a gradient, in memory of one that was served.
    fn copy(&mut self, links: &Links, piece: &Piece, tensor: &Tensor) -> Result<Tensor> {
        let (queue, client) = (self.queue(piece.server), links.client(piece.server)?);
        client.reclaim(&mut queue.pool);
        let height = tensor.dims().first().copied().unwrap_or(1);
        let rows = piece.rows_of(height);
        let row_bytes = tensor.bytes().len() / height.max(1);
        let bytes = tensor.bytes().get(rows.start * row_bytes..rows.end * row_bytes);
        let bytes = bytes.unwrap_or(tensor.bytes());
        let shared = links.shared_memory().tensor(bytes.len());
        let mut copy = shared.unwrap_or_else(|| queue.pool.take(bytes.len()));
        let shape = match tensor.shape() {
            shape if shape.rank() == 0 => shape,
            shape => shape.with_dim(0, bytes.len() / row_bytes.max(1)),
        };
        copy.resize_as(tensor.dtype(), shape);
        copy.bytes_mut().copy_from_slice(bytes);
        Ok(copy)
    }

    /// A gradient for a server; sent at once or with the next ones.
    pub(super) fn push(&mut self, links: &Links, server: ServerId, grad: Grad) -> Result<()> {
        let queue = self.queue(server);
        queue.n_bytes += n_bytes(&grad.value);
        queue.grads.push(grad);
        if queue.n_bytes < PUSH_BYTES {
            return Ok(());
        }
        let client = links.client(server)?;
        if client.is_near() && queue.n_bytes < NEAR_PUSH_BYTES {
            Ok(())
        } else {
            queue.send(&client)
        }
    }

    /// Sends what is waiting.
    pub(super) fn flush(&mut self, links: &Links) -> Result<()> {
        for (server, queue) in self.queues.iter_mut().enumerate() {
            if !queue.grads.is_empty() {
                queue.send(&*links.client(ServerId(server))?)?;
            }
        }
        Ok(())
    }

    /// Everything of this step's gradients is sent: closes the round on these servers and asks for
    /// what the last step received.
    pub(super) fn barrier(&mut self, links: &Links, servers: &[ServerId]) -> Result<()> {
        let clients: Vec<Arc<Client>> =
            servers.iter().map(|&server| links.client(server)).collect::<Result<_>>()?;
        clients.iter().try_for_each(|client| client.ensure_connected())?;
        for (&server, client) in servers.iter().zip(&clients) {
            self.queue(server).wait_asked(client)?;
        }
        // One number for all servers. Some may have this part from an earlier process of this rank,
        // which ended between two of them: they drop it.
        let round = 1 + clients.iter().map(|client| client.round()).min().unwrap_or(0);
        for (&server, client) in servers.iter().zip(clients) {
            let queue = self.queue(server);
            queue.send_soon(&client)?;
            queue.arrived.clear();
            let vars: Vec<VarId> = std::mem::take(&mut queue.received).into_iter().collect();
            client.change_soon(Barrier::new(round))?;
            queue.asked = Some((vars.clone(), ask(&client, round, vars)?));
        }
        Ok(())
    }

    /// A variable of a server as it is after this step.
    pub(super) fn pull(&mut self, links: &Links, piece: &Piece) -> Result<Arc<Value>> {
        self.flush(links)?;
        let (client, var) = (links.client(piece.server)?, wire_id(piece));
        let queue = self.queue(piece.server);
        queue.received.insert(var);
        if queue.asked.as_ref().is_some_and(|(vars, _)| vars.contains(&var)) {
            let (vars, ticket) = queue.asked.take().expect("just seen");
            queue.arrived.extend(vars.into_iter().zip(answer(&client, ticket)?));
        }
        if let Some(value) = queue.arrived.remove(&var) {
            return Ok(value);
        }
        let ticket = ask(&client, links.round(), vec![var])?;
        let value = answer(&client, ticket)?.into_iter().next();
        value.ok_or_else(|| unexpected(&client, &Reply::Values(wire::message::Values(Vec::new()))))
    }
}

impl ServerQueue {
    /// Waits for what the last step asked for and did not use. A server that a step takes nothing from would fall behind
    /// those that it waits for, by more rounds than it keeps.
    fn wait_asked(&mut self, client: &Client) -> Result<()> {
        match self.asked.take() {
            Some((_, ticket)) => answer(client, ticket).map(drop),
            None => Ok(()),
        }
    }

    fn send(&mut self, client: &Client) -> Result<()> {
        self.n_bytes = 0;
        match std::mem::take(&mut self.grads) {
            grads if grads.is_empty() => Ok(()),
            grads => Ok(client.change(Push::new(grads))?),
        }
    }

    /// Like [`ServerQueue::send`], together with the next message.
    fn send_soon(&mut self, client: &Client) -> Result<()> {
        self.n_bytes = 0;
        match std::mem::take(&mut self.grads) {
            grads if grads.is_empty() => Ok(()),
            grads => Ok(client.change_soon(Push::new(grads))?),
        }
    }
}

fn ask(client: &Client, after: u64, vars: Vec<VarId>) -> Result<Ticket> {
    client.ensure_connected()?;
    Ok(client.ask(Pull::new(after, vars))?)
}

fn answer(client: &Client, ticket: Ticket) -> Result<Vec<Arc<Value>>> {
    match client.wait(ticket, "parameters")? {
        Reply::Values(values) => Ok(values.0),
        other => Err(unexpected(client, &other)),
    }
}

fn n_bytes(value: &Value) -> usize {
    match value {
        Value::Tensor(tensor) => tensor.bytes().len(),
        Value::Shared(tensor) => tensor.bytes().len(),
        Value::Rows(rows) => rows.ids.len() * 8 + rows.value.bytes().len(),
        Value::Array(_) | Value::Steps(_) | Value::Keyed(_) | Value::Empty => 0,
    }
}
