//! Helpers that every crate may use and that belong to no subject: locks after a panic ([`EvenIfPoisoned`]), the
//! name that a user meant ([`DidYouMean`]), text on its way to a terminal ([`printable()`]), processes that end
//! together ([`ProcessGroup`]), and the codec of everything that leaves a process ([`bytes`]).
//!
//! The codec is here and not in `durable`: messages and states of the protocol use it, and their crates must not be able to open files.
//!
//! **Invariant:** nothing here knows numbers, programs, jobs or files.

pub mod bytes;
mod group;
mod near;
mod poison;
mod printable;

pub use group::ProcessGroup;
pub use near::{DidYouMean, nearest};
pub use poison::EvenIfPoisoned;
pub use printable::printable;
