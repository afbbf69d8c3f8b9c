//! A parameter server: serves the optimize blocks of a program over the protocol, keeps tables and writes snapshots.
//!
//! **Invariant:** nothing below knows servers: a trainer reaches one through the protocol only.

mod bad_snapshot;
mod error;
mod serve;
pub mod server_list;
pub mod table;

pub use bad_snapshot::BadSnapshot;
pub use error::{Error, Result};
pub use serve::{BlockStore, Serving, SnapshotSettings, serve, snapshots};
