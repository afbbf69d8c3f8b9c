//! Errors of predictions.

use base::DidYouMean;
use tensor::DType;

/// A prediction that cannot be made, or a server that cannot be started.
#[derive(thiserror::Error)]
pub enum Error {
    /// The model cannot be loaded or run.
    #[error(transparent)]
    Train(#[from] train::Error),

    /// A table does not have the columns that the model was trained on, or its folder is damaged.
    #[error(transparent)]
    Table(#[from] ctr::Error),

    /// The model does not know columns of a table.
    #[error("the model is fed slots, not the columns of a table: {} was not saved by CTR", dir.display())]
    NoEncoding {
        /// Its folder.
        dir: std::path::PathBuf,
    },

    /// A name that the model does not have.
    #[error("the model has no slot `{slot}`.{near} It has: {}", known.join(", "))]
    UnknownSlot {
        /// The name that was given.
        slot: String,
        /// Perhaps this was meant.
        near: DidYouMean,
        /// The slots of the model.
        known: Vec<String>,
    },

    /// A slot was not given.
    #[error("slot `{slot}` is missing")]
    MissingSlot {
        /// Which one.
        slot: String,
    },

    /// Numbers of another type.
    #[error("slot `{slot}` takes {expected}, but got {actual}")]
    WrongType {
        /// The slot.
        slot: String,
        /// The type of the slot.
        expected: DType,
        /// The type that was given.
        actual: String,
    },

    /// Too many or too few numbers.
    #[error("slot `{slot}`: {problem}")]
    WrongLength {
        /// The slot.
        slot: String,
        /// The reason.
        problem: String,
    },

    /// Slots of different numbers of samples.
    #[error("slot `{slot}` has {actual} samples, but slot `{first}` has {expected}")]
    SampleCount {
        /// The slot.
        slot: String,
        /// Its samples.
        actual: usize,
        /// The slot that it must agree with.
        first: String,
        /// The samples of that one.
        expected: usize,
    },

    /// A number that is not finite.
    #[error("slot `{slot}` has a number that is not finite, in sample {sample}")]
    NotFinite {
        /// The slot.
        slot: String,
        /// Where, from 0.
        sample: usize,
    },

    /// There is no sample.
    #[error("there is nothing to predict: no sample was given")]
    NoSamples,

    /// An id without a row in its table.
    #[error("slot `{slot}`: the id {} is not a row of a table of {height} rows", program::id_text(*id))]
    IdOutOfRange {
        /// The slot.
        slot: String,
        /// The id.
        id: i64,
        /// Rows of the table.
        height: i64,
    },

    /// A slot that cannot be fed as a column.
    #[error(
        "a sample of slot `{slot}` has the shape {dims:?}, which is not fixed: give it as a tensor"
    )]
    NoColumn {
        /// The variable.
        slot: String,
        /// The shape of a sample.
        dims: Vec<i64>,
    },

    /// The port cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: std::io::Error,
    },

    /// A thread could not be started, or a similar failure of the system.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// Reads like `Display`: a `main` that returns it prints a sentence.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the request is to blame, and not the model or the machine.
    pub fn is_of_request(&self) -> bool {
        !matches!(self, Error::Train(_) | Error::Listen { .. } | Error::System { .. })
    }
}
