//! Bytes in pieces that several owners share.

use std::ops::Range;
use std::sync::Arc;

/// Bytes in pieces. To pass them on costs nothing, however many they are.
#[derive(Clone, Debug, Default)]
pub struct Chunks(Vec<Arc<Vec<u8>>>);

impl Chunks {
    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.0.push(Arc::new(bytes));
        }
    }

    /// Adds all of another at the end.
    pub fn append(&mut self, other: &Chunks) {
        self.0.extend(other.0.iter().cloned());
    }

    /// How many bytes there are.
    pub fn n_bytes(&self) -> usize {
        self.0.iter().map(|chunk| chunk.len()).sum()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pieces, in order.
    pub fn slices(&self) -> Vec<&[u8]> {
        self.0.iter().map(|chunk| chunk.as_slice()).collect()
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices().concat()
    }

    /// A copy of some bytes; what is beyond the end is left out.
    pub fn range(&self, range: Range<usize>) -> Vec<u8> {
        let (mut bytes, mut first) = (Vec::new(), 0);
        for chunk in &self.0 {
            let within = |at: usize| at.clamp(first, first + chunk.len()) - first;
            bytes.extend_from_slice(&chunk[within(range.start)..within(range.end)]);
            first += chunk.len();
        }
        bytes
    }
}

impl From<Vec<u8>> for Chunks {
    fn from(bytes: Vec<u8>) -> Self {
        let mut chunks = Self::default();
        chunks.push(bytes);
        chunks
    }
}

/// Equal bytes, however they are cut into pieces.
impl PartialEq for Chunks {
    fn eq(&self, other: &Self) -> bool {
        self.to_vec() == other.to_vec()
    }
}

impl Eq for Chunks {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_string_of_bytes() {
        let mut chunks = Chunks::from(vec![1, 2, 3]);
        chunks.push(Vec::new());
        chunks.push(vec![4]);
        chunks.append(&Chunks::from(vec![5, 6]));
        assert_eq!((chunks.n_bytes(), chunks.slices().len()), (6, 3));
        assert_eq!(chunks, Chunks::from(vec![1, 2, 3, 4, 5, 6]));
        for (start, end) in [(0, 6), (2, 5), (3, 4), (4, 90), (6, 6), (9, 12)] {
            let all = [1, 2, 3, 4, 5, 6];
            assert_eq!(chunks.range(start..end), all[start.min(6)..end.min(6)]);
        }
        assert!(Chunks::from(Vec::new()).is_empty());
    }
}
