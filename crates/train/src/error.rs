//! What can go wrong while a program is prepared or run.

use tensor::DType;

/// A fact about a run that does not hold.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
pub enum Error {
    /// Something inside the program.
    #[error(transparent)]
    Program(#[from] program::Error),

    #[error(transparent)]
    Tensor(#[from] tensor::Error),

    #[error("The variable {var} is not found in program. It is not declared or is pruned.")]
    FeedNotDeclared { var: String },

    #[error("feed `{var}` is declared with shape {declared:?}, but {fed:?} was fed")]
    FeedShape { var: String, declared: Vec<i64>, fed: Vec<i64> },

    #[error("feed `{var}` is declared as {declared}, but {fed} was fed")]
    FeedDType { var: String, declared: DType, fed: DType },

    #[error("feed `{var}` holds {actual}; give it a tensor")]
    FeedEmpty { var: String, actual: &'static str },

    #[error("Input variable({var}) cannot be found in scope for operator 'Fetch'.")]
    FetchUnknown { var: String },

    #[error("fetch variable `{var}` is declared, but no op of the program writes it")]
    FetchNotComputed { var: String },

    #[error("fetch variable `{var}` holds {actual}, which cannot be fetched: only tensors can")]
    FetchKind { var: String, actual: &'static str },

    #[error("the run was interrupted before op {index} (`{op}`) of block {block}")]
    Interrupted { block: usize, index: usize, op: String },
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
