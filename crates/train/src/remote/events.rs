//! Events of a job that recovers: done once, answered from the journal, or done again.

use std::thread;

use super::cuts::WANTED_PART;
use super::recovery::REPLAY;
use super::rollback::Rollback;
use super::{EventTrainers, TrainerJob, recovery_lines};
use crate::error::{Error, Result};
use crate::recover::{Begun, EventPrint, Outcome, Repeat, Uses};

/// Something that a script asks of its job: one event of its timeline (see [`crate::recover`]).
///
/// In a job that does not recover, [`TrainerJob::do_event`] performs it and does nothing else.
pub(crate) trait ScriptEvent {
    /// Whether it talks to servers. The first one that does is the first event.
    fn talks(&self) -> bool {
        true
    }

    /// The trainers that it meets, if it meets any.
    fn meets(&self) -> Option<EventTrainers> {
        None
    }

    /// Its identity: a script that is run again must ask for the same.
    fn print(&self) -> EventPrint;

    /// The names in it, for the message if a script does not repeat itself.
    fn label(&self) -> String;

    /// The variables it works on, if any.
    fn uses(&self) -> Option<Uses<'_>>;

    /// Whether it can be done again; asked before it is done the first time.
    fn check(&mut self) -> Result<()> {
        Ok(())
    }

    /// Does it, and returns its answer for the journal. May be called again after an error, when
    /// the job has gone back to a cut. If the cut lies inside this event, `from` is what
    /// [`TrainerJob::cut`] was given there. Otherwise the event starts from its beginning.
    fn perform(&mut self, from: Option<&[u8]>) -> Result<Vec<u8>>;

    /// Takes the answer that an earlier process got, instead of doing it.
    fn answer(&mut self, answer: &[u8]) -> Result<()>;

    /// The data needed to do it again without its answer; `None` if it has no effect beyond the contents of a cut. Called once,
    /// after it was performed.
    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>>;
}

/// Performs the events of a script.
pub(super) struct EventLoop<'a>(pub(super) &'a TrainerJob);

impl EventLoop<'_> {
    /// Performs the next event of the script. Returns when it is done, even if the job has gone back
    /// several times meanwhile. Inside another event (in a callback) it is performed as a part of that
    /// one.
    pub(super) fn do_event(&self, event: &mut dyn ScriptEvent) -> Result<()> {
        if !self.is_event(event)? {
            return event.perform(None).map(drop);
        }
        match self.0.recovery().turn(thread::current().id()) {
            Some(_turn) => self.next_event(event),
            None => event.perform(None).map(drop),
        }
    }

    /// Whether the journal has this event: only a job that recovers has a journal. That is found out
    /// when others are first talked to.
    fn is_event(&self, event: &dyn ScriptEvent) -> Result<bool> {
        let recovers = self.0.links().recovers();
        if recovers.is_unknown() {
            let meeting = if self.0.group().keeps_cuts() { event.meets() } else { None };
            if let Some(meeting) = meeting {
                self.join_trainers(meeting)?;
            } else if event.talks() {
                if let Some(job) = event.uses().and_then(|uses| uses.job) {
                    self.0.join_shared(job);
                }
                self.join_servers()?;
            }
        }
        let is_event = recovers.is_on();
        let arrival = if is_event { self.0.links().state().take_arrival() } else { None };
        if let Some(arrival) = arrival {
            Rollback(self.0).take_in(arrival)?;
        }
        Ok(is_event)
    }

    /// Finds out from the first server whether the job recovers, and joins it.
    fn join_servers(&self) -> Result<()> {
        let rollback = Rollback(self.0);
        match self.0.links().client(program::distributed::ServerId(0)) {
            Err(error) if rollback.may_go_back(&error) => rollback.go_back(&error),
            found => found.map(drop),
        }
    }

    /// The first meeting with other trainers: is the job new, or was this trainer started again?
    fn join_trainers(&self, meeting: EventTrainers) -> Result<()> {
        if !self.0.group().keep_with(meeting)? {
            return Ok(());
        }
        self.0.links().recovers().set_on();
        let rollback = Rollback(self.0);
        match rollback.arrive() {
            Err(error) if rollback.may_go_back(&error) => rollback.go_back(&error),
            done => done,
        }
    }

    fn next_event(&self, event: &mut dyn ScriptEvent) -> Result<()> {
        let recovery = self.0.recovery();
        let print = event.print();
        let begun = recovery.timeline().begin(print, &|| event.label())?;
        if let Begun::Past(outcome) = begun {
            return self.past_event(event, outcome);
        }
        event.check()?;
        recovery.timeline().enter(event.uses().as_ref());
        let outcome = self.until_done(|| {
            self.end_replay_here()?;
            self.boundary()?;
            let from = recovery.timeline().take_from();
            event.perform(from.as_deref())
        });
        let (outcome, result) = match outcome {
            Ok(answer) => (Outcome::Answer(answer), Ok(())),
            // It had no effect: a process that ends now does this event when it is started again.
            Err(error @ Error::Ended) => return Err(error),
            Err(error) => (Outcome::Error(error.to_string()), Err(error)),
        };
        let repeat = if result.is_ok() { event.repeat() } else { None };
        recovery.timeline().finish(print, &|| event.label(), outcome, repeat);
        result?;
        self.until_done(|| {
            self.want_room()?;
            self.boundary()
        })
    }

    /// An event that an earlier process of this trainer has done.
    fn past_event(&self, event: &mut dyn ScriptEvent, outcome: Outcome) -> Result<()> {
        let recovery = self.0.recovery();
        {
            let mut timeline = recovery.timeline();
            timeline.enter(event.uses().as_ref());
            timeline.leave();
        }
        let result = match outcome {
            Outcome::Answer(answer) => event.answer(&answer),
            Outcome::Error(text) => {
                let event = recovery.timeline().n_done() - 1;
                Err(Error::FailedBefore { event, text })
            }
        };
        self.until_done(|| {
            self.end_replay_here()?;
            self.boundary()
        })?;
        result
    }

    /// Makes a request that is not an event, and repeats it until the job does not go back meanwhile.
    pub(super) fn steadily<T>(&self, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
        let recovers = self.0.recovers();
        let turn = if recovers { self.0.recovery().turn(thread::current().id()) } else { None };
        match turn {
            Some(_turn) => self.until_done(ask),
            None => ask(),
        }
    }

    /// Does something, again and again until the job does not go back meanwhile.
    fn until_done<T>(&self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        let rollback = Rollback(self.0);
        loop {
            match act() {
                Err(error) if rollback.may_go_back(&error) => rollback.go_back(&error)?,
                done => return done,
            }
        }
    }

    /// A boundary between two events.
    fn boundary(&self) -> Result<()> {
        self.0.with_cuts(|cuts| cuts.boundary(&mut || Ok(None)))
    }

    /// Sees to it that what is held to do events again does not grow without end.
    fn want_room(&self) -> Result<()> {
        let limit = self.0.links().settings().redo_bytes;
        if self.0.recovery().timeline().n_bytes() < limit / WANTED_PART {
            return Ok(());
        }
        self.0.with_cuts(|cuts| cuts.make_room(limit))
    }

    /// Restores the state that the answers of a journal lead to, where the cut was.
    fn end_replay_here(&self) -> Result<()> {
        let recovery = self.0.recovery();
        let state = {
            let timeline = recovery.timeline();
            if timeline.is_restored_here() { timeline.replayed_state().cloned() } else { None }
        };
        let Some(state) = state else { return Ok(()) };
        Rollback(self.0).restore(&state)?;
        recovery.timeline().end_replay();
        (self.0.links().log())(&recovery_lines::caught_up(state.position.event));
        metrics::clear_obstacle(REPLAY);
        Ok(())
    }
}
