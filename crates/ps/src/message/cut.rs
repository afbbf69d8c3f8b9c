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

/// The trainer was told to go: what it sent before this is in the cut, what it sends after is not.
/// Numbered, applied once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which cut.
    pub cut: u64,
    /// The greatest cut that all servers have kept, as far as this trainer knows.
    pub complete: u64,
    /// What the trainer needs to continue from here. Sent to one server; empty for the others.
    pub state: Vec<u8>,
    /// What its script was answered since the last cut, for a process that repeats the script. Sent
    /// to the same server.
    pub journal: Vec<u8>,
}

/// Asks for a cut soon. Answered when it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantCut;

/// Asks for what this trainer gave to a cut: the one that the term began from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Which cut.
    pub cut: u64,
}

/// What a trainer gave; empty for the first cut, or if it gave nothing to this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// The state that it gave to that cut.
    pub state: Vec<u8>,
    /// The journals of all cuts up to that one, in order.
    pub journal: Vec<u8>,
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

named_cut!(Ready, StartCut, CancelCut, Recall);

impl Body for Cut {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.u64(self.cut);
        out.u64(self.complete);
        out.bytes(&self.state);
        out.bytes(&self.journal);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let (cut, complete) = (input.u64()?, input.u64()?);
        Ok(Self { cut, complete, state: input.bytes()?, journal: input.bytes()? })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        blobs.extend([self.state.as_mut_slice(), self.journal.as_mut_slice()]);
    }
}

impl Body for Recalled {
    fn encode<'a>(&'a self, out: &mut Writer<'a>) {
        out.bytes(&self.state);
        out.bytes(&self.journal);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { state: input.bytes()?, journal: input.bytes()? })
    }

    fn blobs<'a>(&'a mut self, blobs: &mut Blobs<'a>) {
        blobs.extend([self.state.as_mut_slice(), self.journal.as_mut_slice()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::check::{answer_survives, survives};

    #[test]
    fn survives_the_wire() {
        survives(Ready { cut: 7 });
        survives(Cut { cut: 7, complete: 5, state: vec![1, 2], journal: vec![3] });
        survives(Cut { cut: 7, complete: 5, state: Vec::new(), journal: Vec::new() });
        survives(WantCut);
        survives(Recall { cut: u64::MAX });
        answer_survives(StartCut { cut: 7 });
        answer_survives(CancelCut { cut: 8 });
        answer_survives(Recalled { state: vec![1], journal: vec![2, 3] });
    }
}
