//! `ready`, `cut`, `want_cut` and `recall`: a trainer's part in a cut of the whole job.

use super::{Body, empty};
use crate::codec::{Blobs, Reader, Writer};
use crate::error::Result;

/// The trainer is between two steps, and everything it has sent was applied. Sent to the lead
/// server. Answered by [`StartCut`] when all trainers are ready, or by [`CancelCut`] when some were not in
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Which cut.
    pub cut: u64,
}

/// All trainers are ready: the cut is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartCut {
    /// Which cut.
    pub cut: u64,
}

/// This cut is cancelled: train on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelCut {
    /// Which cut.
    pub cut: u64,
}

/// Bytes of what a trainer gives to a cut, or gets back, that go in one message.
pub const PIECE_BYTES: usize = 16 << 20;

/// The trainer was sent into the cut: messages before this one are in the cut, messages after it are not.
/// Numbered, applied once. A large part comes in several messages: [`Given::pieces`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Which cut.
    pub cut: u64,
    /// The greatest cut that all servers have kept, as far as this trainer knows.
    pub complete: u64,
    /// The state that the trainer needs to continue from here. Sent to one server; empty for the others.
    pub state: Vec<u8>,
    /// The answers that its script received since the last cut, for a process that repeats the script. Sent to the same server.
    pub journal: Vec<u8>,
    /// More of this part follows.
    pub has_more: bool,
}

/// A trainer's contribution to a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// See [`Cut::state`].
    pub state: Vec<u8>,
    /// See [`Cut::journal`].
    pub journal: Vec<u8>,
}

impl Given {
    /// The messages for it, with at most so many bytes in each: at least one.
    pub fn pieces(
        mut self,
        cut: u64,
        complete: u64,
        n_bytes_max: usize,
    ) -> impl Iterator<Item = Cut> {
        let (n_bytes, n_state) = (self.state.len() + self.journal.len(), self.state.len());
        let n_pieces = n_bytes.div_ceil(n_bytes_max).max(1);
        (0..n_pieces).map(move |piece| {
            let has_more = piece + 1 < n_pieces;
            let (state, journal) = match n_pieces {
                // A small part is not copied.
                1 => (std::mem::take(&mut self.state), std::mem::take(&mut self.journal)),
                _ => {
                    let at = |piece: usize| (piece * n_bytes_max).min(n_bytes);
                    let (start, end) = (at(piece), at(piece + 1));
                    let state = &self.state[start.min(n_state)..end.min(n_state)];
                    let beyond = |at: usize| at.max(n_state) - n_state;
                    (state.to_vec(), self.journal[beyond(start)..beyond(end)].to_vec())
                }
            };
            Cut { cut, complete, state, journal, has_more }
        })
    }
}

/// Asks for a cut soon. Answered when it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantCut;

/// Asks for what this trainer gave to a cut: the one that the term began from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Which cut.
    pub cut: u64,
    /// How many bytes of it the trainer has already.
    pub from: u64,
}

/// A trainer's contribution to a cut, or a piece of it; empty for the first cut, or if the trainer gave nothing to this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// Bytes of the state that it gave to that cut.
    pub n_state: u64,
    /// Bytes of this state and of the journals of all cuts up to that one, in order.
    pub n_bytes: u64,
    /// Those of them that follow what the trainer has.
    pub bytes: Vec<u8>,
}

/// Puts together what a trainer gave.
#[derive(Clone, Debug, Default)]
pub struct Recollection {
    bytes: Vec<u8>,
}

impl Recollection {
    /// The next request.
    pub fn next(&self, cut: u64) -> Recall {
        Recall { cut, from: self.bytes.len() as u64 }
    }

    /// An answer came: all of it, if nothing is missing any more.
    pub fn add(&mut self, recalled: Recalled) -> Option<Given> {
        let Recalled { n_state, n_bytes, bytes } = recalled;
        let is_over = bytes.is_empty();
        self.bytes.extend(bytes);
        if !is_over && (self.bytes.len() as u64) < n_bytes {
            return None;
        }
        let mut state = std::mem::take(&mut self.bytes);
        let journal = state.split_off(usize::try_from(n_state).unwrap_or(0).min(state.len()));
        Some(Given { state, journal })
    }
}

empty!(WantCut);

macro_rules! named_cut {
    ($($body:ident),*) => {$(
        impl Body for $body {
            fn encode<'a>(&'a self, out: &mut Writer<'a>) {
                out.u64(self.cut);
            }

            fn decode(input: &mut Reader<'_>) -> Result<Self> {
                Ok(Self { cut: input.u64()? })
            }
        }
    )*};
}

named_cut!(Ready, StartCut, CancelCut);

impl Body for Cut {
    const IS_CHANGE: bool = true;

    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.cut);
        out.u64(self.complete);
        out.bytes(&self.state);
        out.bytes(&self.journal);
        out.u8(self.has_more.into());
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (cut, complete) = (input.u64()?, input.u64()?);
        let (state, journal) = (input.bytes()?, input.bytes()?);
        Ok(Self { cut, complete, state, journal, has_more: input.flag()? })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        blobs.extend([self.state.as_mut_slice(), self.journal.as_mut_slice()]);
    }
}

impl Body for Recall {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.cut);
        out.u64(self.from);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { cut: input.u64()?, from: input.u64()? })
    }
}

impl Body for Recalled {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.n_state);
        out.u64(self.n_bytes);
        out.bytes(&self.bytes);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (n_state, n_bytes) = (input.u64()?, input.u64()?);
        Ok(Self { n_state, n_bytes, bytes: input.bytes()? })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        blobs.push(&mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        survives(Ready { cut: 7 });
        let (state, journal) = (vec![1, 2], vec![3]);
        survives(Cut { cut: 7, complete: 5, state, journal, has_more: true });
        survives(Cut { cut: 7, complete: 5, ..Cut::default() });
        survives(WantCut);
        survives(Recall { cut: u64::MAX, from: 9 });
        answer_survives(StartCut { cut: 7 });
        answer_survives(CancelCut { cut: 8 });
        answer_survives(Recalled { n_state: 1, n_bytes: 1 << 40, bytes: vec![1, 2, 3] });
    }

    #[test]
    fn what_is_given_in_pieces_is_put_together_again() {
        for (n_state, n_journal) in [(0, 0), (5, 0), (0, 5), (7, 9), (64, 1), (1, 64)] {
            let numbers = |n: usize| (0..n).map(|at| at as u8).collect::<Vec<_>>();
            let given = Given { state: numbers(n_state), journal: numbers(n_journal) };
            for n_bytes_max in [1, 3, 16, 100] {
                let pieces: Vec<Cut> = given.clone().pieces(3, 2, n_bytes_max).collect();
                let (last, before) = pieces.split_last().unwrap();
                assert!(!last.has_more && before.iter().all(|piece| piece.has_more));
                let (mut together, mut gone) = (Recollection::default(), Vec::new());
                for piece in &pieces {
                    assert!(piece.state.len() + piece.journal.len() <= n_bytes_max);
                    gone.extend([&piece.state[..], &piece.journal[..]].concat());
                    let bytes = gone[together.next(3).from as usize..].to_vec();
                    let (n_state, n_bytes) = (n_state as u64, (n_state + n_journal) as u64);
                    let all = together.add(Recalled { n_state, n_bytes, bytes });
                    assert_eq!(all.is_some(), !piece.has_more);
                    assert!(all.is_none_or(|all| all == given));
                }
            }
        }
    }
}
