//! Rows of a sparse table, which exist only after they were used.
//!
//! A table of ten million rows costs what its touched rows cost. Rows are stored one after another
//! in slabs (one for the weights, one for each state of the optimizer), and an index says where.
//! [`tensor::RowInit`] gives the first values of a row.
//!
//! A table may have an entry rule: rows that are not admitted yet read as zeros and do not learn.

mod entry;
mod hash;
mod index;

pub use entry::EntryFilter;
pub use hash::KeyMap;
pub use index::{NamesCursor, RowIndex, RowNames};
