//! `all_to_all`: every trainer gives every other a part, and gets one of each.

use std::sync::Arc;

use super::Body;
use crate::codec::{Blobs, Reader, Writer};
use crate::error::Result;

/// The most bytes of all parts of all trainers in one exchange: a server holds them all.
pub const ALL_TO_ALL_BYTES_MAX: usize = 64 << 20;
/// A part may always have this many bytes, for any number of trainers.
const PART_BYTES_MIN: usize = 64;

/// Answered by [`AllToAllResult`] when every trainer has said the same `(purpose, turn)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllToAll {
    /// The purpose.
    pub purpose: String,
    /// How often this trainer has exchanged before.
    pub turn: u64,
    /// The bytes for each trainer, in the order of ranks.
    pub parts: Vec<Vec<u8>>,
}

impl AllToAll {
    /// The most bytes of a part, with this many trainers. Larger ones are sent in several
    /// exchanges.
    pub fn part_bytes_max(n_trainers: usize) -> usize {
        let n_parts = n_trainers.saturating_mul(n_trainers).max(1);
        (ALL_TO_ALL_BYTES_MAX / n_parts).max(PART_BYTES_MIN)
    }
}

impl Body for AllToAll {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.str(&self.purpose);
        out.u64(self.turn);
        encode_parts(&self.parts, out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { purpose: input.str()?, turn: input.u64()?, parts: decode_parts(input)? })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        blobs.extend(self.parts.iter_mut().map(Vec::as_mut_slice));
    }
}

/// The bytes from each trainer for this one, in the order of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllToAllResult(pub Arc<Vec<Vec<u8>>>);

impl Body for AllToAllResult {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        encode_parts(&self.0, out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self(Arc::new(decode_parts(input)?)))
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        // A value that was just read is not shared yet.
        let parts = Arc::get_mut(&mut self.0).into_iter().flatten();
        blobs.extend(parts.map(Vec::as_mut_slice));
    }
}

fn encode_parts<'a>(parts: &'a [Vec<u8>], out: &mut Writer<'a>) {
    out.count(parts.len());
    parts.iter().for_each(|part| out.bytes(part));
}

fn decode_parts(input: &mut Reader<'_>) -> Result<Vec<Vec<u8>>> {
    (0..input.count()?).map(|_| input.bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        let parts = vec![vec![1], Vec::new(), vec![3, 4]];
        survives(AllToAll { purpose: "shuffle".to_string(), turn: 2, parts: parts.clone() });
        answer_survives(AllToAllResult(Arc::new(parts)));
    }

    #[test]
    fn a_server_can_hold_what_it_is_given() {
        for n_trainers in [0, 1, 2, 10, 500] {
            let n_bytes = AllToAll::part_bytes_max(n_trainers) * n_trainers * n_trainers;
            assert!(n_bytes <= ALL_TO_ALL_BYTES_MAX, "{n_trainers} trainers: {n_bytes} bytes");
        }
        assert_eq!(AllToAll::part_bytes_max(usize::MAX), PART_BYTES_MIN);
    }
}
