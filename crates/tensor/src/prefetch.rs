//! Asks for memory before it is needed: random rows of a large table miss every cache, and waiting
//! for one at a time halves the speed of a gather.
#![allow(unsafe_code)]

/// Starts loading the cache line of `data[index]`. Any index is allowed; one outside does nothing.
#[inline(always)]
pub fn prefetch<T>(data: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault; the address is only computed.
        unsafe { _mm_prefetch(data.as_ptr().wrapping_add(index).cast(), _MM_HINT_T0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, index);
}

/// Starts loading a row of `width` elements: its first cache line and its last, which is another
/// one as often as not. The processor itself guesses the lines between in a wide row.
#[inline(always)]
pub fn prefetch_row<T>(data: &[T], row: usize, width: usize) {
    prefetch(data, row.wrapping_mul(width));
    prefetch(data, row.wrapping_mul(width).wrapping_add(width.saturating_sub(1)));
}
