//! One error for programs that use several of the crates.

/// The result of a program that uses this package.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong in any of the crates. `Debug` prints the sentence, so that
/// `fn main() -> paddlewheel::Result<()>` ends with it.
///
/// ```
/// let error = paddlewheel::Error::from("no such mode".to_string());
/// assert_eq!(format!("{error:?}"), "no such mode");
/// ```
#[derive(thiserror::Error)]
pub enum Error {
    /// Of numbers.
    #[error(transparent)]
    Tensor(#[from] tensor::Error),
    /// Of a program under construction.
    #[error(transparent)]
    Program(#[from] program::Error),
    /// Of data that is read.
    #[error(transparent)]
    Data(#[from] data::Error),
    /// Of the connection to servers.
    #[error(transparent)]
    Ps(#[from] wire::Error),
    /// Of a program that is split over servers.
    #[error(transparent)]
    Transpile(#[from] transpile::Error),
    /// Of a run or a file.
    #[error(transparent)]
    Train(#[from] train::Error),
    /// Of a server.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// Of a job.
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
    /// Of a prediction or a server of predictions.
    #[error(transparent)]
    Predict(#[from] predict::Error),
    /// Of a click-through model.
    #[error(transparent)]
    Ctr(#[from] ctr::Error),
    /// Of the caller's own.
    #[error("{0}")]
    Other(String),
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Error::Other(text)
    }
}
