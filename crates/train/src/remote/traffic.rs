//! What is under way between a trainer and its servers.
//!
//! Gradients are collected per server and go in few, large messages. The parameters that a step
//! received last time are asked for as soon as its gradients are gone, all in one question: by the
//! time the first `recv` runs, the answer is on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use ps::SharedMemory;
use ps::message::{Barrier, Named, Pull, Push, Reply};
use ps::tcp::{Client, Ticket};
use tensor::{Pool, Tensor, Value};

use super::{Cluster, rows, unexpected};
use crate::error::Result;

/// Gradients go when so many bytes have come together: computing and sending overlap.
const PUSH_BYTES: usize = 256 << 10;
/// The same where the server reads gradients in our memory: sending is but a few bytes, and every
/// message wakes somebody.
const NEAR_PUSH_BYTES: usize = 64 << 20;

/// Gradients on their way whose memory is waited for.
const LEAVING_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Traffic {
    lanes: BTreeMap<String, Lane>,
    /// Gradients on their way that were not copied: memory for the next ones once they are served.
    leaving: Vec<Arc<Tensor>>,
}

/// What is under way to and from one server.
#[derive(Debug, Default)]
struct Lane {
    grads: Vec<Named>,
    n_bytes: usize,
    /// What this step has received so far, for the next one.
    received: BTreeSet<String>,
    /// What was asked for when the step's gradients had gone.
    asked: Option<(Vec<String>, Ticket)>,
    arrived: BTreeMap<String, Arc<Value>>,
    /// Memory of gradients that were served.
    pool: Pool,
}

impl Traffic {
    fn lane(&mut self, endpoint: &str) -> &mut Lane {
        if !self.lanes.contains_key(endpoint) {
            self.lanes.insert(endpoint.to_string(), Lane::default());
        }
        self.lanes.get_mut(endpoint).expect("just made")
    }

    /// Memory for the next gradient of this size.
    pub(super) fn room(&mut self, memory: &SharedMemory, n_bytes: usize) -> Tensor {
        if let Some(tensor) = memory.tensor(n_bytes) {
            return tensor;
        }
        // What is served is held by nobody else.
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

    /// Rows of a gradient that its variable gave away.
    pub(super) fn push_part(
        &mut self,
        cluster: &Cluster,
        endpoint: &str,
        (name, whole): (&str, &Arc<Tensor>),
        rows: Range<usize>,
    ) -> Result<()> {
        let lane = self.lane(endpoint);
        cluster.client(endpoint)?.reclaim(&mut lane.pool);
        let part = Tensor::part(whole, rows).map_err(program::Error::from)?;
        self.leave(whole);
        let grad = Named { name: name.to_string(), value: Value::Tensor(part) };
        self.push(cluster, endpoint, grad)
    }

    /// A copy of a gradient for a server; sent at once or with the next ones.
    pub(super) fn push_copy(
        &mut self,
        cluster: &Cluster,
        endpoint: &str,
        (name, value): (&str, &Value),
    ) -> Result<()> {
        if let Value::Shared(whole) = value
            && let Some(&n_rows) = whole.dims().first()
        {
            return self.push_part(cluster, endpoint, (name, whole), 0..n_rows);
        }
        match value.tensor() {
            Some(tensor) => {
                let n_rows = tensor.dims().first().copied().unwrap_or(1);
                self.push_rows(cluster, endpoint, (name, tensor), 0..n_rows)
            }
            None => {
                let grad = Named { name: name.to_string(), value: rows::merged(value) };
                self.push(cluster, endpoint, grad)
            }
        }
    }

    /// A copy of some rows of a gradient, in memory of one that was served.
    pub(super) fn push_rows(
        &mut self,
        cluster: &Cluster,
        endpoint: &str,
        (name, tensor): (&str, &Tensor),
        rows: Range<usize>,
    ) -> Result<()> {
        let (lane, client) = (self.lane(endpoint), cluster.client(endpoint)?);
        client.reclaim(&mut lane.pool);
        let row_bytes = tensor.bytes().len() / tensor.dims().first().copied().unwrap_or(1).max(1);
        let bytes = tensor.bytes().get(rows.start * row_bytes..rows.end * row_bytes);
        let bytes = bytes.unwrap_or(tensor.bytes());
        let shared = cluster.shared_memory().tensor(bytes.len());
        let mut copy = shared.unwrap_or_else(|| lane.pool.take(bytes.len()));
        let shape = match tensor.shape() {
            shape if shape.rank() == 0 => shape,
            shape => shape.with_dim(0, bytes.len() / row_bytes.max(1)),
        };
        copy.resize_as(tensor.dtype(), shape);
        copy.bytes_mut().copy_from_slice(bytes);
        let grad = Named { name: name.to_string(), value: Value::Tensor(copy) };
        self.push(cluster, endpoint, grad)
    }

    /// A gradient for a server; sent at once or with the next ones.
    pub(super) fn push(&mut self, cluster: &Cluster, endpoint: &str, grad: Named) -> Result<()> {
        let lane = self.lane(endpoint);
        lane.n_bytes += n_bytes(&grad.value);
        lane.grads.push(grad);
        if lane.n_bytes < PUSH_BYTES {
            return Ok(());
        }
        let client = cluster.client(endpoint)?;
        match client.is_near() && lane.n_bytes < NEAR_PUSH_BYTES {
            true => Ok(()),
            false => lane.send(&client),
        }
    }

    /// Sends what is waiting.
    pub(super) fn flush(&mut self, cluster: &Cluster) -> Result<()> {
        for (endpoint, lane) in &mut self.lanes {
            if !lane.grads.is_empty() {
                lane.send(&*cluster.client(endpoint)?)?;
            }
        }
        Ok(())
    }

    /// Everything of this step's gradients is sent: closes the round on these servers and asks for
    /// what the last step received.
    pub(super) fn barrier(&mut self, cluster: &Cluster, endpoints: &[String]) -> Result<()> {
        let clients: Vec<Arc<Client>> =
            endpoints.iter().map(|endpoint| cluster.client(endpoint)).collect::<Result<_>>()?;
        clients.iter().try_for_each(|client| client.meet())?;
        // One number for all servers. Some may have this part from an earlier process of this rank,
        // which ended between two of them: they drop it.
        let round = 1 + clients.iter().map(|client| client.round()).min().unwrap_or(0);
        for (endpoint, client) in endpoints.iter().zip(clients) {
            let lane = self.lane(endpoint);
            lane.send_soon(&client)?;
            lane.arrived.clear();
            let names: Vec<String> = std::mem::take(&mut lane.received).into_iter().collect();
            if names.is_empty() {
                client.change(Barrier { round })?;
                lane.asked = None;
                continue;
            }
            client.change_soon(Barrier { round })?;
            lane.asked = Some((names.clone(), ask((&*client, round), names)?));
        }
        Ok(())
    }

    /// A variable of a server as it is after this step.
    pub(super) fn pull(
        &mut self,
        cluster: &Cluster,
        endpoint: &str,
        name: &str,
    ) -> Result<Arc<Value>> {
        self.flush(cluster)?;
        let client = cluster.client(endpoint)?;
        let lane = self.lane(endpoint);
        lane.received.insert(name.to_string());
        if lane.asked.as_ref().is_some_and(|(names, _)| names.iter().any(|asked| asked == name)) {
            let (names, ticket) = lane.asked.take().expect("just seen");
            lane.arrived.extend(names.into_iter().zip(answer(&client, ticket)?));
        }
        if let Some(value) = lane.arrived.remove(name) {
            return Ok(value);
        }
        let ticket = ask((&*client, cluster.round()), vec![name.to_string()])?;
        let value = answer(&client, ticket)?.into_iter().next();
        value.ok_or_else(|| unexpected(&client, &Reply::Values(ps::message::Values(Vec::new()))))
    }
}

impl Lane {
    fn send(&mut self, client: &Client) -> Result<()> {
        self.n_bytes = 0;
        match std::mem::take(&mut self.grads) {
            grads if grads.is_empty() => Ok(()),
            grads => Ok(client.change(Push { grads, behind: 0 })?),
        }
    }

    /// The same, together with what is said next.
    fn send_soon(&mut self, client: &Client) -> Result<()> {
        self.n_bytes = 0;
        match std::mem::take(&mut self.grads) {
            grads if grads.is_empty() => Ok(()),
            grads => Ok(client.change_soon(Push { grads, behind: 0 })?),
        }
    }
}

fn ask((client, after): (&Client, u64), names: Vec<String>) -> Result<Ticket> {
    client.meet()?;
    Ok(client.ask(Pull { after, changed: false, names })?)
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
        Value::Array(_) | Value::Empty => 0,
    }
}
