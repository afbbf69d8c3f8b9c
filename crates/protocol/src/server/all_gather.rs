//! All-gathers: trainers wait for each other and exchange a few bytes.
//!
//! The last all-gather of a purpose is remembered: a trainer whose answer was lost gets it when it asks
//! again, also when others have come to the next one already, and one that was started again does
//! not wait for those that were completed without it.

use std::collections::{BTreeMap, BTreeSet};

use wire::TrainerId;
use wire::message::{AllGather, AllGatherResult};

use super::{Asker, Server, ready, stuck};

/// A trainer brings its bytes.
pub(super) fn serve(server: &mut Server, asker: Asker, ask: AllGather) {
    let Asker { conn, id, .. } = asker;
    if let Some(failure) = server.failure.clone() {
        return server.reply(conn, id, failure);
    }
    if let Some(result) =
        server.term.all_gathers.arrive(asker, ask, || server.term.members.active())
    {
        return server.reply(conn, id, result);
    }
    for (asker, result) in server.term.all_gathers.settle() {
        server.reply(asker.conn, asker.id, result);
    }
    ready::check_met(server);
    stuck::check(server);
}

#[derive(Debug, Default)]
pub(super) struct AllGathers(BTreeMap<String, Gathering>);

#[derive(Debug, Default)]
struct Gathering {
    /// The largest turn of the trainers that wait.
    turn: u64,
    brought: BTreeMap<TrainerId, Vec<u8>>,
    /// Active trainers that have brought nothing yet; meaningless before the first one has.
    awaited: BTreeSet<TrainerId>,
    waiting: BTreeMap<TrainerId, Asker>,
    /// The result of the last one, and its turn.
    last: Option<(u64, AllGatherResult)>,
}

impl AllGathers {
    /// Whether no trainer waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(|gathering| gathering.waiting.is_empty())
    }

    /// How many trainers wait. A trainer that waits at several all-gathers counts for each.
    pub(super) fn n_waiting(&self) -> usize {
        self.0.values().map(|gathering| gathering.waiting.len()).sum()
    }

    /// Whether a trainer waits at one.
    pub(super) fn has(&self, trainer: TrainerId) -> bool {
        self.0.values().any(|gathering| gathering.waiting.contains_key(&trainer))
    }

    /// A trainer arrives. Returns the answer if its all-gather was complete before. The first trainer of an
    /// all-gather asks which trainers are active.
    pub(super) fn arrive(
        &mut self,
        asker: Asker,
        ask: AllGather,
        active: impl FnOnce() -> BTreeSet<TrainerId>,
    ) -> Option<AllGatherResult> {
        let trainer = asker.trainer;
        let gathering = self.0.entry(ask.purpose).or_default();
        if let Some((_, result)) = gathering.last.as_ref().filter(|(turn, _)| ask.turn <= *turn) {
            return Some(result.clone());
        }
        gathering.turn = gathering.turn.max(ask.turn);
        if gathering.brought.is_empty() {
            gathering.awaited = active();
        }
        gathering.awaited.remove(&trainer);
        gathering.brought.insert(trainer, ask.bytes);
        gathering.waiting.insert(trainer, asker);
        None
    }

    /// New processes count their all-gathers from the start.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// All-gathers wait for this trainer from now on.
    pub(super) fn expect(&mut self, trainer: TrainerId) {
        for gathering in self.0.values_mut() {
            if !gathering.brought.contains_key(&trainer) {
                gathering.awaited.insert(trainer);
            }
        }
    }

    /// All-gathers do not wait for this trainer any more.
    pub(super) fn excuse(&mut self, trainer: TrainerId) {
        for gathering in self.0.values_mut() {
            gathering.awaited.remove(&trainer);
        }
    }

    /// The answers to trainers whose all-gather is complete.
    pub(super) fn settle(&mut self) -> Vec<(Asker, AllGatherResult)> {
        let mut answers = Vec::new();
        for gathering in self.0.values_mut() {
            if gathering.brought.is_empty() || !gathering.awaited.is_empty() {
                continue;
            }
            let result =
                AllGatherResult(std::mem::take(&mut gathering.brought).into_values().collect());
            let waiting = std::mem::take(&mut gathering.waiting).into_values();
            answers.extend(waiting.map(|asker| (asker, result.clone())));
            gathering.last = Some((gathering.turn, result));
        }
        answers
    }

    /// All requests that wait, to be refused.
    pub(super) fn dissolve(&mut self) -> Vec<Asker> {
        std::mem::take(&mut self.0).into_values().flat_map(|m| m.waiting.into_values()).collect()
    }

    /// Active trainers that others wait for; those of several all-gathers several times.
    pub(super) fn missing(&self) -> impl Iterator<Item = TrainerId> + '_ {
        let waited = self.0.values().filter(|gathering| !gathering.waiting.is_empty());
        waited.flat_map(|gathering| gathering.awaited.iter().copied())
    }

    /// An upper bound for the trainers that are at every all-gather.
    pub(super) fn n_here_max(&self) -> usize {
        let waited = self.0.values().filter(|gathering| !gathering.waiting.is_empty());
        waited.map(|gathering| gathering.brought.len()).min().unwrap_or(0)
    }
}
