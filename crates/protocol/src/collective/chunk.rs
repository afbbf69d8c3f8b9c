//! Which elements of a value go where: the same on all trainers, from the size alone.

use std::ops::Range;

use tensor::Collective;

/// A value travels in chunks of at most so many bytes: one is added up while the next is on its way.
pub const CHUNK_BYTES: usize = 512 << 10;
/// A value of at most so many bytes goes whole to everybody. That is more bytes and half the waiting.
pub const WHOLE_BYTES_MAX: usize = 32 << 10;

/// Some elements that travel together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Which.
    pub(super) elements: Range<usize>,
    /// The rank that adds them up and sends the sum to the others. None: every rank adds them up.
    pub(super) owner: Option<u32>,
}

/// The size of a value, and of the numbers in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueSize {
    pub(super) n_elements: usize,
    pub(super) element_bytes: usize,
}

/// The chunks of a value that `n` trainers exchange.
pub(super) fn chunks(collective: Collective, n: u32, extent: ValueSize) -> Vec<Chunk> {
    let ValueSize { n_elements, element_bytes } = extent;
    let is_small = n == 2 || n_elements * element_bytes <= WHOLE_BYTES_MAX;
    let mut chunks = Vec::new();
    let mut cut = |range: Range<usize>, owner| {
        let width = (CHUNK_BYTES / element_bytes.max(1)).max(1);
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + width);
            chunks.push(Chunk { elements: start..end, owner });
            start = end;
        }
    };
    match collective {
        Collective::Broadcast { root } => cut(0..n_elements, Some(root)),
        Collective::AllReduce(_) if is_small => cut(0..n_elements, None),
        _ => {
            for rank in 0..n {
                cut(segment(rank, n, n_elements), Some(rank));
            }
        }
    }
    chunks
}

/// The part of a value that a trainer adds up.
pub(super) fn segment(rank: u32, n: u32, n_elements: usize) -> Range<usize> {
    let at = |rank: u32| (n_elements as u128 * u128::from(rank) / u128::from(n.max(1))) as usize;
    at(rank)..at(rank + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::ReduceOp;

    fn cut(collective: Collective, n: u32, n_elements: usize) -> Vec<Chunk> {
        chunks(collective, n, ValueSize { n_elements, element_bytes: 4 })
    }

    #[test]
    fn chunks_cover_a_value_once() {
        let sum = Collective::AllReduce(ReduceOp::Sum);
        for (collective, n, n_elements) in [
            (sum, 2, 1 << 20),
            (sum, 3, 1_000_003),
            (sum, 5, 7),
            (sum, 4, 0),
            (Collective::Broadcast { root: 1 }, 3, 300_000),
            (Collective::ReduceScatter(ReduceOp::Sum), 3, 99),
        ] {
            let mut end = 0;
            for chunk in cut(collective, n, n_elements) {
                assert_eq!(chunk.elements.start, end);
                assert!(chunk.elements.len() * 4 <= CHUNK_BYTES && !chunk.elements.is_empty());
                end = chunk.elements.end;
            }
            assert_eq!(end, n_elements, "{collective:?} of {n}");
        }
    }

    #[test]
    fn large_values_are_added_up_in_parts() {
        let sum = Collective::AllReduce(ReduceOp::Sum);
        assert!(cut(sum, 3, 100).iter().all(|chunk| chunk.owner.is_none()), "small: everybody");
        let owners: Vec<_> = cut(sum, 3, 30_000).iter().map(|chunk| chunk.owner).collect();
        assert_eq!(owners, [Some(0), Some(1), Some(2)]);
    }
}
