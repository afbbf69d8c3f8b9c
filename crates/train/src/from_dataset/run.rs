//! A running pass: its threads, and the calls of its observer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use data::Stopper;
use metrics::Phase;
use program::distributed::Mode;
use program::op::collective::mode_of;
use tensor::{DType, Tensor};

use super::batches::Batches;
use super::cutting::{CutMaker, Cutting, Inside};
use super::shared::Shared;
use super::size::PassSize;
use super::together::Together;
use super::values::{CountsBefore, Gathered};
use super::worker::{self, Event, Worker};
use super::{Observer, Pass, PassOptions, Progress, Report, TICK};
use crate::counters::{self, TRAINER};
use crate::error::{Error, Result};
use crate::executor::Interrupt;
use crate::scope::Lent;
use crate::trainer::JobRunner;

/// A pass that runs, on the thread that started it.
pub(super) struct PassRun<'a> {
    pub(super) pass: Pass<'a>,
    pub(super) runner: &'a JobRunner,
    pub(super) shared: &'a Shared,
    /// The job recovers from deaths, and this pass with it.
    pub(super) recovers: bool,
    /// Makes cuts of the job, if any are made meanwhile.
    pub(super) cuts: Option<&'a dyn CutMaker>,
    /// The counts at its beginning, if known.
    pub(super) counted: Option<&'a CountsBefore>,
    /// Where it begins, if that is known.
    pub(super) inside: Option<Inside>,
    pub(super) start: Instant,
    pub(super) size: PassSize,
}

impl PassRun<'_> {
    /// Runs all batches of these threads. After an error, they have what is left.
    pub(super) fn run(
        &self,
        runners: &mut [JobRunner],
        threads: &mut [Batches],
        observer: &mut dyn Observer,
    ) -> Result<Report> {
        let n_threads = threads.len();
        if n_threads > 1
            && self.pass.options.infers
            && self.mode().is_some_and(|mode| !mode.has_servers())
        {
            return Err(Error::ThreadsExchange);
        }
        TRAINER.threads.set(n_threads as u64);
        if !self.pass.options.infers {
            TRAINER.pass_number.set(self.epoch() + 1);
        }
        TRAINER.threads_max.raise(n_threads as u64);
        let lent = (n_threads > 1).then(|| LentVars(Arc::new(self.lend())));
        let cutting = Cutting::new(self.cuts, self.shared, self.inside.clone(), n_threads);
        let together = match &lent {
            Some(LentVars(lent)) if self.steps_together() => {
                let once = self.runner.twin();
                Some(Together::new(self.pass, once, lent, n_threads, &cutting)?)
            }
            _ => None,
        };
        let stops = ThreadStops::new(threads, &runners[..n_threads], self);
        let (send, events) = mpsc::sync_channel(1);
        let mut was_stopped = false;
        let phase = Phase::begin(self.verb(), "samples");
        self.shared.is_shown.store(phase.is_seen(), Ordering::Relaxed);
        tracing::debug!(target: "paddlewheel::train_from_dataset", n_threads, epoch = self.epoch(), "a pass begins");
        let results = thread::scope(|spawn| {
            let mut handles = Vec::with_capacity(n_threads);
            for (index, (batches, runner)) in threads.iter_mut().zip(runners).enumerate() {
                let lent = lent.as_ref().map(|loan| loan.0.clone());
                let scope = if lent.is_some() {
                    self.pass.scope.detached()
                } else {
                    self.pass.scope.clone()
                };
                runner.join_pass(self.runner, lent, together.is_some());
                runner.options_mut().profile = self.pass.options.debug && index == 0;
                let worker = Worker {
                    index,
                    batches,
                    runner,
                    program: self.pass.program,
                    scope,
                    options: self.pass.options,
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
                    // The receiver of events learns that this thread is done.
                    drop(end);
                    ended
                }));
            }
            drop(send);
            was_stopped = self.attend(&events, observer, &stops, &phase);
            handles.into_iter().map(join).collect::<Vec<_>>()
        });
        let first = stops.none();
        self.show(&phase);
        drop(phase);
        TRAINER.threads.set(1);
        TRAINER.pass_done.set(1.0);
        TRAINER.pass_left_seconds.set(0.0);
        // Variables are back in the scope before the pass is reported.
        drop((together, lent));
        self.report(results, was_stopped, first)
    }

    fn elapsed(&self) -> Duration {
        let before = self.inside.as_ref().map_or(Duration::ZERO, |inside| inside.elapsed);
        before + self.start.elapsed()
    }

    /// Puts all variables that live between batches into cells, from which threads borrow them.
    fn lend(&self) -> Lent {
        let persistable = self.pass.program.list_vars().filter(|var| var.persistable);
        let names: BTreeSet<String> = persistable.map(|var| var.name.clone()).collect();
        let ops = self.pass.program.blocks().iter().flat_map(|block| &block.ops);
        let looked_up = ops.filter(|op| op.traits().looks_up);
        let tables: BTreeSet<String> =
            looked_up.flat_map(|op| op.input_names("W")).cloned().collect();
        self.pass.scope.lend(&names, |name| tables.contains(name))
    }

    /// Whether the gradients of all threads are sent to the servers, or exchanged with other trainers, as one.
    fn steps_together(&self) -> bool {
        !self.pass.options.infers && self.mode().is_some_and(Mode::threads_synchronize)
    }

    /// How steps exchange with others, if they do.
    fn mode(&self) -> Option<Mode> {
        mode_of(self.pass.program)
    }

    /// Tells the observer what happens until all threads are done. Returns whether it ended the pass early.
    fn attend(
        &self,
        events: &Receiver<Event>,
        observer: &mut dyn Observer,
        stops: &ThreadStops<'_>,
        phase: &Phase,
    ) -> bool {
        let mut was_stopped = false;
        let mut last = (Instant::now(), Instant::now());
        loop {
            match events.recv_timeout(TICK) {
                Ok(Event::Fetched(step, values)) => {
                    observer.fetched(&values);
                    self.say_fetched(step, &values);
                }
                Ok(Event::Watched(values)) => observer.watched(values),
                Ok(Event::Measured(text)) => observer.measured(&text),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return was_stopped,
            }
            if !self.pass.options.watch.is_empty()
                && last.1.elapsed() >= self.pass.options.watch_every
            {
                last.1 = Instant::now();
                self.shared.wants_watch.store(true, Ordering::Relaxed);
            }
            if last.0.elapsed() >= TICK {
                last.0 = Instant::now();
                let progress = self.show(phase);
                if !observer.goes_on(&progress) && !was_stopped {
                    was_stopped = true;
                    stops.all();
                }
            }
        }
    }

    /// Shows the progress to watchers.
    fn show(&self, phase: &Phase) -> Progress {
        let progress = self.shared.progress(self.elapsed());
        self.size.tell(&progress, phase);
        let PassOptions { fetch, fetch_names, .. } = self.pass.options;
        let named = fetch.iter().enumerate().map(|(at, var)| fetch_names.get(at).unwrap_or(var));
        phase.set_numbers(|| counters::fetched_numbers(named));
        progress
    }

    fn verb(&self) -> &'static str {
        if self.pass.options.infers { "inferring" } else { "training" }
    }

    /// Which pass of the script this is, among those that train; from 0.
    fn epoch(&self) -> u64 {
        self.runner.job().recovery().n_passes()
    }

    /// Prints fetched values as Fluid does, with the epoch, the step and the speed.
    fn say_fetched(&self, step: u64, values: &[Tensor]) {
        if !tracing::enabled!(target: "paddlewheel::train_from_dataset", tracing::Level::INFO) {
            return;
        }
        let PassOptions { fetch, fetch_names, .. } = self.pass.options;
        let mut words = String::new();
        for (at, (var, value)) in fetch.iter().zip(values).enumerate() {
            let name = fetch_names.get(at).unwrap_or(var).trim();
            if value.len() == 1 && value.dtype() != DType::Bool {
                words += &format!(", {name} {}", metrics::words::count(value.get_f64(0)));
            }
        }
        let progress = self.shared.progress(self.elapsed());
        let rate = (progress.n_samples as f64 / progress.elapsed.as_secs_f64().max(1e-9)).round();
        let (epoch, verb) = (self.epoch(), self.verb());
        tracing::info!(
            target: "paddlewheel::train_from_dataset",
            "{verb}, epoch {epoch}, step {step}: {} samples/s{words}", metrics::words::count(rate)
        );
    }

    /// The report of all threads; `first` is the thread that failed first.
    fn report(
        &self,
        results: Vec<Result<worker::ThreadDone>>,
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
                let (scope, fetch) = (self.pass.scope, &self.pass.options.fetch);
                let before = self.counted.cloned().unwrap_or_default();
                // Of a training that continued after a death, a part was fetched elsewhere.
                let is_whole = |all: &Gathered| {
                    self.pass.options.infers || all.n_samples() == report.n_samples
                };
                let whole = gathered.filter(is_whole);
                if let Some(gathered) = whole {
                    report.fetched = gathered.finish(scope, fetch, &before)?;
                }
                report.auc = self.counted.and_then(|before| before.area(scope));
                self.with_staleness(report)
            }
        }
    }

    /// Adds how old parameters were, and says so.
    fn with_staleness(&self, mut report: Report) -> Result<Report> {
        report.staleness = self.runner.job().take_staleness();
        if let Some(own) = &report.staleness {
            own.say(self.runner.job())?;
        }
        Ok(report)
    }
}

/// Whether the error only says that another thread failed.
fn is_echo(error: Option<&Error>) -> bool {
    matches!(error, Some(Error::PassStopped | Error::Interrupted { .. }))
}

fn join(
    handle: thread::ScopedJoinHandle<'_, Result<worker::ThreadDone>>,
) -> Result<worker::ThreadDone> {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Variables that go back to the scope when this is dropped.
struct LentVars(Arc<Lent>);

impl Drop for LentVars {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// Ends all threads early.
struct ThreadStops<'a> {
    /// None in a pass that recovers: it continues with the same readers.
    stopper: Option<Stopper>,
    recovers: bool,
    shared: &'a Shared,
    interrupts: Vec<Interrupt>,
    halt: Arc<AtomicBool>,
    /// The thread that failed first.
    first: OnceLock<usize>,
}

impl<'a> ThreadStops<'a> {
    fn new(threads: &[Batches], runners: &[JobRunner], run: &PassRun<'a>) -> Self {
        let stopper = threads.first().map(|batches| batches.reader().stopper());
        let interrupts = runners.iter().map(JobRunner::interrupt).collect();
        let halt = run.runner.job().links().halt();
        halt.store(false, Ordering::Relaxed);
        let recovers = run.recovers;
        let shared = run.shared;
        let first = OnceLock::new();
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

    /// Resets what the next pass uses again. Returns the thread that failed first.
    fn none(self) -> Option<usize> {
        self.halt.store(false, Ordering::Relaxed);
        self.first.into_inner()
    }
}
