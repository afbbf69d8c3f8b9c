//! The members of a job: which trainers are here, how far each has been served, which are dead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wire::{ConnId, Millis, Refusal, TrainerId};

use super::ServerConfig;
use super::cut_state::Gone;

/// How a trainer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// Has not come yet.
    Awaited,
    /// Takes part.
    Here,
    /// Its connection broke or it fell silent, and it is waited for.
    Away,
    /// It did not come back.
    Lost,
    /// Ended its job.
    Completed,
    /// Its process ended in order without ending its job.
    Left,
}

/// A server's record of a trainer's process.
#[derive(Debug)]
pub(super) struct Member {
    trainer: TrainerId,
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
    /// Since when it is waited for.
    away: Millis,
    /// Whether it takes part in cuts, although it has completed.
    stays: bool,
}

/// Processes of a rank that are remembered.
const FORMER_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Members {
    /// Changed by [`Members::edit`] only, where it matters to the counts.
    entries: Vec<Member>,
    counts: MemberCounts,
    conns: BTreeMap<ConnId, TrainerId>,
    /// The job waits for trainers that died.
    recovers: bool,
}

/// How many trainers are what. It is kept up to date, so that no message needs a look at all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MemberCounts {
    active: usize,
    here: usize,
    completed: usize,
    /// Those of them that take part in cuts.
    staying: usize,
    lost: usize,
    /// Those that could still learn that the job failed.
    untold: usize,
}

impl MemberCounts {
    /// The counts that a trainer adds to.
    fn of(entry: &Member) -> Self {
        let is = |state| usize::from(entry.state == state);
        let here = is(Membership::Here);
        let is_untold = entry.conn.is_some() || !entry.is_told;
        Self {
            active: here + is(Membership::Awaited) + is(Membership::Away),
            here,
            completed: is(Membership::Completed),
            staying: if entry.stays { is(Membership::Completed) } else { 0 },
            lost: is(Membership::Lost),
            untold: if is_untold { here } else { 0 },
        }
    }

    fn replace(&mut self, old: Self, new: Self) {
        let Self { active, here, completed, staying, lost, untold } = new;
        self.active = self.active + active - old.active;
        self.here = self.here + here - old.here;
        self.completed = self.completed + completed - old.completed;
        self.staying = self.staying + staying - old.staying;
        self.lost = self.lost + lost - old.lost;
        self.untold = self.untold + untold - old.untold;
    }
}

impl Member {
    /// Another process has this rank now.
    fn begin(&mut self, incarnation: u64) {
        if self.state != Membership::Awaited {
            self.former.push_back(self.incarnation);
            if self.former.len() > FORMER_MAX {
                self.former.pop_front();
            }
        }
        (self.incarnation, self.accepted) = (incarnation, 0);
        (self.refused, self.is_told) = (None, false);
    }

    /// Whether another process of this rank took part.
    pub(super) fn has_other(&self, incarnation: u64) -> bool {
        self.incarnation != 0 && self.incarnation != incarnation
    }

    pub(super) fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    /// Which process has this rank.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The last change that was refused to this process, and why.
    pub(super) fn refused(&self) -> Option<(u64, Refusal)> {
        self.refused.clone()
    }

    /// Whether no process of this rank has joined.
    pub(super) fn is_absent(&self) -> bool {
        self.state == Membership::Awaited && self.incarnation == 0
    }

    pub(super) fn has_completed(&self) -> bool {
        self.state == Membership::Completed
    }

    /// Whether cuts need it.
    pub(super) fn takes_part(&self) -> bool {
        self.is_active() || self.stays
    }

    /// The refusal that reports a dead trainer.
    pub(super) fn loss(&self, round: u64) -> Refusal {
        let (how, silent_ms) = self.death.unwrap_or(("it was last heard", 0));
        let round = round + 1;
        Refusal::TrainerLost { trainer: self.trainer.0, how: how.to_string(), silent_ms, round }
    }

    /// Whether rounds wait for this trainer.
    pub(super) fn is_active(&self) -> bool {
        let state = self.state;
        matches!(state, Membership::Awaited | Membership::Here | Membership::Away)
    }

    /// Whether it has never come.
    pub(super) fn is_awaited(&self) -> bool {
        self.state == Membership::Awaited
    }

    /// Whether it has said nothing for so long.
    fn is_silent_for(&self, now: Millis, ms: u64) -> bool {
        now.since(self.heard) >= ms
    }

    /// How it has just died, if it has, and for how long it was silent.
    fn death(&self, now: Millis, config: &ServerConfig) -> Option<(&'static str, u64)> {
        match self.cut {
            _ if self.state != Membership::Here => None,
            Some(cut) if now.since(cut) >= config.grace_ms => {
                Some(("its connection broke", now.since(cut)))
            }
            None if now.since(self.heard) >= config.lease_ms => {
                Some(("it was last heard", now.since(self.heard)))
            }
            _ => None,
        }
    }
}

/// Trainers that were silent for too long.
#[derive(Debug, Default)]
pub(super) struct Expired {
    /// They died, and are waited for.
    pub(super) away: Vec<TrainerId>,
    /// They died, or were waited for for too long.
    pub(super) lost: Vec<TrainerId>,
    /// They had completed, and do not stay for cuts any more.
    pub(super) left: Vec<TrainerId>,
}

/// The effects on others of admitting a trainer.
#[derive(Debug)]
pub(super) struct Admitted {
    /// An older connection of the same process.
    pub(super) replaced: Option<ConnId>,
    /// A process that was not here before.
    pub(super) is_new: bool,
}

impl Members {
    pub(super) fn new(n_trainers: u32, recovers: bool) -> Self {
        let entry = |trainer| Member {
            trainer,
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
            away: Millis(0),
            stays: false,
        };
        let entries: Vec<Member> = (0..n_trainers).map(TrainerId).map(entry).collect();
        let counts = MemberCounts { active: entries.len(), ..MemberCounts::default() };
        Self { entries, counts, conns: BTreeMap::new(), recovers }
    }

    /// The members of a job that continues from a cut. Trainers that were not gone at the cut are
    /// waited for.
    pub(super) fn restored(n_trainers: u32, gone: &[(TrainerId, Gone)], now: Millis) -> Self {
        let mut members = Self::new(n_trainers, true);
        for trainer in (0..n_trainers).map(TrainerId) {
            let gone = gone.iter().find(|(other, _)| *other == trainer);
            members.edit(trainer, |entry| {
                entry.state = match gone {
                    None => Membership::Away,
                    Some((_, Gone::Completed)) => Membership::Completed,
                    Some((_, Gone::Left)) => Membership::Left,
                };
                (entry.away, entry.heard) = (now, now);
                entry.death = Some(("the job went back to a cut", 0));
            });
        }
        members
    }

    /// The record of a trainer.
    pub(super) fn of(&self, trainer: TrainerId) -> &Member {
        &self.entries[trainer.0 as usize]
    }

    fn entry_mut(&mut self, trainer: TrainerId) -> &mut Member {
        &mut self.entries[trainer.0 as usize]
    }

    /// Changes an entry, and the counts with it.
    fn edit<R>(&mut self, trainer: TrainerId, change: impl FnOnce(&mut Member) -> R) -> R {
        let entry = &mut self.entries[trainer.0 as usize];
        let old = MemberCounts::of(entry);
        let result = change(entry);
        self.counts.replace(old, MemberCounts::of(entry));
        result
    }

    /// Lets a trainer in, unless another live process has its rank.
    pub(super) fn admit(
        &mut self,
        trainer: TrainerId,
        incarnation: u64,
        conn: ConnId,
        now: Millis,
    ) -> Result<Admitted, Refusal> {
        let entry = self.of(trainer);
        let is_same = entry.incarnation == incarnation && entry.state != Membership::Awaited;
        let is_former = !is_same && entry.former.contains(&incarnation);
        if let Some(refusal) = self.rival(trainer, incarnation, now).filter(|_| !is_same) {
            return Err(refusal);
        }
        if is_former {
            let heard_ms = now.since(entry.heard);
            return Err(Refusal::DuplicateTrainer { trainer: trainer.0, heard_ms });
        }
        let (recovers, replaced) = (self.recovers, entry.conn);
        let replaced = replaced.filter(|&old| old != conn);
        self.edit(trainer, |entry| {
            if !is_same {
                entry.begin(incarnation);
            }
            // A trainer that had completed at the cut has nothing to do.
            let is_done = entry.state == Membership::Completed && recovers;
            entry.stays |= is_done && !is_same;
            let is_back = matches!(entry.state, Membership::Lost | Membership::Away);
            if !is_done && (!is_same || is_back) {
                entry.state = Membership::Here;
            }
            (entry.conn, entry.heard, entry.cut) = (Some(conn), now, None);
        });
        if let Some(old) = replaced {
            self.conns.remove(&old);
        }
        self.conns.insert(conn, trainer);
        Ok(Admitted { replaced, is_new: !is_same })
    }

    /// Why a process cannot have this rank: another one has it and is here.
    pub(super) fn rival(
        &self,
        trainer: TrainerId,
        incarnation: u64,
        now: Millis,
    ) -> Option<Refusal> {
        let entry = self.of(trainer);
        let is_taken = entry.state == Membership::Here && entry.conn.is_some();
        let heard_ms = now.since(entry.heard);
        let refusal = Refusal::DuplicateTrainer { trainer: trainer.0, heard_ms };
        (is_taken && entry.incarnation != incarnation).then_some(refusal)
    }

    /// The connections of all members.
    pub(super) fn conns(&self) -> Vec<(ConnId, TrainerId)> {
        self.conns.iter().map(|(&conn, &trainer)| (conn, trainer)).collect()
    }

    /// The trainer of a connection.
    pub(super) fn who(&self, conn: ConnId) -> Option<TrainerId> {
        self.conns.get(&conn).copied()
    }

    pub(super) fn heard(&mut self, trainer: TrainerId, now: Millis) {
        self.entry_mut(trainer).heard = now;
    }

    pub(super) fn accept(&mut self, trainer: TrainerId, seq: u64) {
        self.entry_mut(trainer).accepted = seq;
    }

    /// Remembers a refusal: the trainer may not have got it.
    pub(super) fn refuse(&mut self, trainer: TrainerId, seq: u64, refusal: Refusal) {
        self.entry_mut(trainer).refused = Some((seq, refusal));
    }

    /// Records that the trainer learnt of the failure of the job.
    pub(super) fn told(&mut self, trainer: TrainerId) {
        self.edit(trainer, |entry| entry.is_told = true);
    }

    /// Whether no other trainer is here.
    pub(super) fn is_alone(&self, trainer: TrainerId) -> bool {
        self.counts.here == MemberCounts::of(self.of(trainer)).here
    }

    /// Excuses a time in which the server did not listen: the trainers were not silent then.
    pub(super) fn forgive(&mut self, now: Millis, ms: u64) {
        for entry in &mut self.entries {
            entry.heard = now.min(entry.heard + ms);
            entry.cut = entry.cut.map(|cut| now.min(cut + ms));
            entry.away = now.min(entry.away + ms);
        }
    }

    /// A trainer ends. If the job makes cuts, a trainer that has completed stays until it leaves.
    pub(super) fn go(&mut self, trainer: TrainerId, state: Membership, now: Millis) {
        let recovers = self.recovers;
        self.edit(trainer, |entry| {
            let leaves =
                recovers && entry.state == Membership::Completed && state == Membership::Left;
            entry.stays = recovers && state == Membership::Completed;
            if !leaves {
                entry.state = state;
            }
            entry.heard = now;
        });
    }

    pub(super) fn closed(&mut self, conn: ConnId, now: Millis) {
        if let Some(trainer) = self.conns.remove(&conn) {
            self.edit(trainer, |entry| {
                if entry.conn == Some(conn) {
                    (entry.conn, entry.cut) = (None, Some(now));
                }
            });
        }
    }

    /// Finds trainers that have just died, or were waited for for too long.
    pub(super) fn expire(&mut self, now: Millis, config: &ServerConfig) -> Expired {
        let mut expired = Expired::default();
        for trainer in (0..self.entries.len() as u32).map(TrainerId) {
            let entry = self.of(trainer);
            if let Some(death) = entry.death(now, config) {
                let state = if config.recovers { Membership::Away } else { Membership::Lost };
                self.edit(trainer, |entry| {
                    (entry.state, entry.death, entry.away) = (state, Some(death), now);
                });
                let dead = if config.recovers { &mut expired.away } else { &mut expired.lost };
                dead.push(trainer);
            } else if entry.state == Membership::Away && now.since(entry.away) >= config.recover_ms
            {
                let waited = now.since(entry.away);
                self.edit(trainer, |entry| {
                    entry.state = Membership::Lost;
                    entry.death = entry.death.map(|(how, silent_ms)| (how, silent_ms + waited));
                });
                expired.lost.push(trainer);
            } else if entry.stays && entry.is_silent_for(now, config.recover_ms) {
                self.edit(trainer, |entry| entry.stays = false);
                expired.left.push(trainer);
            }
        }
        expired
    }

    /// Trainers that came and have ended since.
    pub(super) fn ended(&self) -> impl Iterator<Item = TrainerId> + '_ {
        let ids = (0..self.entries.len() as u32).map(TrainerId);
        ids.filter(|&trainer| {
            let entry = self.of(trainer);
            let is_gone = matches!(entry.state, Membership::Completed | Membership::Left);
            is_gone && !entry.stays && entry.incarnation > 0
        })
    }

    /// All trainers that cuts need.
    pub(super) fn taking_part(&self) -> BTreeSet<TrainerId> {
        let ids = (0..self.entries.len() as u32).map(TrainerId);
        ids.filter(|&trainer| self.of(trainer).takes_part()).collect()
    }

    /// How many those are.
    pub(super) fn n_taking_part(&self) -> usize {
        self.counts.active + self.counts.staying
    }

    /// Whether all of them are here.
    pub(super) fn all_here(&self) -> bool {
        self.counts.here == self.counts.active && self.n_taking_part() > 0
    }

    /// Trainers that are not awaited, with the reasons.
    pub(super) fn gone(&self) -> Vec<(TrainerId, Gone)> {
        let gone = |(trainer, entry): (TrainerId, &Member)| match entry.state {
            Membership::Completed => Some((trainer, Gone::Completed)),
            Membership::Left | Membership::Lost => Some((trainer, Gone::Left)),
            Membership::Awaited | Membership::Here | Membership::Away => None,
        };
        (0..).map(TrainerId).zip(&self.entries).filter_map(gone).collect()
    }

    /// All trainers that rounds wait for.
    pub(super) fn active(&self) -> BTreeSet<TrainerId> {
        let ids = (0..self.entries.len() as u32).map(TrainerId);
        ids.filter(|&trainer| self.of(trainer).is_active()).collect()
    }

    /// How many those are.
    pub(super) fn n_active(&self) -> usize {
        self.counts.active
    }

    /// A trainer that is no longer awaited, if there is one.
    pub(super) fn inactive(&self) -> Option<TrainerId> {
        if self.counts.active == self.entries.len() {
            return None;
        }
        let mut ids = (0..self.entries.len() as u32).map(TrainerId);
        ids.find(|&trainer| !self.of(trainer).is_active())
    }

    /// Whether all trainers have completed: some may stay for a last cut.
    pub(super) fn all_completed(&self) -> bool {
        self.counts.completed == self.entries.len()
    }

    pub(super) fn anybody_completed(&self) -> bool {
        self.counts.completed > 0
    }

    /// Whether no trainer will come any more and not all have merely left.
    pub(super) fn all_gone(&self) -> bool {
        let ended = self.anybody_completed() || self.counts.lost > 0;
        self.n_taking_part() == 0 && ended
    }

    /// A trainer that died, if one did.
    pub(super) fn lost(&self) -> Option<TrainerId> {
        if self.counts.lost == 0 {
            return None;
        }
        let lost = self.entries.iter().position(|entry| entry.state == Membership::Lost);
        lost.map(|id| TrainerId(id as u32))
    }

    /// Whether all trainers that can be reached know that the job failed. A trainer that lost its connection may come back for
    /// it.
    pub(super) fn all_told(&self) -> bool {
        self.counts.untold == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts always equal those of a full scan.
    #[test]
    fn counts_are_those_of_the_entries() {
        let mut members = Members::new(4, false);
        let mut x = 1u64;
        let config = ServerConfig { lease_ms: 40, grace_ms: 10, ..ServerConfig::default() };
        let mut seen = MemberCounts::default();
        for step in 0..20_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (trainer, conn) = (TrainerId((x >> 33) as u32 % 4), ConnId((x >> 40) % 6));
            let now = Millis(step);
            match (x >> 50) % 8 {
                // A connection has one trainer.
                0 | 1 if members.who(conn).is_none_or(|who| who == trainer) => {
                    let _ = members.admit(trainer, (x >> 45) % 3, conn, now);
                }
                2 => members.closed(conn, now),
                3 => members.go(trainer, Membership::Completed, now),
                4 => members.go(trainer, Membership::Left, now),
                5 => members.told(trainer),
                6 => drop(members.expire(now, &config)),
                _ => members.heard(trainer, now),
            }
            let mut counted = MemberCounts::default();
            let entries = members.entries.iter().map(MemberCounts::of);
            entries.for_each(|one| counted.replace(MemberCounts::default(), one));
            assert_eq!(members.counts, counted, "step {step}");
            assert_eq!(members.n_active(), members.active().len());
            let maxima = [
                (&mut seen.completed, counted.completed),
                (&mut seen.lost, counted.lost),
                (&mut seen.untold, counted.untold),
            ];
            maxima.into_iter().for_each(|(max, n)| *max = n.max(*max));
        }
        assert!(seen.completed > 1 && seen.lost > 0 && seen.untold > 1, "{seen:?}");
    }
}
