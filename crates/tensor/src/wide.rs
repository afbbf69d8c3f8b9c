//! Loops compiled for the vector width of the processor at hand.

/// Runs a loop over slices in a copy of it that was compiled for this processor's widest vectors.
///
/// Only the width changes: no multiplication and addition are joined, so the bits are the same.
#[inline(always)]
pub fn wide<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}
