//! Errors of numbers alone.

use crate::{DType, Shape};

/// A fact about tensors that does not hold.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Fluid's users know this sentence; see the contract, section 1.9.
    #[error("Tensor holds the wrong type, it holds {actual}, but desires to be {expected}.")]
    DTypeMismatch {
        /// The type that the reader asked for.
        expected: DType,
        /// The type that the tensor holds.
        actual: DType,
    },

    /// Two shapes that had to agree do not.
    #[error("expected shape {expected} but got {actual}")]
    ShapeMismatch {
        /// The shape that was needed.
        expected: Shape,
        /// The shape that was given.
        actual: Shape,
    },

    /// The number of elements does not fill the shape.
    #[error("shape {shape} needs {expected} elements but got {actual}")]
    Length {
        /// The shape to fill.
        shape: Shape,
        /// Elements the shape needs.
        expected: usize,
        /// Elements given.
        actual: usize,
    },

    /// A shape has more dimensions than this library holds.
    #[error("a tensor of rank {rank} is beyond the limit of {max}", max = crate::RANK_MAX)]
    RankTooHigh {
        /// The rank asked for.
        rank: usize,
    },

    /// A number that is not the code of a data type.
    #[error("data type code {0} is not known")]
    UnknownDType(i64),

    /// The product of the dimensions does not fit in memory.
    #[error("shape {0:?} has more elements than memory can address")]
    TooManyElements(Vec<i64>),

    /// The system has not so much memory.
    #[error(
        "there is no memory for a tensor of shape {shape}, {} GiB; only tables on servers may be \
         larger than memory",
        n_bytes >> 30
    )]
    NoRoom {
        /// The shape asked for.
        shape: Shape,
        /// The bytes of that shape.
        n_bytes: usize,
    },

    /// The system has not so much memory left.
    #[error(
        "there is no memory for {} MB more; use smaller batches or a smaller model, or a machine with more memory",
        n_bytes.div_ceil(1_000_000)
    )]
    NoMemory {
        /// The bytes that were asked for.
        n_bytes: usize,
    },

    /// Offsets that do not describe sequences.
    #[error("the provided lod info is invalid: {0}")]
    BadLod(String),

    /// A row id outside of the table.
    #[error("row {row} is outside of a table of {height} rows")]
    RowOutOfRange {
        /// The id.
        row: i64,
        /// Rows of the table.
        height: i64,
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
