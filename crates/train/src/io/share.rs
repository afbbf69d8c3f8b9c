//! Which rows of a variable a server has.

use std::ops::Range;

use program::distributed::{Placement, Spread, server_of};
use tensor::is_row;

/// Which rows of a variable a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// Rows that follow one another; the server counts them from 0.
    Range(Range<i64>),
    /// Those that a hash gives it, of a table of `height` rows; they keep their numbers.
    Hash {
        /// The number of the server.
        server: usize,
        /// How many there are.
        n_servers: usize,
        /// Rows of the table.
        height: i64,
    },
}

impl Share {
    /// The share of a server in a variable; `server` is its number.
    pub fn of(placed: &Placement, server: usize, n_servers: usize) -> Self {
        let height = placed.dims().first().copied().unwrap_or(0);
        match placed.spread {
            Spread::Hash => Share::Hash { server, n_servers, height },
            Spread::Range => {
                let first = placed.piece.rows.start;
                Share::Range(first..first + height)
            }
        }
    }

    /// Whether a row of the whole is here.
    pub fn has(&self, row: i64) -> bool {
        match self {
            Share::Range(range) => {
                range.contains(&row) || range.start == 0 && is_row(row, range.end)
            }
            Share::Hash { server, n_servers, height } => {
                is_row(row, *height) && server_of(row, *n_servers) == *server
            }
        }
    }

    /// The number in the whole of the server's row 0.
    pub fn first(&self) -> i64 {
        match self {
            Share::Range(range) => range.start,
            Share::Hash { .. } => 0,
        }
    }

    /// One more than the largest number that the server may give a row.
    pub fn height(&self) -> i64 {
        match self {
            Share::Range(range) => range.end - range.start,
            Share::Hash { height, .. } => *height,
        }
    }

    /// Rows that the server would have if all existed, as near as need be.
    pub fn n_rows(&self) -> i64 {
        match self {
            Share::Range(range) => range.end - range.start,
            Share::Hash { n_servers, height, .. } => height / (*n_servers).max(1) as i64,
        }
    }

    /// How the rows of the variable are given to servers.
    pub fn spread(&self) -> Spread {
        match self {
            Share::Range(_) => Spread::Range,
            Share::Hash { .. } => Spread::Hash,
        }
    }
}
