//! Cuts, as every server makes them: parts of all trainers, a mark before the first of them counts, and a
//! write in the background.

use std::collections::{BTreeMap, BTreeSet};

use super::change::Progress;
use super::cut_state::{CutState, Protocol, add_chunks};
use super::work::OfCuts;
use super::{Change, CutRecord, Purpose, Server, Task, WrittenCut};
use crate::budget::Held;
use crate::chunks::Chunks;
use crate::ids::{ConnId, Millis, TrainerId};
use crate::message::{Cut, Notice, Push};
use crate::refusal::Refusal;

/// Cuts that are remembered beside one that all servers have.
const OLDER_MAX: usize = 8;

/// The cuts of a server.
#[derive(Debug, Default)]
pub(super) struct ServerCuts {
    /// Those that are durable, ascending.
    kept: Vec<u64>,
    /// The last one whose parts came.
    begun: u64,
    collecting: Option<Collecting>,
    writing: Option<Writing>,
    /// Journals of cuts that were left out or failed: they go with the next one.
    owed: Chunks,
    /// What each trainer gave last. A trainer that is gone gives nothing more, but a process that
    /// does not know this may still ask for it.
    states: BTreeMap<TrainerId, Chunks>,
    /// Parts of which more is to come.
    arriving: BTreeMap<TrainerId, CutPart>,
}

/// A cut that is being written.
#[derive(Debug)]
struct Writing {
    cut: u64,
    /// What all servers have kept.
    complete: u64,
    /// What is written with it, should it fail.
    journal: Chunks,
}

/// A cut of which not all parts are here.
#[derive(Debug)]
struct Collecting {
    cut: u64,
    /// What all servers have kept, as far as trainers know.
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

/// What a trainer gives to a cut.
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

impl ServerCuts {
    /// The cuts of a server that finds these on its disk.
    pub(super) fn of(kept: Vec<u64>) -> Self {
        let begun = kept.last().copied().unwrap_or_default();
        Self { kept, begun, ..Self::default() }
    }

    /// Those that are durable here.
    pub(super) fn kept(&self) -> &[u64] {
        &self.kept
    }

    /// The last one whose parts came.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether none is being made.
    pub(super) fn is_idle(&self) -> bool {
        self.collecting.is_none() && self.writing.is_none()
    }

    pub(super) fn is_to_be_marked(&self) -> bool {
        self.collecting.as_ref().is_some_and(|collecting| collecting.mark == Mark::Due)
    }

    /// A term is over, and with it what was being made.
    pub(super) fn forget_term(&mut self) {
        (self.collecting, self.writing) = (None, None);
        self.owed = Chunks::default();
        self.arriving.clear();
    }

    /// Those after this one are of no use any more.
    pub(super) fn forget_after(&mut self, base: u64) {
        self.kept.retain(|&cut| cut <= base);
        // All servers have the base; those before it are of use only if it is damaged somewhere.
        self.kept.drain(..self.kept.len().saturating_sub(OLDER_MAX));
        self.begun = base;
    }

    /// The term began with these.
    pub(super) fn set_states(&mut self, states: BTreeMap<TrainerId, Chunks>) {
        self.states = states;
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

    /// There will be no such cut; whose parts wait to be served.
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

impl Server {
    /// A trainer's part of a cut, or a piece of it.
    pub(super) fn part_of_cut(&mut self, change: Change, piece: Cut) -> Result<Progress, Refusal> {
        if !self.config.recovers {
            return Ok(Progress::Served);
        }
        let Cut { cut, complete, .. } = piece;
        let held = self.hold(change.trainer, (piece.state.len() + piece.journal.len()) as u64)?;
        let Some(part) = self.cuts.arrive(change.trainer, piece, held) else {
            return Ok(Progress::Served);
        };
        if cut > self.cuts.begun {
            self.begin_cut(cut);
        }
        let Some(collecting) = self.cuts.collecting.as_mut().filter(|it| it.cut == cut) else {
            self.cuts.owe(change.trainer, &part.journal);
            return Ok(Progress::Served);
        };
        // What all servers have kept, this one has.
        if self.cuts.kept.contains(&complete) {
            collecting.complete = collecting.complete.max(complete);
        }
        collecting.awaited.remove(&change.trainer);
        collecting.parts.insert(change.trainer, part);
        if collecting.awaited.is_empty() {
            self.schedule.all_gave(self.now);
        }
        if collecting.mark == Mark::Made {
            self.check_cut();
            return Ok(Progress::Served);
        }
        collecting.waiting.push(change);
        self.go_on_when_quiet();
        Ok(Progress::UnderWay)
    }

    /// The first part of a cut is here.
    fn begin_cut(&mut self, cut: u64) {
        self.cuts.begun = cut;
        if let Some(Writing { cut: writing, .. }) = self.cuts.writing {
            let line = format!("cut {cut} is left out: cut {writing} is still being written");
            return self.warn(line);
        }
        let before = self.cuts.give_up();
        self.cuts.collecting = Some(Collecting {
            cut,
            complete: self.cuts.kept.first().copied().unwrap_or_default(),
            mark: Mark::Due,
            protocol: Protocol::default(),
            awaited: self.members.taking_part(),
            parts: BTreeMap::new(),
            waiting: before,
        });
    }

    /// Makes the store remember its state. Trainers send nothing until their own part is served.
    pub(super) fn mark(&mut self) {
        let parts = self.rounds.parts();
        let of_trainer = |(trainer, parts): (TrainerId, Vec<Vec<_>>)| {
            let push = |grads| Push::new(grads);
            (trainer, parts.into_iter().map(push).collect())
        };
        let protocol = Protocol {
            applied: self.rounds.applied(),
            stats: self.stats.clone(),
            gone: self.members.gone(),
            parts: parts.into_iter().map(of_trainer).collect(),
        };
        let Some(collecting) = &mut self.cuts.collecting else { return };
        (collecting.mark, collecting.protocol) = (Mark::Running, protocol);
        let cut = collecting.cut;
        self.run(Purpose::Mark(cut), Task::Mark(cut));
    }

    pub(super) fn marked(&mut self, now: Millis, cut: u64, marked: Result<(), Refusal>) {
        let Some(collecting) = self.cuts.collecting.as_mut().filter(|it| it.cut == cut) else {
            return;
        };
        let waiting = std::mem::take(&mut collecting.waiting);
        collecting.mark = Mark::Made;
        if let Err(refusal) = marked {
            self.cuts.give_up();
            self.no_cut(now, cut, &refusal);
        }
        self.check_cut();
        waiting.into_iter().for_each(|change| self.served(now, change, Ok(())));
    }

    fn no_cut(&mut self, now: Millis, cut: u64, refusal: &Refusal) {
        self.cut_ended(now);
        if !self.members.all_completed() {
            return self.warn(format!("there is no cut {cut}: {refusal}"));
        }
        // Nobody needs it but a job that goes back, and there is nothing to go back to.
        self.warn(format!(
            "the last snapshot, cut {cut}, is missing: {refusal}. All trainers have finished, so the job ends without it"
        ));
        self.cuts.kept.push(cut);
        self.tell_all();
    }

    /// Writes a cut of which all parts are here.
    pub(super) fn check_cut(&mut self) {
        let is_whole = |it: &Collecting| it.mark == Mark::Made && it.awaited.is_empty();
        let whole = self.cuts.collecting.take_if(|collecting| is_whole(collecting));
        let Some(Collecting { cut, complete, mut protocol, parts, .. }) = whole else { return };
        // Who gave no part was gone when the others were told to go, whenever we heard of it.
        let was_here = |trainer: &TrainerId| parts.contains_key(trainer);
        protocol.gone.retain(|(trainer, _)| was_here(trainer));
        let gone = self.members.gone().into_iter().filter(|(trainer, _)| !was_here(trainer));
        protocol.gone.extend(gone);
        let mut journal = std::mem::take(&mut self.cuts.owed);
        for (trainer, part) in parts {
            if !part.state.is_empty() {
                self.cuts.states.insert(trainer, part.state);
            }
            add_chunks(&mut journal, trainer, &part.journal);
        }
        let states = self.cuts.states.clone().into_iter().collect();
        self.cuts.writing = Some(Writing { cut, complete, journal: journal.clone() });
        let (term, state) = (self.terms.number(), CutState { protocol, states }.to_chunks());
        let record = CutRecord { cut, term, complete, state, journal };
        self.run(Purpose::WriteCut(self.now), Task::WriteCut(record));
    }

    pub(super) fn cut_written(&mut self, now: Millis, ms: u64, written: OfCuts<WrittenCut>) {
        let Some(writing) = self.cuts.writing.take() else { return };
        let Writing { cut, complete, journal } = writing;
        match written.result {
            Ok(WrittenCut { bytes }) => {
                self.cuts.add(cut, complete, &written.whole);
                self.stats.cuts += 1;
                self.stats.cut_bytes += bytes;
                self.stats.cut_ms = ms;
                self.inform(format!("cut {cut} is kept: {bytes} bytes in {ms} ms"));
                self.cut_ended(now);
                self.tell_all();
            }
            Err(refusal) => {
                let since = std::mem::replace(&mut self.cuts.owed, journal);
                self.cuts.owed.append(&since);
                self.no_cut(now, cut, &refusal);
            }
        }
    }

    /// What trainers are told about cuts.
    pub(super) fn notice(&self) -> Notice {
        let cut_requests = self.schedule.cut_requests();
        Notice { next_cut: self.schedule.next_cut(), kept: self.cuts.kept.clone(), cut_requests }
    }

    pub(super) fn tell_notice(&mut self, conn: ConnId) {
        if self.config.recovers {
            let notice = self.notice();
            self.reply(conn, 0, notice);
        }
    }

    pub(super) fn tell_all(&mut self) {
        let conns = self.members.conns();
        conns.into_iter().for_each(|(conn, _)| self.tell_notice(conn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk has as many cuts as the store likes; they must not keep others from being made.
    #[test]
    fn a_server_that_goes_back_forgets_what_is_old() {
        let mut cuts = ServerCuts::of((0..200).collect());
        cuts.forget_after(150);
        assert_eq!((cuts.kept().len(), cuts.kept().last()), (OLDER_MAX, Some(&150)));
        cuts.forget_after(143);
        assert_eq!((cuts.kept(), cuts.begun()), (&[143][..], 143));
    }

    #[test]
    fn some_cuts_before_a_complete_one_are_remembered() {
        let mut cuts = ServerCuts::of(vec![5]);
        cuts.add(6, 5, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(cuts.kept(), [1, 2, 3, 4, 5, 6]);
        let all: Vec<u64> = (0..20).collect();
        cuts.add(19, 15, &all);
        assert_eq!(cuts.kept(), [7, 8, 9, 10, 11, 12, 13, 14, 19]);
        cuts.only(&[3, 9, 10]);
        assert_eq!(cuts.kept(), [9, 10]);
    }
}
