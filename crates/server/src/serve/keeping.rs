//! Where and how often a server keeps cuts.

use std::path::PathBuf;
use std::time::Duration;

/// Where a server keeps snapshots, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// The folder of the job's snapshots; each server has a folder of its own in it.
    pub folder: PathBuf,
    /// The time from the end of a cut to the next.
    pub every: Duration,
    /// The snapshots of another job to continue from, or of this one with other numbers of
    /// processes.
    pub resume: Option<PathBuf>,
    /// It was started before its time, and waits until it is asked to serve ([`crate::server_list`]).
    pub stands_by: bool,
    /// How long the job waits for a process that died.
    pub patience: Duration,
    /// The run of the job, if runs are counted: by an engine, say. A job that finished in another run is begun anew; without it,
    /// the starter of the servers clears the folder.
    pub run: Option<String>,
    /// How long a server that was asked to end waits for one more cut.
    pub grace: Duration,
}

impl SnapshotSettings {
    /// Snapshots in this folder, with the usual settings.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            every: Duration::from_secs(10),
            resume: None,
            stands_by: false,
            patience: Duration::from_secs(300),
            run: None,
            grace: Duration::from_secs(20),
        }
    }

    /// The folder of a server.
    pub(super) fn folder_of(&self, server: u32) -> PathBuf {
        self.folder.join(format!("server.{server}"))
    }
}
