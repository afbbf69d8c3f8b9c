//! How large a table would be if it were whole.

/// No process holds a whole table of more.
pub const WHOLE_BYTES_MAX: u64 = 1 << 40;

/// Bytes of the weights of a table of these sizes; the largest number if nobody can count them.
pub fn table_bytes(dims: &[i64]) -> u64 {
    let dims = dims.iter().map(|&dim| dim.max(0) as u64);
    dims.fold(size_of::<f32>() as u64, u64::saturating_mul)
}

/// A table that would have to be whole, and is too large for that.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
#[error(
    "table `{table}` would take {} GiB, because {why}: it cannot be kept row by row; use \
     another optimizer or initializer, or fewer rows",
    n_bytes >> 30
)]
pub struct TableTooLarge {
    pub table: String,
    pub n_bytes: u64,
    pub why: String,
}
