//! Rows of a sparse table that exist only once somebody asked for them.
//!
//! A table of ten million rows costs what its touched rows cost: rows live one after another in
//! slabs (one for the weights, one for each state of the optimizer), and an index says where. A new
//! row depends on the table's seed and the row's number alone: not on who asked first, nor on how
//! many servers there are; where the seed is the program's, it holds what a whole table would.
//!
//! A table may have an entry rule: rows that are not wanted yet read as zeros and do not learn.

mod entry;
mod hash;
mod index;
mod init;

pub use entry::{Entry, Gate};
pub use hash::KeyMap;
pub use index::RowIndex;
pub use init::{RowInit, Spread};

/// Scatters the bits of a number (the finalizer of SplitMix64): equal everywhere, always.
fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
