//! How many updates a gradient does not contain.
//!
//! The staleness of a gradient is the number of updates, of any trainer, between the pull that its
//! sender computed it with and the moment it is applied. A step of a trainer may arrive in several
//! messages. It is counted by the first variable that the trainer ever sent.

use std::collections::{BTreeMap, VecDeque};

use wire::message::{Push, Stats};
use wire::{TrainerId, VarId};

/// Pulls of a trainer that are remembered; one whose gradients are older than this is out of step.
const PULLS_MAX: usize = 1 << 14;

#[derive(Debug, Default)]
pub(super) struct Staleness {
    /// Updates of all trainers.
    n_updates: u64,
    trainers: BTreeMap<TrainerId, Trainer>,
}

#[derive(Debug, Default)]
struct Trainer {
    /// The variable that its updates are counted by.
    measure: Option<VarId>,
    n_updates: u64,
    /// Those that its gradients may have been computed with, oldest first.
    pulls: VecDeque<Pulled>,
}

/// How many updates there were when a trainer pulled.
#[derive(Clone, Copy, Debug)]
struct Pulled {
    own: u64,
    all: u64,
}

impl Staleness {
    /// A trainer reads parameters; of several times between two of its updates the first counts.
    pub(super) fn pull(&mut self, trainer: TrainerId) {
        let all = self.n_updates;
        let trainer = self.trainers.entry(trainer).or_default();
        let own = trainer.n_updates;
        if trainer.pulls.back().is_none_or(|last| last.own < own) {
            trainer.pulls.push_back(Pulled { own, all });
        }
        if trainer.pulls.len() > PULLS_MAX {
            trainer.pulls.pop_front();
        }
    }

    /// Gradients of a trainer are applied.
    pub(super) fn push(&mut self, trainer: TrainerId, push: &Push, stats: &mut Stats) {
        let Some(first) = push.grads.first() else { return };
        let own = self.trainers.entry(trainer).or_default();
        let measure = *own.measure.get_or_insert(first.var);
        if !push.grads.iter().any(|grad| grad.var == measure) {
            return;
        }
        let known = own.n_updates.saturating_sub(push.behind);
        while own.pulls.get(1).is_some_and(|next| next.own <= known) {
            own.pulls.pop_front();
        }
        // A trainer that never pulled has computed with no parameters of this server.
        let stale = own.pulls.front().map_or(0, |pulled| self.n_updates - pulled.all);
        own.n_updates += 1;
        self.n_updates += 1;
        stats.updates += 1;
        stats.staleness_sum += stale;
        stats.staleness_max = stats.staleness_max.max(stale);
    }

    /// A new process has this rank now: it has read nothing.
    pub(super) fn forget(&mut self, trainer: TrainerId) {
        self.trainers.remove(&trainer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::Value;
    use wire::message::Grad;

    fn push(vars: &[u32]) -> Push {
        let grad = |&var: &u32| Grad { var: VarId(var), value: Value::Empty };
        Push::new(vars.iter().map(grad).collect())
    }

    /// Two trainers in turns, whose steps come in one message or in several.
    #[test]
    fn a_step_counts_once_however_many_messages_it_comes_in() {
        for messages in [&[&[0, 1, 2][..]][..], &[&[0], &[1], &[2]], &[&[0, 1], &[2]]] {
            let (mut staleness, mut stats) = (Staleness::default(), Stats::default());
            let trainers = [TrainerId(0), TrainerId(1)];
            trainers.iter().for_each(|&trainer| staleness.pull(trainer));
            for turn in 0..10 {
                let trainer = trainers[turn % 2];
                for vars in messages {
                    staleness.push(trainer, &push(vars), &mut stats);
                }
                staleness.pull(trainer);
            }
            // The first trainer had all updates; every other one missed the one step of the other.
            let counted = (stats.updates, stats.staleness_sum, stats.staleness_max);
            assert_eq!(counted, (10, 9, 1), "{messages:?}");
        }
    }

    #[test]
    fn a_new_process_has_read_nothing_yet() {
        let (mut staleness, mut stats) = (Staleness::default(), Stats::default());
        staleness.pull(TrainerId(0));
        staleness.push(TrainerId(0), &push(&[0]), &mut stats);
        for _ in 0..5 {
            staleness.push(TrainerId(1), &push(&[0]), &mut stats);
        }
        staleness.forget(TrainerId(0));
        staleness.pull(TrainerId(0));
        staleness.push(TrainerId(0), &push(&[0]), &mut stats);
        assert_eq!((stats.updates, stats.staleness_max), (7, 0));
    }
}
