//! Messages straight to the servers, in step with the program.

use program::Result;
use program::distributed::route::{Recv, Send, Sent};
use program::distributed::{Piece, ServerId};
use tensor::{Rows, Tensor, Value};

use super::ExchangeStep;
use crate::error::Error;
use crate::gradients::merged;
use crate::remote::communicator::cut;
use crate::remote::links::Links;
use crate::remote::locks::{Ordered, OrderedGuard, Rank};
use crate::remote::session::{host, join, tensor_of};
use crate::remote::traffic::Traffic;

/// Messages under way between this trainer and its servers.
pub(in crate::remote) struct Direct(Ordered<Traffic>);

impl Default for Direct {
    fn default() -> Self {
        Self(Ordered::new(Rank::Traffic, Traffic::default()))
    }
}

impl Direct {
    pub(super) fn traffic(&self) -> OrderedGuard<'_, Traffic> {
        self.0.lock()
    }

    /// Sends gradients, each piece to its server.
    pub(super) fn send(
        &self,
        step: &ExchangeStep<'_>,
        send: &Send,
        values: &[&Value],
    ) -> Result<()> {
        let Send::Grads(grads) = send else { return Ok(()) };
        for (sent, &value) in grads.vars.iter().zip(values) {
            self.send_var(step.links, sent, value)?;
        }
        Ok(())
    }

    pub(super) fn send_var(&self, links: &Links, sent: &Sent, value: &Value) -> Result<()> {
        match sent {
            Sent::Pieces(pieces) => self.push(links, pieces, value),
            Sent::Copies(pieces) => self.push_all(links, pieces, value),
        }
    }

    /// Sends the pieces of a gradient, each to its server.
    fn push(&self, links: &Links, pieces: &[Piece], value: &Value) -> Result<()> {
        let Value::Rows(rows) = value else { return self.push_all(links, pieces, value) };
        check_rows(rows, pieces)?;
        if pieces.len() == 1 {
            return self.push_all(links, pieces, value);
        }
        let mut traffic = self.traffic();
        for (server, grad) in cut(merged(value), pieces) {
            traffic.push(links, server, grad).map_err(host)?;
        }
        Ok(())
    }

    /// Sends a value that is whole, or dense.
    fn push_all(&self, links: &Links, pieces: &[Piece], value: &Value) -> Result<()> {
        let mut traffic = self.traffic();
        let push = |piece: &Piece| traffic.push_piece(links, piece, value).map_err(host);
        pieces.iter().try_for_each(push)
    }

    pub(super) fn memory(&self, links: &Links, n_bytes: usize) -> Tensor {
        let memory = links.shared_memory();
        self.traffic().memory_for_next(&memory, n_bytes)
    }

    pub(super) fn barrier(&self, links: &Links, servers: &[ServerId]) -> Result<()> {
        self.traffic().barrier(links, servers).map_err(host)
    }

    pub(super) fn receive(&self, links: &Links, recv: &Recv, out: &mut [Tensor]) -> Result<()> {
        recv.vars.iter().zip(out).try_for_each(|(pieces, out)| self.fill(links, pieces, out))
    }

    /// Fills a variable with its pieces.
    fn fill(&self, links: &Links, pieces: &[Piece], out: &mut Tensor) -> Result<()> {
        let mut traffic = self.traffic();
        let mut pull = |piece: &Piece| {
            let value = traffic.pull(links, piece).map_err(host)?;
            tensor_of(value).map_err(|actual| {
                let endpoint = links.endpoints().get(piece.server.0).cloned().unwrap_or_default();
                let var = piece.name.clone();
                host(Error::NotDense { endpoint, var, actual })
            })
        };
        let parts: Result<Vec<Tensor>> = pieces.iter().map(&mut pull).collect();
        // Memory of old values is for answers to come.
        for (old, piece) in join(parts?, out)?.into_iter().zip(pieces) {
            links.client(piece.server).map_err(host)?.recycle(old);
        }
        Ok(())
    }

    /// Sends what is waiting.
    pub(super) fn flush(&self, links: &Links) -> crate::error::Result<()> {
        self.traffic().flush(links)
    }

    pub(super) fn forget(&self) {
        *self.traffic() = Traffic::default();
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
