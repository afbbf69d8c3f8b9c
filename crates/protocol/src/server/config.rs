//! How a server behaves.

use wire::message::PIECE_BYTES;

use super::Apply;

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Trainers of another job are refused.
    pub job: String,
    /// How many trainers the job has.
    pub n_trainers: u32,
    /// When gradients are applied.
    pub apply: Apply,
    /// A trainer that is silent for this long is dead.
    pub lease_ms: u64,
    /// How long a trainer whose connection broke has to come back.
    pub grace_ms: u64,
    /// Rounds continue without a trainer that died.
    pub go_on: bool,
    /// Gradients that are not finite are refused.
    pub check_finite: bool,
    /// The store keeps cuts: the job waits for processes that die, and continues from a cut.
    pub recovers: bool,
    /// Whether this server decides when a cut is made. One server of the job does: the first.
    pub is_lead: bool,
    /// The time from the end of a cut to the notice of the next.
    pub cut_every_ms: u64,
    /// How long trainers that are ready for a cut wait for the others.
    pub ready_ms: u64,
    /// How long the job waits for a process that died.
    pub recover_ms: u64,
    /// Bytes of what a trainer gave to a cut that it gets back in one message.
    pub piece_bytes: usize,
    /// Bytes that are held at most of what all trainers send and ask for.
    pub request_bytes_max: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            job: String::new(),
            n_trainers: 1,
            apply: Apply::ByRound { ahead: 0 },
            lease_ms: 20_000,
            grace_ms: 2_000,
            go_on: false,
            check_finite: false,
            recovers: false,
            is_lead: false,
            cut_every_ms: 10_000,
            ready_ms: 5_000,
            recover_ms: 300_000,
            piece_bytes: PIECE_BYTES,
            request_bytes_max: u64::MAX,
        }
    }
}
