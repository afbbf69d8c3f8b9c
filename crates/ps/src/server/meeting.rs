//! Meetings: trainers wait for each other and exchange a few bytes.
//!
//! The last meeting of a place is remembered: a trainer whose answer was lost gets it when it asks
//! again, also when others have come to the next one already, and one that was started again does
//! not wait for meetings that were held without it.

use std::collections::BTreeMap;

use crate::ids::{ConnId, TrainerId};
use crate::message::{Meet, Met};

#[derive(Debug, Default)]
pub(super) struct Meetings(BTreeMap<String, Meeting>);

#[derive(Debug, Default)]
struct Meeting {
    /// The largest turn of those who are here.
    turn: u64,
    brought: BTreeMap<TrainerId, Vec<u8>>,
    waiting: BTreeMap<TrainerId, (ConnId, u64)>,
    /// The last one that was held here, and its turn.
    held: Option<(u64, Met)>,
}

impl Meetings {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(|meeting| meeting.waiting.is_empty())
    }

    /// A trainer is here; the answer, if its meeting was held before.
    pub(super) fn arrive(
        &mut self,
        trainer: TrainerId,
        from: (ConnId, u64),
        meet: Meet,
    ) -> Option<Met> {
        let meeting = self.0.entry(meet.place).or_default();
        if let Some((_, met)) = meeting.held.as_ref().filter(|(turn, _)| meet.turn <= *turn) {
            return Some(met.clone());
        }
        meeting.turn = meeting.turn.max(meet.turn);
        meeting.brought.insert(trainer, meet.bytes);
        meeting.waiting.insert(trainer, from);
        None
    }

    /// Other processes begin to count their turns anew.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Whom to answer, and what: those whose meeting is complete.
    pub(super) fn settle(&mut self, active: &[TrainerId]) -> Vec<(ConnId, u64, Met)> {
        let mut answers = Vec::new();
        for meeting in self.0.values_mut() {
            let all_here = active.iter().all(|trainer| meeting.brought.contains_key(trainer));
            if meeting.brought.is_empty() || !all_here {
                continue;
            }
            let met = Met(std::mem::take(&mut meeting.brought).into_values().collect());
            let waiting = std::mem::take(&mut meeting.waiting).into_values();
            answers.extend(waiting.map(|(conn, id)| (conn, id, met.clone())));
            meeting.held = Some((meeting.turn, met));
        }
        answers
    }

    /// Everybody who waits, for bad news.
    pub(super) fn dissolve(&mut self) -> Vec<(ConnId, u64)> {
        std::mem::take(&mut self.0).into_values().flat_map(|m| m.waiting.into_values()).collect()
    }

    /// Active trainers that others wait for.
    pub(super) fn missing(&self, active: &[TrainerId]) -> Vec<u32> {
        let waited = self.0.values().filter(|meeting| !meeting.waiting.is_empty());
        let missing = waited.flat_map(|meeting| {
            active.iter().filter(|trainer| !meeting.brought.contains_key(trainer))
        });
        missing.map(|trainer| trainer.0).collect()
    }
}
