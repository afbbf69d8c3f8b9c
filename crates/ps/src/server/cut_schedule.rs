//! When a cut is made: the server that leads gives notice, waits until all trainers are ready, and tells
//! them to go, or that there will be no cut.

use std::collections::BTreeMap;

use super::{Apply, Asker, Server};
use crate::ids::{Millis, TrainerId};
use crate::message::{CancelCut, NextCut, StartCut};

/// With so many cuts that not all servers have kept, others are made less often.
const KEPT_MAX: usize = 64;
const SELDOM_MS: u64 = 60_000;

/// After a cut that could not be: the next attempt.
const PAUSE_MS: u64 = 50;

/// Trainers stand still for cuts for at most one in so many parts of the time, as long as that leaves cuts
/// no farther apart than [`FARTHEST_MS`]. What they give is then sent, checked and written, by processes that share
/// their cores: the cut costs three times as much as the pause.
const PAUSE_SHARE: u64 = 100;
const FARTHEST_MS: u64 = 60_000;

/// What the server that leads has in mind.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    attempt: Option<Attempt>,
    /// The last number that was used.
    last: u64,
    /// The last cut that trainers were told to go for.
    gone: Option<u64>,
    is_wanted: bool,
    /// How often this server has wanted one and does not lead.
    cut_requests: u64,
    /// When the next one is due; set when somebody looks.
    next: Option<Millis>,
    /// No cut before this time, even if a trainer wants one.
    not_before: Millis,
    n_cancelled: u32,
    /// When trainers were told to go, until all have given their parts.
    went: Option<Millis>,
    /// How long trainers stood still to put together what they give: the last two times.
    pauses: [u64; 2],
}

/// A cut that trainers know of.
#[derive(Debug)]
struct Attempt {
    next_cut: NextCut,
    /// The trainers that are ready, and where to answer them.
    ready: BTreeMap<TrainerId, Asker>,
    /// Since when the first one waits.
    since: Option<Millis>,
}

impl Schedule {
    pub(super) fn next_cut(&self) -> Option<NextCut> {
        self.attempt.as_ref().map(|attempt| attempt.next_cut)
    }

    pub(super) fn cut_requests(&self) -> u64 {
        self.cut_requests
    }

    /// Of the next term: what was wanted still is.
    pub(super) fn anew(&self) -> Self {
        Self { is_wanted: self.is_wanted, cut_requests: self.cut_requests, ..Self::default() }
    }

    /// All trainers have given their parts of a cut, and train on.
    pub(super) fn all_gave(&mut self, now: Millis) {
        if let Some(went) = self.went.take() {
            self.pauses = [now.since(went), self.pauses[0]];
        }
    }

    /// How far apart cuts are. What happened once, because a machine was busy, does not count.
    fn distance(&self, every_ms: u64) -> u64 {
        let pause = self.pauses[0].min(self.pauses[1]);
        pause.saturating_mul(PAUSE_SHARE).min(FARTHEST_MS).max(every_ms)
    }

    /// This trainer takes no part any more.
    pub(super) fn excuse(&mut self, trainer: TrainerId) {
        if let Some(attempt) = &mut self.attempt {
            attempt.ready.remove(&trainer);
        }
    }
}

impl Server {
    /// A cut would be welcome. A server that does not lead has its trainers tell the one that does.
    pub fn want_cut(&mut self) {
        match self.config.is_lead {
            true => self.schedule.is_wanted = true,
            false => {
                self.schedule.cut_requests += 1;
                self.tell_all();
            }
        }
    }

    /// A trainer is at a boundary, with everything served.
    pub(super) fn ready(&mut self, asker: Asker, cut: u64) {
        let Asker { conn, trainer, id } = asker;
        if self.schedule.gone == Some(cut) {
            return self.reply(conn, id, StartCut { cut });
        }
        let takes_part = self.members.takes_part(trainer);
        let is_due = |attempt: &&mut Attempt| takes_part && attempt.next_cut.cut == cut;
        match self.schedule.attempt.as_mut().filter(is_due) {
            Some(attempt) => {
                attempt.ready.insert(trainer, asker);
                attempt.since.get_or_insert(self.ticked);
                self.check_ready();
                self.check_met();
            }
            None => self.reply(conn, id, CancelCut { cut }),
        }
    }

    /// Tells all trainers to go, if all are ready.
    pub(super) fn check_ready(&mut self) {
        let n = self.members.n_taking_part();
        let is_ready = |attempt: &mut Attempt| n > 0 && attempt.ready.len() == n;
        let Some(attempt) = self.schedule.attempt.take_if(is_ready) else { return };
        let cut = attempt.next_cut.cut;
        (self.schedule.gone, self.schedule.went) = (Some(cut), Some(self.now));
        for Asker { conn, id, .. } in attempt.ready.into_values() {
            self.reply(conn, id, StartCut { cut });
        }
    }

    /// Gives a cut up if the trainers that are not ready wait in an all-gather for those that are.
    pub(super) fn check_met(&mut self) {
        let Some(attempt) = &self.schedule.attempt else { return };
        // Checking every trainer is only worth it if these could be all of them.
        if attempt.ready.len() + self.all_gathers.n_waiting() < self.members.n_taking_part() {
            return;
        }
        let mut missing = self.members.taking_part();
        missing.retain(|trainer| !attempt.ready.contains_key(trainer));
        let waits = |trainer: &TrainerId| self.all_gathers.has(*trainer);
        if !attempt.ready.is_empty() && !missing.is_empty() && missing.iter().all(waits) {
            self.cancel(self.ticked, PAUSE_MS);
        }
    }

    /// A cut was made here, or failed.
    pub(super) fn cut_ended(&mut self, now: Millis) {
        let is_crowded = self.cuts.kept().len() >= KEPT_MAX;
        let pause = if is_crowded { SELDOM_MS } else { 0 };
        let schedule = &mut self.schedule;
        (schedule.n_cancelled, schedule.not_before) = (0, now + pause);
        schedule.next = Some(now + pause.max(schedule.distance(self.config.cut_every_ms)));
    }

    /// Time passed: gives notice of a cut, or gives one up.
    pub(super) fn check_schedule(&mut self, now: Millis) {
        if !self.config.is_lead || !self.is_serving() || self.failure.is_some() {
            return;
        }
        if let Some(attempt) = &self.schedule.attempt {
            let next_cut = attempt.next_cut;
            let is_passed = next_cut.after > 0 && self.rounds.applied() > next_cut.after;
            let is_late = |since: Millis| now.since(since) >= self.config.ready_ms;
            if is_passed || attempt.since.is_some_and(is_late) {
                self.cancel(now, if is_passed { PAUSE_MS } else { self.config.ready_ms });
            }
            return;
        }
        let next = *self.schedule.next.get_or_insert(now + self.config.cut_every_ms);
        let is_time = now >= next || self.schedule.is_wanted && now >= self.schedule.not_before;
        // Those who were told to go have not come yet.
        let is_under_way = self.schedule.gone.is_some_and(|gone| gone > self.cuts.begun());
        let is_idle = self.cuts.is_idle() && !is_under_way;
        if is_time && is_idle && self.members.all_here() {
            self.give_notice();
        }
    }

    fn give_notice(&mut self) {
        let cut = self.schedule.last.max(self.cuts.begun()) + 1;
        let after = match self.config.apply {
            Apply::AtOnce => 0,
            // All trainers hear about it before they get there.
            Apply::ByRound { ahead } => self.rounds.applied() + 2 + u64::from(ahead),
        };
        let next_cut = NextCut { cut, after };
        self.schedule.last = cut;
        self.schedule.is_wanted = false;
        self.schedule.attempt = Some(Attempt { next_cut, ready: BTreeMap::new(), since: None });
        self.tell_all();
    }

    /// Not all were ready in time: after a pause, and the next time after a longer one.
    fn cancel(&mut self, now: Millis, pause_ms: u64) {
        let Some(attempt) = self.schedule.attempt.take() else { return };
        let cut = attempt.next_cut.cut;
        for Asker { conn, id, .. } in attempt.ready.into_values() {
            self.reply(conn, id, CancelCut { cut });
        }
        let Schedule { n_cancelled, not_before, next, .. } = &mut self.schedule;
        *n_cancelled = (*n_cancelled + 1).min(16);
        let longest = self.config.cut_every_ms.max(self.config.ready_ms);
        let pause = (pause_ms << *n_cancelled).min(longest);
        *not_before = now + pause;
        *next = Some(*not_before);
        self.tell_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_for_which_trainers_stand_still_are_farther_apart() {
        let (mut schedule, mut now) = (Schedule::default(), Millis(7));
        let mut distance_after = |pause_ms: u64, every_ms: u64| {
            schedule.went = Some(now);
            now = now + pause_ms;
            schedule.all_gave(now);
            schedule.distance(every_ms)
        };
        assert_eq!(distance_after(100, 1_000), 1_000, "once says nothing");
        assert_eq!(distance_after(80, 1_000), 8_000);
        assert_eq!(distance_after(5, 1_000), 1_000);
        assert_eq!(distance_after(20_000, 1_000), 1_000, "a machine was busy");
        assert_eq!(distance_after(30_000, 1_000), FARTHEST_MS);
        assert_eq!(distance_after(30_000, 2 * FARTHEST_MS), 2 * FARTHEST_MS, "as it was asked for");
    }
}
