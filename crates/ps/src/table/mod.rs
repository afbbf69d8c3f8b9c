//! Rows of a sparse table that exist only once somebody asked for them.
//!
//! A table of ten million rows costs what its touched rows cost: rows live one after another in
//! slabs (one for the weights, one for each state of the optimizer), and an index says where. What a
//! new row holds is said by [`tensor::RowInit`].
//!
//! A table may have an entry rule: rows that are not wanted yet read as zeros and do not learn.

mod entry;
mod hash;
mod index;

pub use entry::{Entry, EntryFilter};
pub use hash::KeyMap;
pub use index::{Names, NamesCursor, RowIndex};
