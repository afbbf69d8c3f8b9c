//! Where rows of variables are.

use std::ops::Range;

/// A server, by its place in the list of the job's end points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub usize);

/// A variable of a server, by its place in the sorted list of all that a trainer may speak of there.
/// The trainer gives the list to the server when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(pub u32);

impl VarId {
    /// Of a variable that has no number yet.
    pub const NONE: Self = Self(u32::MAX);

    /// The number of a name in such a list.
    pub fn find(names: &[String], name: &str) -> Option<Self> {
        let at = names.binary_search_by(|known| known.as_str().cmp(name)).ok()?;
        u32::try_from(at).ok().map(Self)
    }
}

/// Rows of a variable that one server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The server's name of them, for messages to users.
    pub name: String,
    /// The server.
    pub server: ServerId,
    /// Their number there.
    pub var: VarId,
    /// Which piece of the variable it is, from 0.
    pub block: usize,
    /// Which rows of the whole.
    pub rows: Range<i64>,
}

impl Piece {
    /// The rows of a variable that is not cut, however many there are.
    pub const ALL: Range<i64> = 0..i64::MAX;

    /// Whether it is a variable that is not cut, however many rows that has.
    pub fn is_whole(&self) -> bool {
        self.rows == Self::ALL
    }

    /// Its shape, of a variable of this shape.
    pub fn dims_of(&self, whole: &[i64]) -> Vec<i64> {
        let mut dims = whole.to_vec();
        if let Some(n_rows) = dims.first_mut().filter(|_| !self.is_whole()) {
            *n_rows = self.n_rows();
        }
        dims
    }

    /// Elements of a variable of this shape that are before the piece.
    pub fn offset_in(&self, whole: &[i64]) -> i64 {
        self.rows.start * whole.iter().skip(1).product::<i64>().max(1)
    }

    /// Whether a row of the whole is one of its rows. All of the highest table are each id of 64 bits.
    pub fn has(&self, id: i64) -> bool {
        self.rows.contains(&id) || self.rows.start == 0 && tensor::is_row(id, self.rows.end)
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
