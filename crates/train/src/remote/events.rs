//! Events of a job that recovers: done once, answered from the journal, or done again.

use std::thread::{self, ThreadId};

use tensor::EvenIfPoisoned;

use super::recovery::REPLAY;
use super::{Cluster, EventTrainers, recovery_lines};
use crate::error::{Error, Result};
use crate::recover::{Begun, EventPrint, Outcome, Repeat, Uses};

/// Something that a script asks of its job: one event of its timeline (see [`crate::recover`]).
///
/// In a job that does not recover, [`Cluster::do_event`] performs it and does nothing else.
pub(crate) trait ScriptEvent {
    /// Whether it talks to servers. The first one that does is the first event.
    fn talks(&self) -> bool {
        true
    }

    /// The trainers that it meets, if it meets any.
    fn meets(&self) -> Option<EventTrainers> {
        None
    }

    /// What it is, and on what: a script that is run again must ask for the same.
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
    /// [`Cluster::cut`] was given there. Otherwise the event starts from its beginning.
    fn perform(&mut self, from: Option<&[u8]>) -> Result<Vec<u8>>;

    /// Takes the answer that an earlier process got, instead of doing it.
    fn answer(&mut self, answer: &[u8]) -> Result<()>;

    /// What is needed to do it again without its answer; `None` if it has no effect beyond what a
    /// cut contains. Called once, after it was performed.
    fn repeat(&mut self) -> Option<Box<dyn Repeat<Cluster>>>;
}

/// The right to perform an event: one after the other.
struct Turn<'a>(&'a Cluster);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.recovery().acting.lock().even_if_poisoned() = None;
        self.0.recovery().acted.notify_one();
    }
}

impl Cluster {
    /// Performs the next event of the script. Returns when it is done, even if the job has gone back
    /// several times meanwhile. Inside another event (in a callback) it is performed as a part of that
    /// one.
    pub(crate) fn do_event(&self, event: &mut dyn ScriptEvent) -> Result<()> {
        if !self.is_event(event)? {
            return event.perform(None).map(drop);
        }
        match self.turn(thread::current().id()) {
            Some(_turn) => self.next_event(event),
            None => event.perform(None).map(drop),
        }
    }

    /// Whether the journal has this event: only a job that recovers has a journal. That is found out
    /// when servers are first talked to.
    fn is_event(&self, event: &dyn ScriptEvent) -> Result<bool> {
        let meeting =
            if self.recovery().is_unknown() && self.wants_meeting() { event.meets() } else { None };
        if let Some(meeting) = meeting {
            self.meet(meeting)?;
        } else if self.recovery().is_unknown() && event.talks() {
            if let Some(job) = event.uses().and_then(|uses| uses.job) {
                self.join_shared(job);
            }
            self.find_out()?;
        }
        Ok(self.recovers())
    }

    /// Waits for its turn; none if this thread performs an event already.
    fn turn(&self, own: ThreadId) -> Option<Turn<'_>> {
        let mut acting = self.recovery().acting.lock().even_if_poisoned();
        if *acting == Some(own) {
            return None;
        }
        while acting.is_some() {
            acting = self.recovery().acted.wait(acting).even_if_poisoned();
        }
        *acting = Some(own);
        Some(Turn(self))
    }

    fn next_event(&self, event: &mut dyn ScriptEvent) -> Result<()> {
        let print = event.print();
        let begun = self.timeline().begin(print, &|| event.label())?;
        if let Begun::Past(outcome) = begun {
            return self.past_event(event, outcome);
        }
        event.check()?;
        self.timeline().enter(event.uses().as_ref());
        let outcome = self.until_done(|| {
            self.end_replay_here()?;
            self.boundary()?;
            let from = self.timeline().take_from();
            event.perform(from.as_deref())
        });
        let (outcome, result) = match outcome {
            Ok(answer) => (Outcome::Answer(answer), Ok(())),
            // It had no effect: a process that ends now does this event when it is started again.
            Err(error @ Error::Ended) => return Err(error),
            Err(error) => (Outcome::Error(error.to_string()), Err(error)),
        };
        let repeat = if result.is_ok() { event.repeat() } else { None };
        self.timeline().finish(print, &|| event.label(), outcome, repeat);
        result?;
        self.until_done(|| {
            self.want_room()?;
            self.boundary()
        })
    }

    /// An event that an earlier process of this trainer has done.
    fn past_event(&self, event: &mut dyn ScriptEvent, outcome: Outcome) -> Result<()> {
        {
            let mut timeline = self.timeline();
            timeline.enter(event.uses().as_ref());
            timeline.leave();
        }
        let result = match outcome {
            Outcome::Answer(answer) => event.answer(&answer),
            Outcome::Error(text) => {
                let event = self.timeline().n_done() - 1;
                Err(Error::FailedBefore { event, text })
            }
        };
        self.until_done(|| {
            self.end_replay_here()?;
            self.boundary()
        })?;
        result
    }

    /// Asks something that is no event, again and again until the job does not go back meanwhile.
    pub(super) fn steadily<T>(&self, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
        let turn = if self.recovers() { self.turn(thread::current().id()) } else { None };
        match turn {
            Some(_turn) => self.until_done(ask),
            None => ask(),
        }
    }

    /// Does something, again and again until the job does not go back meanwhile.
    fn until_done<T>(&self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match act() {
                Err(error) if self.may_go_back(&error) => self.go_back(&error)?,
                done => return done,
            }
        }
    }

    /// Restores the state that the answers of a journal lead to, where the cut was.
    fn end_replay_here(&self) -> Result<()> {
        let state = {
            let timeline = self.timeline();
            if timeline.is_restored_here() { timeline.replayed_state().cloned() } else { None }
        };
        let Some(state) = state else { return Ok(()) };
        self.restore(&state)?;
        self.timeline().end_replay();
        (self.log())(&recovery_lines::caught_up(state.position.event));
        count::clear_obstacle(REPLAY);
        Ok(())
    }
}
