//! The servers, as the ops of one run see them.

use std::sync::Arc;

use program::remote::Remote;
use program::{Distributed, OpDesc, Result};
use ps::message::{Named, Reply, Save};
use tensor::{Tensor, Value};

use super::{Cluster, rows, unexpected};
use crate::error::Error;

/// One run's view of the cluster.
pub(crate) struct Session<'a> {
    cluster: &'a Cluster,
    job: Option<Arc<Distributed>>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(cluster: &'a Cluster, job: Option<Arc<Distributed>>) -> Self {
        Self { cluster, job }
    }

    /// Takes part in the program's job.
    pub(crate) fn start(&self) {
        if let Some(job) = &self.job {
            self.cluster.join(job);
        }
    }

    /// Sends what ops left to be sent.
    pub(crate) fn finish(&self) -> crate::error::Result<()> {
        if self.job.is_some() { self.cluster.traffic().flush(self.cluster) } else { Ok(()) }
    }
}

fn host(error: Error) -> program::Error {
    program::op::host_error(error)
}

impl Remote for Session<'_> {
    fn send(&mut self, op: &OpDesc, values: &[&Value]) -> Result<()> {
        let (names, epmap) = (op.input_names("X"), op.attrs.strs("epmap")?);
        let mut traffic = self.cluster.traffic();
        for ((name, endpoint), value) in names.iter().zip(epmap).zip(values) {
            let grad = Named { name: name.clone(), value: rows::merged(value) };
            traffic.push(self.cluster, endpoint, grad).map_err(host)?;
        }
        Ok(())
    }

    fn send_barrier(&mut self, op: &OpDesc) -> Result<()> {
        let endpoints = op.attrs.strs("endpoints")?;
        self.cluster.traffic().barrier(self.cluster, endpoints).map_err(host)
    }

    fn recv(&mut self, op: &OpDesc, out: &mut [Tensor]) -> Result<()> {
        let (epmap, parts) = (op.attrs.strs("epmap")?, op.attrs.strs("recv_varnames")?);
        let mut traffic = self.cluster.traffic();
        let mut pull = |endpoint: &str, name: &str| {
            let value = traffic.pull(self.cluster, endpoint, name).map_err(host)?;
            tensor_of(value, endpoint, name).map_err(host)
        };
        if parts.is_empty() {
            for ((out, name), endpoint) in out.iter_mut().zip(op.output_names("Out")).zip(epmap) {
                *out = pull(endpoint, name)?;
            }
            return Ok(());
        }
        let parts: Result<Vec<Tensor>> =
            parts.iter().zip(epmap).map(|(name, endpoint)| pull(endpoint, name)).collect();
        match out.first_mut() {
            Some(out) => join(parts?, out),
            None => Ok(()),
        }
    }

    fn fetch_barrier(&mut self, _op: &OpDesc) -> Result<()> {
        // A server's values of a round stay as they are until every trainer has closed the next
        // one, and a trainer does that after it has received them: nothing is left to wait for.
        Ok(())
    }

    fn prefetch(&mut self, op: &OpDesc, ids: &[&Tensor], out: &mut [Tensor]) -> Result<()> {
        self.cluster.traffic().flush(self.cluster).map_err(host)?;
        rows::prefetch(self.cluster, self.job.as_deref(), op, ids, out)
    }

    fn checkpoint_notify(&mut self, op: &OpDesc) -> Result<()> {
        let (table, dir) = (op.attrs.str("lookup_table", "")?, op.attrs.str("dir", "")?);
        for endpoint in op.attrs.strs("epmap")? {
            let done = || -> crate::error::Result<()> {
                let client = self.cluster.client(endpoint)?;
                let save = Save { table: table.to_string(), dir: dir.to_string() };
                let ticket = client.ask(save)?;
                match client.wait(ticket, "a saved table")? {
                    Reply::Done(_) => Ok(()),
                    other => Err(unexpected(&client, &other)),
                }
            };
            done().map_err(host)?;
        }
        Ok(())
    }
}

/// The tensor of an answer; nobody else holds it, so nothing is copied.
fn tensor_of(value: Arc<Value>, endpoint: &str, name: &str) -> crate::error::Result<Tensor> {
    match Arc::try_unwrap(value).unwrap_or_else(|shared| (*shared).clone()) {
        Value::Tensor(tensor) => Ok(tensor),
        other => Err(Error::NotDense {
            endpoint: endpoint.to_string(),
            var: name.to_string(),
            actual: other.kind(),
        }),
    }
}

/// Pieces of a variable, one below the other.
pub(crate) fn join(mut parts: Vec<Tensor>, out: &mut Tensor) -> Result<()> {
    if parts.len() == 1 {
        *out = parts.remove(0);
        return Ok(());
    }
    let Some(first) = parts.first() else { return Ok(()) };
    let n_rows = parts.iter().map(|part| part.dims().first().copied().unwrap_or(0)).sum();
    out.resize_as(first.dtype(), first.shape().with_dim(0, n_rows));
    let mut at = 0;
    for part in &parts {
        let bytes = part.bytes();
        let Some(place) = out.bytes_mut().get_mut(at..at + bytes.len()) else {
            let (left, right) = (first.shape().to_i64(), part.shape().to_i64());
            let rule = "pieces of one variable have rows of one width";
            let (left_dims, right_dims) = (left, right);
            let name = String::new;
            return Err(program::Error::Shapes {
                rule,
                left: name(),
                left_dims,
                right: name(),
                right_dims,
            });
        };
        place.copy_from_slice(bytes);
        at += bytes.len();
    }
    Ok(())
}
