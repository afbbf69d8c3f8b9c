//! Sockets: drives the state machines of the protocol over TCP, and proves that both ends of a connection belong to the job.
//!
//! **Invariant:** a peer learns nothing, and takes no memory, before it has proved its membership.

pub mod access;
pub mod lines;
pub mod tcp;

pub use access::{Access, Secret};
