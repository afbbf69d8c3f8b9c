//! When a cut is made: the server that leads gives notice, waits until all trainers are ready, and tells
//! them to go, or that there will be no cut.

use std::collections::BTreeMap;

use wire::message::{CancelCut, NextCut};
use wire::{Millis, TrainerId};

use super::{Apply, Asker, Server, notice};

/// With so many cuts that not all servers have kept, others are made less often.
const KEPT_MAX: usize = 64;
const SELDOM_MS: u64 = 60_000;

/// After a cut that could not be: the next attempt.
pub(super) const PAUSE_MS: u64 = 50;

/// Trainers stand still for cuts for at most one in so many parts of the time, as long as that leaves cuts no
/// farther apart than [`FARTHEST_MS`]. Their contributions are then sent, checked and written by processes that
/// share their cores: the cut costs three times as much as the pause.
const PAUSE_SHARE: u64 = 100;
const FARTHEST_MS: u64 = 60_000;

/// The plans of the leading server.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) attempt: Option<Attempt>,
    /// The last number that was used.
    last: u64,
    /// The last cut that trainers were told to go for.
    pub(super) gone: Option<u64>,
    /// When the next one is due; set when somebody looks.
    next: Option<Millis>,
    /// No cut before this time, even if a trainer wants one.
    not_before: Millis,
    n_cancelled: u32,
    /// When trainers were told to go, until all have given their parts.
    pub(super) went: Option<Millis>,
    /// How long trainers stood still to put together what they give: the last two times.
    pauses: [u64; 2],
}

/// A cut that trainers know of.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) next_cut: NextCut,
    /// The trainers that are ready, and where to answer them.
    pub(super) ready: BTreeMap<TrainerId, Asker>,
    /// Since when the first one waits.
    pub(super) since: Option<Millis>,
}

impl Schedule {
    pub(super) fn next_cut(&self) -> Option<NextCut> {
        self.attempt.as_ref().map(|attempt| attempt.next_cut)
    }

    /// All trainers have given their parts of a cut, and train on.
    pub(super) fn all_gave(&mut self, now: Millis) {
        if let Some(went) = self.went.take() {
            self.pauses = [now.since(went), self.pauses[0]];
        }
    }

    /// The distance between cuts. A single slow cut, because a machine was busy, does not count.
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
        if self.config.is_lead {
            self.cuts.is_wanted = true;
        } else {
            self.cuts.cut_requests += 1;
            notice::tell_all(self);
        }
    }
}

/// A cut was made here, or failed.
pub(super) fn cut_ended(server: &mut Server, now: Millis) {
    let is_crowded = server.cuts.kept().len() >= KEPT_MAX;
    let pause = if is_crowded { SELDOM_MS } else { 0 };
    let schedule = &mut server.term.schedule;
    (schedule.n_cancelled, schedule.not_before) = (0, now + pause);
    schedule.next = Some(now + pause.max(schedule.distance(server.config.cut_every_ms)));
}

/// Time passed: gives notice of a cut, or gives one up.
pub(super) fn check(server: &mut Server, now: Millis) {
    if !server.config.is_lead || !server.is_serving() || server.failure.is_some() {
        return;
    }
    if let Some(attempt) = &server.term.schedule.attempt {
        let next_cut = attempt.next_cut;
        let is_passed = next_cut.after > 0 && server.term.rounds.applied() > next_cut.after;
        let is_late = |since: Millis| now.since(since) >= server.config.ready_ms;
        if is_passed || attempt.since.is_some_and(is_late) {
            let pause_ms = if is_passed { PAUSE_MS } else { server.config.ready_ms };
            cancel(server, now, pause_ms);
        }
        return;
    }
    let next = *server.term.schedule.next.get_or_insert(now + server.config.cut_every_ms);
    let is_time = now >= next || server.cuts.is_wanted && now >= server.term.schedule.not_before;
    // The trainers that were told to take the cut have not come yet.
    let is_under_way = server.term.schedule.gone.is_some_and(|gone| gone > server.cuts.begun());
    let is_idle = server.term.cuts.is_idle() && !is_under_way;
    if is_time && is_idle && server.term.members.all_here() {
        give_notice(server);
    }
}

fn give_notice(server: &mut Server) {
    let cut = server.term.schedule.last.max(server.cuts.begun()) + 1;
    let after = match server.config.apply {
        Apply::AtOnce => 0,
        // All trainers hear about it before they get there.
        Apply::ByRound { ahead } => server.term.rounds.applied() + 2 + u64::from(ahead),
    };
    let next_cut = NextCut { cut, after };
    server.term.schedule.last = cut;
    server.cuts.is_wanted = false;
    server.term.schedule.attempt = Some(Attempt { next_cut, ready: BTreeMap::new(), since: None });
    notice::tell_all(server);
}

/// Not all were ready in time: after a pause, and the next time after a longer one.
pub(super) fn cancel(server: &mut Server, now: Millis, pause_ms: u64) {
    let Some(attempt) = server.term.schedule.attempt.take() else { return };
    let cut = attempt.next_cut.cut;
    for Asker { conn, id, .. } in attempt.ready.into_values() {
        server.reply(conn, id, CancelCut { cut });
    }
    let Schedule { n_cancelled, not_before, next, .. } = &mut server.term.schedule;
    *n_cancelled = (*n_cancelled + 1).min(16);
    let longest = server.config.cut_every_ms.max(server.config.ready_ms);
    let pause = (pause_ms << *n_cancelled).min(longest);
    *not_before = now + pause;
    *next = Some(*not_before);
    notice::tell_all(server);
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
