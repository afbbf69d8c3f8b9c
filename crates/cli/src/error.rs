//! Errors of commands.

use std::io;

/// The result of a command.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// An error of a command; the crates that do the work have the words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
    #[error(transparent)]
    Data(#[from] data::Error),
    #[error(transparent)]
    Export(#[from] export::Error),
    #[error(transparent)]
    Predict(#[from] predict::Error),
    #[error(transparent)]
    Ctr(#[from] ctr::Error),
    /// Standard output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    /// An option that is for other engines.
    #[error("{option} is not for jobs on {engine}")]
    NotOn { option: &'static str, engine: &'static str },
}

impl Error {
    /// Whether the words of the command make no sense.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::Fleet(fleet::Error::Usage(_))
                | Error::Data(data::Error::Usage { .. })
                | Error::Export(export::Error::Usage(_))
                | Error::NotOn { .. }
        )
    }
}
