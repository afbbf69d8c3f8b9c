//! Rounds of synchronous training, as pure bookkeeping.
//!
//! A round ends when every active trainer has closed its part; only then are the gradients handed
//! out, in the order of ranks. A trainer may be a few rounds ahead of the others.

use std::collections::VecDeque;

use crate::ids::TrainerId;
use crate::message::Named;
use crate::refusal::Refusal;

/// Rounds a trainer may be ahead. One is usual: it closed its part and waits.
const AHEAD_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Rounds {
    parts: Vec<Part>,
    applied: u64,
}

#[derive(Debug, Default)]
struct Part {
    closed: VecDeque<Vec<Named>>,
    open: Vec<Named>,
}

impl Rounds {
    pub(super) fn new(n_trainers: u32) -> Self {
        Self { parts: (0..n_trainers).map(|_| Part::default()).collect(), applied: 0 }
    }

    /// Rounds that have ended.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// The round that ended, or will end, with the last part that the trainer closed.
    pub(super) fn reached(&self, trainer: TrainerId) -> u64 {
        self.applied + self.parts[trainer.0 as usize].closed.len() as u64
    }

    fn part(&mut self, trainer: TrainerId) -> &mut Part {
        &mut self.parts[trainer.0 as usize]
    }

    /// Gradients for the part that the trainer has not closed yet.
    pub(super) fn stage(&mut self, trainer: TrainerId, grads: Vec<Named>) -> Result<(), Refusal> {
        self.near(trainer)?.open.extend(grads);
        Ok(())
    }

    /// The trainer's part, unless it is too far ahead.
    fn near(&mut self, trainer: TrainerId) -> Result<&mut Part, Refusal> {
        let part = self.part(trainer);
        match part.closed.len() {
            n if n >= AHEAD_MAX => Err(Refusal::Ahead { trainer: trainer.0, n: n as u32 }),
            _ => Ok(part),
        }
    }

    /// The trainer has sent everything of its part of a round; `false` if an earlier process of this
    /// rank had done so: that part counts, and this one is dropped.
    pub(super) fn close(&mut self, trainer: TrainerId, round: u64) -> Result<bool, Refusal> {
        let expected = self.reached(trainer) + 1;
        if round < expected {
            self.forget_open(trainer);
            return Ok(false);
        }
        if round > expected {
            return Err(Refusal::MissingPart { trainer: trainer.0, round, expected });
        }
        let part = self.near(trainer)?;
        let grads = std::mem::take(&mut part.open);
        part.closed.push_back(grads);
        Ok(true)
    }

    /// Drops what a trainer staged and will never close. What it closed counts.
    pub(super) fn forget_open(&mut self, trainer: TrainerId) {
        self.part(trainer).open.clear();
    }

    /// The next round, if everybody who is active has closed their part.
    pub(super) fn complete(
        &mut self,
        active: impl Fn(TrainerId) -> bool,
    ) -> Option<Vec<(TrainerId, Vec<Named>)>> {
        let open =
            |(id, part): (usize, &Part)| active(TrainerId(id as u32)) && part.closed.is_empty();
        let anything = self.parts.iter().any(|part| !part.closed.is_empty());
        if !anything || self.parts.iter().enumerate().any(open) {
            return None;
        }
        self.applied += 1;
        let parts = self.parts.iter_mut().enumerate();
        let grads = parts.filter_map(|(id, part)| {
            part.closed.pop_front().map(|grads| (TrainerId(id as u32), grads))
        });
        Some(grads.collect())
    }

    /// Active trainers that have not closed the round which others have.
    pub(super) fn missing(&self, active: impl Fn(TrainerId) -> bool) -> Vec<u32> {
        if self.parts.iter().all(|part| part.closed.is_empty()) {
            return Vec::new();
        }
        let open = |&id: &u32| active(TrainerId(id)) && self.parts[id as usize].closed.is_empty();
        (0..self.parts.len() as u32).filter(open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::Value;

    fn grad(name: &str) -> Vec<Named> {
        vec![Named { name: name.to_string(), value: Value::Empty }]
    }

    fn names(grads: Option<Vec<(TrainerId, Vec<Named>)>>) -> Vec<(u32, String)> {
        let flat = grads.into_iter().flatten();
        flat.map(|(id, grads)| (id.0, grads.into_iter().map(|grad| grad.name).collect())).collect()
    }

    #[test]
    fn a_round_waits_for_everybody_and_comes_in_the_order_of_ranks() {
        let mut rounds = Rounds::new(2);
        rounds.stage(TrainerId(1), grad("b")).unwrap();
        rounds.close(TrainerId(1), 1).unwrap();
        assert!(rounds.complete(|_| true).is_none());
        assert_eq!(rounds.missing(|_| true), [0]);
        rounds.stage(TrainerId(0), grad("a")).unwrap();
        rounds.close(TrainerId(0), 1).unwrap();
        assert_eq!(names(rounds.complete(|_| true)), [(0, "a".into()), (1, "b".into())]);
        assert_eq!(rounds.applied(), 1);
        assert!(rounds.complete(|_| true).is_none(), "nobody began another");
    }

    #[test]
    fn a_trainer_that_is_gone_is_not_waited_for_and_its_closed_part_counts() {
        let mut rounds = Rounds::new(2);
        rounds.stage(TrainerId(1), grad("b")).unwrap();
        rounds.close(TrainerId(1), 1).unwrap();
        rounds.stage(TrainerId(1), grad("half a part")).unwrap();
        rounds.forget_open(TrainerId(1));
        rounds.close(TrainerId(0), 1).unwrap();
        let gone = |id: TrainerId| id.0 == 0;
        assert_eq!(names(rounds.complete(gone)), [(0, String::new()), (1, "b".into())]);
        rounds.close(TrainerId(0), 2).unwrap();
        assert_eq!(names(rounds.complete(gone)), [(0, String::new())]);
    }

    #[test]
    fn nobody_runs_far_ahead() {
        let mut rounds = Rounds::new(2);
        for round in 1..=AHEAD_MAX as u64 {
            rounds.stage(TrainerId(0), grad("a")).unwrap();
            rounds.close(TrainerId(0), round).unwrap();
        }
        let next = AHEAD_MAX as u64 + 1;
        let closed = rounds.close(TrainerId(0), next).map(drop);
        for refused in [rounds.stage(TrainerId(0), grad("a")), closed] {
            assert!(matches!(refused, Err(Refusal::Ahead { trainer: 0, .. })), "{refused:?}");
        }
    }

    #[test]
    fn a_part_counts_once_however_often_it_is_closed() {
        let mut rounds = Rounds::new(2);
        rounds.stage(TrainerId(1), grad("b")).unwrap();
        assert_eq!(rounds.close(TrainerId(1), 1), Ok(true));
        // Its process is started again, and another server does not have that part.
        rounds.stage(TrainerId(1), grad("again")).unwrap();
        assert_eq!(rounds.close(TrainerId(1), 1), Ok(false));
        rounds.close(TrainerId(0), 1).unwrap();
        assert_eq!(names(rounds.complete(|_| true)), [(0, String::new()), (1, "b".into())]);
        rounds.stage(TrainerId(1), grad("late")).unwrap();
        assert_eq!(rounds.close(TrainerId(1), 1), Ok(false), "the round is over");
        rounds.stage(TrainerId(1), grad("c")).unwrap();
        rounds.close(TrainerId(1), 2).unwrap();
        rounds.close(TrainerId(0), 2).unwrap();
        assert_eq!(names(rounds.complete(|_| true)), [(0, String::new()), (1, "c".into())]);
        let gap = rounds.close(TrainerId(0), 4);
        assert_eq!(gap, Err(Refusal::MissingPart { trainer: 0, round: 4, expected: 3 }));
        assert_eq!(rounds.close(TrainerId(0), 0), Ok(false));
    }
}
