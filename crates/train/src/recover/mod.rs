//! A trainer's part of recovery: what it did, what only it has, and how both come back.
//!
//! Everything a script asks of its job is an *event* with a number: a run, a pass, an all-gather, an
//! save. A [`Timeline`] counts them. For each it writes an entry of the *journal* (what it was, and
//! its answer) and keeps what is needed to do it again (the *redo list*). At a *cut* the whole job
//! is quiet, and the trainer gives a server what only it has ([`LocalState`]) and its journal.
//!
//! When a process of the job has died, all go back to the last cut that every server has kept:
//! - A trainer that lives restores its state at the cut and does its redo list again. Its script
//!   has the answers and notices nothing.
//! - A trainer that was started again runs its script from the beginning. Events before the cut are
//!   answered from the journal, and nothing is computed; then the state is restored.
//!
//! This module holds data. [`crate::remote`] talks to servers; the executor and its like run events.

mod bytes;
pub mod check;
mod journal;
mod passes;
mod print;
mod redo;
mod runs;
mod scopes;
mod shares;
mod state;
mod timeline;

pub(crate) use base::bytes::{ByteReader, ByteWriter};
pub(crate) use bytes::{ReadValues, WriteValues};
pub use journal::compacted;
pub(crate) use passes::{Former, Left, Passes};
pub(crate) use print::{EventKind, EventPrint, digest, digest_tensor};
pub(crate) use redo::{Redoing, Repeat};
pub(crate) use runs::Outcome;
pub(crate) use scopes::Uses;
pub use state::LocalState;
pub(crate) use state::{GeoState, GeoTable, ScriptPosition, Sender};
pub(crate) use timeline::{Begun, Timeline};
