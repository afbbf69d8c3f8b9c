//! The purpose of work under way.

use std::collections::BTreeMap;

use wire::{ConnId, Millis, TrainerId};

use super::change::Change;
use super::pull::NewsAsked;

/// The trainer that asked, its connection, and the number of its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) conn: ConnId,
    pub(super) trainer: TrainerId,
    pub(super) id: u64,
}

/// The purpose of work under way.
#[derive(Debug)]
pub(super) enum Purpose {
    /// Gradients, so many.
    Push(Change, u64),
    /// A round. It ends with a change, if a change closed it.
    Round(Option<Change>),
    /// A unit of the round that is being applied.
    Unit,
    /// An answer.
    Answer(Asker),
    /// A table is being saved.
    Save(Asker),
    /// A trainer's contribution to the cut that the term began from.
    Recall { asker: Asker, from: u64 },
    /// The cut whose parts are being collected.
    Mark(u64),
    /// A cut that is being written, since when.
    WriteCut(Millis),
    /// The base of this term.
    RollBack,
    /// Something of a term that is over.
    Stale,
    /// An answer that must not be lost: what others changed.
    News(NewsAsked),
}

/// Work under way, by its number.
#[derive(Debug, Default)]
pub(super) struct Works {
    pub(super) running: BTreeMap<u64, Purpose>,
    n_works: u64,
}

impl Works {
    /// Remembers what work is for; its number.
    pub(super) fn begin(&mut self, purpose: Purpose) -> u64 {
        self.n_works += 1;
        self.running.insert(self.n_works, purpose);
        self.n_works
    }

    /// The term is over: the outcome of its work does not matter any more.
    pub(super) fn disown(&mut self) {
        self.running.values_mut().for_each(|purpose| *purpose = Purpose::Stale);
    }
}
