//! Helpers that every crate may use and that belong to no subject: locks after a panic ([`EvenIfPoisoned`])
//! and in one order ([`OrderedLock`]), the
//! name that a user meant ([`DidYouMean`]), text on its way to a terminal ([`printable()`]), the address of a process ([`Endpoint`]), processes that end
//! together ([`ProcessGroup`]), the codec of everything that leaves a process ([`bytes`]), and the versions
//! of our formats ([`formats`]).
//!
//! The last two are here and not in `durable`: messages and states of the protocol use them, and
//! their crates must not be able to open files.
//!
//! **Invariant:** nothing here knows numbers, programs or jobs, or opens a file.

pub mod bytes;
mod endpoint;
pub mod formats;
mod group;
mod near;
mod ordered;
mod poison;
mod printable;

pub use endpoint::{BadEndpoint, Endpoint};
pub use group::ProcessGroup;
pub use near::{DidYouMean, nearest};
pub use ordered::{LockRank, OrderedLock, OrderedLockGuard};
pub use poison::EvenIfPoisoned;
pub use printable::printable;
