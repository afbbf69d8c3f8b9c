//! Requests and answers as JSON.
//!
//! A request is `{"columns": {"C1": [17, 4], "C2": [[1, 2], [3]]}}` or `{"rows": [{"C1": 17, "C2": [1, 2]}, …]}`. Of a
//! model that CTR saved, values are those of a table: a number, a text, or null.
//!
//! A body becomes columns while it is read: there is no tree of its values.

mod cells;
mod read;
mod slots;
mod write;

pub(super) use cells::{RequestTable, table};
pub(super) use slots::fill;
pub(super) use write::{write_description, write_predictions};
