//! One thread of a pass: takes batches and runs the program on them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use data::Reader;
use program::Program;
use tensor::{Tensor, Value};

use super::together::Together;
use super::whole::Gathered;
use super::{Pass, Progress, TICK, text};
use crate::error::{Error, Result};
use crate::executor::{Executor, Feed};
use crate::scope::Scope;

/// Batches between two times that the time of ops is shown.
const MEASURE_EVERY: u64 = 100;

/// What the first thread tells.
pub(super) enum Event {
    Fetched(Vec<Tensor>),
    Watched(Vec<Option<Tensor>>),
    Measured(String),
}

/// What all threads count together.
#[derive(Debug, Default)]
pub(super) struct Shared {
    n_batches: AtomicU64,
    n_samples: AtomicU64,
    waited_micros: AtomicU64,
    pub(super) wants_watch: AtomicBool,
}

impl Shared {
    pub(super) fn progress(&self, start: Instant) -> Progress {
        Progress {
            n_batches: self.n_batches.load(Ordering::Relaxed),
            n_samples: self.n_samples.load(Ordering::Relaxed),
            elapsed: start.elapsed(),
            waited: Duration::from_micros(self.waited_micros.load(Ordering::Relaxed)),
        }
    }
}

/// What a thread has done.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) n_batches: u64,
    pub(super) n_samples: u64,
    pub(super) waited: Duration,
    /// What was fetched, of a pass that only looks.
    pub(super) gathered: Option<Gathered>,
}

pub(super) struct Worker<'a> {
    pub(super) index: usize,
    pub(super) reader: Reader,
    pub(super) executor: &'a mut Executor,
    pub(super) program: &'a Program,
    /// The user's, or one inside of it for what is this thread's own.
    pub(super) scope: Scope,
    pub(super) pass: &'a Pass,
    pub(super) together: Option<&'a Together>,
    pub(super) shared: &'a Shared,
    /// Of the first thread.
    pub(super) events: Option<SyncSender<Event>>,
}

impl Worker<'_> {
    pub(super) fn work(mut self) -> Result<Done> {
        let worked = self.all_batches();
        if let Some(together) = self.together {
            together.leave(self.index)?;
        }
        worked
    }

    fn all_batches(&mut self) -> Result<Done> {
        let (mut batch, mut next, mut values) = (Feed::new(), Feed::new(), Vec::new());
        let fetch = self.shown();
        let program = self.program;
        let gathers = self.pass.infers && !self.pass.fetch.is_empty();
        let gathered = gathers.then(|| Gathered::new(program, &self.pass.fetch));
        let mut done = Done { gathered, ..Done::default() };
        // A slot that the program does not have is read and left out.
        let is_known = |name: &str| program.find_var(0, name).is_some();
        let mut known = None;
        let looks_ahead = program.distributed.as_ref().is_some_and(|job| job.mode.looks_ahead());
        let start = Instant::now();
        while self.next_of(&mut batch, looks_ahead.then_some(&mut next))? {
            let n_samples = batch.n_samples();
            batch.leave_out(&mut known, is_known);
            self.step(&mut batch, &fetch, &mut values)?;
            done.n_batches += 1;
            done.n_samples += n_samples;
            if let Some(gathered) = &mut done.gathered {
                gathered.add(&values, n_samples);
            }
            self.count(&mut done, n_samples);
            self.show(&done, &values, start)?;
        }
        // Whoever watches sees the end, however short the pass was.
        self.show_watched(&values, !self.pass.watch.is_empty())?;
        done.waited = self.reader.waited();
        Ok(done)
    }

    /// Waits for the next batch, which may have been looked at before; whether there is one.
    fn next_of(&mut self, batch: &mut Feed, next: Option<&mut Feed>) -> Result<bool> {
        let Some(next) = next else { return self.next(batch) };
        if next.is_empty() {
            if !self.next(batch)? {
                return Ok(false);
            }
        } else {
            // The batch before last is not needed any more: its memory is that of the one to come.
            self.reader.recycle(std::mem::replace(batch, std::mem::take(next)));
        }
        if self.reader.ready(Duration::ZERO) && !self.reader.next_into(next)? {
            *next = Feed::new();
        }
        self.executor.ahead_mut().expect(next.iter());
        Ok(true)
    }

    /// Waits for the next batch; whether there is one.
    fn next(&mut self, batch: &mut Feed) -> Result<bool> {
        while !self.reader.ready(TICK) {
            if self.executor.interrupt().is_set() {
                return Err(Error::PassStopped);
            }
        }
        Ok(self.reader.next_into(batch)?)
    }

    /// The variables somebody wants to see: those of the first thread, or of all if they are
    /// gathered.
    fn shown(&self) -> Vec<String> {
        if self.events.is_none() {
            return if self.pass.infers { self.pass.fetch.clone() } else { Vec::new() };
        }
        let mut names = self.pass.fetch.clone();
        names.extend(self.pass.watch.iter().cloned());
        names
    }

    fn step(&mut self, feed: &mut Feed, fetch: &[String], values: &mut Vec<Tensor>) -> Result<()> {
        if let Some(together) = self.together {
            return together.step((self.index, self.executor), &self.scope, feed, (fetch, values));
        }
        let fetch: Vec<&str> = fetch.iter().map(String::as_str).collect();
        self.executor.run_into(self.program, &self.scope, feed, &fetch, values)
    }

    fn count(&self, done: &mut Done, n_samples: u64) {
        self.shared.n_batches.fetch_add(1, Ordering::Relaxed);
        self.shared.n_samples.fetch_add(n_samples, Ordering::Relaxed);
        let waited = self.reader.waited();
        let more = waited.saturating_sub(done.waited).as_micros() as u64;
        self.shared.waited_micros.fetch_add(more, Ordering::Relaxed);
        done.waited = waited;
    }

    fn show(&mut self, done: &Done, values: &[Tensor], start: Instant) -> Result<()> {
        let Some(events) = &self.events else { return Ok(()) };
        let is_time = |every: u64| every > 0 && done.n_batches.is_multiple_of(every);
        let n_fetched = self.pass.fetch.len().min(values.len());
        if n_fetched > 0 && is_time(self.pass.fetch_every) {
            tell(events, Event::Fetched(values[..n_fetched].to_vec()))?;
        }
        if self.pass.debug && is_time(MEASURE_EVERY) {
            let text = text::debug_text(&self.executor.take_profile(), done_of(done), start);
            tell(events, Event::Measured(text))?;
        }
        let wanted = self.shared.wants_watch.swap(false, Ordering::Relaxed);
        self.show_watched(values, wanted)
    }

    fn show_watched(&self, values: &[Tensor], wanted: bool) -> Result<()> {
        let (true, Some(events)) = (wanted, &self.events) else { return Ok(()) };
        let mut values = values.iter().skip(self.pass.fetch.len()).cloned();
        // A thread without a batch has computed nothing, but parameters are there.
        let in_scope =
            |name| self.scope.read(name, |value: &Value| value.tensor().cloned()).flatten();
        let watched = self.pass.watch.iter().map(|name| values.next().or_else(|| in_scope(name)));
        tell(events, Event::Watched(watched.collect()))
    }
}

fn done_of(done: &Done) -> (u64, u64, Duration) {
    (done.n_batches, done.n_samples, done.waited)
}

fn tell(events: &SyncSender<Event>, event: Event) -> Result<()> {
    events.send(event).map_err(|_| Error::PassStopped)
}
