//! What the processes of a job do with messages: servers, links of trainers, exchanges among trainers, the rendezvous.
//!
//! **Invariant:** state machines. Events and the time come in, actions go out: there is no socket, file, thread or clock here, so a
//! simulator can run everything.

mod chunks;
pub mod collective;
pub mod counters;
mod hot_keys;
mod known;
pub mod link;
mod public_key;
pub mod rendezvous;
pub mod server;
mod severity;

pub use chunks::Chunks;
pub use known::{KnownKey, KnownKeys, ShownKey};
pub use public_key::PublicKey;
pub use severity::{JOB_OVER, Severity};
