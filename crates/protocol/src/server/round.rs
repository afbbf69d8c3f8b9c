//! Rounds of synchronous training, as pure bookkeeping.
//!
//! A round ends when every active trainer has closed its part; only then are the gradients handed
//! out, in the order of ranks. A trainer may be a few rounds ahead of the others.

use std::collections::{BTreeSet, VecDeque};

use wire::budget::Held;
use wire::message::{Grad, Push};
use wire::{Refusal, TrainerId};

/// Closed parts of a trainer beyond those that it may be ahead. One is usual: it closed its part and
/// waits.
const WAITING_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Rounds {
    contributions: Vec<Contribution>,
    /// Active trainers that have not closed their part of the next round.
    awaited: BTreeSet<TrainerId>,
    /// Trainers that have a closed part here.
    n_closed: usize,
    applied: u64,
    /// A round is being applied.
    is_running: bool,
    /// Contributions of a trainer that may wait here.
    waiting_max: usize,
}

#[derive(Debug, Default)]
struct Contribution {
    closed: VecDeque<Vec<Grad>>,
    open: Vec<Grad>,
    /// The memory that those hold.
    held: VecDeque<Vec<Held>>,
    held_open: Vec<Held>,
}

impl Rounds {
    /// Trainers may be `ahead` rounds ahead of the slowest.
    pub(super) fn new(n_trainers: u32, ahead: u32) -> Self {
        let contributions = (0..n_trainers).map(|_| Contribution::default()).collect();
        let awaited = (0..n_trainers).map(TrainerId).collect();
        let waiting_max = WAITING_MAX + ahead as usize;
        Self { contributions, awaited, n_closed: 0, applied: 0, is_running: false, waiting_max }
    }

    /// Rounds that have ended.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// The round that ended, or will end, with the last part that the trainer closed.
    pub(super) fn reached(&self, trainer: TrainerId) -> u64 {
        let begun = self.applied + u64::from(self.is_running);
        begun + self.contributions[trainer.0 as usize].closed.len() as u64
    }

    /// Closed parts that were not applied yet, in their order.
    pub(super) fn parts(&self) -> Vec<(TrainerId, Vec<Vec<Grad>>)> {
        let ids = (0..).map(TrainerId).zip(&self.contributions);
        let closed = ids.filter(|(_, part)| !part.closed.is_empty());
        closed.map(|(id, part)| (id, part.closed.iter().cloned().collect())).collect()
    }

    /// Goes on from where rounds were, with such parts; what does not fit is left out.
    pub(super) fn restore(&mut self, applied: u64, parts: Vec<(TrainerId, Vec<Push>)>) {
        let (n_trainers, waiting_max) = (self.contributions.len(), self.waiting_max);
        *self = Self { applied, waiting_max, ..Self::new(n_trainers as u32, 0) };
        for (trainer, parts) in parts {
            let Some(part) = self.contributions.get_mut(trainer.0 as usize) else { continue };
            part.closed = parts.into_iter().map(|part| part.grads).collect();
            // Those were written to a cut: there is place for them.
            part.held = part.closed.iter().map(|_| Vec::new()).collect();
            if !part.closed.is_empty() {
                self.n_closed += 1;
                self.awaited.remove(&trainer);
            }
        }
    }

    fn part(&mut self, trainer: TrainerId) -> &mut Contribution {
        &mut self.contributions[trainer.0 as usize]
    }

    /// Gradients for the part that the trainer has not closed yet.
    pub(super) fn stage(
        &mut self,
        trainer: TrainerId,
        grads: Vec<Grad>,
        held: Held,
    ) -> Result<(), Refusal> {
        let part = self.near(trainer)?;
        part.open.extend(grads);
        part.held_open.push(held);
        Ok(())
    }

    /// The trainer's part, unless it is too far ahead.
    fn near(&mut self, trainer: TrainerId) -> Result<&mut Contribution, Refusal> {
        let waiting_max = self.waiting_max;
        let part = self.part(trainer);
        match part.closed.len() {
            n if n >= waiting_max => Err(Refusal::Ahead { trainer: trainer.0, n: n as u32 }),
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
        part.held.push_back(std::mem::take(&mut part.held_open));
        if part.closed.len() == 1 {
            self.n_closed += 1;
            self.awaited.remove(&trainer);
        }
        Ok(true)
    }

    /// Drops the open part of a trainer, which will never be closed. Its closed parts count.
    pub(super) fn forget_open(&mut self, trainer: TrainerId) {
        let part = self.part(trainer);
        (part.open, part.held_open) = (Vec::new(), Vec::new());
    }

    /// Rounds wait for this trainer from now on.
    pub(super) fn expect(&mut self, trainer: TrainerId) {
        if self.part(trainer).closed.is_empty() {
            self.awaited.insert(trainer);
        }
    }

    /// Rounds do not wait for this trainer any more.
    pub(super) fn excuse(&mut self, trainer: TrainerId) {
        self.awaited.remove(&trainer);
    }

    /// The next round, if every active trainer has closed its part and no other round is being
    /// applied.
    pub(super) fn begin(
        &mut self,
        active: impl Fn(TrainerId) -> bool,
    ) -> Option<Vec<(TrainerId, Vec<Grad>)>> {
        if self.is_running || self.n_closed == 0 || !self.awaited.is_empty() {
            return None;
        }
        self.is_running = true;
        let mut grads = Vec::with_capacity(self.n_closed);
        for (id, part) in (0..).map(TrainerId).zip(&mut self.contributions) {
            grads.extend(part.closed.pop_front().map(|part| (id, part)));
            part.held.pop_front();
            if part.closed.is_empty() && active(id) {
                self.awaited.insert(id);
            }
        }
        self.n_closed = self.contributions.iter().filter(|part| !part.closed.is_empty()).count();
        Some(grads)
    }

    /// Whether a round is being applied.
    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// The round that was begun has been applied.
    pub(super) fn finish(&mut self) {
        self.is_running = false;
        self.applied += 1;
    }

    /// Active trainers that have not closed the round which others have.
    pub(super) fn missing(&self) -> impl Iterator<Item = TrainerId> + '_ {
        self.awaited.iter().copied().filter(|_| self.n_closed > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::Value;
    use wire::VarId;

    fn grad(var: u32) -> Vec<Grad> {
        vec![Grad { var: VarId(var), value: Value::Empty }]
    }

    /// Begins a round and ends it.
    fn complete(
        rounds: &mut Rounds,
        active: impl Fn(TrainerId) -> bool,
    ) -> Option<Vec<(TrainerId, Vec<Grad>)>> {
        let begun = rounds.begin(active)?;
        rounds.finish();
        Some(begun)
    }

    fn vars(grads: Option<Vec<(TrainerId, Vec<Grad>)>>) -> Vec<(u32, Vec<u32>)> {
        let flat = grads.into_iter().flatten();
        flat.map(|(id, grads)| (id.0, grads.iter().map(|grad| grad.var.0).collect())).collect()
    }

    #[test]
    fn a_round_waits_for_everybody_and_comes_in_the_order_of_ranks() {
        let mut rounds = Rounds::new(2, 0);
        rounds.stage(TrainerId(1), grad(2), Held::default()).unwrap();
        rounds.close(TrainerId(1), 1).unwrap();
        assert!(complete(&mut rounds, |_| true).is_none());
        assert!(rounds.missing().eq([TrainerId(0)]));
        rounds.stage(TrainerId(0), grad(1), Held::default()).unwrap();
        rounds.close(TrainerId(0), 1).unwrap();
        assert_eq!(vars(complete(&mut rounds, |_| true)), [(0, vec![1]), (1, vec![2])]);
        assert_eq!(rounds.applied(), 1);
        assert!(complete(&mut rounds, |_| true).is_none(), "nobody began another");
    }

    #[test]
    fn a_trainer_that_is_gone_is_not_waited_for_and_its_closed_part_counts() {
        let mut rounds = Rounds::new(2, 0);
        rounds.stage(TrainerId(1), grad(2), Held::default()).unwrap();
        rounds.close(TrainerId(1), 1).unwrap();
        rounds.stage(TrainerId(1), grad(7), Held::default()).unwrap();
        rounds.forget_open(TrainerId(1));
        rounds.excuse(TrainerId(1));
        rounds.close(TrainerId(0), 1).unwrap();
        let gone = |id: TrainerId| id.0 == 0;
        assert_eq!(vars(complete(&mut rounds, gone)), [(0, vec![]), (1, vec![2])]);
        rounds.close(TrainerId(0), 2).unwrap();
        assert_eq!(vars(complete(&mut rounds, gone)), [(0, vec![])]);
        // It comes back.
        rounds.expect(TrainerId(1));
        rounds.close(TrainerId(0), 3).unwrap();
        assert!(complete(&mut rounds, |_| true).is_none());
        assert!(rounds.missing().eq([TrainerId(1)]));
    }

    /// The awaited trainers always equal those of a full scan, in any order of arrivals and departures.
    #[test]
    fn who_is_awaited_is_known_without_a_look_at_everybody() {
        let mut rounds = Rounds::new(5, 2);
        let mut active = [true; 5];
        let mut x = 7u64;
        for step in 0..20_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let trainer = TrainerId((x >> 33) as u32 % 5);
            match (x >> 50) % 16 {
                0 => {
                    active[trainer.0 as usize] = false;
                    rounds.excuse(trainer);
                }
                1 | 2 => {
                    active[trainer.0 as usize] = true;
                    rounds.expect(trainer);
                }
                3 if rounds.is_running => rounds.finish(),
                n => {
                    let round = rounds.reached(trainer) + u64::from(n > 4);
                    let _ = rounds.close(trainer, round);
                }
            }
            let is_open = |id: &u32| rounds.contributions[*id as usize].closed.is_empty();
            let awaited = (0..5).filter(|id| active[*id as usize]).filter(is_open).map(TrainerId);
            let awaited: Vec<TrainerId> = awaited.collect();
            let anything = (0..5).any(|id| !is_open(&id));
            let missing: Vec<TrainerId> = rounds.missing().collect();
            assert_eq!(missing, if anything { awaited.clone() } else { Vec::new() }, "{step}");
            let begins = !rounds.is_running && anything && awaited.is_empty();
            let begun = rounds.begin(|id| active[id.0 as usize]);
            assert_eq!(begun.is_some(), begins, "{step}");
        }
        assert!(rounds.applied() > 500, "{}", rounds.applied());
    }

    #[test]
    fn one_round_is_applied_at_a_time() {
        let mut rounds = Rounds::new(1, 0);
        let trainer = TrainerId(0);
        for round in 1..=2 {
            rounds.stage(trainer, grad(1), Held::default()).unwrap();
            rounds.close(trainer, round).unwrap();
        }
        assert!(rounds.begin(|_| true).is_some());
        assert_eq!((rounds.applied(), rounds.reached(trainer)), (0, 2));
        assert!(rounds.begin(|_| true).is_none(), "the first is being applied");
        rounds.finish();
        assert_eq!((rounds.applied(), rounds.reached(trainer)), (1, 2));
        assert!(rounds.begin(|_| true).is_some());
    }

    #[test]
    fn nobody_runs_far_ahead() {
        let mut rounds = Rounds::new(2, 0);
        for round in 1..=WAITING_MAX as u64 {
            rounds.stage(TrainerId(0), grad(1), Held::default()).unwrap();
            rounds.close(TrainerId(0), round).unwrap();
        }
        let next = WAITING_MAX as u64 + 1;
        let closed = rounds.close(TrainerId(0), next).map(drop);
        for refused in [rounds.stage(TrainerId(0), grad(1), Held::default()), closed] {
            assert!(matches!(refused, Err(Refusal::Ahead { trainer: 0, .. })), "{refused:?}");
        }
    }

    #[test]
    fn a_part_counts_once_however_often_it_is_closed() {
        let mut rounds = Rounds::new(2, 0);
        rounds.stage(TrainerId(1), grad(2), Held::default()).unwrap();
        assert_eq!(rounds.close(TrainerId(1), 1), Ok(true));
        // Its process is started again, and another server does not have that part.
        rounds.stage(TrainerId(1), grad(8), Held::default()).unwrap();
        assert_eq!(rounds.close(TrainerId(1), 1), Ok(false));
        rounds.close(TrainerId(0), 1).unwrap();
        assert_eq!(vars(complete(&mut rounds, |_| true)), [(0, vec![]), (1, vec![2])]);
        rounds.stage(TrainerId(1), grad(9), Held::default()).unwrap();
        assert_eq!(rounds.close(TrainerId(1), 1), Ok(false), "the round is over");
        rounds.stage(TrainerId(1), grad(3), Held::default()).unwrap();
        rounds.close(TrainerId(1), 2).unwrap();
        rounds.close(TrainerId(0), 2).unwrap();
        assert_eq!(vars(complete(&mut rounds, |_| true)), [(0, vec![]), (1, vec![3])]);
        let gap = rounds.close(TrainerId(0), 4);
        assert_eq!(gap, Err(Refusal::MissingPart { trainer: 0, round: 4, expected: 3 }));
        assert_eq!(rounds.close(TrainerId(0), 0), Ok(false));
    }
}
