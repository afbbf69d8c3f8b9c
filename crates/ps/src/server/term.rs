//! Terms of a server: how it goes back to a cut, and which trainers it lets in meanwhile.
//!
//! See [`crate::recovery`] for what a term is. An open term has no base and no members. The first
//! hello with a base starts loading it, and its trainer is let in when the base is loaded.

use std::collections::{BTreeMap, BTreeSet};

use super::all_gather::AllGathers;
use super::all_to_all::AllToAllState;
use super::cut::ServerCuts;
use super::cut_state::{CutState, Gone};
use super::handshake::PendingHello;
use super::members::Members;
use super::returning::{Returning, THROUGH_MS};
use super::round::Rounds;
use super::staleness::Staleness;
use super::work::OfCuts;
use super::{Action, Asker, CutRecord, OnDisk, Purpose, Server, ServerConfig, Store, Task};
use crate::chunks::Chunks;
use crate::ids::{ConnId, Millis, TrainerId};
use crate::lines::JOB_OVER;
use crate::message::{Pong, Recall, Recalled, VarInfo};
use crate::recovery::{Term, TermState};
use crate::refusal::Refusal;

#[derive(Debug, Default)]
pub(super) struct Terms {
    term: Term,
    /// Since when nothing is loaded, while nothing is.
    opened: Millis,
    loading: Option<BaseLoad>,
    /// The last cut on disk, if all trainers were gone by then and nobody has come since.
    over: Option<u64>,
    /// Nobody comes any more.
    is_over: bool,
    /// Trainers that this process saw end, in any term.
    ended: BTreeSet<TrainerId>,
    /// Trainers that were through at the base and may come once more.
    returning: Returning,
    /// What trainers gave to the base.
    states: BTreeMap<TrainerId, Chunks>,
    /// What trainers gave to journals up to the base, while they are being told.
    journals: BTreeMap<TrainerId, Chunks>,
}

/// A base that must be loaded.
#[derive(Debug)]
struct BaseLoad {
    /// Whether that was begun: work of the term before must have ended.
    is_begun: bool,
    /// The hellos that wait for it.
    hellos: Vec<PendingHello>,
}

impl Terms {
    pub(super) fn number(&self) -> u64 {
        self.term.number
    }

    /// Whether the job was over when this process started, and nobody has come.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether a trainer that was through at the base may still come.
    pub(super) fn awaits_anybody(&self) -> bool {
        !self.returning.is_empty()
    }

    /// A trainer has come.
    pub(super) fn came(&mut self, trainer: TrainerId) {
        self.returning.came(trainer);
    }

    /// A connection broke.
    pub(super) fn closed(&mut self, conn: ConnId) {
        if let Some(loading) = &mut self.loading {
            loading.hellos.retain(|pending| pending.conn != conn);
        }
    }

    /// For so long nobody could have come.
    pub(super) fn forgive(&mut self, now: Millis, ms: u64) {
        self.opened = now.min(self.opened + ms);
    }
}

impl Server {
    /// A server of a store that keeps cuts, if `config` says so. It continues from what is on disk,
    /// or writes its first cut. This can take long; no trainer should be able to connect before it
    /// returns.
    pub fn start(
        config: ServerConfig,
        vars: Vec<VarInfo>,
        store: &impl Store,
    ) -> Result<Self, Refusal> {
        let mut server = Self::new(config, vars);
        if !server.config.recovers {
            return Ok(server);
        }
        let on_disk = store.on_disk()?;
        if on_disk.cuts.is_empty() {
            store.mark(0)?;
            let state = CutState::default().to_chunks();
            store.write_cut(&CutRecord { term: 1, state, ..CutRecord::default() })?;
            server.terms.term = Term { number: 1, base: Some(0) };
            server.cuts = ServerCuts::of(vec![0]);
        } else {
            // What it held in its last term is lost.
            server.terms.term = Term { number: on_disk.term.max(1) + 1, base: None };
            server.terms.over = server.over_at(&on_disk);
            server.cuts = ServerCuts::of(on_disk.cuts);
        }
        Ok(server)
    }

    /// Whether it goes on from a cut on disk: then trainers that it knew come back.
    pub fn goes_on(&self) -> bool {
        self.terms.term.number > 1
    }

    /// The last cut, if all trainers were gone by then.
    fn over_at(&self, on_disk: &OnDisk) -> Option<u64> {
        let gone = CutState::from_bytes(&on_disk.state).ok()?.protocol.gone;
        let is_gone = |id: u32| gone.iter().any(|(trainer, _)| trainer.0 == id);
        let all_gone = (0..self.config.n_trainers).all(is_gone);
        // If all have merely left, somebody will go on with it.
        let has_completed = gone.iter().any(|(_, how)| *how == Gone::Completed);
        on_disk.cuts.last().copied().filter(|_| all_gone && has_completed)
    }

    /// Whether trainers can be served.
    pub(super) fn is_serving(&self) -> bool {
        let Terms { term, loading, .. } = &self.terms;
        !self.config.recovers || term.base.is_some() && loading.is_none()
    }

    fn term_state(&self, trainer: TrainerId, incarnation: u64) -> TermState {
        let has_member = self.members.has_other(trainer, incarnation);
        TermState { term: self.terms.term, cuts: self.cuts.kept().to_vec(), has_member }
    }

    /// Who greets is let in, has a term opened or its base loaded, or learns how the server stands.
    pub(super) fn greet_in_term(&mut self, now: Millis, pending: PendingHello) {
        let (ours, theirs) = (self.terms.term, pending.hello.term);
        let (trainer, incarnation) = (TrainerId(pending.hello.trainer), pending.hello.incarnation);
        if let Some(refusal) = self.members.rival(trainer, incarnation, now) {
            return self.turn_away(pending.conn, pending.id, refusal);
        }
        let is_ours = theirs == ours && theirs.base.is_some();
        let is_open = theirs.number == ours.number && ours.base.is_none();
        match &self.failure {
            Some(failure) if !is_ours => {
                let failure = failure.clone();
                return self.turn_away(pending.conn, pending.id, failure);
            }
            _ => {}
        }
        match theirs.base {
            None if theirs.number > ours.number => self.open(now, theirs.number),
            Some(base) if is_open && self.cuts.kept().contains(&base) => {
                return self.load(base, pending);
            }
            Some(_) if is_ours && self.terms.loading.is_some() => return self.wait(pending),
            Some(_) if is_ours && !self.members.has_other(trainer, incarnation) => {
                return self.admit(now, pending);
            }
            _ => {}
        }
        self.refuse_term(pending);
    }

    fn refuse_term(&mut self, pending: PendingHello) {
        let PendingHello { conn, id, hello } = pending;
        let term_state = self.term_state(TrainerId(hello.trainer), hello.incarnation);
        self.reply(conn, id, Refusal::OtherTerm(term_state));
        self.actions.push(Action::Close(conn));
    }

    /// Lets a hello wait until the base is loaded. A trainer that greets again hears that it is not
    /// forgotten.
    fn wait(&mut self, pending: PendingHello) {
        let Some(loading) = &mut self.terms.loading else { return };
        let conn = pending.conn;
        match loading.hellos.iter().any(|waiting| waiting.conn == conn) {
            true => self.reply(conn, pending.id, Pong::default()),
            false => loading.hellos.push(pending),
        }
    }

    /// Opens a term: nobody is served any more, and the list of cuts stands still.
    fn open(&mut self, now: Millis, number: u64) {
        let line = format!("term {number} begins: everybody goes back to a cut");
        self.inform(line);
        let waiting = self.terms.loading.take().map_or_else(Vec::new, |loading| loading.hellos);
        self.terms.term = Term { number, base: None };
        (self.terms.opened, self.terms.over) = (now, None);
        waiting.into_iter().for_each(|pending| self.refuse_term(pending));
        for (conn, trainer) in self.members.conns() {
            let term_state = self.term_state(trainer, self.members.incarnation(trainer));
            self.reply(conn, 0, Refusal::OtherTerm(term_state));
            self.actions.push(Action::Close(conn));
        }
        self.forget_term();
    }

    /// Forgets what belongs to a term.
    fn forget_term(&mut self) {
        let n = self.config.n_trainers;
        self.terms.ended.extend(self.members.ended());
        self.members = Members::new(n, true);
        self.rounds = Rounds::new(n, self.config.apply.ahead());
        self.all_gathers = AllGathers::default();
        self.all_to_all = AllToAllState::new(n);
        self.staleness = Staleness::default();
        self.waiting.clear();
        self.busy.clear();
        self.news.clear();
        self.units = None;
        self.terms.states.clear();
        self.terms.journals.clear();
        self.cuts.forget_term();
        self.schedule = self.schedule.anew();
        self.running.values_mut().for_each(|purpose| *purpose = Purpose::Stale);
    }

    /// The base of this term is known.
    fn load(&mut self, base: u64, pending: PendingHello) {
        (self.terms.term.base, self.terms.over) = (Some(base), None);
        // Those after it will never be asked for: not all servers have them.
        self.cuts.forget_after(base);
        self.terms.loading = Some(BaseLoad { is_begun: false, hellos: vec![pending] });
        self.go_on_when_quiet();
    }

    /// Loads the base, or marks a cut, when no work is under way that would change what there is.
    pub(super) fn go_on_when_quiet(&mut self) {
        let Terms { term, loading, .. } = &mut self.terms;
        if let (Some(loading), Some(cut)) = (loading, term.base) {
            if !loading.is_begun && self.running.is_empty() {
                loading.is_begun = true;
                let term = term.number;
                self.run(Purpose::RollBack, Task::RollBack { cut, term });
            }
            return;
        }
        let is_still = |purpose: &Purpose| {
            matches!(purpose, Purpose::Save(_) | Purpose::Recall { .. } | Purpose::WriteCut(_))
        };
        if self.cuts.is_to_be_marked() && self.running.values().all(is_still) {
            self.mark();
        }
    }

    /// The base was loaded.
    pub(super) fn rolled_back(&mut self, now: Millis, loaded: OfCuts<Vec<u8>>) {
        let Some(loading) = self.terms.loading.take() else { return };
        let Term { number, base } = self.terms.term;
        let base = base.unwrap_or_default();
        let OfCuts { result, mut whole } = loaded;
        let kept = result.and_then(|state| {
            // What cannot be understood is of no use, however whole it is.
            let kept =
                CutState::from_bytes(&state).inspect_err(|_| whole.retain(|&cut| cut != base));
            kept.map_err(|error| Refusal::Failed(error.to_string()))
        });
        match kept {
            Ok(kept) => {
                self.restore(now, kept);
                self.inform(format!("at cut {base}: term {number} goes on from there"));
                loading.hellos.into_iter().for_each(|pending| self.greet_in_term(now, pending));
            }
            Err(refusal) => {
                let next = match whole.contains(&base) {
                    true => "it is tried again",
                    false => "everybody goes back to the newest cut that is whole on all servers",
                };
                self.warn(format!("cut {base} cannot be loaded: {refusal}; {next}"));
                self.cuts.only(&whole);
                self.terms.term.base = None;
                self.terms.opened = now;
                // They decide what is to be loaded now.
                loading.hellos.into_iter().for_each(|pending| self.refuse_term(pending));
            }
        }
    }

    /// Makes the protocol what it was at a cut.
    fn restore(&mut self, now: Millis, kept: CutState) {
        let CutState { protocol, states } = kept;
        self.stats = protocol.stats;
        let is_new = |(trainer, _): &(TrainerId, Gone)| !self.terms.ended.contains(trainer);
        self.terms.returning = Returning::new(protocol.gone.iter().copied().filter(is_new));
        self.members = Members::restored(self.config.n_trainers, &protocol.gone, now);
        self.rounds.restore(protocol.applied, protocol.parts);
        protocol.gone.iter().for_each(|&(trainer, _)| self.excuse(trainer));
        self.terms.states = states.into_iter().collect();
        self.cuts.set_states(self.terms.states.clone());
    }

    /// Gives a trainer what it gave to the base.
    pub(super) fn recall(&mut self, asker: Asker, recall: &Recall) {
        let &Recall { cut, from } = recall;
        let base = self.terms.term.base;
        if base != Some(cut) {
            let base = base.unwrap_or_default();
            return self.reply(asker.conn, asker.id, Refusal::NoSuchCut { cut, base });
        }
        let trainer = asker.trainer;
        match self.terms.journals.contains_key(&trainer) {
            true => self.tell_piece(asker, from),
            false => self.run(Purpose::Recall { asker, from }, Task::Journal { trainer, cut }),
        }
    }

    /// A journal was read. If it is damaged, so is every cut that needs it: the next term begins from an older one.
    pub(super) fn recalled(
        &mut self,
        now: Millis,
        asker: Asker,
        from: u64,
        journal: OfCuts<Vec<u8>>,
    ) {
        let Term { number, base } = self.terms.term;
        let OfCuts { result, whole } = journal;
        match (result, base) {
            (Ok(journal), _) => {
                self.terms.journals.insert(asker.trainer, journal.into());
                self.tell_piece(asker, from);
            }
            (Err(refusal), Some(base)) if !whole.contains(&base) => {
                self.warn(format!(
                    "what trainers have given up to cut {base} cannot be read: {refusal}; everybody goes back to \
                     the newest cut that is whole on all servers"
                ));
                self.cuts.only(&whole);
                self.open(now, number + 1);
            }
            (Err(refusal), _) => self.reply(asker.conn, asker.id, refusal),
        }
    }

    /// Tells a trainer the next bytes of what it gave. Its journal is forgotten with the last of them; who
    /// asks again has it read again.
    fn tell_piece(&mut self, asker: Asker, from: u64) {
        let Asker { conn, trainer, id } = asker;
        let mut all = self.terms.states.get(&trainer).cloned().unwrap_or_default();
        let n_state = all.n_bytes() as u64;
        all.append(&self.terms.journals.get(&trainer).cloned().unwrap_or_default());
        let start = usize::try_from(from).unwrap_or(usize::MAX);
        let end = start.saturating_add(self.config.piece_bytes.max(1));
        if end >= all.n_bytes() {
            self.terms.journals.remove(&trainer);
        }
        let (n_bytes, bytes) = (all.n_bytes() as u64, all.range(start..end));
        self.reply(conn, id, Recalled { n_state, n_bytes, bytes });
    }

    /// Gives up when nobody has come for too long to have a base loaded.
    pub(super) fn check_term(&mut self, now: Millis) {
        let is_idle = self.is_serving() && self.members.all_gone();
        self.terms.returning.check(now, is_idle, self.config.recover_ms);
        let Terms { term, loading, opened, .. } = &self.terms;
        let waited = now.since(*opened);
        let is_waiting = term.base.is_none() && loading.is_none() && self.failure.is_none();
        if let Some(cut) = self.terms.over.filter(|_| is_waiting) {
            if waited >= THROUGH_MS.min(self.config.recover_ms) && !self.terms.is_over {
                self.terms.is_over = true;
                self.inform(format!("{JOB_OVER} at cut {cut}, and none has come for {waited} ms"));
            }
            return;
        }
        if is_waiting && waited >= self.config.recover_ms {
            let line = format!("no trainer has come back for {waited} ms to go on from a cut");
            self.set_failure(Refusal::Failed(line));
        }
    }
}
