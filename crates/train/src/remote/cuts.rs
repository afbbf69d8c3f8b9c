//! A trainer's part in cuts of the whole job.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use metrics::Obstacle;
use net::tcp::Client;
use program::distributed::ServerId;
use wire::message::{AskStats, Cut, Given, NextCut, PIECE_BYTES, Ready, Reply, WantCut};
use wire::recovery::common;

use super::exchange::Exchanges;
use super::links::{Arrival, Links};
use super::recovery::{CutProtocol, EventState, Recovery, ended};
use super::unexpected;
use crate::error::{Error, Result};

/// Memory that a trainer holds at most to do events again. With more, something is wrong on the servers (a
/// full disk), and it does not get better by waiting.
pub(super) const REDO_BYTES: usize = 4 << 30;
/// A cut is asked for when this part of it is held.
pub(super) const WANTED_PART: usize = 32;
/// With this part, training waits for a cut.
const WAITED_PART: usize = 4;
/// How often a thread that waits for a cut looks.
const GLANCE: Duration = Duration::from_millis(5);

/// A trainer's memory of cuts.
#[derive(Debug, Default)]
pub(super) struct TrainerCuts {
    /// The one that the term began from.
    pub(super) base: u64,
    /// The last one that it took part in, or that was cancelled.
    handled: u64,
    /// The last one that it took part in.
    taken: u64,
    /// The last one that all servers have kept.
    pub(super) complete: u64,
    /// It has asked for one since.
    is_wanted: bool,
    /// There was to be one since, and it was cancelled.
    pub(super) is_cancelled: bool,
    /// Of each server: how often it has wanted one, as far as this trainer has told the lead.
    told: Vec<u64>,
    /// This trainer has completed: it has nothing to do, and takes part whenever there is a cut.
    pub(super) has_completed: bool,
}

impl TrainerCuts {
    /// The cuts of a term that began from this cut.
    pub(super) fn since(base: u64) -> Self {
        Self { base, handled: base, taken: base, complete: base, ..Self::default() }
    }
}

/// Cuts of a job whose servers keep them.
pub(super) struct ServerCuts<'a> {
    pub(super) links: &'a Links,
    pub(super) exchanges: &'a Exchanges,
    pub(super) recovery: &'a Recovery,
}

impl CutProtocol for ServerCuts<'_> {
    fn arrive(&self) -> Result<Arrival> {
        self.links.rejoin()
    }

    fn is_due(&self) -> bool {
        self.next_cut().is_some() || self.links.ends() || self.has_cut_requests()
    }

    fn boundary(&self, inside: &mut EventState<'_>) -> Result<()> {
        let ends = self.links.ends();
        if ends && self.recovery.timeline().is_replaying() {
            return ended(self.links, None);
        }
        if ends {
            self.want_cut()?;
        }
        if self.links.recovers().is_on() {
            self.pass_cut_requests_on()?;
        }
        let Some(next_cut) = self.next_cut() else { return Ok(()) };
        let is_made = self.take_part(next_cut, inside)?;
        if !(ends && is_made) {
            return Ok(());
        }
        // Servers may end as well, when they have kept it: they are not waited for.
        self.links.hurry(true);
        let kept = self.wait_kept(next_cut.cut, inside);
        self.links.hurry(false);
        ended(self.links, kept.ok().map(|()| next_cut.cut))
    }

    fn has_kept(&self) -> bool {
        self.note_kept();
        self.recovery.cuts().complete > 0
    }

    fn make_room(&self, limit: usize) -> Result<()> {
        self.note_kept();
        let n_bytes = self.recovery.timeline().n_bytes();
        if n_bytes < limit / WANTED_PART {
            return Ok(());
        }
        if n_bytes >= limit {
            return self.recovery.free_room(self.links, limit);
        }
        self.want_cut()?;
        let waits_for_rounds =
            self.recovery.timeline().of_job().is_some_and(|(job, _)| job.mode.waits_for_all());
        // Where trainers keep step, a cut comes with the next rounds, and not without them. Nor does it come
        // while the others wait at a barrier for this trainer: then all are cancelled.
        let is_late = n_bytes >= limit / WAITED_PART && !waits_for_rounds;
        if is_late && !self.recovery.cuts().is_cancelled {
            return self.wait_for_an_attempt();
        }
        Ok(())
    }
}

impl ServerCuts<'_> {
    /// The server that says when cuts are.
    fn lead(&self) -> Result<Arc<Client>> {
        self.links.client(ServerId(0))
    }

    /// The cut that is due at this boundary.
    fn next_cut(&self) -> Option<NextCut> {
        if !self.links.recovers().is_on() {
            return None;
        }
        let next_cut = self.links.state().client(ServerId(0))?.notice().next_cut?;
        let (handled, has_completed) = {
            let cuts = self.recovery.cuts();
            (cuts.handled, cuts.has_completed)
        };
        let is_here = next_cut.after == 0 || has_completed || next_cut.after == self.links.round();
        Some(next_cut).filter(|next_cut| is_here && next_cut.cut > handled)
    }

    /// Whether a server wants a cut, because it ends, and the lead does not know.
    fn has_cut_requests(&self) -> bool {
        let told = self.recovery.cuts().told.clone();
        let told = |server: usize| told.get(server).copied().unwrap_or(0);
        let state = self.links.state();
        let mut clients = state.clients.iter().enumerate();
        clients.any(|(at, client)| client.as_ref().is_some_and(|it| it.cut_requests() > told(at)))
    }

    /// Tells the lead what other servers want.
    fn pass_cut_requests_on(&self) -> Result<()> {
        if !self.has_cut_requests() {
            return Ok(());
        }
        let cut_requests =
            |client: &Option<Arc<Client>>| client.as_ref().map_or(0, |it| it.cut_requests());
        let cut_requests: Vec<u64> = self.links.state().clients.iter().map(cut_requests).collect();
        self.recovery.cuts().told = cut_requests;
        self.want_cut()
    }

    /// Waits until all are ready, and gives the servers what only this trainer has; whether the cut
    /// was made.
    fn take_part(&self, NextCut { cut, .. }: NextCut, inside: &mut EventState<'_>) -> Result<bool> {
        self.exchanges.settle(self.links)?;
        self.links.wait_served()?;
        let lead = self.lead()?;
        let ticket = lead.ask(Ready { cut })?;
        let answer = {
            let waits = "waits for a cut of the job: the other trainers are not ready for it";
            let _held_up = Obstacle::passing("cut", waits).for_now();
            lead.wait(ticket, "the other trainers to be ready for a cut")?
        };
        self.recovery.cuts().handled = cut;
        match answer {
            Reply::StartCut(_) => {}
            Reply::CancelCut(_) => {
                self.recovery.cuts().is_cancelled = true;
                return Ok(false);
            }
            other => return Err(unexpected(&lead, &other)),
        }
        self.note_kept();
        let inside = inside()?;
        let given = self.given(inside);
        let complete = self.recovery.cuts().complete;
        let (home, clients) = (self.home(), self.links.all()?);
        for (_, client) in clients.iter().enumerate().filter(|(server, _)| *server != home) {
            client.change(Cut { cut, complete, ..Cut::default() })?;
        }
        if let Some(client) = clients.get(home) {
            for piece in given.pieces(cut, complete, PIECE_BYTES) {
                let has_more = piece.has_more;
                client.change(piece)?;
                // Neither side needs memory for all of it in flight.
                if has_more {
                    client.settle()?;
                }
            }
        }
        let mut cuts = self.recovery.cuts();
        (cuts.taken, cuts.is_wanted, cuts.is_cancelled) = (cut, false, false);
        Ok(true)
    }

    /// The number of the server that keeps what only this trainer has.
    fn home(&self) -> usize {
        let state = self.links.state();
        let me = state.me.as_ref();
        me.map_or(0, |me| me.trainer.0 as usize % me.endpoints.len().max(1))
    }

    /// The state that the home server keeps.
    fn given(&self, inside: Option<Vec<u8>>) -> Given {
        let mut timeline = self.recovery.timeline();
        // A process that still catches up has changed nothing.
        if let Some(state) = timeline.replayed_state() {
            return Given { state: state.to_bytes(), journal: Vec::new() };
        }
        let mut state = timeline.state(inside);
        self.recovery.add_own(&mut state, &timeline, self.links, self.exchanges);
        let (bytes, journal) =
            (state.to_bytes(), self.recovery.journal_part(&mut timeline, self.links));
        let handled = self.recovery.cuts().handled;
        timeline.took_part(handled, state.position);
        Given { state: bytes, journal }
    }

    /// Learns which cuts servers have kept, and forgets what nobody goes back to.
    fn note_kept(&self) {
        let kept: Vec<Vec<u64>> =
            self.links.open().iter().map(|client| client.notice().kept).collect();
        let mut timeline = self.recovery.timeline();
        if let Some(&cut) = kept.get(self.home()).and_then(|kept| kept.last()) {
            timeline.kept_at_home(cut);
        }
        if let Some(cut) = common(&kept) {
            timeline.kept_by_all(cut);
            let mut cuts = self.recovery.cuts();
            cuts.complete = cuts.complete.max(cut);
        }
    }

    /// Asks for a cut, once.
    fn want_cut(&self) -> Result<()> {
        if std::mem::replace(&mut self.recovery.cuts().is_wanted, true) {
            return Ok(());
        }
        let lead = self.lead()?;
        let ticket = lead.ask(WantCut)?;
        lead.wait(ticket, "a cut to be noted").map(drop)?;
        Ok(())
    }

    /// Takes part in the next cut, if it is not cancelled.
    fn wait_for_an_attempt(&self) -> Result<()> {
        let before = self.recovery.cuts().handled;
        self.waits(&|_| true, &mut || {
            self.want_cut()?;
            if let Some(next_cut) = self.next_cut() {
                self.take_part(next_cut, &mut || Ok(None))?;
            }
            Ok((self.recovery.cuts().handled > before).then_some(()))
        })
    }

    /// Takes part in the next cut, which one that has nothing to do waits for.
    fn wait_for_a_cut(&self) -> Result<u64> {
        let before = self.recovery.cuts().taken;
        self.waits(&|_| true, &mut || {
            self.want_cut()?;
            if let Some(next_cut) = self.next_cut() {
                self.take_part(next_cut, &mut || Ok(None))?;
            }
            let taken = self.recovery.cuts().taken;
            Ok((taken > before).then_some(taken))
        })
    }

    /// Waits until all servers have kept a cut. If one of them has not, which it says in its log, a
    /// later one is waited for.
    fn wait_kept(&self, cut: u64, inside: &mut EventState<'_>) -> Result<()> {
        self.waits(&|client| client.notice().kept.last() < Some(&cut), &mut || {
            self.note_kept();
            if let Some(next_cut) = self.next_cut() {
                self.take_part(next_cut, inside)?;
            }
            Ok((self.recovery.cuts().complete >= cut).then_some(()))
        })
    }

    /// This trainer has completed, and servers know: stays until a cut that says so is kept by all.
    pub(super) fn stay(&self) -> Result<()> {
        let cut = self.wait_for_a_cut()?;
        self.wait_kept(cut, &mut || Ok(None))
    }

    /// Looks again and again; those servers are asked something meanwhile of which news are wanted, so
    /// that what they tell is read.
    fn waits<T>(
        &self,
        is_wanted: &dyn Fn(&Client) -> bool,
        look: &mut dyn FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let (start, limit) = (Instant::now(), self.links.settings().patience.recover_ms);
        let waits = "waits until all servers have written a cut";
        let _held_up = Obstacle::passing("kept", waits).for_now();
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            for client in self.links.open().iter().filter(|client| is_wanted(client)) {
                let ticket = client.ask(AskStats)?;
                client.wait(ticket, "counters")?;
            }
            if start.elapsed() >= Duration::from_millis(limit) {
                return Err(Error::NoCut { waited_ms: limit });
            }
            thread::sleep(GLANCE);
        }
    }
}
