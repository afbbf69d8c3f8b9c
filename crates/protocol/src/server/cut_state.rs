//! The bytes that a server keeps with a cut beside its data: the state of the protocol, and the
//! contributions of trainers.
//!
//! `version u32`, the protocol (`length u64`, bytes), `count u32`, and for each trainer that gave
//! something: `rank u32`, `length u64`, bytes. A journal is a list of the same entries without a count.

use std::collections::BTreeMap;

use base::bytes::{ByteReader, ByteWriter};
use base::formats::CUT_STATE;
use wire::codec::{Blobs, Destination, Reader, Writer};
use wire::message::{Body, Push, Stats};
use wire::{Error, Result, TrainerId};

use crate::chunks::Chunks;

/// Why a trainer is not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Completed,
    Left,
}

/// Where the protocol stood at a cut.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Protocol {
    /// Rounds that were applied.
    pub(super) applied: u64,
    /// Counters of what was applied.
    pub(super) stats: Stats,
    /// Trainers that are not waited for.
    pub(super) gone: Vec<(TrainerId, Gone)>,
    /// Closed parts of rounds that were not applied yet, in their order.
    pub(super) parts: Vec<(TrainerId, Vec<Push>)>,
}

impl Body for Protocol {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.applied);
        self.stats.encode(out);
        out.count(self.gone.len());
        for (trainer, gone) in &self.gone {
            out.u32(trainer.0);
            out.u8((*gone == Gone::Left).into());
        }
        out.count(self.parts.len());
        for (trainer, parts) in &self.parts {
            out.u32(trainer.0);
            out.count(parts.len());
            parts.iter().for_each(|part| part.encode(out));
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (applied, stats) = (input.u64()?, Stats::decode(input)?);
        let gone = |input: &mut Reader<'_>| -> Result<(TrainerId, Gone)> {
            let trainer = TrainerId(input.u32()?);
            Ok((trainer, if input.flag()? { Gone::Left } else { Gone::Completed }))
        };
        let gone = (0..input.count()?).map(|_| gone(input)).collect::<Result<_>>()?;
        let part = |input: &mut Reader<'_>| -> Result<(TrainerId, Vec<Push>)> {
            let (trainer, n) = (TrainerId(input.u32()?), input.count()?);
            Ok((trainer, (0..n).map(|_| Push::decode(input)).collect::<Result<_>>()?))
        };
        let parts = (0..input.count()?).map(|_| part(input)).collect::<Result<_>>()?;
        Ok(Self { applied, stats, gone, parts })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        let parts = self.parts.iter_mut().flat_map(|(_, parts)| parts);
        parts.for_each(|part| part.blobs(blobs));
    }
}

impl Protocol {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.encode(&mut out);
        let mut bytes = ByteWriter::default();
        bytes.bytes(&out.meta.0);
        out.blobs.iter().fold(&mut bytes, |bytes, blob| bytes.raw(blob));
        bytes.0
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut bytes = ByteReader::new(bytes);
        let meta = bytes.bytes()?;
        let mut pool = tensor::Pool::default();
        let mut input = Reader::new(meta, bytes.n_left(), Destination::new(&mut pool));
        let mut protocol = Self::decode(&mut input)?;
        input.finish()?;
        let mut blobs = Blobs::new();
        protocol.blobs(&mut blobs);
        for blob in blobs {
            blob.copy_from_slice(bytes.take(blob.len())?);
        }
        Ok(protocol)
    }
}

/// The state that a server keeps with a cut.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CutState {
    pub(super) protocol: Protocol,
    /// The contribution of each trainer.
    pub(super) states: Vec<(TrainerId, Chunks)>,
}

impl CutState {
    /// Contributions of trainers are not copied.
    pub(super) fn to_chunks(&self) -> Chunks {
        let protocol = self.protocol.to_bytes();
        let n = self.states.iter().filter(|(_, state)| !state.is_empty()).count();
        let mut bytes = ByteWriter::default();
        bytes.u32(CUT_STATE.version).bytes(&protocol).count_u32(n);
        let mut chunks = Chunks::from(bytes.0);
        self.states.iter().for_each(|(trainer, state)| add_chunks(&mut chunks, *trainer, state));
        chunks
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes = &mut ByteReader::new(bytes);
        if !CUT_STATE.can_read(bytes.u32()?) {
            return Err(Error::Malformed("a cut of another version"));
        }
        let protocol = Protocol::from_bytes(bytes.bytes()?)?;
        let states = bytes
            .list(|bytes| entry(bytes).map(|(trainer, state)| (trainer, state.to_vec().into())))?;
        bytes.end()?;
        Ok(Self { protocol, states })
    }
}

/// Adds what a trainer gave to a journal, or to what a cut keeps; nothing is not added.
pub(super) fn add_entry(bytes: &mut Vec<u8>, trainer: TrainerId, given: &[u8]) {
    if given.is_empty() {
        return;
    }
    let mut entry = ByteWriter(std::mem::take(bytes));
    entry.u32(trainer.0).bytes(given);
    *bytes = entry.0;
}

/// The same, without a copy.
pub(super) fn add_chunks(chunks: &mut Chunks, trainer: TrainerId, given: &Chunks) {
    if !given.is_empty() {
        let mut head = ByteWriter::default();
        head.u32(trainer.0).count(given.n_bytes());
        chunks.push(head.0);
        chunks.append(given);
    }
}

/// A trainer's contribution to a journal, all of it.
pub(super) fn journal_of(journal: &[u8], trainer: TrainerId) -> Result<Vec<u8>> {
    let own = entries(journal)?.into_iter().filter(|(of, _)| *of == trainer);
    Ok(own.flat_map(|(_, given)| given).copied().collect())
}

/// A journal with what each trainer gave made smaller, which `smaller` does; none if that cannot be.
pub fn compacted(journal: &[u8], smaller: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut given: BTreeMap<TrainerId, Vec<u8>> = BTreeMap::new();
    for (trainer, part) in entries(journal).ok()? {
        given.entry(trainer).or_default().extend_from_slice(part);
    }
    let mut all = Vec::new();
    for (trainer, given) in given {
        add_entry(&mut all, trainer, &smaller(&given)?);
    }
    Some(all)
}

/// The contributions of trainers to a journal, in its order.
pub(super) fn entries(journal: &[u8]) -> Result<Vec<(TrainerId, &[u8])>> {
    let (mut journal, mut all) = (ByteReader::new(journal), Vec::new());
    while !journal.is_empty() {
        all.push(entry(&mut journal)?);
    }
    Ok(all)
}

fn entry<'a>(bytes: &mut ByteReader<'a>) -> Result<(TrainerId, &'a [u8])> {
    Ok((TrainerId(bytes.u32()?), bytes.bytes()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::{Tensor, Value};
    use wire::VarId;
    use wire::message::Grad;

    fn kept() -> CutState {
        let value = Value::Tensor(Tensor::full([3], 0.5f32));
        let grad = || Grad { var: VarId(3), value: value.clone() };
        let part = || Push::new(vec![grad()]);
        let stats = Stats { pushes: 7, ..Stats::default() };
        let gone = vec![(TrainerId(1), Gone::Completed), (TrainerId(2), Gone::Left)];
        let parts = vec![(TrainerId(1), vec![part(), part()])];
        let states = vec![(TrainerId(0), vec![1, 2, 3].into()), (TrainerId(2), vec![4].into())];
        CutState { protocol: Protocol { applied: 9, stats, gone, parts }, states }
    }

    #[test]
    fn what_is_kept_is_read_again_and_nothing_else() {
        for kept in [kept(), CutState::default()] {
            let bytes = kept.to_chunks().to_vec();
            assert_eq!(CutState::from_bytes(&bytes).unwrap(), kept);
            for n in 0..bytes.len() {
                assert!(CutState::from_bytes(&bytes[..n]).is_err(), "the first {n} bytes passed");
            }
            let longer = [bytes.as_slice(), &[0]].concat();
            assert!(CutState::from_bytes(&longer).is_err());
        }
    }

    #[test]
    fn damaged_bytes_are_an_error_or_something_else_but_no_panic() {
        let bytes = kept().to_chunks().to_vec();
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                let _ = CutState::from_bytes(&bytes);
            }
        }
    }

    #[test]
    fn journals_are_one_after_the_other() {
        let mut journal = Vec::new();
        for (trainer, given) in [(0, [1, 2]), (1, [8, 8]), (0, [3, 4])] {
            add_entry(&mut journal, TrainerId(trainer), &given);
        }
        let mut chunks = Chunks::default();
        add_chunks(&mut chunks, TrainerId(5), &Chunks::default());
        for (trainer, given) in [(0, [1, 2]), (1, [8, 8]), (0, [3, 4])] {
            add_chunks(&mut chunks, TrainerId(trainer), &given.to_vec().into());
        }
        assert_eq!(chunks.to_vec(), journal);
        assert_eq!(journal_of(&journal, TrainerId(0)).unwrap(), [1, 2, 3, 4]);
        assert_eq!(journal_of(&journal, TrainerId(5)).unwrap(), []);
        assert!(journal_of(&journal[..journal.len() - 1], TrainerId(0)).is_err());
        let last = |given: &[u8]| given.last().map(|&last| vec![last]);
        let small = compacted(&journal, &last).unwrap();
        assert_eq!(journal_of(&small, TrainerId(0)).unwrap(), [4]);
        assert_eq!(journal_of(&small, TrainerId(1)).unwrap(), [8]);
        assert_eq!(compacted(&journal, &|_| None), None);
        assert_eq!(compacted(&journal[1..], &last), None);
    }
}
