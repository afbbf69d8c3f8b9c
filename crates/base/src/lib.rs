//! Helpers that every crate may use and that belong to no subject: locks after a panic ([`EvenIfPoisoned`]), the
//! name that a user meant ([`DidYouMean`]), text on its way to a terminal ([`printable()`]), the address of a process
//! ([`Endpoint`]), and processes that end together ([`ProcessGroup`]).
//!
//! **Invariant:** nothing here knows numbers, programs, jobs or files.

mod endpoint;
mod group;
mod near;
mod poison;
mod printable;

pub use endpoint::{BadEndpoint, Endpoint};
pub use group::ProcessGroup;
pub use near::{DidYouMean, nearest};
pub use poison::EvenIfPoisoned;
pub use printable::printable;
