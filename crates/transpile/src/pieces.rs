//! Pieces of variables, and the servers that were chosen for them.

use std::ops::Range;

use program::distributed::{Piece, ServerId, VarId};

use crate::error::{Error, Result};

/// A piece that has no number yet.
pub(super) fn piece(block: usize, name: String, server: ServerId, rows: Range<i64>) -> Piece {
    Piece { name, server, var: VarId::NONE, block, rows }
}

/// All rows of a variable of this shape.
pub(super) fn rows_of(dims: &[i64]) -> Range<i64> {
    0..dims.first().copied().unwrap_or(1)
}

/// The servers that were chosen for blocks.
pub(super) fn servers_of(
    chosen: &[String],
    n_blocks: usize,
    endpoints: &[String],
) -> Result<Vec<ServerId>> {
    if chosen.len() != n_blocks {
        return Err(Error::BadDispatch { expected: n_blocks, actual: chosen.len() });
    }
    let server = |endpoint: &String| {
        let at = endpoints.iter().position(|known| known == endpoint);
        at.map(ServerId).ok_or_else(|| Error::UnknownEndpoint {
            endpoint: endpoint.clone(),
            endpoints: endpoints.to_vec(),
        })
    };
    chosen.iter().map(server).collect()
}
