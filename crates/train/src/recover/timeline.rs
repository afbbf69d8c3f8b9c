//! The events of a trainer's script, as far as they count.

use std::path::Path;
use std::sync::Arc;

use program::Distributed;

use super::journal::{Answers, Journal, end_part};
use super::print::EventPrint;
use super::redo::{Redo, Redoing, Repeat};
use super::runs::Outcome;
use super::scopes::{Scopes, Uses};
use super::shares::Shares;
use super::state::{LocalState, ScriptPosition};
use crate::error::{Error, Result};
use crate::scope::Scope;

/// The events of a script; see [`crate::recover`].
#[derive(Debug)]
pub(crate) struct Timeline<World: ?Sized> {
    /// Events that are over.
    n_done: u64,
    /// The next event has begun.
    is_in_event: bool,
    replay: Option<Replay>,
    journal: Journal,
    redo: Redo<World>,
    /// Events that are over again, while the redo list is done.
    n_redone: Option<u64>,
    scopes: Scopes,
    /// The server that keeps the journal has it up to this event.
    kept_journal: u64,
    journal_limit: JournalLimit,
    /// Where the script stood at cuts that may not be kept by all servers yet, oldest first.
    cuts: Vec<TimelineCut>,
    shares: Shares,
    /// The next event is done from here on, because a cut lies inside of it.
    from: Option<Vec<u8>>,
    /// The state that this process goes back to, until it is where it was.
    target: Option<LocalState>,
}

impl<World: ?Sized> Default for Timeline<World> {
    fn default() -> Self {
        Self {
            n_done: 0,
            is_in_event: false,
            replay: None,
            journal: Journal::default(),
            redo: Redo::default(),
            n_redone: None,
            kept_journal: 0,
            journal_limit: JournalLimit::default(),
            scopes: Scopes::default(),
            cuts: Vec::new(),
            shares: Shares::default(),
            from: None,
            target: None,
        }
    }
}

/// How long a journal is, and may be.
#[derive(Debug, Default)]
struct JournalLimit {
    /// Bytes that were given away to be kept.
    n_given: u64,
    /// Nothing is kept from this event on.
    end: Option<u64>,
}

/// A cut that this trainer took part in.
#[derive(Debug)]
struct TimelineCut {
    number: u64,
    position: ScriptPosition,
    n_scopes: u64,
    /// Files that are not needed behind it.
    shares: Shares,
}

/// A part of a journal, to be kept.
#[derive(Debug)]
pub(crate) struct JournalPart {
    pub(crate) bytes: Vec<u8>,
    /// The journal reaches its limit with it.
    pub(crate) is_last: bool,
}

/// The events that a restarted process has to catch up with.
#[derive(Debug)]
struct Replay {
    answers: Answers,
    state: LocalState,
}

/// How an event begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It was done before, with this outcome.
    Past(Outcome),
    /// It must be done now.
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

    /// Drops the events of this process: should the job go back, it ends, and another one repeats the script. The
    /// journal stays: the next cut has it.
    pub(crate) fn forget_redo(&mut self) {
        let now = self.position(None);
        self.redo.forget_before(&now);
    }

    /// Whether there is nothing that could go back: no event has begun.
    pub(crate) fn is_fresh(&self) -> bool {
        self.n_done == 0 && !self.is_in_event && self.replay.is_none()
    }

    /// A process begins at a cut that an earlier process of this trainer took part in. It may have
    /// had answers to some events already, from the cut before.
    pub(crate) fn begin_at(&mut self, state: LocalState, journal: &[u8]) -> Result<()> {
        let position = &state.position;
        let mut answers = Answers::read(journal, position.event)?;
        if position.event < self.n_done {
            return Err(Error::TooFarBack { event: position.event });
        }
        for _ in 0..self.n_done {
            answers.next()?;
        }
        self.journal = Journal::starting(position.event);
        self.kept_journal = position.event;
        self.journal_limit = JournalLimit { n_given: journal.len() as u64, end: None };
        self.redo.forget_before(position);
        self.cuts.drain(..).for_each(|cut| self.shares.put_back(cut.shares));
        self.replay = Some(Replay { answers, state });
        Ok(())
    }

    /// An event begins. One that was before must have been the same.
    pub(crate) fn begin(&mut self, print: EventPrint, label: &dyn Fn() -> String) -> Result<Begun> {
        let Some(replay) = &mut self.replay else { return Ok(Begun::Now) };
        if self.n_done == replay.state.position.event {
            // The state has not been restored yet, or restoring it failed: the event restores it
            // first.
            return Ok(Begun::Now);
        }
        let past = replay.answers.next()?;
        if past.print == print.kept() {
            self.n_done += 1;
            return Ok(Begun::Past(past.outcome));
        }
        let event = self.n_done;
        let told = |print: EventPrint, label: &str| {
            if label.is_empty() {
                print.kind.name().to_string()
            } else {
                format!("{} ({label})", print.kind.name())
            }
        };
        let (was, is) = (told(past.print, &past.label), told(print, &label()));
        let is_named_alike = (past.print.kind, past.print.names) == (print.kind, print.names);
        Err(if is_named_alike {
            Error::OtherValues { event, what: is }
        } else {
            Error::OtherEvent { event, was, is }
        })
    }

    /// An event is about to use this; what the script changed before by itself is noted.
    pub(crate) fn enter(&mut self, uses: Option<&Uses<'_>>) {
        self.note_written();
        if let Some(uses) = uses {
            self.scopes.add(uses);
        }
        self.is_in_event = true;
    }

    /// Notes what the script changed by itself until now.
    fn note_written(&mut self) {
        self.scopes.watch(false);
        for written in self.scopes.written() {
            if self.replay.is_none() {
                self.redo.written(self.n_done, written);
            }
        }
    }

    /// Whether the state of a replay must be restored here.
    pub(crate) fn is_restored_here(&self) -> bool {
        self.replay.as_ref().is_some_and(|replay| {
            let ScriptPosition { event, is_at_start, .. } = replay.state.position;
            self.n_done == event && is_at_start == self.is_in_event
        })
    }

    /// The end of a replay: from now on events are done.
    pub(crate) fn end_replay(&mut self) {
        self.replay = None;
        self.scopes.watch(!self.is_in_event);
    }

    /// Where an event must start, because a cut lies inside it.
    pub(crate) fn take_from(&mut self) -> Option<Vec<u8>> {
        self.from.take()
    }

    /// An event is over.
    pub(crate) fn finish(
        &mut self,
        print: EventPrint,
        label: &dyn Fn() -> String,
        outcome: Outcome,
        repeat: Option<Box<dyn Repeat<World>>>,
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

    /// Where the script stands, or the redo list; `inside` is what an event under way says of itself.
    pub(crate) fn position(&self, inside: Option<Vec<u8>>) -> ScriptPosition {
        let event = self.n_redone.unwrap_or(self.n_done);
        ScriptPosition { event, is_at_start: self.is_in_event, inside }
    }

    /// The state that only this trainer has, apart from the part that [`crate::remote`] adds.
    pub(crate) fn state(&mut self, inside: Option<Vec<u8>>) -> LocalState {
        let mut state = LocalState { position: self.position(inside), ..LocalState::default() };
        self.scopes.save(&mut state);
        state
    }

    /// The journal up to here, as far as the server that keeps it does not have it. If all of it would have more bytes
    /// than it may have, nothing is kept any more, and the part says so.
    pub(crate) fn journal_part(&mut self, n_bytes_max: u64) -> JournalPart {
        let events = self.kept_journal..self.position(None).event;
        let is_new = self.journal_limit.end.is_none();
        if is_new {
            let part = self.journal.part(events.clone());
            self.journal_limit.n_given += part.len() as u64;
            if self.journal_limit.n_given <= n_bytes_max {
                return JournalPart { bytes: part, is_last: false };
            }
        }
        let end = *self.journal_limit.end.get_or_insert(events.start);
        JournalPart { bytes: end_part(end, n_bytes_max), is_last: is_new }
    }

    /// This trainer has taken part in a cut.
    pub(crate) fn took_part(&mut self, number: u64, position: ScriptPosition) {
        let n_scopes = self.scopes.n_scopes();
        let shares = match self.n_redone {
            None => self.shares.take_dropped(),
            // The script has dropped datasets that were there at this cut: a process that begins at it needs their files.
            Some(_) => Shares::default(),
        };
        self.cuts.push(TimelineCut { number, position, n_scopes, shares });
    }

    /// The server that keeps this trainer's journal has kept this cut.
    pub(crate) fn kept_at_home(&mut self, number: u64) {
        if let Some(cut) = self.cuts.iter().find(|cut| cut.number == number) {
            self.kept_journal = self.kept_journal.max(cut.position.event);
        }
    }

    /// All servers have kept this cut: nobody goes back further.
    pub(crate) fn kept_by_all(&mut self, number: u64) {
        let Some(at) = self.cuts.iter().position(|cut| cut.number == number) else { return };
        for TimelineCut { position, n_scopes, shares, .. } in self.cuts.drain(..=at) {
            self.redo.forget_before(&position);
            self.journal.forget_before(position.event);
            self.scopes.forget_before(n_scopes);
            shares.remove();
        }
    }

    /// A dataset holds samples that are in this file as well.
    pub(crate) fn shares(&mut self, file: Arc<Path>) {
        self.shares.add(file);
    }

    /// Nobody goes back any more.
    pub(crate) fn end(&mut self) {
        self.cuts.drain(..).for_each(|cut| cut.shares.remove());
        self.shares.take_dropped().remove();
    }

    /// The job has gone back to a cut.
    pub(crate) fn go_back_to(&mut self, state: LocalState) {
        self.target = Some(state);
    }

    /// The state that this process must go back to.
    pub(crate) fn gone_back_to(&self) -> Option<LocalState> {
        self.target.clone()
    }

    /// Goes back to a cut: restores variables. [`Timeline::redo`] repeats later events.
    pub(crate) fn restore(&mut self, state: &LocalState) -> Result<()> {
        let position = &state.position;
        let is_known = position.event <= self.n_done && self.redo.reaches(position);
        if !is_known && self.replay.is_none() {
            return Err(Error::TooFarBack { event: position.event });
        }
        // Numbers of cuts that were gone back behind are given again.
        self.cuts.drain(..).for_each(|cut| self.shares.put_back(cut.shares));
        self.kept_journal = position.event;
        self.journal_limit.end = self.journal_limit.end.map(|end| end.min(position.event));
        // The script may have done something since its last event.
        self.note_written();
        self.scopes.restore(state)?;
        let is_inside = position.event == self.n_done && position.inside.is_some();
        self.from = position.inside.clone().filter(|_| is_inside);
        Ok(())
    }

    /// The redo list, to be done while nothing is locked.
    pub(crate) fn redo(&mut self) -> Undone<World> {
        Undone { redo: std::mem::take(&mut self.redo), is_in_event: self.is_in_event }
    }

    /// An event of the redo list begins.
    pub(crate) fn redo_event(&mut self, event: u64) {
        (self.n_redone, self.is_in_event) = (Some(event), true);
    }

    /// It is over.
    pub(crate) fn redid_event(&mut self, event: u64) {
        (self.n_redone, self.is_in_event) = (Some(event + 1), false);
    }

    /// The redo list is done, or given up: then it is done again from another cut.
    pub(crate) fn redone(&mut self, Undone { redo, is_in_event }: Undone<World>) {
        (self.redo, self.target) = (redo, None);
        (self.n_redone, self.is_in_event) = (None, is_in_event);
        self.scopes.watch(!self.is_in_event && self.replay.is_none());
    }

    /// The job, and the scopes that its parameters belong in.
    pub(crate) fn of_job(&self) -> Option<(Arc<Distributed>, Vec<Scope>)> {
        self.scopes.of_job()
    }
}

/// Events that must be done again.
pub(crate) struct Undone<World: ?Sized> {
    redo: Redo<World>,
    /// Whether an event waits for it to be done.
    is_in_event: bool,
}

impl<World: ?Sized> Undone<World> {
    /// Does it, from a cut on; tells before and after each event.
    pub(crate) fn repeat(
        &mut self,
        world: &World,
        position: &ScriptPosition,
        tell: &mut dyn FnMut(Redoing) -> Result<()>,
    ) -> Result<()> {
        self.redo.repeat(world, position, tell)
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Tensor, Value};

    use super::super::print::EventKind;
    use super::*;

    /// Has a scope, as a run that is to be done again.
    struct Run(#[allow(dead_code)] Scope);

    impl Repeat<()> for Run {
        fn repeat(&mut self, _: &(), _: Option<&[u8]>) -> Result<()> {
            Ok(())
        }

        fn n_bytes(&self) -> usize {
            0
        }
    }

    const RUN: EventPrint = EventPrint { kind: EventKind::Run, names: 1, values: 1 };

    fn uses(scope: &Scope) -> Uses<'_> {
        Uses { scope, job: None, devices: None }
    }

    /// An event that is done now.
    fn act(timeline: &mut Timeline<()>, scope: &Scope) {
        assert_eq!(timeline.begin(RUN, &String::new).unwrap(), Begun::Now);
        timeline.enter(Some(&uses(scope)));
        let repeat = Some(Box::new(Run(scope.clone())) as _);
        timeline.finish(RUN, &String::new, Outcome::Answer(Vec::new()), repeat);
    }

    /// The job goes back to a cut, and what came after it is done again.
    fn go_back(timeline: &mut Timeline<()>, state: &LocalState) {
        timeline.restore(state).unwrap();
        let mut undone = timeline.redo();
        undone.repeat(&(), &state.position, &mut |_| Ok(())).unwrap();
        timeline.redone(undone);
    }

    fn set(scope: &Scope, value: f32) {
        scope.set("x", Tensor::full([1], value));
    }

    fn found(scope: &Scope) -> Option<f64> {
        scope.get("x").as_ref().and_then(Value::tensor).map(|tensor| tensor.get_f64(0))
    }

    /// Between the last event that was answered from the journal and the first that is done.
    #[test]
    fn what_a_script_writes_right_after_a_replay_comes_back() {
        let (first, scope) = (&mut Timeline::default(), Scope::new());
        act(first, &scope);
        let (state, journal) = (first.state(None), first.journal_part(u64::MAX).bytes);
        let (second, scope) = (&mut Timeline::default(), Scope::new());
        second.begin_at(state.clone(), &journal).unwrap();
        assert!(matches!(second.begin(RUN, &String::new).unwrap(), Begun::Past(_)));
        second.enter(Some(&uses(&scope)));
        second.leave();
        assert!(second.is_restored_here());
        second.restore(&state).unwrap();
        second.end_replay();
        set(&scope, 2.0);
        act(second, &scope);
        go_back(second, &state);
        assert_eq!(found(&scope), Some(2.0));
    }

    /// A job cannot go back to events that were dropped to free memory; it can to later ones, and the journal has all.
    #[test]
    fn what_was_forgotten_is_not_done_again() {
        let (timeline, scope) = (&mut Timeline::default(), Scope::new());
        act(timeline, &scope);
        let before = timeline.state(None);
        act(timeline, &scope);
        timeline.forget_redo();
        let after = timeline.state(None);
        act(timeline, &scope);
        let (state, journal) = (timeline.state(None), timeline.journal_part(u64::MAX).bytes);
        assert!(matches!(timeline.restore(&before), Err(Error::TooFarBack { event: 1 })));
        go_back(timeline, &after);
        let second = &mut Timeline::<()>::default();
        second.begin_at(state, &journal).unwrap();
        for _ in 0..3 {
            assert!(matches!(second.begin(RUN, &String::new).unwrap(), Begun::Past(_)));
            second.enter(Some(&uses(&scope)));
            second.leave();
        }
    }

    /// Behind the limit nothing is added; a job that goes back before it can still be repeated.
    #[test]
    fn a_journal_does_not_grow_without_end() {
        let (timeline, scope) = (&mut Timeline::default(), Scope::new());
        act(timeline, &scope);
        let (before, first) = (timeline.state(None), timeline.journal_part(100));
        assert!(!first.is_last);
        timeline.took_part(1, timeline.position(None));
        timeline.kept_at_home(1);
        let mut kept = first.bytes;
        let n_first = kept.len();
        for step in 0..1_000 {
            act(timeline, &scope);
            let part = timeline.journal_part(n_first as u64 + 10);
            assert_eq!(part.is_last, step == 0);
            kept = super::super::journal::compacted(&[kept, part.bytes].concat()).unwrap();
        }
        assert!(kept.len() < n_first + 60, "{} bytes", kept.len());
        let after = timeline.state(None);
        let begins = |state: &LocalState| Timeline::<()>::default().begin_at(state.clone(), &kept);
        assert!(begins(&before).is_ok());
        let error = begins(&after).unwrap_err();
        assert!(error.to_string().contains("FLAGS_journal_mb"), "{error}");
    }

    /// The job may go back while a script makes a request that is not an event.
    #[test]
    fn what_a_script_wrote_since_its_last_event_comes_back() {
        let (timeline, scope) = (&mut Timeline::default(), Scope::new());
        set(&scope, 1.0);
        act(timeline, &scope);
        let state = timeline.state(None);
        set(&scope, 2.0);
        go_back(timeline, &state);
        assert_eq!(found(&scope), Some(2.0));
        act(timeline, &scope);
        set(&scope, 3.0);
        go_back(timeline, &state);
        assert_eq!(found(&scope), Some(3.0));
        go_back(timeline, &state);
        assert_eq!(found(&scope), Some(3.0));
    }

    /// A cut that is made while events are done again is before what the script did since.
    #[test]
    fn files_of_dropped_datasets_stay_while_events_are_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let file: Arc<Path> = folder.path().join("shuffle-1").into();
        std::fs::write(&file, "samples").unwrap();
        let (timeline, scope) = (&mut Timeline::default(), Scope::new());
        timeline.shares(file.clone());
        let before = timeline.state(None);
        act(timeline, &scope);
        let path = file.to_path_buf();
        drop(file);
        timeline.restore(&before).unwrap();
        let undone = timeline.redo();
        timeline.redo_event(0);
        timeline.took_part(1, timeline.position(None));
        timeline.kept_by_all(1);
        assert!(path.exists(), "a process that begins at this cut reads it");
        timeline.redone(undone);
        timeline.took_part(2, timeline.position(None));
        timeline.kept_by_all(2);
        assert!(!path.exists());
    }

    #[test]
    fn scopes_that_a_script_dropped_are_not_kept() {
        let (timeline, scope) = (&mut Timeline::<()>::default(), Scope::new());
        for value in [1.0, 2.0, 3.0] {
            let own = Scope::new();
            set(&own, value);
            act(timeline, &own);
        }
        act(timeline, &scope);
        set(&scope, 4.0);
        assert_eq!(timeline.state(None).scopes.len(), 4, "they are needed to do events again");
        timeline.took_part(1, timeline.position(None));
        timeline.kept_by_all(1);
        let state = timeline.state(None);
        assert_eq!(state.scopes.len(), 1);
        set(&scope, 5.0);
        act(timeline, &scope);
        timeline.restore(&state).unwrap();
        assert_eq!(found(&scope), Some(4.0), "it is the same scope as before");
    }

    /// A scope and those inside of it have each other.
    #[test]
    fn a_scope_is_dropped_with_those_inside_of_it() {
        let timeline = &mut Timeline::<()>::default();
        let outer = Scope::new();
        let (inner, other) = (outer.new_scope(), outer.new_scope());
        [&inner, &other, &outer].into_iter().for_each(|scope| act(timeline, scope));
        timeline.took_part(1, timeline.position(None));
        timeline.kept_by_all(1);
        drop(other);
        assert_eq!(timeline.state(None).scopes.len(), 2, "nobody can name the other one");
        drop(outer);
        assert_eq!(timeline.state(None).scopes.len(), 2, "its variables are seen from inside");
        drop(inner);
        assert_eq!(timeline.state(None).scopes.len(), 0);
    }
}
