//! Terms of a server: how it goes back to a cut, and which trainers it lets in meanwhile.
//!
//! See [`wire::recovery`] for what a term is. An open term has no base and no members. The first
//! hello with a base starts loading it, and its trainer is let in when the base is loaded.

use std::collections::BTreeSet;

use wire::message::VarInfo;
use wire::recovery::Term;
use wire::{ConnId, Millis, Refusal, TrainerId};

use super::cut::DurableCuts;
use super::cut_state::{CutState, Gone};
use super::hello::PendingHello;
use super::in_term::InTerm;
use super::members::Members;
use super::returning::{Returning, THROUGH_MS};
use super::work::OfCuts;
use super::{
    Action, CutRecord, OnDisk, Purpose, Server, ServerConfig, Store, Task, cut, failure, hello,
};
use crate::JOB_OVER;

/// Which term it is, and what outlives it; what does not is [`InTerm`].
#[derive(Debug, Default)]
pub(super) struct Terms {
    pub(super) term: Term,
    /// Since when nothing is loaded, while nothing is.
    opened: Millis,
    pub(super) loading: Option<BaseLoad>,
    /// The last cut on disk, if all trainers were gone by then and none has come since.
    over: Option<u64>,
    /// Nobody comes any more.
    is_over: bool,
    /// Trainers that this process saw end, in any term.
    ended: BTreeSet<TrainerId>,
    /// Trainers that were through at the base and may come once more.
    returning: Returning,
}

/// A base that must be loaded.
#[derive(Debug)]
pub(super) struct BaseLoad {
    /// Whether that was begun: work of the term before must have ended.
    is_begun: bool,
    /// The hellos that wait for it.
    pub(super) hellos: Vec<PendingHello>,
}

impl Terms {
    pub(super) fn number(&self) -> u64 {
        self.term.number
    }

    /// Whether the job was over when this process started, and no trainer has come.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether a trainer that had finished at the base may still come.
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

    /// Excuses a time in which no trainer could have come.
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
            server.cuts = DurableCuts::of(vec![0]);
        } else {
            // The state of its last term is lost.
            server.terms.term = Term { number: on_disk.term.max(1) + 1, base: None };
            server.terms.over = over_at(&server, &on_disk);
            server.cuts = DurableCuts::of(on_disk.cuts);
        }
        Ok(server)
    }

    /// Whether it continues from a cut on disk: then trainers that it knew come back.
    pub fn goes_on(&self) -> bool {
        self.terms.term.number > 1
    }

    /// Whether trainers can be served.
    pub(super) fn is_serving(&self) -> bool {
        let Terms { term, loading, .. } = &self.terms;
        !self.config.recovers || term.base.is_some() && loading.is_none()
    }
}

/// The last cut, if all trainers were gone by then.
fn over_at(server: &Server, on_disk: &OnDisk) -> Option<u64> {
    let gone = CutState::from_bytes(&on_disk.state).ok()?.protocol.gone;
    let is_gone = |id: u32| gone.iter().any(|(trainer, _)| trainer.0 == id);
    let all_gone = (0..server.config.n_trainers).all(is_gone);
    // If all have merely left, somebody will go on with it.
    let has_completed = gone.iter().any(|(_, how)| *how == Gone::Completed);
    on_disk.cuts.last().copied().filter(|_| all_gone && has_completed)
}

/// Opens a term: no trainer is served any more, the list of cuts stays as it is, and all state of the term before is dropped.
pub(super) fn open(server: &mut Server, now: Millis, number: u64) {
    let line = format!("term {number} begins: everybody goes back to a cut");
    server.inform(line);
    let waiting = server.terms.loading.take().map_or_else(Vec::new, |loading| loading.hellos);
    server.terms.term = Term { number, base: None };
    (server.terms.opened, server.terms.over) = (now, None);
    waiting.into_iter().for_each(|pending| hello::refuse_term(server, pending));
    for (conn, trainer) in server.term.members.conns() {
        let incarnation = server.term.members.of(trainer).incarnation();
        let term_state = hello::term_state(server, trainer, incarnation);
        server.reply(conn, 0, Refusal::OtherTerm(term_state));
        server.actions.push(Action::Close(conn));
    }
    server.terms.ended.extend(server.term.members.ended());
    server.works.disown();
    server.term = InTerm::new(&server.config);
}

/// The base of this term is known.
pub(super) fn load(server: &mut Server, base: u64, pending: PendingHello) {
    (server.terms.term.base, server.terms.over) = (Some(base), None);
    // Those after it will never be asked for: not all servers have them.
    server.cuts.forget_after(base);
    server.terms.loading = Some(BaseLoad { is_begun: false, hellos: vec![pending] });
    go_on_when_quiet(server);
}

/// Loads the base, or marks a cut, when no work is under way that would change what there is.
pub(super) fn go_on_when_quiet(server: &mut Server) {
    let Terms { term, loading, .. } = &mut server.terms;
    if let (Some(loading), Some(cut)) = (loading, term.base) {
        if !loading.is_begun && server.works.running.is_empty() {
            loading.is_begun = true;
            let term = term.number;
            server.run(Purpose::RollBack, Task::RollBack { cut, term });
        }
        return;
    }
    let is_still = |purpose: &Purpose| {
        matches!(purpose, Purpose::Save(_) | Purpose::Recall { .. } | Purpose::WriteCut(_))
    };
    if server.term.cuts.is_to_be_marked() && server.works.running.values().all(is_still) {
        cut::mark(server);
    }
}

/// The base was loaded.
pub(super) fn rolled_back(server: &mut Server, now: Millis, loaded: OfCuts<Vec<u8>>) {
    let Some(loading) = server.terms.loading.take() else { return };
    let Term { number, base } = server.terms.term;
    let base = base.unwrap_or_default();
    let OfCuts { result, mut whole } = loaded;
    let kept = result.and_then(|state| {
        // A state that cannot be decoded is useless, even if its bytes are intact.
        let kept = CutState::from_bytes(&state).inspect_err(|_| whole.retain(|&cut| cut != base));
        kept.map_err(|error| Refusal::Failed(error.to_string()))
    });
    match kept {
        Ok(kept) => {
            restore(server, now, kept);
            server.inform(format!("at cut {base}: term {number} continues from there"));
            loading.hellos.into_iter().for_each(|pending| hello::in_term(server, now, pending));
        }
        Err(refusal) => {
            let next = if whole.contains(&base) {
                "it is tried again"
            } else {
                "everybody goes back to the newest cut that is whole on all servers"
            };
            server.warn(format!("cut {base} cannot be loaded: {refusal}; {next}"));
            server.cuts.only(&whole);
            server.terms.term.base = None;
            server.terms.opened = now;
            // They decide what is to be loaded now.
            loading.hellos.into_iter().for_each(|pending| hello::refuse_term(server, pending));
        }
    }
}

/// Makes the protocol what it was at a cut.
fn restore(server: &mut Server, now: Millis, kept: CutState) {
    let CutState { protocol, states } = kept;
    server.stats = protocol.stats;
    let is_new = |(trainer, _): &(TrainerId, Gone)| !server.terms.ended.contains(trainer);
    server.terms.returning = Returning::new(protocol.gone.iter().copied().filter(is_new));
    server.term.members = Members::restored(server.config.n_trainers, &protocol.gone, now);
    server.term.rounds.restore(protocol.applied, protocol.parts);
    protocol.gone.iter().for_each(|&(trainer, _)| server.term.excuse(trainer));
    server.term.states = states.into_iter().collect();
    server.term.cuts.states = server.term.states.clone();
}

/// Gives up when no trainer has come in time to have a base loaded.
pub(super) fn check(server: &mut Server, now: Millis) {
    let is_idle = server.is_serving() && server.term.members.all_gone();
    server.terms.returning.check(now, is_idle, server.config.recover_ms);
    let Terms { term, loading, opened, .. } = &server.terms;
    let waited = now.since(*opened);
    let is_waiting = term.base.is_none() && loading.is_none() && server.failure.is_none();
    if let Some(cut) = server.terms.over.filter(|_| is_waiting) {
        if waited >= THROUGH_MS.min(server.config.recover_ms) && !server.terms.is_over {
            server.terms.is_over = true;
            server.inform(format!("{JOB_OVER} at cut {cut}, and none has come for {waited} ms"));
        }
        return;
    }
    if is_waiting && waited >= server.config.recover_ms {
        let line = format!("no trainer has come back for {waited} ms to go on from a cut");
        failure::set(server, Refusal::Failed(line));
    }
}
