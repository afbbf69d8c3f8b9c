//! Where rows of variables are.

use std::ops::Range;

/// A server, by its place in the list of the job's end points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub usize);

/// Rows of a variable that one server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What the server calls them.
    pub name: String,
    /// The server.
    pub server: ServerId,
    /// Which rows of the whole.
    pub rows: Range<i64>,
}

impl Piece {
    /// A variable that is not cut, however many rows it has.
    pub fn whole(name: &str, server: ServerId) -> Self {
        Self { name: name.to_string(), server, rows: 0..i64::MAX }
    }

    /// Whether it is a variable that is not cut, however many rows that has.
    pub fn is_whole(&self) -> bool {
        self.rows == (0..i64::MAX)
    }

    /// How many rows.
    pub fn n_rows(&self) -> i64 {
        self.rows.end - self.rows.start
    }

    /// Its rows of a variable that has so many.
    pub fn rows_of(&self, height: usize) -> Range<usize> {
        let bound = |row: i64| usize::try_from(row).unwrap_or(0).min(height);
        bound(self.rows.start)..bound(self.rows.end)
    }
}
