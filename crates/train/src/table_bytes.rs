//! How large a table would be if it were whole.

/// No process holds a whole table of more.
pub(crate) const WHOLE_BYTES_MAX: u64 = 1 << 40;

/// Bytes of the weights of a table of these sizes; the largest number if nobody can count them.
pub(crate) fn table_bytes(dims: &[i64]) -> u64 {
    let dims = dims.iter().map(|&dim| dim.max(0) as u64);
    dims.fold(size_of::<f32>() as u64, u64::saturating_mul)
}
