//! The members of a job: which trainers are here, how far each has been served, who is dead.

use std::collections::{BTreeMap, VecDeque};

use super::Config;
use crate::ids::{ConnId, Millis, TrainerId};
use crate::refusal::Refusal;

/// What a server knows of a trainer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// Has not come yet.
    Awaited,
    /// Takes part.
    Here,
    /// Its connection broke or it fell silent, and it did not come back.
    Lost,
    /// Ended its job.
    Completed,
    /// Its process ended in order without ending its job.
    Left,
}

#[derive(Debug)]
struct Entry {
    state: Membership,
    incarnation: u64,
    /// Processes that had this rank before. One of them may still have a greeting on its way.
    former: VecDeque<u64>,
    conn: Option<ConnId>,
    /// The last change served.
    accepted: u64,
    heard: Millis,
    /// When its connection broke, if it did.
    cut: Option<Millis>,
    /// How it died and for how long it had been silent then.
    death: Option<(&'static str, u64)>,
    /// The last change that was refused to this process, and why.
    refused: Option<(u64, Refusal)>,
    /// Whether it knows that the job failed.
    is_told: bool,
}

/// Processes of a rank that are remembered.
const FORMER_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Members {
    entries: Vec<Entry>,
    conns: BTreeMap<ConnId, TrainerId>,
}

/// What admitting a trainer means for others.
#[derive(Debug)]
pub(super) struct Admitted {
    /// An older connection of the same process.
    pub(super) replaced: Option<ConnId>,
    /// A process that was not here before.
    pub(super) is_new: bool,
}

impl Members {
    pub(super) fn new(n_trainers: u32) -> Self {
        let entry = |_| Entry {
            state: Membership::Awaited,
            incarnation: 0,
            former: VecDeque::new(),
            conn: None,
            accepted: 0,
            heard: Millis(0),
            cut: None,
            death: None,
            refused: None,
            is_told: false,
        };
        Self { entries: (0..n_trainers).map(entry).collect(), conns: BTreeMap::new() }
    }

    fn entry(&self, trainer: TrainerId) -> &Entry {
        &self.entries[trainer.0 as usize]
    }

    fn entry_mut(&mut self, trainer: TrainerId) -> &mut Entry {
        &mut self.entries[trainer.0 as usize]
    }

    /// Lets a trainer in, unless another live process has its rank.
    pub(super) fn admit(
        &mut self,
        trainer: TrainerId,
        incarnation: u64,
        conn: ConnId,
        now: Millis,
    ) -> Result<Admitted, Refusal> {
        let entry = self.entry_mut(trainer);
        let is_same = entry.incarnation == incarnation && entry.state != Membership::Awaited;
        let is_taken = entry.state == Membership::Here && entry.conn.is_some();
        if !is_same && (is_taken || entry.former.contains(&incarnation)) {
            let heard_ms = now.since(entry.heard);
            return Err(Refusal::DuplicateTrainer { trainer: trainer.0, heard_ms });
        }
        let replaced = entry.conn.filter(|&old| old != conn);
        if !is_same {
            if entry.state != Membership::Awaited {
                entry.former.push_back(entry.incarnation);
                if entry.former.len() > FORMER_MAX {
                    entry.former.pop_front();
                }
            }
            (entry.incarnation, entry.accepted) = (incarnation, 0);
            (entry.refused, entry.is_told) = (None, false);
        }
        if !is_same || entry.state == Membership::Lost {
            entry.state = Membership::Here;
        }
        (entry.conn, entry.heard, entry.cut) = (Some(conn), now, None);
        if let Some(old) = replaced {
            self.conns.remove(&old);
        }
        self.conns.insert(conn, trainer);
        Ok(Admitted { replaced, is_new: !is_same })
    }

    /// Who speaks on a connection.
    pub(super) fn who(&self, conn: ConnId) -> Option<TrainerId> {
        self.conns.get(&conn).copied()
    }

    pub(super) fn conn(&self, trainer: TrainerId) -> Option<ConnId> {
        self.entry(trainer).conn
    }

    /// Which process has this rank.
    pub(super) fn incarnation(&self, trainer: TrainerId) -> u64 {
        self.entry(trainer).incarnation
    }

    pub(super) fn heard(&mut self, trainer: TrainerId, now: Millis) {
        self.entry_mut(trainer).heard = now;
    }

    pub(super) fn accepted(&self, trainer: TrainerId) -> u64 {
        self.entry(trainer).accepted
    }

    pub(super) fn accept(&mut self, trainer: TrainerId, seq: u64) {
        self.entry_mut(trainer).accepted = seq;
    }

    /// Remembers a refusal: the trainer may not have got it.
    pub(super) fn refuse(&mut self, trainer: TrainerId, seq: u64, refusal: Refusal) {
        self.entry_mut(trainer).refused = Some((seq, refusal));
    }

    /// The last change that was refused to this process, and why.
    pub(super) fn refused(&self, trainer: TrainerId) -> Option<(u64, Refusal)> {
        self.entry(trainer).refused.clone()
    }

    /// The trainer was told that the job failed.
    pub(super) fn told(&mut self, trainer: TrainerId) {
        self.entry_mut(trainer).is_told = true;
    }

    /// Whether no other trainer is here.
    pub(super) fn is_alone(&self, trainer: TrainerId) -> bool {
        let others = self.entries.iter().enumerate().filter(|(id, _)| *id != trainer.0 as usize);
        !others.into_iter().any(|(_, entry)| entry.state == Membership::Here)
    }

    /// For so long nobody listened: that was not the trainers' silence.
    pub(super) fn forgive(&mut self, now: Millis, ms: u64) {
        for entry in &mut self.entries {
            entry.heard = now.min(entry.heard + ms);
            entry.cut = entry.cut.map(|cut| now.min(cut + ms));
        }
    }

    pub(super) fn go(&mut self, trainer: TrainerId, state: Membership, now: Millis) {
        let entry = self.entry_mut(trainer);
        (entry.state, entry.heard) = (state, now);
    }

    pub(super) fn closed(&mut self, conn: ConnId, now: Millis) {
        if let Some(trainer) = self.conns.remove(&conn) {
            let entry = self.entry_mut(trainer);
            if entry.conn == Some(conn) {
                (entry.conn, entry.cut) = (None, Some(now));
            }
        }
    }

    /// Finds trainers that have just died.
    pub(super) fn expire(&mut self, now: Millis, config: &Config) -> Vec<TrainerId> {
        let mut dead = Vec::new();
        for (id, entry) in self.entries.iter_mut().enumerate() {
            if entry.state != Membership::Here {
                continue;
            }
            let death = match entry.cut {
                Some(cut) if now.since(cut) >= config.grace_ms => {
                    Some(("its connection broke", now.since(cut)))
                }
                None if now.since(entry.heard) >= config.lease_ms => {
                    Some(("it was last heard", now.since(entry.heard)))
                }
                _ => None,
            };
            if death.is_some() {
                (entry.state, entry.death) = (Membership::Lost, death);
                dead.push(TrainerId(id as u32));
            }
        }
        dead
    }

    /// What to say of a trainer that died.
    pub(super) fn loss(&self, trainer: TrainerId, round: u64) -> Refusal {
        let (how, silent_ms) = self.entry(trainer).death.unwrap_or(("it was last heard", 0));
        let round = round + 1;
        Refusal::TrainerLost { trainer: trainer.0, how: how.to_string(), silent_ms, round }
    }

    /// Whether rounds wait for this trainer.
    pub(super) fn is_active(&self, trainer: TrainerId) -> bool {
        matches!(self.entry(trainer).state, Membership::Awaited | Membership::Here)
    }

    /// All trainers that rounds wait for.
    pub(super) fn active(&self) -> Vec<TrainerId> {
        let ids = (0..self.entries.len() as u32).map(TrainerId);
        ids.filter(|&trainer| self.is_active(trainer)).collect()
    }

    pub(super) fn anybody_active(&self) -> bool {
        (0..self.entries.len() as u32).any(|id| self.is_active(TrainerId(id)))
    }

    pub(super) fn anybody_completed(&self) -> bool {
        self.entries.iter().any(|entry| entry.state == Membership::Completed)
    }

    /// Whether no trainer will come any more and not all have merely left.
    pub(super) fn all_gone(&self) -> bool {
        !self.anybody_active() && (self.anybody_completed() || self.lost().is_some())
    }

    /// A trainer that died, if one did.
    pub(super) fn lost(&self) -> Option<TrainerId> {
        let lost = self.entries.iter().position(|entry| entry.state == Membership::Lost);
        lost.map(|id| TrainerId(id as u32))
    }

    /// Whether nobody is left who could be told that the job failed. One whose connection broke
    /// may come back for it.
    pub(super) fn all_told(&self) -> bool {
        let untold = |entry: &Entry| entry.conn.is_some() || !entry.is_told;
        !self.entries.iter().any(|entry| entry.state == Membership::Here && untold(entry))
    }
}
