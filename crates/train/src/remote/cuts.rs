//! A trainer's part in cuts of the whole job.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use count::Obstacle;
use program::distributed::ServerId;
use ps::message::{AskStats, Cut, Given, NextCut, PIECE_BYTES, Ready, Reply, WantCut};
use ps::recovery::common;
use ps::tcp::Client;

use super::{Cluster, recovery_lines, unexpected};
use crate::error::{Error, Result};
use crate::recover::LocalState;

/// Memory that a trainer holds at most to do events again. With more, something is wrong on the servers (a
/// full disk), and it does not get better by waiting.
pub(super) const REDO_BYTES: usize = 4 << 30;
/// A cut is asked for when this part of it is held.
const WANTED_PART: usize = 32;
/// With this part, training waits for a cut.
const WAITED_PART: usize = 4;
/// How often a thread that waits for a cut looks.
const GLANCE: Duration = Duration::from_millis(5);

/// What a trainer remembers of cuts.
#[derive(Debug, Default)]
pub(super) struct TrainerCuts {
    /// The one that the term began from.
    pub(super) base: u64,
    /// The last one that it took part in, or that was cancelled.
    handled: u64,
    /// The last one that it took part in.
    taken: u64,
    /// The last one that all servers have kept.
    complete: u64,
    /// It has asked for one since.
    is_wanted: bool,
    /// There was to be one since, and it was cancelled.
    is_cancelled: bool,
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

impl Cluster {
    /// The server that says when cuts are.
    fn lead(&self) -> Result<Arc<Client>> {
        self.client(ServerId(0))
    }

    /// The cut that is due at this boundary.
    fn next_cut(&self) -> Option<NextCut> {
        if !self.recovers() {
            return None;
        }
        let next_cut = self.state().client(ServerId(0))?.notice().next_cut?;
        let (handled, has_completed) = {
            let cuts = self.cuts();
            (cuts.handled, cuts.has_completed)
        };
        let is_here = next_cut.after == 0 || has_completed || next_cut.after == self.round();
        Some(next_cut).filter(|next_cut| is_here && next_cut.cut > handled)
    }

    /// Whether a cut is due at this boundary between two steps, or must be asked for because this
    /// process ends. Cheap: called at every step.
    ///
    /// All threads of a trainer that step together get the same answer at the same boundary.
    pub(crate) fn is_cut_due(&self) -> bool {
        if self.is_kept_by_trainers() {
            return self.recovers() && (self.ends() || self.is_kept_here());
        }
        self.next_cut().is_some() || self.recovers() && (self.ends() || self.has_cut_requests())
    }

    /// Whether a server wants a cut, because it ends, and the lead does not know.
    fn has_cut_requests(&self) -> bool {
        let told = self.cuts().told.clone();
        let told = |server: usize| told.get(server).copied().unwrap_or(0);
        let state = self.state();
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
        let cut_requests: Vec<u64> = self.state().clients.iter().map(cut_requests).collect();
        self.cuts().told = cut_requests;
        self.want_cut()
    }

    /// Takes part in the cut that is due, inside an event. This trainer must not run anything
    /// meanwhile: an event with several threads has stopped them at a boundary. `inside` gives the
    /// state of the event. It is called when all trainers are ready, and its result may be large.
    ///
    /// An error must be returned from [`super::ScriptEvent::perform`]: [`Cluster::do_event`]
    /// handles those that mean that the job has gone back or that SIGTERM came.
    pub(crate) fn cut(&self, inside: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<()> {
        self.boundary_with(&mut || inside().map(Some))
    }

    /// A boundary between two events.
    pub(super) fn boundary(&self) -> Result<()> {
        self.boundary_with(&mut || Ok(None))
    }

    fn boundary_with(&self, inside: &mut dyn FnMut() -> Result<Option<Vec<u8>>>) -> Result<()> {
        if self.recovers() && self.is_kept_by_trainers() {
            return self.boundary_among(inside);
        }
        let ends = self.ends();
        if ends && self.timeline().is_replaying() {
            return self.end(None);
        }
        if ends {
            self.want_cut()?;
        }
        if self.recovers() {
            self.pass_cut_requests_on()?;
        }
        let Some(next_cut) = self.next_cut() else { return Ok(()) };
        let is_made = self.take_part(next_cut, inside)?;
        if !(ends && is_made) {
            return Ok(());
        }
        // Servers may end as well, when they have kept it: they are not waited for.
        self.recovery().hurry(true);
        let kept = self.wait_kept(next_cut.cut, inside);
        self.recovery().hurry(false);
        self.end(kept.ok().map(|()| next_cut.cut))
    }

    /// This process ends, in order; the job can go on from a cut. Servers are not told: they wait for
    /// it to be started again.
    pub(super) fn end(&self, cut: Option<u64>) -> Result<()> {
        (self.log())(&recovery_lines::ends(cut));
        self.close();
        Err(Error::Ended)
    }

    /// Waits until all are ready, and gives the servers what only this trainer has; whether the cut
    /// was made.
    fn take_part(
        &self,
        NextCut { cut, .. }: NextCut,
        inside: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
    ) -> Result<bool> {
        self.settle()?;
        let lead = self.lead()?;
        let ticket = lead.ask(Ready { cut })?;
        let answer = {
            let waits = "waits for a cut of the job: the other trainers are not ready for it";
            let _held_up = Obstacle::passing("cut", waits).for_now();
            lead.wait(ticket, "the other trainers to be ready for a cut")?
        };
        self.cuts().handled = cut;
        match answer {
            Reply::StartCut(_) => {}
            Reply::CancelCut(_) => {
                self.cuts().is_cancelled = true;
                return Ok(false);
            }
            other => return Err(unexpected(&lead, &other)),
        }
        self.note_kept();
        let inside = inside()?;
        let given = self.given(inside);
        let complete = self.cuts().complete;
        let (home, clients) = (self.home(), self.all()?);
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
        let mut cuts = self.cuts();
        (cuts.taken, cuts.is_wanted, cuts.is_cancelled) = (cut, false, false);
        Ok(true)
    }

    /// The number of the server that keeps what only this trainer has.
    pub(super) fn home(&self) -> usize {
        let state = self.state();
        let me = state.me.as_ref();
        me.map_or(0, |me| me.trainer.0 as usize % me.endpoints.len().max(1))
    }

    /// What the home server keeps.
    fn given(&self, inside: Option<Vec<u8>>) -> Given {
        let mut timeline = self.timeline();
        // A process that still catches up has changed nothing.
        if let Some(state) = timeline.replayed_state() {
            return Given { state: state.to_bytes(), journal: Vec::new() };
        }
        let mut state = timeline.state(inside);
        self.add_own(&mut state, &timeline);
        let (bytes, journal) = (state.to_bytes(), self.journal_part(&mut timeline));
        timeline.took_part(self.cuts().handled, state.position);
        Given { state: bytes, journal }
    }

    /// What is added to the journal of this trainer; says so if that is the last.
    pub(super) fn journal_part(&self, timeline: &mut super::Timeline) -> Vec<u8> {
        let limit = self.recovery().journal_bytes.load(Ordering::Relaxed);
        let part = timeline.journal_part(limit);
        if part.is_last {
            (self.log())(&recovery_lines::journal_is_full(limit));
        }
        part.bytes
    }

    /// Adds what the connections know to a state.
    pub(super) fn add_own(&self, state: &mut LocalState, timeline: &super::Timeline) {
        {
            let own = self.state();
            (state.n_all_gathers, state.n_exchanges) = (own.n_all_gathers, own.n_exchanges);
        }
        state.is_over = self.cuts().has_completed;
        state.sender = self.sender_state();
        self.add_passes(state);
        if let Some((_, scopes)) = timeline.of_job() {
            state.geo = scopes.first().and_then(|scope| self.geo().save(scope));
        }
    }

    /// Learns which cuts servers have kept, and forgets what nobody goes back to.
    fn note_kept(&self) {
        let kept: Vec<Vec<u64>> = self.open().iter().map(|client| client.notice().kept).collect();
        let mut timeline = self.timeline();
        if let Some(&cut) = kept.get(self.home()).and_then(|kept| kept.last()) {
            timeline.kept_at_home(cut);
        }
        if let Some(cut) = common(&kept) {
            timeline.kept_by_all(cut);
            let mut cuts = self.cuts();
            cuts.complete = cuts.complete.max(cut);
        }
    }

    /// Whether what was decided at the start of the script is kept: the job has a cut after it, or does not
    /// recover.
    pub fn keeps_its_start(&self) -> bool {
        if !self.recovers() {
            return true;
        }
        self.note_kept();
        self.cuts().complete > 0 || self.has_kept()
    }

    /// Asks for a cut, once.
    fn want_cut(&self) -> Result<()> {
        if std::mem::replace(&mut self.cuts().is_wanted, true) {
            return Ok(());
        }
        let lead = self.lead()?;
        let ticket = lead.ask(WantCut)?;
        lead.wait(ticket, "a cut to be noted").map(drop)?;
        Ok(())
    }

    /// Sees to it that what is held to do events again does not grow without end.
    pub(super) fn want_room(&self) -> Result<()> {
        let limit = self.recovery().redo_bytes.load(Ordering::Relaxed);
        if self.timeline().n_bytes() < limit / WANTED_PART {
            return Ok(());
        }
        self.note_kept();
        let n_bytes = self.timeline().n_bytes();
        // Trainers that keep each other make the next cut when its time comes, and not earlier.
        if n_bytes < limit / WANTED_PART || n_bytes < limit && self.is_kept_by_trainers() {
            return Ok(());
        }
        if n_bytes >= limit {
            return self.make_room(limit);
        }
        self.want_cut()?;
        let waits_for_rounds =
            self.timeline().of_job().is_some_and(|(job, _)| job.mode.waits_for_all());
        // Where trainers keep step, a cut comes with the next rounds, and not without them. Nor does it come
        // while the others wait at a barrier for this trainer: then all are cancelled.
        if n_bytes < limit / WAITED_PART || waits_for_rounds || self.cuts().is_cancelled {
            Ok(())
        } else {
            self.wait_for_an_attempt()
        }
    }

    /// There is no memory left to do events again. If the others wait for this trainer at a barrier, there is no cut
    /// before it comes to them: what it holds is forgotten, for to end now would bring it here again.
    fn make_room(&self, limit: usize) -> Result<()> {
        let (is_cancelled, cut) = {
            let cuts = self.cuts();
            (cuts.is_cancelled, cuts.complete)
        };
        if is_cancelled {
            self.timeline().forget_redo();
        }
        let n_bytes = self.timeline().n_bytes();
        if n_bytes >= limit {
            return Err(Error::NoCutIsKept { n_bytes, cut });
        }
        (self.log())(&recovery_lines::forgets(cut));
        Ok(())
    }

    /// Takes part in the next cut, if it is not cancelled.
    fn wait_for_an_attempt(&self) -> Result<()> {
        let before = self.cuts().handled;
        self.waits(&|_| true, &mut || {
            self.want_cut()?;
            if let Some(next_cut) = self.next_cut() {
                self.take_part(next_cut, &mut || Ok(None))?;
            }
            Ok((self.cuts().handled > before).then_some(()))
        })
    }

    /// Takes part in the next cut, which one that has nothing to do waits for.
    fn wait_for_a_cut(&self) -> Result<u64> {
        let before = self.cuts().taken;
        self.waits(&|_| true, &mut || {
            self.want_cut()?;
            if let Some(next_cut) = self.next_cut() {
                self.take_part(next_cut, &mut || Ok(None))?;
            }
            let taken = self.cuts().taken;
            Ok((taken > before).then_some(taken))
        })
    }

    /// Waits until all servers have kept a cut. If one of them has not, which it says in its log, a
    /// later one is waited for.
    fn wait_kept(
        &self,
        cut: u64,
        inside: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        self.waits(&|client| client.notice().kept.last() < Some(&cut), &mut || {
            self.note_kept();
            if let Some(next_cut) = self.next_cut() {
                self.take_part(next_cut, inside)?;
            }
            Ok((self.cuts().complete >= cut).then_some(()))
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
        let (start, limit) = (Instant::now(), self.state().patience.recover_ms);
        let waits = "waits until all servers have written a cut";
        let _held_up = Obstacle::passing("kept", waits).for_now();
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            for client in self.open().iter().filter(|client| is_wanted(client)) {
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
