//! Faults of a server's snapshots.

use std::io;
use std::path::{Path, PathBuf};

use durable::Problem;

/// The result of writing or reading a snapshot.
pub(crate) type SnapshotResult<T> = Result<T, BadSnapshot>;

/// Why a snapshot cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
pub enum BadSnapshot {
    #[error("the folder of snapshots {} cannot be written to: {source}", folder.display())]
    NotWritable { folder: PathBuf, source: io::Error },

    #[error("no space is left for snapshots in {}: {source}", folder.display())]
    NoSpace { folder: PathBuf, source: io::Error },

    #[error("another server writes its snapshots to {}", folder.display())]
    InUse { folder: PathBuf },

    #[error("the snapshot {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },

    #[error("the snapshot {} is damaged: {problem}", path.display())]
    Damaged { path: PathBuf, problem: &'static str },

    #[error(
        "the snapshot {} has format {version}, which is newer than what is known here ({known})",
        path.display()
    )]
    Newer { path: PathBuf, version: u32, known: u32 },

    #[error("the snapshot {} is of another job: {theirs}; this is {ours}", path.display())]
    OtherJob { path: PathBuf, theirs: String, ours: String },

    #[error("the snapshot {} is of another model: it has {theirs}, here is {ours}", path.display())]
    OtherModel { path: PathBuf, theirs: String, ours: String },

    #[error(
        "the snapshot {} does not follow the one before: it was made after cut {needs}, here is {found}",
        path.display()
    )]
    Gap { path: PathBuf, needs: String, found: String },

    #[error("no snapshot of cut {cut} is in {}: there are {found:?}", folder.display())]
    NoCut { folder: PathBuf, cut: u64, found: Vec<u64> },

    #[error("{} has no snapshots of all {n_servers} servers of one job: {detail}", folder.display())]
    Incomplete { folder: PathBuf, n_servers: usize, detail: String },

    #[error("this server keeps no snapshots")]
    None,

    #[error("the snapshot was given up: the server goes back to an older one")]
    GivenUp,
}

impl BadSnapshot {
    /// Advice for the user, if snapshots cannot be written.
    pub(crate) fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoSpace { .. } => Some(
                "free space on this disk: it is tried again with every snapshot. A process that dies before that takes the job \
                 back to the last snapshot",
            ),
            Self::NotWritable { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(
                "the folder was removed while the job runs. The job trains on, but cannot go on after a death: let the script \
                 save its model, end the job, and start it with another folder of snapshots",
            ),
            Self::NotWritable { .. } => {
                Some("make the folder writable: it is tried again with every snapshot")
            }
            _ => None,
        }
    }

    /// The error, if it is of a file that must be there: one that was removed is lost like one that is damaged.
    pub(crate) fn or_removed(self) -> Self {
        match self {
            Self::Unreadable { path, source } if source.kind() == io::ErrorKind::NotFound => {
                Self::Damaged { path, problem: "it was removed" }
            }
            other => other,
        }
    }

    /// The problem of a file, which this release knows in version `known`.
    pub(crate) fn of_file(path: &Path, problem: Problem, known: u32) -> Self {
        let path = path.to_path_buf();
        match problem {
            Problem::Unreadable(source) => Self::Unreadable { path, source },
            Problem::Damaged(problem) => Self::Damaged { path, problem },
            Problem::OtherVersion(version) => Self::Newer { path, version, known },
        }
    }

    /// The meaning of a disk error for a folder that is written to.
    pub(crate) fn writing(folder: &Path, source: io::Error) -> Self {
        let folder = folder.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::NoSpace { folder, source },
            _ => Self::NotWritable { folder, source },
        }
    }
}
