//! A process's settings before its trainer takes part in a job.

use std::sync::Arc;

use base::Endpoint;
use net::Access;
use net::lines::Line;
use net::tcp::{Patience, Stops};

use super::cuts::REDO_BYTES;
use super::job_start::JobStart;

/// Bytes of a journal, unless the settings have another number.
const JOURNAL_BYTES: u64 = 1 << 30;

/// Gets lines for the log.
pub type Log = Arc<dyn Fn(&Line) + Send + Sync>;

/// Writes lines to stderr, where Fluid's users look for them.
pub fn usual_log() -> Log {
    Arc::new(|line| line.say())
}

/// Waits until servers at these end points listen, and tells the user about it; an error if it
/// gives up.
pub type WaitReady = Arc<
    dyn Fn(&[Endpoint]) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>
        + Send
        + Sync,
>;

/// Returns whether this process was asked to end.
pub type Ends = Arc<dyn Fn() -> bool + Send + Sync>;

/// Says where the servers of the job are now; nothing if they are where they were at the start.
pub type Locate = Arc<dyn Fn() -> Option<Vec<String>> + Send + Sync>;

/// How a trainer behaves in a job; see [`super::TrainerJob::configure`].
#[derive(Clone)]
pub struct JobSettings {
    /// How long to wait, for connections made from now on.
    pub patience: Patience,
    /// The credentials that this process shows to servers and other trainers, for connections made from now on.
    pub access: Access,
    /// Limit of the bytes that other trainers may send ahead of this one, in a job without servers; none: half of the memory.
    pub request_bytes_max: Option<u64>,
    /// Waiting for servers ends when it returns true, for connections made from now on.
    pub stops: Stops,
    /// Called before the first connection of a job, to wait for its servers.
    pub wait_ready: Option<WaitReady>,
    /// Gets the lines of the log.
    pub log: Log,
    /// In a job that recovers, this process leaves at the next boundary when it returns true, with
    /// [`crate::Error::Ended`].
    pub ends: Option<Ends>,
    /// Asked where servers are whenever one is waited for.
    pub locate: Option<Locate>,
    /// The checkpoint that this process begins from, if it has looked for one.
    pub start: Option<JobStart>,
    /// In a job that recovers, the inputs of steps since the last cut are kept, at most so many bytes: 4 GiB unless
    /// this is set. A job whose servers keep no cut for so long ends.
    pub redo_bytes: usize,
    /// In a job that recovers, servers keep what a trainer's script fetched, at most so many bytes: 1 GiB unless this is
    /// set. Beyond that a trainer that dies cannot be started again.
    pub journal_bytes: u64,
}

impl JobSettings {
    pub(super) fn new(patience: Patience, log: Log) -> Self {
        Self {
            patience,
            access: Access::default(),
            request_bytes_max: None,
            stops: Arc::new(|| false),
            wait_ready: None,
            log,
            ends: None,
            locate: None,
            start: None,
            redo_bytes: REDO_BYTES,
            journal_bytes: JOURNAL_BYTES,
        }
    }
}

impl std::fmt::Debug for JobSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "settings of a trainer that waits {:?}", self.patience)
    }
}
