//! `ready`, `cut`, `want_cut` and `recall`: a trainer's part in a cut of the whole job.

use super::{Body, empty};
use crate::codec::{Blobs, Reader, Writer};
use crate::error::Result;

/// The trainer is at a step's boundary, and all it has sent was served. Asked of the server that leads;
/// answered by [`Go`] when all trainers are, or by [`Cancel`] when not all were in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Which cut.
    pub cut: u64,
}

/// All trainers are ready: the cut is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Go {
    /// Which cut.
    pub cut: u64,
}

/// There will be no such cut: train on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Which cut.
    pub cut: u64,
}

/// The trainer was told to go: what came before this is in the cut, what comes after is not. Numbered,
/// served once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which cut.
    pub cut: u64,
    /// The greatest cut that all servers have kept, as far as this trainer knows.
    pub complete: u64,
    /// What the trainer needs to go on from here; to one server only, empty to the others.
    pub state: Vec<u8>,
    /// What its script was told since the last cut, for a process that repeats the script; to the same
    /// server.
    pub journal: Vec<u8>,
}

/// A cut would be welcome soon. Answered when it was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantCut;

/// What the asking trainer gave to a cut, please: the one that the term began from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Which cut.
    pub cut: u64,
}

/// What a trainer gave; empty for the first cut, or if it gave nothing to this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// Of that cut.
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

named_cut!(Ready, Go, Cancel, Recall);

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
        answer_survives(Go { cut: 7 });
        answer_survives(Cancel { cut: 8 });
        answer_survives(Recalled { state: vec![1], journal: vec![2, 3] });
    }
}
