//! Processes that know only one address find each other there.
//!
//! Each process reports what it is and where it listens. When all have reported, each receives its number and
//! the addresses of the others. This is the state machine; `tcp` drives it. Lines of text go over the network,
//! fields between tabs ([`Report`], [`RendezvousReply`]); docs/reference/formats.md has them.

mod gathering;
mod text;

pub use gathering::{Gathering, ReportOutcome};
pub use text::LINE_BYTES_MAX;

use base::Endpoint;

/// The role of a process in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// It keeps parameters.
    Server,
    /// It trains.
    Trainer,
}

/// A process's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The name of the job, the same for all; it may be empty.
    pub job: String,
    /// How many processes the job has.
    pub n: u32,
    /// How many of them are servers, if that is known.
    pub n_servers: Option<u32>,
    /// Its role.
    pub side: Side,
    /// Its number among those that do the same, if it knows it.
    pub rank: Option<u32>,
    /// The name of its machine; numbers are given in the order of names.
    pub name: String,
    /// Where it listens; port 0 if it does not.
    pub endpoint: Endpoint,
    /// Whether the port was given to it; others can take another port.
    pub is_fixed: bool,
}

/// The answer to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RendezvousReply {
    /// Some are missing; names them.
    Waiting(String),
    /// Another process has reported this end point: take another port.
    Taken,
    /// All are there.
    Placed(Place),
    /// The job cannot start.
    Failed(String),
}

/// The place of a process, and the other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number among those that do the same.
    pub id: u32,
    /// Where servers are.
    pub servers: Vec<Endpoint>,
    /// Where trainers are.
    pub trainers: Vec<Endpoint>,
}
