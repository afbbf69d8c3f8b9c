//! Trainers that exchange values with each other, without servers.
//!
//! Every trainer speaks to every other. An exchange has a number, which is the same on all trainers
//! because all run the same ops in the same order. Sums are made in the order of ranks, so every
//! trainer gets the same bits. State machines only: `net::tcp::Mesh` drives them with sockets.

mod chunk;
mod exchange;
mod exchanges;
mod failure_bytes;
mod message;
mod reduce;
mod terms;

pub use chunk::{CHUNK_BYTES, WHOLE_BYTES_MAX};
pub use exchange::{Exchanged, Finished};
pub use exchanges::{Done, Exchanges, Outgoing};
pub use message::{Part, PartKind, Payload, PeerHello, PeerMessage};
pub use tensor::{Collective, ReduceOp};
pub use terms::Terms;
