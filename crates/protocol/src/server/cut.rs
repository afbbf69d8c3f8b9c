//! `cut`: a trainer gives its part. Every server makes cuts so: parts of all trainers, a mark before the first of them counts, and a
//! write in the background.

use std::collections::{BTreeMap, BTreeSet};

use wire::budget::Held;
use wire::message::{Cut, Push};
use wire::{Millis, Refusal, TrainerId};

use super::change::{self, Change, Progress};
use super::cut_state::{CutState, Protocol, add_chunks};
use super::work::OfCuts;
use super::{CutRecord, Purpose, Server, Task, WrittenCut, cut_schedule, notice, term};
use crate::chunks::Chunks;

/// Cuts that are remembered beside one that all servers have.
const OLDER_MAX: usize = 8;

/// The cuts that a server has on its disk. They outlive a term.
#[derive(Debug, Default)]
pub(super) struct DurableCuts {
    /// Those that are durable, ascending.
    kept: Vec<u64>,
    /// The last cut that received parts.
    begun: u64,
    /// Whether one is wanted soon.
    pub(super) is_wanted: bool,
    /// How often this server has wanted one and does not lead.
    pub(super) cut_requests: u64,
}

/// The cut that is being made in a term.
#[derive(Debug, Default)]
pub(super) struct CutsInTerm {
    collecting: Option<Collecting>,
    writing: Option<Writing>,
    /// Journals of cuts that were left out or failed: they go with the next one.
    owed: Chunks,
    /// The last state that each trainer gave. A trainer that is gone gives nothing more, but a process that does not know this
    /// may still ask for it.
    pub(super) states: BTreeMap<TrainerId, Chunks>,
    /// Parts of which more is to come.
    arriving: BTreeMap<TrainerId, CutPart>,
}

/// A cut that is being written.
#[derive(Debug)]
struct Writing {
    cut: u64,
    /// The newest cut that all servers have kept.
    complete: u64,
    /// The journal that is written with it, kept in case the write fails.
    journal: Chunks,
}

/// A cut of which not all parts are here.
#[derive(Debug)]
struct Collecting {
    cut: u64,
    /// The newest cut that all servers have kept, as far as trainers know.
    complete: u64,
    mark: Mark,
    /// Where the protocol stood when it was marked.
    protocol: Protocol,
    /// The trainers that have sent no part yet.
    awaited: BTreeSet<TrainerId>,
    parts: BTreeMap<TrainerId, CutPart>,
    /// Parts that are served when the cut is marked.
    waiting: Vec<Change>,
}

/// A trainer's contribution to a cut.
#[derive(Debug, Default)]
struct CutPart {
    cut: u64,
    state: Chunks,
    journal: Chunks,
    held: Vec<Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Work is under way.
    Due,
    Running,
    Made,
}

impl DurableCuts {
    /// The cuts of a server that finds these on its disk.
    pub(super) fn of(kept: Vec<u64>) -> Self {
        let begun = kept.last().copied().unwrap_or_default();
        Self { kept, begun, ..Self::default() }
    }

    /// Those that are durable here.
    pub(super) fn kept(&self) -> &[u64] {
        &self.kept
    }

    /// The last cut that received parts.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Drops the cuts after `base`.
    pub(super) fn forget_after(&mut self, base: u64) {
        self.kept.retain(|&cut| cut <= base);
        // All servers have the base; those before it are of use only if it is damaged somewhere.
        self.kept.drain(..self.kept.len().saturating_sub(OLDER_MAX));
        self.begun = base;
    }

    /// One turned out to be damaged: these can still be brought back.
    pub(super) fn only(&mut self, whole: &[u64]) {
        self.kept.retain(|cut| whole.contains(cut));
    }

    /// A cut is durable; `whole` are all that can be brought back.
    fn add(&mut self, cut: u64, complete: u64, whole: &[u64]) {
        self.kept.retain(|&kept| kept >= complete);
        self.kept.push(cut);
        // Should those be damaged somewhere, all go back to the newest that is not.
        let older: Vec<u64> = whole.iter().copied().filter(|&cut| cut < complete).collect();
        let newest = older.len().saturating_sub(OLDER_MAX);
        self.kept.splice(0..0, older[newest..].iter().copied());
    }
}

impl CutsInTerm {
    /// Whether none is being made.
    pub(super) fn is_idle(&self) -> bool {
        self.collecting.is_none() && self.writing.is_none()
    }

    pub(super) fn is_to_be_marked(&self) -> bool {
        self.collecting.as_ref().is_some_and(|collecting| collecting.mark == Mark::Due)
    }

    /// Keeps a journal for the next cut.
    fn owe(&mut self, trainer: TrainerId, journal: &Chunks) {
        add_chunks(&mut self.owed, trainer, journal);
    }

    /// Takes a message of a part; the part, if it is whole now.
    fn arrive(&mut self, trainer: TrainerId, piece: Cut, held: Held) -> Option<CutPart> {
        let mut part = self.arriving.remove(&trainer).unwrap_or_default();
        if part.cut != piece.cut {
            part = CutPart { cut: piece.cut, ..CutPart::default() };
        }
        part.state.push(piece.state);
        part.journal.push(piece.journal);
        part.held.push(held);
        if !piece.has_more {
            return Some(part);
        }
        self.arriving.insert(trainer, part);
        None
    }

    /// Abandons the cut and returns the changes that waited for it.
    fn give_up(&mut self) -> Vec<Change> {
        let Some(collecting) = self.collecting.take() else { return Vec::new() };
        collecting.parts.iter().for_each(|(&trainer, part)| self.owe(trainer, &part.journal));
        collecting.waiting
    }

    /// No part of this trainer is awaited any more.
    pub(super) fn excuse(&mut self, trainer: TrainerId) {
        if let Some(collecting) = &mut self.collecting {
            collecting.awaited.remove(&trainer);
        }
    }
}

/// A trainer's part of a cut, or a piece of it.
pub(super) fn serve(server: &mut Server, change: Change, piece: Cut) -> Result<Progress, Refusal> {
    if !server.config.recovers {
        return Ok(Progress::Served);
    }
    let Cut { cut, complete, .. } = piece;
    let held = server.hold(change.trainer, (piece.state.len() + piece.journal.len()) as u64)?;
    let Some(part) = server.term.cuts.arrive(change.trainer, piece, held) else {
        return Ok(Progress::Served);
    };
    if cut > server.cuts.begun {
        begin(server, cut);
    }
    let Some(collecting) = server.term.cuts.collecting.as_mut().filter(|it| it.cut == cut) else {
        server.term.cuts.owe(change.trainer, &part.journal);
        return Ok(Progress::Served);
    };
    // A cut that all servers have kept is here, too.
    if server.cuts.kept.contains(&complete) {
        collecting.complete = collecting.complete.max(complete);
    }
    collecting.awaited.remove(&change.trainer);
    collecting.parts.insert(change.trainer, part);
    if collecting.awaited.is_empty() {
        server.term.schedule.all_gave(server.clock.now);
    }
    if collecting.mark == Mark::Made {
        check(server);
        return Ok(Progress::Served);
    }
    collecting.waiting.push(change);
    term::go_on_when_quiet(server);
    Ok(Progress::UnderWay)
}

/// The first part of a cut is here.
fn begin(server: &mut Server, cut: u64) {
    server.cuts.begun = cut;
    if let Some(Writing { cut: writing, .. }) = server.term.cuts.writing {
        let line = format!("cut {cut} is left out: cut {writing} is still being written");
        return server.warn(line);
    }
    let before = server.term.cuts.give_up();
    server.term.cuts.collecting = Some(Collecting {
        cut,
        complete: server.cuts.kept.first().copied().unwrap_or_default(),
        mark: Mark::Due,
        protocol: Protocol::default(),
        awaited: server.term.members.taking_part(),
        parts: BTreeMap::new(),
        waiting: before,
    });
}

/// Makes the store remember its state. Trainers send nothing until their own part is served.
pub(super) fn mark(server: &mut Server) {
    let parts = server.term.rounds.parts();
    let of_trainer = |(trainer, parts): (TrainerId, Vec<Vec<_>>)| {
        let push = |grads| Push::new(grads);
        (trainer, parts.into_iter().map(push).collect())
    };
    let protocol = Protocol {
        applied: server.term.rounds.applied(),
        stats: server.stats.clone(),
        gone: server.term.members.gone(),
        parts: parts.into_iter().map(of_trainer).collect(),
    };
    let Some(collecting) = &mut server.term.cuts.collecting else { return };
    (collecting.mark, collecting.protocol) = (Mark::Running, protocol);
    let cut = collecting.cut;
    server.run(Purpose::Mark(cut), Task::Mark(cut));
}

pub(super) fn marked(server: &mut Server, now: Millis, cut: u64, marked: Result<(), Refusal>) {
    let Some(collecting) = server.term.cuts.collecting.as_mut().filter(|it| it.cut == cut) else {
        return;
    };
    let waiting = std::mem::take(&mut collecting.waiting);
    collecting.mark = Mark::Made;
    if let Err(refusal) = marked {
        server.term.cuts.give_up();
        failed(server, now, cut, &refusal);
    }
    check(server);
    waiting.into_iter().for_each(|change| change::served(server, now, change, Ok(())));
}

fn failed(server: &mut Server, now: Millis, cut: u64, refusal: &Refusal) {
    cut_schedule::cut_ended(server, now);
    if !server.term.members.all_completed() {
        return server.warn(format!("cut {cut} was not made: {refusal}"));
    }
    // Nobody needs it but a job that goes back, and there is nothing to go back to.
    server.warn(format!(
        "the last snapshot, cut {cut}, is missing: {refusal}. All trainers have finished, so the job ends without it"
    ));
    server.cuts.kept.push(cut);
    notice::tell_all(server);
}

/// Writes a cut of which all parts are here.
pub(super) fn check(server: &mut Server) {
    let is_whole = |it: &Collecting| it.mark == Mark::Made && it.awaited.is_empty();
    let whole = server.term.cuts.collecting.take_if(|collecting| is_whole(collecting));
    let Some(Collecting { cut, complete, mut protocol, parts, .. }) = whole else { return };
    // A trainer without a part was gone when the others were told to take the cut, no matter when the server learnt of it.
    let was_here = |trainer: &TrainerId| parts.contains_key(trainer);
    protocol.gone.retain(|(trainer, _)| was_here(trainer));
    let gone = server.term.members.gone().into_iter().filter(|(trainer, _)| !was_here(trainer));
    protocol.gone.extend(gone);
    let mut journal = std::mem::take(&mut server.term.cuts.owed);
    for (trainer, part) in parts {
        if !part.state.is_empty() {
            server.term.cuts.states.insert(trainer, part.state);
        }
        add_chunks(&mut journal, trainer, &part.journal);
    }
    let states = server.term.cuts.states.clone().into_iter().collect();
    server.term.cuts.writing = Some(Writing { cut, complete, journal: journal.clone() });
    let (term, state) = (server.terms.number(), CutState { protocol, states }.to_chunks());
    let record = CutRecord { cut, term, complete, state, journal };
    server.run(Purpose::WriteCut(server.clock.now), Task::WriteCut(record));
}

pub(super) fn written(server: &mut Server, now: Millis, ms: u64, written: OfCuts<WrittenCut>) {
    let Some(writing) = server.term.cuts.writing.take() else { return };
    let Writing { cut, complete, journal } = writing;
    match written.result {
        Ok(WrittenCut { bytes }) => {
            server.cuts.add(cut, complete, &written.whole);
            server.stats.cuts += 1;
            server.stats.cut_bytes += bytes;
            server.stats.cut_ms = ms;
            server.inform(format!("cut {cut} is kept: {bytes} bytes in {ms} ms"));
            cut_schedule::cut_ended(server, now);
            notice::tell_all(server);
        }
        Err(refusal) => {
            let since = std::mem::replace(&mut server.term.cuts.owed, journal);
            server.term.cuts.owed.append(&since);
            failed(server, now, cut, &refusal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk has as many cuts as the store likes; they must not keep others from being made.
    #[test]
    fn a_server_that_goes_back_forgets_what_is_old() {
        let mut cuts = DurableCuts::of((0..200).collect());
        cuts.forget_after(150);
        assert_eq!((cuts.kept().len(), cuts.kept().last()), (OLDER_MAX, Some(&150)));
        cuts.forget_after(143);
        assert_eq!((cuts.kept(), cuts.begun()), (&[143][..], 143));
    }

    #[test]
    fn some_cuts_before_a_complete_one_are_remembered() {
        let mut cuts = DurableCuts::of(vec![5]);
        cuts.add(6, 5, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(cuts.kept(), [1, 2, 3, 4, 5, 6]);
        let all: Vec<u64> = (0..20).collect();
        cuts.add(19, 15, &all);
        assert_eq!(cuts.kept(), [7, 8, 9, 10, 11, 12, 13, 14, 19]);
        cuts.only(&[3, 9, 10]);
        assert_eq!(cuts.kept(), [9, 10]);
    }
}
