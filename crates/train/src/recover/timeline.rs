//! The events of a trainer's script, as far as they count.

use std::sync::Arc;

use program::Distributed;

use super::journal::{Answers, Journal, Outcome};
use super::print::Print;
use super::redo::{Redo, Repeat};
use super::scopes::{Scopes, Uses};
use super::state::{LocalState, Position};
use crate::error::{Error, Result};
use crate::scope::Scope;

/// What a script did; see [`crate::recover`].
#[derive(Debug)]
pub(crate) struct Timeline<World: ?Sized> {
    /// Events that are over.
    n_done: u64,
    /// The next event has begun.
    is_in_event: bool,
    replay: Option<Replay>,
    journal: Journal,
    redo: Redo<World>,
    scopes: Scopes,
    /// Where the script stood at cuts that may not be kept by all servers yet, oldest first.
    cuts: Vec<Cut>,
    /// The next event is done from here on, because a cut lies inside of it.
    from: Option<Vec<u8>>,
}

impl<World: ?Sized> Default for Timeline<World> {
    fn default() -> Self {
        Self {
            n_done: 0,
            is_in_event: false,
            replay: None,
            journal: Journal::default(),
            redo: Redo::default(),
            scopes: Scopes::default(),
            cuts: Vec::new(),
            from: None,
        }
    }
}

/// A cut that this trainer took part in.
#[derive(Debug)]
struct Cut {
    number: u64,
    position: Position,
    n_scopes: usize,
}

/// What a process that was started again has to catch up with.
#[derive(Debug)]
struct Replay {
    answers: Answers,
    state: LocalState,
}

/// How an event begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It was, and this came of it.
    Past(Outcome),
    /// It is to be done now.
    Now,
}

impl<World: ?Sized> Timeline<World> {
    /// Events that are over.
    pub(crate) fn n_done(&self) -> u64 {
        self.n_done
    }

    /// Whether events are answered from the journal.
    pub(crate) fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// The state that a replay leads to.
    pub(crate) fn replayed_state(&self) -> Option<&LocalState> {
        self.replay.as_ref().map(|replay| &replay.state)
    }

    /// Memory that is held to do events again, and to journal them.
    pub(crate) fn n_bytes(&self) -> usize {
        self.redo.n_bytes() + self.journal.n_bytes()
    }

    /// A process begins at a cut that an earlier process of this trainer took part in.
    pub(crate) fn begin_at(&mut self, state: LocalState, journal: &[u8]) -> Result<()> {
        let answers = Answers::read(journal, state.position.event)?;
        self.journal = Journal::starting(state.position.event);
        self.redo.forget_before(&state.position);
        self.replay = Some(Replay { answers, state });
        Ok(())
    }

    /// An event begins. One that was before must have been the same.
    pub(crate) fn begin(&mut self, print: Print, label: &dyn Fn() -> String) -> Result<Begun> {
        let Some(replay) = &mut self.replay else { return Ok(Begun::Now) };
        if self.n_done == replay.state.position.event {
            // Whoever restores the state has not been asked yet, or failed: it goes on with that.
            return Ok(Begun::Now);
        }
        let past = replay.answers.next()?;
        if past.print == print {
            self.n_done += 1;
            return Ok(Begun::Past(past.outcome));
        }
        let event = self.n_done;
        let told = |print: Print, label: &str| match label.is_empty() {
            true => print.kind.name().to_string(),
            false => format!("{} ({label})", print.kind.name()),
        };
        let (was, is) = (told(past.print, &past.label), told(print, &label()));
        let is_named_alike = (past.print.kind, past.print.names) == (print.kind, print.names);
        Err(match is_named_alike {
            true => Error::OtherValues { event, what: is },
            false => Error::OtherEvent { event, was, is },
        })
    }

    /// An event is about to use this; what the script changed before by itself is noted.
    pub(crate) fn enter(&mut self, uses: Option<&Uses<'_>>) {
        self.scopes.watch(false);
        for written in self.scopes.written() {
            if self.replay.is_none() {
                self.redo.written(self.n_done, written);
            }
        }
        if let Some(uses) = uses {
            self.scopes.add(uses);
        }
        self.is_in_event = true;
    }

    /// Whether the state of a replay is to be restored here.
    pub(crate) fn is_restored_here(&self) -> bool {
        self.replay.as_ref().is_some_and(|replay| {
            let Position { event, is_at_start, .. } = replay.state.position;
            self.n_done == event && is_at_start == self.is_in_event
        })
    }

    /// The end of a replay: from now on events are done.
    pub(crate) fn end_replay(&mut self) {
        self.replay = None;
    }

    /// Where an event is to be done from, because a cut lies inside of it.
    pub(crate) fn take_from(&mut self) -> Option<Vec<u8>> {
        self.from.take()
    }

    /// An event is over.
    pub(crate) fn finish(
        &mut self,
        print: Print,
        label: String,
        (outcome, repeat): (Outcome, Option<Box<dyn Repeat<World>>>),
    ) {
        self.journal.push(print, label, outcome);
        if let Some(repeat) = repeat {
            self.redo.event(self.n_done, repeat);
        }
        self.n_done += 1;
        self.leave();
    }

    /// No event is under way: what the script changes by itself is noted.
    pub(crate) fn leave(&mut self) {
        self.is_in_event = false;
        self.scopes.watch(self.replay.is_none());
    }

    /// Where the script stands; `inside` is what an event under way says of itself.
    pub(crate) fn position(&self, inside: Option<Vec<u8>>) -> Position {
        Position { event: self.n_done, is_at_start: self.is_in_event, inside }
    }

    /// What only this trainer has, apart from what [`crate::remote`] adds.
    pub(crate) fn state(&self, inside: Option<Vec<u8>>) -> LocalState {
        let mut state = LocalState { position: self.position(inside), ..LocalState::default() };
        self.scopes.save(&mut state);
        state
    }

    /// The journal for a server to keep.
    pub(crate) fn journal_part(&self) -> Vec<u8> {
        self.journal.part()
    }

    /// This trainer has taken part in a cut.
    pub(crate) fn took_part(&mut self, number: u64, position: Position) {
        self.cuts.push(Cut { number, position, n_scopes: self.scopes.n_scopes() });
    }

    /// The server that keeps this trainer's journal has kept these cuts.
    pub(crate) fn kept_at_home(&mut self, number: u64) {
        let kept = self.cuts.iter().rev().find(|cut| cut.number <= number);
        if let Some(cut) = kept {
            self.journal.forget_before(cut.position.event);
        }
    }

    /// All servers have kept these cuts: nobody goes back further than the last of them.
    pub(crate) fn kept_by_all(&mut self, number: u64) {
        let Some(at) = self.cuts.iter().rposition(|cut| cut.number <= number) else { return };
        let cut = self.cuts.drain(..=at).next_back();
        if let Some(Cut { position, n_scopes, .. }) = cut {
            self.redo.forget_before(&position);
            self.scopes.forget_before(n_scopes);
        }
    }

    /// Goes back to a cut: variables are what they were. What happened since is done again by
    /// [`Timeline::redo`].
    pub(crate) fn restore(&mut self, state: &LocalState, cut: u64) -> Result<()> {
        let position = &state.position;
        let is_here = position.event <= self.n_done && self.redo.reaches(position);
        if !is_here && self.replay.is_none() {
            return Err(Error::BadState("it is of a time that this process does not remember"));
        }
        self.cuts.retain(|known| known.number <= cut);
        self.scopes.watch(false);
        self.scopes.restore(state)?;
        let is_inside = position.event == self.n_done && position.inside.is_some();
        self.from = position.inside.clone().filter(|_| is_inside);
        Ok(())
    }

    /// The redo list, to be worked through while nothing is locked.
    pub(crate) fn redo(&mut self) -> Undone<World> {
        Undone(std::mem::take(&mut self.redo))
    }

    /// The redo list is back.
    pub(crate) fn redone(&mut self, Undone(redo): Undone<World>) {
        self.redo = redo;
        self.scopes.watch(!self.is_in_event && self.replay.is_none());
    }

    /// The job, and the scopes that its parameters belong in.
    pub(crate) fn of_job(&self) -> Option<(Arc<Distributed>, Vec<Scope>)> {
        self.scopes.of_job()
    }
}

/// What is to be done again.
pub(crate) struct Undone<World: ?Sized>(Redo<World>);

impl<World: ?Sized> Undone<World> {
    /// Does it, from a cut on.
    pub(crate) fn repeat(&mut self, world: &World, position: &Position) -> Result<()> {
        self.0.repeat(world, position)
    }
}
