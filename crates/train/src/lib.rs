//! Runs programs: scopes that hold variables, the executor, files; splits programs over servers, and
//! runs them as a trainer or as a server.
//!
//! **Invariant:** the only crate that joins `program`, `data` and the protocol. It reads no environment
//! variable and opens no socket.

mod cell;
pub mod counters;
mod error;
pub mod executor;
pub mod folder;
pub mod from_dataset;
mod gradients;
pub mod io;
pub mod memory;
pub mod metrics;
pub mod parallel;
pub mod recover;
pub mod remote;
mod replicas;
pub mod row_set;
mod scope;
mod trainer;

pub use error::{Error, FileState, Result};
pub use executor::{Executor, Feed, Options, PackedWeights};
pub use recover::check as kept;
pub use remote::TrainerJob;
pub use scope::{BatchSource, Scope};
pub use trainer::Trainer;
