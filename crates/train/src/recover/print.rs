//! The identity of an event, in a few bytes: two runs of a script are compared by it.

use tensor::{Tensor, mix};

/// The kind of request of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// One run of a program.
    Run,
    /// A pass over a dataset.
    Pass,
    /// All trainers waited for each other.
    AllGather,
    /// All trainers gave parts of their data to each other.
    AllToAll,
    /// A model was saved.
    Save,
    /// This trainer was through with its job.
    Complete,
}

impl EventKind {
    const ALL: [(EventKind, &'static str); 6] = [
        (EventKind::Run, "a run"),
        (EventKind::Pass, "a pass over a dataset"),
        (EventKind::AllGather, "an all-gather of all trainers"),
        (EventKind::AllToAll, "an exchange between all trainers"),
        (EventKind::Save, "a save"),
        (EventKind::Complete, "the end of the job"),
    ];

    pub(super) fn code(self) -> u8 {
        Self::ALL.iter().position(|(kind, _)| *kind == self).unwrap_or(0) as u8
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).map(|(kind, _)| *kind)
    }

    /// For messages.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL[usize::from(self.code())].1
    }
}

/// The identity of an event: equal if a script does the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventPrint {
    pub(crate) kind: EventKind,
    /// Of names: what was fed and fetched, where it was saved.
    pub(crate) names: u64,
    /// A digest of the values that were fed.
    pub(crate) values: u64,
}

impl EventPrint {
    /// Of something that has no values.
    pub(crate) fn named(kind: EventKind, name: &str) -> Self {
        Self { kind, names: digest(0, name.as_bytes()), values: 0 }
    }

    /// As a journal has it: of the digest of values 16 bits are kept. A script that feeds something else is found by its
    /// first events, if not by the very first.
    pub(super) fn kept(self) -> Self {
        let Self { kind, names, values } = self;
        let folded = values ^ values >> 16 ^ values >> 32 ^ values >> 48;
        Self { kind, names, values: folded & 0xffff }
    }
}

/// A number that almost certainly differs if bytes differ; the same in every process.
pub(crate) fn digest(before: u64, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lanes = [before, before ^ ODD, !before, before.wrapping_add(ODD)];
    let (words, rest) = bytes.as_chunks::<8>();
    let (blocks, words) = words.as_chunks::<4>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block) {
            *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(ODD).rotate_left(29);
        }
    }
    let mut sum = mix(bytes.len() as u64);
    lanes.iter().for_each(|lane| sum = mix(sum ^ lane));
    words.iter().for_each(|word| sum = mix(sum ^ u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum ^ u64::from(*byte)))
}

/// The digest of a tensor: its type, shape, sequences and elements.
pub(crate) fn digest_tensor(before: u64, tensor: &Tensor) -> u64 {
    let mut sum = mix(before ^ tensor.dtype().code() as u64);
    tensor.dims().iter().for_each(|&dim| sum = mix(sum ^ dim as u64));
    for offsets in tensor.lod().levels() {
        sum = offsets.iter().fold(mix(sum), |sum, &offset| mix(sum ^ offset as u64));
    }
    digest(sum, tensor.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::Lod;

    #[test]
    fn one_bit_makes_a_difference_wherever_it_is() {
        let bytes: Vec<u8> = (0..77).map(|at| at * 3).collect();
        let whole = digest(1, &bytes);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(digest(1, &other), whole, "byte {at}");
            assert_ne!(digest(1, &bytes[..at]), whole);
        }
        assert_ne!(digest(2, &bytes), whole);
        // Journals of running jobs depend on it.
        assert_eq!(digest(0, b"0123456789abcdef0123456789abcdef!"), 0x0126_d53e_425a_46d6);
    }

    #[test]
    fn shapes_and_sequences_count() {
        let tensor = Tensor::new([2, 3], &[1.0f32; 6]).unwrap();
        let mut ragged = tensor.clone();
        ragged.set_lod(Lod::from_lengths([2]));
        let flat = Tensor::new([6], &[1.0f32; 6]).unwrap();
        let prints = [&tensor, &ragged, &flat].map(|tensor| digest_tensor(0, tensor));
        assert!(prints[0] != prints[1] && prints[0] != prints[2]);
    }

    #[test]
    fn every_kind_has_a_number() {
        for (kind, _) in EventKind::ALL {
            assert_eq!(EventKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(EventKind::from_code(99), None);
    }
}
