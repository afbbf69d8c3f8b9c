//! Errors of a server.

use base::BadEndpoint;
use wire::Refusal;

use crate::bad_snapshot::BadSnapshot;

/// Everything that can go wrong in this crate.
#[derive(thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
pub enum Error {
    /// Of a run, a file or a connection.
    #[error(transparent)]
    Train(#[from] train::Error),

    /// Why a server ended although trainers had not completed.
    #[error("{0}")]
    JobFailed(Refusal),

    #[error("this server stood by for {seconds} s, and nobody told it to serve")]
    StoodBy { seconds: u64 },

    #[error(transparent)]
    Snapshot(#[from] BadSnapshot),

    #[error(
        "distributed table `{table}` cannot be loaded on server {server}: {detail}; all files of \
         one save must be there, and of no other"
    )]
    LoadedTable { table: String, server: i64, detail: String },

    #[error(
        "table `{table}` was not saved: the servers went back to a cut while it was listed; it is saved \
         when the script does so again"
    )]
    SaveGivenUp { table: String },

    #[error(
        "`{attr}` of `listen_and_serv` says `{words}`, which is not a rule for the rows of a table"
    )]
    RowRule { attr: &'static str, words: String },
}

impl From<program::Error> for Error {
    fn from(error: program::Error) -> Self {
        Error::Train(error.into())
    }
}

impl From<tensor::Error> for Error {
    fn from(error: tensor::Error) -> Self {
        Error::Train(error.into())
    }
}

impl From<wire::Error> for Error {
    fn from(error: wire::Error) -> Self {
        Error::Train(error.into())
    }
}

impl From<BadEndpoint> for Error {
    fn from(bad: BadEndpoint) -> Self {
        Error::Train(bad.into())
    }
}

/// Reads like `Display`: a `main` that returns it prints a sentence.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
