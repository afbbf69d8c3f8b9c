//! All-to-all: every trainer brings a part for every other and gets the parts that the others brought for it.
//!
//! An exchange needs all trainers of the job: the parts for one that is gone would be lost. The last
//! exchange is remembered until the next, for a trainer whose answer was lost; so a server holds the
//! parts of one exchange, and of the next as far as they have come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::message::{AllToAll, AllToAllResult};
use wire::{Refusal, TrainerId};

use super::{Asker, Server};

/// A trainer brings parts for all.
pub(super) fn serve(server: &mut Server, asker: Asker, all_to_all: AllToAll) {
    let Asker { conn, id, .. } = asker;
    if let Some(failure) = server.failure.clone() {
        return server.reply(conn, id, failure);
    }
    let is_over = server.term.all_to_all.is_over(all_to_all.turn);
    match server.term.all_to_all.arrive(asker, all_to_all) {
        Ok(None) => settle(server),
        Ok(Some(exchanged)) => server.reply(conn, id, exchanged),
        Err(refusal) => {
            // A trainer that waits for one that does something else would wait forever.
            if !is_over {
                dissolve(server, &refusal);
            }
            server.reply(conn, id, refusal);
        }
    }
}

/// Answers trainers whose exchange is complete, or can no longer complete.
pub(super) fn settle(server: &mut Server) {
    if let Some(TrainerId(trainer)) = server.term.members.inactive() {
        return dissolve(server, &Refusal::Absent { trainer });
    }
    for (asker, exchanged) in server.term.all_to_all.settle() {
        server.reply(asker.conn, asker.id, exchanged);
    }
}

/// Tells all trainers that wait for an exchange that there will be none.
pub(super) fn dissolve(server: &mut Server, refusal: &Refusal) {
    for asker in server.term.all_to_all.dissolve() {
        server.reply(asker.conn, asker.id, refusal.clone());
    }
}

#[derive(Debug)]
pub(super) struct AllToAllState {
    n_trainers: usize,
    /// The current exchange: its turn and its purpose. Meaningless while no trainer waits.
    now: (u64, String),
    brought: BTreeMap<TrainerId, Vec<Vec<u8>>>,
    /// Trainers that have brought nothing yet; meaningless before the first one has.
    awaited: BTreeSet<TrainerId>,
    waiting: BTreeMap<TrainerId, Asker>,
    /// The turn of the last exchange.
    last: Option<u64>,
    /// The parts of the last exchange by receiver, kept until the receiver brings something to the next one.
    held: BTreeMap<TrainerId, AllToAllResult>,
}

impl AllToAllState {
    pub(super) fn new(n_trainers: u32) -> Self {
        Self {
            n_trainers: n_trainers as usize,
            now: Default::default(),
            brought: BTreeMap::new(),
            awaited: BTreeSet::new(),
            waiting: BTreeMap::new(),
            last: None,
            held: BTreeMap::new(),
        }
    }

    /// Whether no trainer waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether an exchange of this turn was made.
    fn is_over(&self, turn: u64) -> bool {
        self.last.is_some_and(|last| turn <= last)
    }

    /// A trainer is here; the answer, if its exchange was made before.
    fn arrive(
        &mut self,
        asker: Asker,
        all_to_all: AllToAll,
    ) -> Result<Option<AllToAllResult>, Refusal> {
        self.check(&all_to_all)?;
        let trainer = asker.trainer;
        let AllToAll { purpose, turn, parts } = all_to_all;
        if self.is_over(turn) {
            let held = self.held.get(&trainer).filter(|_| self.last == Some(turn)).cloned();
            return held.map(Some).ok_or_else(|| self.out_of_step(trainer, &purpose, turn));
        }
        if self.brought.is_empty() {
            self.now = (turn, purpose);
            self.awaited = (0..self.n_trainers as u32).map(TrainerId).collect();
        } else if self.now != (turn, purpose.clone()) {
            return Err(self.out_of_step(trainer, &purpose, turn));
        }
        self.held.remove(&trainer);
        self.awaited.remove(&trainer);
        self.brought.insert(trainer, parts);
        self.waiting.insert(trainer, asker);
        Ok(None)
    }

    /// Whether a server can hold this.
    fn check(&self, all_to_all: &AllToAll) -> Result<(), Refusal> {
        let (n, max) = (self.n_trainers, AllToAll::part_bytes_max(self.n_trainers));
        if all_to_all.parts.len() != n {
            let n_parts = all_to_all.parts.len();
            return Err(Refusal::BadExchange(format!("{n_parts} parts for {n} trainers")));
        }
        match all_to_all.parts.iter().map(Vec::len).find(|&n_bytes| n_bytes > max) {
            Some(n_bytes) => {
                let detail = format!("a part of {n_bytes} bytes, at most {max} are allowed");
                Err(Refusal::BadExchange(detail))
            }
            None => Ok(()),
        }
    }

    fn out_of_step(&self, trainer: TrainerId, purpose: &str, turn: u64) -> Refusal {
        let theirs = match (self.brought.is_empty(), self.last) {
            (true, Some(last)) => format!("turn {last}, which is over"),
            _ => format!("{}, turn {}", self.now.1, self.now.0),
        };
        let ours = format!("{purpose}, turn {turn}");
        Refusal::OutOfStep { trainer: trainer.0, ours, theirs }
    }

    /// New processes count their exchanges from the start.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.n_trainers as u32);
    }

    /// The answers to send: all of them, once all trainers are here.
    fn settle(&mut self) -> Vec<(Asker, AllToAllResult)> {
        if self.brought.is_empty() || self.brought.len() < self.n_trainers {
            return Vec::new();
        }
        let mut brought = std::mem::take(&mut self.brought);
        let mut answers = Vec::new();
        for at in 0..self.n_trainers {
            let parts = brought.values_mut().map(|parts| std::mem::take(&mut parts[at])).collect();
            let (to, exchanged) = (TrainerId(at as u32), AllToAllResult(Arc::new(parts)));
            if let Some(asker) = self.waiting.remove(&to) {
                answers.push((asker, exchanged.clone()));
            }
            self.held.insert(to, exchanged);
        }
        self.last = Some(self.now.0);
        answers
    }

    /// All requests that wait, to be refused. Drops their parts.
    fn dissolve(&mut self) -> Vec<Asker> {
        self.brought.clear();
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    /// Trainers that others wait for.
    pub(super) fn missing(&self) -> impl Iterator<Item = TrainerId> + '_ {
        self.awaited.iter().copied().filter(|_| !self.waiting.is_empty())
    }

    /// Bytes that wait to be sent.
    #[cfg(test)]
    pub(super) fn n_bytes(&self) -> usize {
        let held = self.held.values().flat_map(|exchanged| exchanged.0.iter());
        self.brought.values().flatten().chain(held).map(Vec::len).sum()
    }
}
