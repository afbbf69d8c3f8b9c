//! The servers, as the ops of one run see them.

use std::sync::Arc;
use std::time::Instant;

use program::distributed::Mode;
use program::remote::Remote;
use program::{Distributed, OpDesc, Result};
use tensor::{Rows, Tensor, Value};

use super::ahead::Ahead;
use super::communicator::{Bundle, Outgoing, Piece, cut};
use super::rows::Question;
use super::under_way::Seen;
use super::{Cluster, Saving, install, rows};
use crate::error::Error;
use crate::scope::Scope;

/// One run's view of the cluster.
pub(crate) struct Session<'a> {
    cluster: &'a Cluster,
    job: Option<Arc<Distributed>>,
    /// The next batch.
    ahead: &'a mut Ahead,
    /// This step's gradients for the communicator.
    bundle: Bundle,
    /// What the parameters contain of this trainer's own steps, if this run put them to use.
    seen: Option<Seen>,
    /// When the run began to compute.
    start: Instant,
    /// The parameters are to be noted when the run is over (GEO).
    notes_params: bool,
    /// A training step was run (GEO).
    is_geo_step: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        job: Option<Arc<Distributed>>,
        ahead: &'a mut Ahead,
    ) -> Self {
        Self {
            cluster,
            job,
            ahead,
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
        self.cluster.join(job);
        // Parameters are waited for here that ops of other threads have: those must not wait for us.
        if let Some(door) = self.cluster.door() {
            door.catch_up();
            self.start = Instant::now();
            self.seen = Some(door.mailbox().empty(|arrived| install(arrived, scope)));
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

    /// Memory of an old value, for answers to come.
    fn recycle(&self, endpoint: &str, old: Tensor) -> Result<()> {
        self.cluster.client(endpoint).map_err(host)?.recycle(old);
        Ok(())
    }

    /// Hands the step's gradients to the communicator.
    fn enqueue(&mut self) -> crate::error::Result<()> {
        let mut bundle = std::mem::take(&mut self.bundle);
        let Some(door) = self.cluster.door() else { return Ok(()) };
        // Of a step in several parts, one empties the mailbox and another one sends.
        bundle.read.params = self.seen.unwrap_or_else(|| door.mailbox().used());
        match door.send(bundle, self.start.elapsed()) {
            true => Ok(()),
            // It has ended: its error is the step's.
            false => self.cluster.end_of_communicator(),
        }
    }

    /// Asks for the rows of the next batch, now that all gradients of steps before are on their way,
    /// so that only this one's may be missing in the answer.
    fn ask_ahead(&mut self) {
        let cluster = self.cluster;
        self.ahead.ask_next(|op, ids, scratch| Question::ask(cluster, op, ids, scratch));
    }

    fn mode(&self) -> Option<Mode> {
        self.job.as_ref().map(|job| job.mode)
    }

    /// GEO: which rows the step used, or that the parameters are to be noted.
    fn note(&mut self, op: &OpDesc, values: &[&Value]) -> Result<()> {
        let tables = op.attrs.strs("send_varnames")?;
        if op.input_names("X").first().is_some_and(|name| name == "param_init") {
            self.notes_params = true;
            return Ok(());
        }
        self.is_geo_step = true;
        let mut geo = self.cluster.geo();
        for (table, value) in tables.iter().zip(values) {
            if let Some(ids) = value.tensor() {
                geo.touch(table, ids.data::<i64>()?);
            }
        }
        Ok(())
    }

    /// Gradients that a program leaves whole: cut here, sent now or in the background.
    fn send_whole(&mut self, op: &OpDesc, values: &[&Value]) -> Result<()> {
        let in_background =
            self.mode() == Some(Mode::Async) && self.cluster.communicator().is_some();
        if in_background {
            self.ask_ahead();
        }
        let (epmap, names) = (op.attrs.strs("epmap")?, op.attrs.strs("send_varnames")?);
        let sections = op.attrs.ints("sections")?;
        // Without sections every variable is a piece by itself (a table spread by id).
        let is_apart = sections.is_empty() && names.len() == values.len();
        for (at, (var, value)) in op.input_names("X").iter().zip(values).enumerate() {
            let mut traffic = self.cluster.traffic();
            if !op.attrs.bool("use_send_handler", true)? {
                // A counter: every server gets it, each time.
                let name = names.first().unwrap_or(var);
                for endpoint in epmap {
                    traffic.push_copy(self.cluster, endpoint, (name, value)).map_err(host)?;
                }
                continue;
            }
            let pieces = match (is_apart, epmap.get(at)) {
                (true, Some(_)) => pieces(&names[at..=at], &epmap[at..=at], &sections),
                _ => pieces(names, epmap, &sections),
            };
            if in_background {
                if let Value::Shared(whole) = value {
                    traffic.leave(whole);
                }
                drop(traffic);
                let value = rows::merged(value);
                self.bundle.grads.push(Outgoing { var: var.clone(), value, pieces });
                continue;
            }
            if let (Value::Rows(rows), false) = (value, is_apart) {
                check_rows(rows, &sections)?;
            }
            let Some(tensor) = value.tensor() else {
                for (endpoint, grad) in cut(rows::merged(value), &pieces) {
                    traffic.push(self.cluster, &endpoint, grad).map_err(host)?;
                }
                continue;
            };
            let mut from = 0;
            for piece in &*pieces {
                let to = from + piece.n_rows.clamp(0, tensor.len() as i64) as usize;
                let (name, to_server) = (piece.name.as_str(), piece.endpoint.as_str());
                let height = tensor.dims().first().copied().unwrap_or(0);
                let sent = match value {
                    Value::Shared(whole) if height > 0 => {
                        let rows = from..to.min(height);
                        traffic.push_part(self.cluster, to_server, (name, whole), rows)
                    }
                    _ => traffic.push_rows(self.cluster, to_server, (name, tensor), from..to),
                };
                sent.map_err(host)?;
                from = to;
            }
        }
        Ok(())
    }
}

/// Every row must belong to a piece.
fn check_rows(rows: &Rows, sections: &[i64]) -> Result<()> {
    let height: i64 = sections.iter().sum();
    let outside = |&&id: &&i64| !sections.is_empty() && (id < 0 || id >= height);
    match rows.ids.iter().find(outside) {
        Some(&row) => Err(tensor::Error::RowOutOfRange { row, height }.into()),
        None => Ok(()),
    }
}

fn pieces(names: &[String], epmap: &[String], sections: &[i64]) -> Arc<[Piece]> {
    let mut first_row = 0;
    let each = names.iter().zip(epmap).enumerate().map(|(at, (name, endpoint))| {
        let n_rows = sections.get(at).copied().unwrap_or(i64::MAX);
        let piece = Piece { endpoint: endpoint.clone(), name: name.clone(), first_row, n_rows };
        first_row = first_row.saturating_add(n_rows);
        piece
    });
    each.collect()
}

fn host(error: Error) -> program::Error {
    program::op::host_error(error)
}

impl Remote for Session<'_> {
    fn send(&mut self, op: &OpDesc, values: &[&Value]) -> Result<()> {
        if self.mode() == Some(Mode::Geo) {
            return self.note(op, values);
        }
        if !op.attrs.strs("send_varnames")?.is_empty() {
            return self.send_whole(op, values);
        }
        let (names, epmap) = (op.input_names("X"), op.attrs.strs("epmap")?);
        let mut traffic = self.cluster.traffic();
        for ((name, endpoint), value) in names.iter().zip(epmap).zip(values) {
            traffic.push_copy(self.cluster, endpoint, (name, value)).map_err(host)?;
        }
        Ok(())
    }

    fn room(&mut self, n_bytes: usize) -> Tensor {
        let memory = self.cluster.shared_memory();
        self.cluster.traffic().room(&memory, n_bytes)
    }

    fn send_barrier(&mut self, op: &OpDesc) -> Result<()> {
        let endpoints = op.attrs.strs("endpoints")?;
        self.cluster.traffic().barrier(self.cluster, endpoints).map_err(host)
    }

    fn recv(&mut self, op: &OpDesc, out: &mut [Tensor]) -> Result<()> {
        let (epmap, parts) = (op.attrs.strs("epmap")?, op.attrs.strs("recv_varnames")?);
        if !parts.is_empty()
            && self.mode() == Some(Mode::Async)
            && self.cluster.communicator().is_some()
        {
            return Ok(()); // The communicator fetches.
        }
        if self.mode() == Some(Mode::Async) {
            self.cluster.traffic().flush(self.cluster).map_err(host)?;
            self.ask_ahead();
        }
        let mut traffic = self.cluster.traffic();
        let mut pull = |endpoint: &str, name: &str| {
            let value = traffic.pull(self.cluster, endpoint, name).map_err(host)?;
            tensor_of(value, endpoint, name).map_err(host)
        };
        if parts.is_empty() {
            for ((out, name), endpoint) in out.iter_mut().zip(op.output_names("Out")).zip(epmap) {
                let rest = join(vec![pull(endpoint, name)?], out)?;
                for part in rest {
                    self.recycle(endpoint, part)?;
                }
            }
            return Ok(());
        }
        let parts: Result<Vec<Tensor>> =
            parts.iter().zip(epmap).map(|(name, endpoint)| pull(endpoint, name)).collect();
        let Some(out) = out.first_mut() else { return Ok(()) };
        for (part, endpoint) in join(parts?, out)?.into_iter().zip(epmap) {
            self.recycle(endpoint, part)?;
        }
        Ok(())
    }

    fn fetch_barrier(&mut self, _op: &OpDesc) -> Result<()> {
        // A server's values of a round stay as they are until every trainer has closed the next
        // one, and a trainer does that after it has received them: nothing is left to wait for.
        Ok(())
    }

    fn prefetch(&mut self, op: &OpDesc, ids: &[&Tensor], out: &mut [Tensor]) -> Result<()> {
        self.cluster.traffic().flush(self.cluster).map_err(host)?;
        let seen = rows::prefetch(self.cluster, (self.job.as_deref(), self.ahead), op, ids, out)?;
        if let Some(seen) = seen {
            self.bundle.read.read_rows(seen);
        }
        Ok(())
    }

    fn checkpoint_notify(&mut self, op: &OpDesc) -> Result<()> {
        let (table, dir) = (op.attrs.str("lookup_table", "")?, op.attrs.str("dir", "")?);
        let parts = op.attrs.strs("epmap")?.iter();
        let parts = parts.map(|endpoint| (endpoint.clone(), table.to_string())).collect();
        let saving = Saving::begin(self.cluster, parts, std::path::Path::new(dir));
        saving.and_then(Saving::finish).map_err(host)
    }
}

/// The tensor of an answer; nobody else holds it, so nothing is copied.
pub(super) fn tensor_of(
    value: Arc<Value>,
    endpoint: &str,
    name: &str,
) -> crate::error::Result<Tensor> {
    match Arc::try_unwrap(value).unwrap_or_else(|shared| (*shared).clone()) {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(Error::NotDense {
            endpoint: endpoint.to_string(),
            var: name.to_string(),
            actual: other.kind(),
        }),
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
