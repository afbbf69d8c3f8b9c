//! The servers, as the ops of one run see them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use program::distributed::route::{Grads, LookUpRoute, Recv, SaveRoute, Send, Sent};
use program::distributed::{Piece, ServerId};
use program::remote::Remote;
use program::{Distributed, Result};
use tensor::{Rows, Tensor, Value};

use super::communicator::{Bundle, Outgoing, cut};
use super::in_flight::Seen;
use super::prefetch::Prefetch;
use super::rows::RowsRequest;
use super::{Cluster, SavedPart, Saving, install, rows};
use crate::error::Error;
use crate::folder::{About, Transaction};
use crate::gradients::merged;
use crate::scope::Scope;

/// One run's view of the cluster.
pub(crate) struct Session<'a> {
    cluster: &'a Cluster,
    job: Option<Arc<Distributed>>,
    /// The next batch.
    prefetch: &'a mut Prefetch,
    /// This step's gradients for the communicator.
    bundle: Bundle,
    /// What the parameters contain of this trainer's own steps, if this run put them to use.
    seen: Option<Seen>,
    /// When the run began to compute.
    start: Instant,
    /// The parameters must be noted when the run is over (GEO).
    notes_params: bool,
    /// A training step was run (GEO).
    is_geo_step: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        job: Option<Arc<Distributed>>,
        prefetch: &'a mut Prefetch,
    ) -> Self {
        Self {
            cluster,
            job,
            prefetch,
            bundle: Bundle::default(),
            seen: None,
            start: Instant::now(),
            notes_params: false,
            is_geo_step: false,
        }
    }

    /// Takes part in the program's job; parameters that came meanwhile go into the scope.
    pub(crate) fn start(&mut self, scope: &Scope) {
        let Some(job) = &self.job else { return };
        self.cluster.join_shared(job);
        // Parameters are waited for here that ops of other threads have: those must not wait for us.
        if let Some(sender) = self.cluster.sender() {
            sender.catch_up();
            self.start = Instant::now();
            self.seen =
                Some(sender.arrivals().empty(|names, arrived| install(names, arrived, scope)));
        }
    }

    /// Sends what ops left to be sent; the scope is free again.
    pub(crate) fn finish(&mut self, scope: &Scope) -> crate::error::Result<()> {
        let Some(job) = &self.job else { return Ok(()) };
        if self.notes_params {
            self.cluster.geo().snapshot(job, scope);
        }
        if self.is_geo_step {
            return self.cluster.geo().step(self.cluster, job, scope);
        }
        if !self.bundle.grads.is_empty() {
            self.enqueue()?;
        }
        self.cluster.traffic().flush(self.cluster)
    }

    /// Fills a variable with its pieces.
    fn receive(&self, pieces: &[Piece], out: &mut Tensor) -> Result<()> {
        let mut traffic = self.cluster.traffic();
        let mut pull = |piece: &Piece| {
            let value = traffic.pull(self.cluster, piece).map_err(host)?;
            tensor_of(value).map_err(|actual| {
                let (endpoint, var) = (self.cluster.endpoint(piece.server), piece.name.clone());
                host(Error::NotDense { endpoint, var, actual })
            })
        };
        let parts: Result<Vec<Tensor>> = pieces.iter().map(&mut pull).collect();
        // Memory of old values is for answers to come.
        for (old, piece) in join(parts?, out)?.into_iter().zip(pieces) {
            self.cluster.client(piece.server).map_err(host)?.recycle(old);
        }
        Ok(())
    }

    /// Hands the step's gradients to the communicator.
    fn enqueue(&mut self) -> crate::error::Result<()> {
        let mut bundle = std::mem::take(&mut self.bundle);
        let Some(sender) = self.cluster.sender() else { return Ok(()) };
        // If a step has several parts, one takes the arrivals and another one sends.
        bundle.read.params = self.seen.unwrap_or_else(|| sender.arrivals().used());
        match sender.send(bundle, self.start.elapsed()) {
            true => Ok(()),
            // It has ended: its error is the step's.
            false => self.cluster.end_of_communicator(),
        }
    }

    /// Asks for the rows of the next batch, now that all gradients of steps before are on their way,
    /// so that only this one's may be missing in the answer.
    fn ask_next_rows(&mut self) {
        let cluster = self.cluster;
        self.prefetch
            .ask_next(|route, ids, scratch| RowsRequest::ask(cluster, route, ids, scratch));
    }

    /// Whether gradients of this job may be sent in the background.
    fn is_async(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.mode.sends_in_background())
    }

    /// Whether a sender in the background is there.
    fn has_sender(&self) -> bool {
        self.cluster.communicator().is_some()
    }

    /// GEO: which rows of tables the step used.
    fn note_rows(&mut self, tables: &[String], values: &[&Value]) -> Result<()> {
        self.is_geo_step = true;
        let mut geo = self.cluster.geo();
        for (table, value) in tables.iter().zip(values) {
            if let Some(ids) = value.tensor() {
                geo.touch(table, ids.data::<i64>()?);
            }
        }
        Ok(())
    }

    fn send_grads(&mut self, grads: &Grads, values: &[&Value]) -> Result<()> {
        let is_queued = grads.may_queue && self.has_sender();
        if is_queued {
            self.ask_next_rows();
        }
        for (sent, &value) in grads.vars.iter().zip(values) {
            match sent {
                Sent::Pieces(pieces) if is_queued => self.hand_over(pieces, value),
                Sent::Pieces(pieces) => self.push(pieces, value)?,
                Sent::Copies(pieces) => self.push_all(pieces, value)?,
            }
        }
        Ok(())
    }

    /// Leaves a gradient to the sender in the background.
    fn hand_over(&mut self, pieces: &Arc<[Piece]>, value: &Value) {
        if let Value::Shared(whole) = value {
            self.cluster.traffic().leave(whole);
        }
        self.bundle.grads.push(Outgoing { value: merged(value), pieces: pieces.clone() });
    }

    /// Sends the pieces of a gradient, each to its server.
    fn push(&mut self, pieces: &[Piece], value: &Value) -> Result<()> {
        let Value::Rows(rows) = value else { return self.push_all(pieces, value) };
        check_rows(rows, pieces)?;
        if pieces.len() == 1 {
            return self.push_all(pieces, value);
        }
        let mut traffic = self.cluster.traffic();
        for (server, grad) in cut(merged(value), pieces) {
            traffic.push(self.cluster, server, grad).map_err(host)?;
        }
        Ok(())
    }

    /// Sends a value that is whole, or dense.
    fn push_all(&mut self, pieces: &[Piece], value: &Value) -> Result<()> {
        let mut traffic = self.cluster.traffic();
        let push = |piece: &Piece| traffic.push_piece(self.cluster, piece, value).map_err(host);
        pieces.iter().try_for_each(push)
    }
}

/// Every row must belong to a piece.
fn check_rows(rows: &Rows, pieces: &[Piece]) -> Result<()> {
    let Some(last) = pieces.last().filter(|piece| !piece.is_whole()) else { return Ok(()) };
    let height = last.rows.end;
    match rows.ids.iter().find(|&&id| !tensor::is_row(id, height)) {
        Some(&row) => Err(tensor::Error::RowOutOfRange { row, height }.into()),
        None => Ok(()),
    }
}

fn host(error: Error) -> program::Error {
    program::op::host_error(error)
}

impl Remote for Session<'_> {
    fn send(&mut self, send: &Send, values: &[&Value]) -> Result<()> {
        match send {
            Send::Grads(grads) => self.send_grads(grads, values),
            Send::NoteRows(tables) => self.note_rows(tables, values),
            Send::NoteParams => {
                self.notes_params = true;
                Ok(())
            }
        }
    }

    fn memory(&mut self, n_bytes: usize) -> Tensor {
        let memory = self.cluster.shared_memory();
        self.cluster.traffic().memory_for_next(&memory, n_bytes)
    }

    fn send_barrier(&mut self, servers: &[ServerId]) -> Result<()> {
        self.cluster.traffic().barrier(self.cluster, servers).map_err(host)
    }

    fn recv(&mut self, recv: &Recv, out: &mut [Tensor]) -> Result<()> {
        if recv.may_skip && self.has_sender() {
            return Ok(()); // It fetches.
        }
        if self.is_async() {
            self.cluster.traffic().flush(self.cluster).map_err(host)?;
            self.ask_next_rows();
        }
        recv.vars.iter().zip(out).try_for_each(|(pieces, out)| self.receive(pieces, out))
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
        self.cluster.traffic().flush(self.cluster).map_err(host)?;
        if let Some(seen) = rows::prefetch(self.cluster, look_up, self.prefetch, ids, out)? {
            self.bundle.read.read_rows(seen);
        }
        Ok(())
    }

    fn checkpoint_notify(&mut self, save: &SaveRoute) -> Result<()> {
        let table = || save.table.clone();
        let part = |&server: &ServerId| SavedPart { server, table: table(), weights_only: false };
        let parts = save.servers.iter().map(part).collect();
        let save = || {
            let mut transaction = Transaction::begin(Path::new(&save.dir))?;
            let saving = Saving::begin(self.cluster, parts, &mut transaction)?;
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
    // What a server lends is given back soon: it waits for it.
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
