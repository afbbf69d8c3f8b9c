//! One thread of a pass: takes batches and runs the program on them.

use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use data::Position;
use metrics::Stepping;
use program::Program;
use tensor::{Tensor, Value};

use super::batches::Batches;
use super::cutting::Cutting;
use super::shared::Shared;
use super::together::{ThreadStep, Together};
use super::values::Gathered;
use super::{PassOptions, Progress, text};
use crate::counters::{self, TRAINER};
use crate::error::{Error, Result};
use crate::executor::Feed;
use crate::scope::Scope;
use crate::trainer::JobRunner;

/// Batches between two times that the time of ops is shown.
const MEASURE_EVERY: u64 = 100;

/// An event that the first thread reports.
pub(super) enum Event {
    /// After which step of the first thread.
    Fetched(u64, Vec<Tensor>),
    Watched(Vec<Option<Tensor>>),
    Measured(String),
}

/// The result of a thread.
#[derive(Debug, Default)]
pub(super) struct ThreadDone {
    pub(super) n_batches: u64,
    pub(super) n_samples: u64,
    pub(super) waited: Duration,
    /// The fetched values.
    pub(super) gathered: Option<Gathered>,
}

impl ThreadDone {
    fn progress(&self, elapsed: Duration) -> Progress {
        let Self { n_batches, n_samples, waited, .. } = *self;
        Progress { n_batches, n_samples, elapsed, waited }
    }
}

pub(super) struct Worker<'a> {
    pub(super) index: usize,
    pub(super) batches: &'a mut Batches,
    pub(super) runner: &'a mut JobRunner,
    pub(super) program: &'a Program,
    /// The user's scope, or one inside it for the thread's own variables.
    pub(super) scope: Scope,
    pub(super) options: &'a PassOptions,
    pub(super) together: Option<&'a Together<'a>>,
    pub(super) cutting: &'a Cutting<'a>,
    pub(super) shared: &'a Shared,
    /// Only the first thread has it.
    pub(super) events: Option<SyncSender<Event>>,
}

impl Worker<'_> {
    pub(super) fn work(mut self) -> Result<ThreadDone> {
        let worked = self.all_batches();
        self.cutting.leave();
        if let Some(together) = self.together {
            together.leave(self.index, worked.is_err())?;
        }
        worked
    }

    fn all_batches(&mut self) -> Result<ThreadDone> {
        let mut values = Vec::new();
        let fetch = self.shown();
        let program = self.program;
        let (infers, fetched) = (self.options.infers, &self.options.fetch);
        let gathered = (!fetched.is_empty()).then(|| Gathered::new(program, fetched, infers));
        let mut done = ThreadDone { gathered, ..ThreadDone::default() };
        // A slot that the program does not have is read and left out.
        let is_known = |name: &str| program.find_var(0, name).is_some();
        let (mut known, mut n_cuts) = (None, 0);
        let looks_ahead = program.distributed.as_ref().is_some_and(|job| job.mode.looks_ahead());
        let (start, waited_before) = (Instant::now(), self.batches.waited());
        (done.n_batches, done.n_samples) = counts(self.batches.position());
        while self.next()? {
            if looks_ahead {
                let following = self.batches.following()?;
                self.runner.prefetch_mut().expect(following.into_iter().flat_map(Feed::iter));
            }
            let Some((batch, after)) = self.batches.present() else { break };
            let n_samples = batch.n_samples();
            self.cutting.moves_to(self.index, after);
            (done.n_batches, done.n_samples) = counts(after);
            batch.leave_out(&mut known, is_known);
            let index = self.index;
            let runner = &mut *self.runner;
            let scope = &self.scope;
            let (fetch, values_out) = (&fetch, &mut values);
            let step = ThreadStep { index, runner, scope, feed: batch, fetch, values: values_out };
            let timed = Stepping::begin(&TRAINER.computing_seconds);
            run_step(self.together, program, step)?;
            if timed.is_some() || self.shared.is_shown.load(Ordering::Relaxed) {
                self.note_fetched(&values);
            }
            drop(timed);
            if let Some(gathered) = &mut done.gathered {
                gathered.add(&values, n_samples);
            }
            self.count(&mut done, n_samples, waited_before);
            self.show(&done, &values, start)?;
            if n_cuts != self.cutting.n_cuts() {
                n_cuts = self.cutting.n_cuts();
                self.batches.forget_before(self.cutting.n_old(self.index));
            }
        }
        // The observer sees the last values, even if the pass was short.
        self.show_watched(&values, !self.options.watch.is_empty())?;
        done.waited = self.batches.waited().saturating_sub(waited_before);
        Ok(done)
    }

    /// Shows fetched values to watchers of the job.
    fn note_fetched(&self, values: &[Tensor]) {
        let PassOptions { fetch, fetch_names, .. } = self.options;
        for (at, (var, value)) in fetch.iter().zip(values).enumerate() {
            counters::fetched(fetch_names.get(at).unwrap_or(var), value);
        }
    }

    /// Waits for the next batch; whether there is one. Before it, and while it is waited for, cuts
    /// may be made; threads that step together make them elsewhere.
    fn next(&mut self) -> Result<bool> {
        let (interrupt, shared) = (self.runner.interrupt(), self.shared);
        let stops = || interrupt.is_set() || shared.stops.load(Ordering::Relaxed);
        let (together, cutting) = (self.together, self.cutting);
        let mut at_boundary = || {
            if stops() {
                return Err(Error::PassStopped);
            }
            match together {
                Some(_) => Ok(()),
                None => cutting.at_boundary(&stops),
            }
        };
        at_boundary()?;
        self.batches.next(&mut at_boundary)
    }

    /// The variables to fetch: on the first thread those that are shown, on all threads those that are
    /// gathered.
    fn shown(&self) -> Vec<String> {
        if self.events.is_none() {
            return self.options.fetch.clone();
        }
        let mut names = self.options.fetch.clone();
        names.extend(self.options.watch.iter().cloned());
        names
    }

    fn count(&self, done: &mut ThreadDone, n_samples: u64, waited_before: Duration) {
        let waited = self.batches.waited().saturating_sub(waited_before);
        let waited_now = waited.saturating_sub(done.waited);
        self.shared.add(n_samples, waited_now);
        TRAINER.reading_seconds.add(waited_now);
        TRAINER.batches.add(1);
        TRAINER.samples.add(n_samples);
        done.waited = waited;
    }

    fn show(&mut self, done: &ThreadDone, values: &[Tensor], start: Instant) -> Result<()> {
        let Some(events) = &self.events else { return Ok(()) };
        // A batch that is run again after a death was shown before.
        let is_new =
            self.shared.n_told.fetch_max(done.n_batches, Ordering::Relaxed) < done.n_batches;
        let is_time = |every: u64| is_new && every > 0 && done.n_batches.is_multiple_of(every);
        let n_fetched = self.options.fetch.len().min(values.len());
        if n_fetched > 0 && is_time(self.options.fetch_every) {
            tell(events, Event::Fetched(done.n_batches, values[..n_fetched].to_vec()))?;
        }
        if self.options.debug && is_time(MEASURE_EVERY) {
            let progress = done.progress(start.elapsed());
            let text = text::debug_text(&self.runner.take_profile(), &progress);
            tell(events, Event::Measured(text))?;
        }
        let wanted = self.shared.wants_watch.swap(false, Ordering::Relaxed);
        self.show_watched(values, wanted)
    }

    fn show_watched(&self, values: &[Tensor], wanted: bool) -> Result<()> {
        let (true, Some(events)) = (wanted, &self.events) else { return Ok(()) };
        let mut values = values.iter().skip(self.options.fetch.len()).cloned();
        // A thread without a batch has computed nothing, but parameters are there.
        let in_scope =
            |name| self.scope.read(name, |value: &Value| value.tensor().cloned()).flatten();
        let watched =
            self.options.watch.iter().map(|name| values.next().or_else(|| in_scope(name)));
        tell(events, Event::Watched(watched.collect()))
    }
}

/// One step of one thread.
fn run_step(
    together: Option<&Together<'_>>,
    program: &Program,
    step: ThreadStep<'_>,
) -> Result<()> {
    if let Some(together) = together {
        return together.step(step);
    }
    let ThreadStep { runner, scope, feed, fetch, values, .. } = step;
    let fetch: Vec<&str> = fetch.iter().map(String::as_str).collect();
    runner.run_into(program, scope, feed, &fetch, values)
}

fn counts(position: &Position) -> (u64, u64) {
    (position.n_batches, position.n_samples)
}

fn tell(events: &SyncSender<Event>, event: Event) -> Result<()> {
    events.send(event).map_err(|_| Error::PassStopped)
}
