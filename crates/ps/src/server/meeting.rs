//! Meetings: trainers wait for each other and exchange a few bytes.
//!
//! The last meeting of a place is remembered: a trainer whose answer was lost gets it when it asks
//! again, also when others have come to the next one already, and one that was started again does
//! not wait for meetings that were held without it.

use std::collections::{BTreeMap, BTreeSet};

use super::Asker;
use crate::ids::{ConnId, TrainerId};
use crate::message::{Meet, Met};

#[derive(Debug, Default)]
pub(super) struct Meetings(BTreeMap<String, Meeting>);

#[derive(Debug, Default)]
struct Meeting {
    /// The largest turn of those who are here.
    turn: u64,
    brought: BTreeMap<TrainerId, Vec<u8>>,
    /// Active trainers that have brought nothing yet; of no meaning while nobody has.
    awaited: BTreeSet<TrainerId>,
    waiting: BTreeMap<TrainerId, (ConnId, u64)>,
    /// The last one that was held here, and its turn.
    held: Option<(u64, Met)>,
}

impl Meetings {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(|meeting| meeting.waiting.is_empty())
    }

    /// How many trainers wait. A trainer that waits at several meetings counts for each.
    pub(super) fn n_waiting(&self) -> usize {
        self.0.values().map(|meeting| meeting.waiting.len()).sum()
    }

    /// Whether a trainer waits at one.
    pub(super) fn has(&self, trainer: TrainerId) -> bool {
        self.0.values().any(|meeting| meeting.waiting.contains_key(&trainer))
    }

    /// A trainer arrives. Returns the answer if its meeting was held before. The first trainer of a
    /// meeting asks which trainers are active.
    pub(super) fn arrive(
        &mut self,
        asker: Asker,
        meet: Meet,
        active: impl FnOnce() -> BTreeSet<TrainerId>,
    ) -> Option<Met> {
        let Asker { conn, trainer, id } = asker;
        let meeting = self.0.entry(meet.place).or_default();
        if let Some((_, met)) = meeting.held.as_ref().filter(|(turn, _)| meet.turn <= *turn) {
            return Some(met.clone());
        }
        meeting.turn = meeting.turn.max(meet.turn);
        if meeting.brought.is_empty() {
            meeting.awaited = active();
        }
        meeting.awaited.remove(&trainer);
        meeting.brought.insert(trainer, meet.bytes);
        meeting.waiting.insert(trainer, (conn, id));
        None
    }

    /// New processes count their meetings from the start.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Meetings wait for this trainer from now on.
    pub(super) fn expect(&mut self, trainer: TrainerId) {
        for meeting in self.0.values_mut() {
            if !meeting.brought.contains_key(&trainer) {
                meeting.awaited.insert(trainer);
            }
        }
    }

    /// Meetings do not wait for this trainer any more.
    pub(super) fn excuse(&mut self, trainer: TrainerId) {
        for meeting in self.0.values_mut() {
            meeting.awaited.remove(&trainer);
        }
    }

    /// Whom to answer, and what: those whose meeting is complete.
    pub(super) fn settle(&mut self) -> Vec<(ConnId, u64, Met)> {
        let mut answers = Vec::new();
        for meeting in self.0.values_mut() {
            if meeting.brought.is_empty() || !meeting.awaited.is_empty() {
                continue;
            }
            let met = Met(std::mem::take(&mut meeting.brought).into_values().collect());
            let waiting = std::mem::take(&mut meeting.waiting).into_values();
            answers.extend(waiting.map(|(conn, id)| (conn, id, met.clone())));
            meeting.held = Some((meeting.turn, met));
        }
        answers
    }

    /// All requests that wait, to be refused.
    pub(super) fn dissolve(&mut self) -> Vec<(ConnId, u64)> {
        std::mem::take(&mut self.0).into_values().flat_map(|m| m.waiting.into_values()).collect()
    }

    /// Active trainers that others wait for; those of several meetings several times.
    pub(super) fn missing(&self) -> impl Iterator<Item = TrainerId> + '_ {
        let waited = self.0.values().filter(|meeting| !meeting.waiting.is_empty());
        waited.flat_map(|meeting| meeting.awaited.iter().copied())
    }

    /// An upper bound for the trainers that are at every meeting.
    pub(super) fn n_here_max(&self) -> usize {
        let waited = self.0.values().filter(|meeting| !meeting.waiting.is_empty());
        waited.map(|meeting| meeting.brought.len()).min().unwrap_or(0)
    }
}
