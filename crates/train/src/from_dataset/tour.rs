//! A pass under way: its threads, and whoever looks on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use data::Stopper;
use program::Program;

use super::batches::Batches;
use super::cutting::{Cuts, Cutting, Inside};
use super::shared::Shared;
use super::together::Together;
use super::whole::Gathered;
use super::worker::{self, Event, Worker};
use super::{Audience, Pass, Report, TICK};
use crate::error::{Error, Result};
use crate::executor::{Executor, Interrupt};
use crate::scope::{Lent, Scope};

/// A pass under way, seen from the thread that called for it.
pub(super) struct Tour<'a> {
    pub(super) program: &'a Program,
    pub(super) scope: &'a Scope,
    pub(super) pass: &'a Pass,
    pub(super) executor: &'a Executor,
    pub(super) shared: &'a Shared,
    /// The job goes on after deaths, and this pass with it.
    pub(super) recovers: bool,
    /// Who makes cuts of the job, if any are made meanwhile.
    pub(super) cuts: Option<&'a dyn Cuts>,
    /// Where it begins, if that is known.
    pub(super) inside: Option<Inside>,
    pub(super) start: Instant,
}

impl Tour<'_> {
    /// Runs all batches of these threads. After an error, they have what is left.
    pub(super) fn run(
        &self,
        executors: &mut [Executor],
        threads: &mut [Batches],
        audience: &mut dyn Audience,
    ) -> Result<Report> {
        let n_threads = threads.len();
        let lent = (n_threads > 1).then(|| Loan(Arc::new(self.lend())));
        let cutting = Cutting::new(self.cuts, self.shared, self.inside.clone(), n_threads);
        let together = match &lent {
            Some(Loan(lent)) if self.steps_together() => {
                let once = self.executor.twin();
                let what = (self.program, self.scope);
                Some(Together::new(what, once, lent, (n_threads, self.pass), &cutting)?)
            }
            _ => None,
        };
        let stops = Stops::new(threads, &executors[..n_threads], self);
        let (send, events) = mpsc::sync_channel(1);
        let mut was_stopped = false;
        let results = thread::scope(|spawn| {
            let mut handles = Vec::with_capacity(n_threads);
            for (index, (batches, executor)) in threads.iter_mut().zip(executors).enumerate() {
                let lent = lent.as_ref().map(|loan| loan.0.clone());
                let scope = if lent.is_some() { self.scope.detached() } else { self.scope.clone() };
                executor.join_pass(self.executor, lent, together.is_some());
                executor.options_mut().profile = self.pass.debug && index == 0;
                let worker = Worker {
                    index,
                    batches,
                    executor,
                    program: self.program,
                    scope,
                    pass: self.pass,
                    together: together.as_ref(),
                    cutting: &cutting,
                    shared: self.shared,
                    events: (index == 0).then(|| send.clone()),
                };
                let (end, stops) = (send.clone(), &stops);
                handles.push(spawn.spawn(move || {
                    let ended = worker.work();
                    if let Err(error) = &ended {
                        stops.failed(index, error);
                    }
                    // Whoever waits for events learns that this thread is done.
                    drop(end);
                    ended
                }));
            }
            drop(send);
            was_stopped = self.attend(&events, audience, &stops);
            handles.into_iter().map(join).collect::<Vec<_>>()
        });
        let first = stops.none();
        // Variables are back before anybody is told.
        drop((together, lent));
        self.report(results, was_stopped, first)
    }

    fn elapsed(&self) -> Duration {
        let before = self.inside.as_ref().map_or(Duration::ZERO, |inside| inside.elapsed);
        before + self.start.elapsed()
    }

    /// All that lives between batches, in cells.
    fn lend(&self) -> Lent {
        let persistable = self.program.list_vars().filter(|var| var.persistable);
        let names: BTreeSet<String> = persistable.map(|var| var.name.clone()).collect();
        let ops = self.program.blocks().iter().flat_map(|block| &block.ops);
        let looked_up = ops.filter(|op| op.traits().looks_up);
        let tables: BTreeSet<String> =
            looked_up.flat_map(|op| op.input_names("W")).cloned().collect();
        self.scope.lend(&names, |name| tables.contains(name))
    }

    /// Whether gradients of all threads go to servers as one.
    fn steps_together(&self) -> bool {
        let job = self.program.distributed.as_ref();
        !self.pass.infers && job.is_some_and(|job| job.mode.threads_meet())
    }

    /// Shows what comes until all threads are done; whether the caller ended it early.
    fn attend(
        &self,
        events: &Receiver<Event>,
        audience: &mut dyn Audience,
        stops: &Stops<'_>,
    ) -> bool {
        let mut was_stopped = false;
        let mut last = (Instant::now(), Instant::now());
        loop {
            match events.recv_timeout(TICK) {
                Ok(Event::Fetched(values)) => audience.fetched(&values),
                Ok(Event::Watched(values)) => audience.watched(values),
                Ok(Event::Measured(text)) => audience.measured(&text),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return was_stopped,
            }
            if !self.pass.watch.is_empty() && last.1.elapsed() >= self.pass.watch_every {
                last.1 = Instant::now();
                self.shared.wants_watch.store(true, Ordering::Relaxed);
            }
            if last.0.elapsed() >= TICK {
                last.0 = Instant::now();
                if !audience.goes_on(&self.shared.progress(self.elapsed())) && !was_stopped {
                    was_stopped = true;
                    stops.all();
                }
            }
        }
    }

    /// What came of all threads; `first` was the first that failed.
    fn report(
        &self,
        results: Vec<Result<worker::Done>>,
        was_stopped: bool,
        first: Option<usize>,
    ) -> Result<Report> {
        let mut report = Report { seconds: self.elapsed().as_secs_f64(), ..Report::default() };
        let mut failed: Option<Error> = None;
        let mut gathered: Option<Gathered> = None;
        for (index, result) in results.into_iter().enumerate() {
            match result {
                Err(_) if self.recovers && was_stopped => return Err(Error::PassStopped),
                // When a server is lost, several threads may see it: what the first one saw counts.
                Err(error) if self.recovers && first == Some(index) => return Err(error),
                Ok(mut done) => {
                    match (&mut gathered, done.gathered.take()) {
                        (Some(all), Some(more)) => all.join(more),
                        (all, more) => *all = all.take().or(more),
                    }
                    report.add(done);
                }
                // Those that were stopped only followed the one that failed.
                Err(error) if failed.is_none() || is_echo(failed.as_ref()) => failed = Some(error),
                Err(_) => {}
            }
        }
        match failed {
            Some(error) => Err(error),
            None if was_stopped => Err(Error::PassStopped),
            None => {
                if let Some(gathered) = gathered {
                    report.fetched = gathered.finish(self.scope, &self.pass.fetch)?;
                }
                self.with_staleness(report)
            }
        }
    }

    /// Adds how old parameters were, and says so.
    fn with_staleness(&self, mut report: Report) -> Result<Report> {
        report.staleness = self.executor.cluster().take_staleness();
        if let Some(own) = &report.staleness {
            self.executor.cluster().say_staleness(own)?;
        }
        Ok(report)
    }
}

/// Whether the error only says that somebody else failed.
fn is_echo(error: Option<&Error>) -> bool {
    matches!(error, Some(Error::PassStopped | Error::Interrupted { .. }))
}

fn join(handle: thread::ScopedJoinHandle<'_, Result<worker::Done>>) -> Result<worker::Done> {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Variables that are back when this goes, whatever happened.
struct Loan(Arc<Lent>);

impl Drop for Loan {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// Ends all threads early.
struct Stops<'a> {
    /// The readers of a pass that goes on after deaths are not stopped: it goes on with them.
    stopper: Option<Stopper>,
    recovers: bool,
    shared: &'a Shared,
    interrupts: Vec<Interrupt>,
    halt: Arc<AtomicBool>,
    /// The thread that failed first.
    first: OnceLock<usize>,
}

impl<'a> Stops<'a> {
    fn new(threads: &[Batches], executors: &[Executor], tour: &Tour<'a>) -> Self {
        let stopper = threads.first().map(|batches| batches.reader().stopper());
        let interrupts = executors.iter().map(Executor::interrupt).collect();
        let halt = tour.executor.cluster().halt();
        halt.store(false, Ordering::Relaxed);
        let (recovers, shared, first) = (tour.recovers, tour.shared, OnceLock::new());
        Self { stopper, recovers, shared, interrupts, halt, first }
    }

    /// A thread has failed: the others end too.
    fn failed(&self, thread: usize, error: &Error) {
        if !is_echo(Some(error)) {
            let _ = self.first.set(thread);
        }
        if self.recovers { self.threads() } else { self.all() }
    }

    fn all(&self) {
        if let Some(stopper) = &self.stopper {
            stopper.stop();
        }
        self.threads();
    }

    fn threads(&self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        self.interrupts.iter().for_each(Interrupt::set);
        self.halt.store(true, Ordering::Relaxed);
    }

    /// The next pass begins afresh; returns who failed first.
    fn none(self) -> Option<usize> {
        self.halt.store(false, Ordering::Relaxed);
        self.first.into_inner()
    }
}
