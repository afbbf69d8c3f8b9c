//! One pass over a dataset: threads take batches and run a program on each (Fluid:
//! `train_from_dataset`).
//!
//! Each thread has its own temporaries; parameters are everybody's. With several threads an op borrows
//! the parameters while it runs ([`crate::cell`]); where servers want the threads of a trainer to
//! step together ([`together`]), gradients are averaged in thread order and sent once.

mod bar;
mod progress;
mod text;
mod together;
mod whole;
mod worker;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use data::{Reader, Stopper};
use program::{Program, role};
use tensor::{EvenIfPoisoned, Tensor};

pub use bar::Bar;
pub use progress::{Progress, Report};
pub use text::{debug_text, fetched_text};
use together::Together;
pub use whole::Whole;
use whole::{Aside, Gathered};
use worker::{Event, Shared, Worker};

use crate::error::{Error, Result};
use crate::executor::{Executor, Interrupt};
use crate::scope::{Lent, Scope};

/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// What a pass runs, and what somebody wants to see of it.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Variables of the first thread to show.
    pub fetch: Vec<String>,
    /// They are shown every so many batches of the first thread; 0: never.
    pub fetch_every: u64,
    /// Variables of the first thread to show every so often.
    pub watch: Vec<String>,
    /// How often.
    pub watch_every: Duration,
    /// Measures the time of each op on the first thread, and shows it every 100 batches.
    pub debug: bool,
    /// Nothing is sent to servers.
    pub infers: bool,
}

impl Default for Pass {
    fn default() -> Self {
        let (fetch, watch) = (Vec::new(), Vec::new());
        let watch_every = Duration::from_secs(60);
        Self { fetch, fetch_every: 100, watch, watch_every, debug: false, infers: false }
    }
}

/// Somebody who looks on; called on the thread that called for the pass.
pub trait Audience {
    /// [`Pass::fetch`] on the first thread, as of one batch.
    fn fetched(&mut self, values: &[Tensor]);

    /// [`Pass::watch`] on the first thread; `None` where there is no value.
    fn watched(&mut self, values: Vec<Option<Tensor>>) {
        let _ = values;
    }

    /// Where the time went on the first thread.
    fn measured(&mut self, text: &str) {
        let _ = text;
    }

    /// Called now and then; whether to go on.
    fn goes_on(&mut self, progress: &Progress) -> bool {
        let _ = progress;
        true
    }
}

impl Executor {
    /// Runs a program on every batch of these readers, each on a thread of its own.
    pub fn run_dataset(
        &mut self,
        (program, scope): (&Program, &Scope),
        readers: Vec<Reader>,
        pass: &Pass,
        audience: &mut dyn Audience,
    ) -> Result<Report> {
        let program = &runnable(program, pass.infers);
        check_shown(program, pass)?;
        let mut executors = std::mem::take(self.executors_mut());
        executors.resize_with(readers.len().max(executors.len()), || self.twin());
        // A pass that only looks begins to count at zero, and the training's counts come back.
        let _aside = pass.infers.then(|| Aside::put(program, scope));
        let result = Tour::new(self, program, scope, pass).run(&mut executors, readers, audience);
        *self.executors_mut() = executors;
        result
    }
}

/// The program without what talks to servers, if nothing is to be sent.
fn runnable(program: &Program, infers: bool) -> std::borrow::Cow<'_, Program> {
    let is_sent = |op: &program::OpDesc| op.role() & role::RPC != 0;
    let sends = infers && program.block(0).ops.iter().any(is_sent);
    if !sends {
        return std::borrow::Cow::Borrowed(program);
    }
    let mut program = program.clone();
    program.block_mut(0).ops.retain(|op| !is_sent(op));
    std::borrow::Cow::Owned(program)
}

fn check_shown(program: &Program, pass: &Pass) -> Result<()> {
    let unknown = |name: &&String| program.find_var(0, name).is_none();
    match pass.fetch.iter().chain(&pass.watch).find(unknown) {
        Some(var) => Err(Error::fetch_unknown(var, program)),
        None => Ok(()),
    }
}

/// A pass under way, seen from the thread that called for it.
struct Tour<'a> {
    program: &'a Program,
    scope: &'a Scope,
    pass: &'a Pass,
    executor: &'a Executor,
    shared: Shared,
    start: Instant,
}

impl<'a> Tour<'a> {
    fn new(executor: &'a Executor, program: &'a Program, scope: &'a Scope, pass: &'a Pass) -> Self {
        Self { program, scope, pass, executor, shared: Shared::default(), start: Instant::now() }
    }

    fn run(
        &mut self,
        executors: &mut [Executor],
        readers: Vec<Reader>,
        audience: &mut dyn Audience,
    ) -> Result<Report> {
        let n_threads = readers.len();
        let lent = (n_threads > 1).then(|| Loan(Arc::new(self.lend())));
        let together = match &lent {
            Some(Loan(lent)) if self.steps_together() => {
                let once = self.executor.twin();
                Some(Together::new((self.program, self.scope), once, lent, (n_threads, self.pass))?)
            }
            _ => None,
        };
        let stops = Stops::new(&readers, &executors[..n_threads], self.executor);
        let (send, events) = mpsc::sync_channel(1);
        let (tour, mut was_stopped) = (&*self, false);
        let results = thread::scope(|threads| {
            let mut handles = Vec::with_capacity(n_threads);
            for (index, (reader, executor)) in readers.into_iter().zip(executors).enumerate() {
                let lent = lent.as_ref().map(|loan| loan.0.clone());
                let scope = if lent.is_some() { self.scope.detached() } else { self.scope.clone() };
                executor.join_pass(self.executor, lent, together.is_some());
                executor.options_mut().profile = self.pass.debug && index == 0;
                let worker = Worker {
                    index,
                    reader,
                    executor,
                    program: self.program,
                    scope,
                    pass: self.pass,
                    together: together.as_ref(),
                    shared: &self.shared,
                    events: (index == 0).then(|| send.clone()),
                };
                let (end, stops) = (send.clone(), &stops);
                handles.push(threads.spawn(move || {
                    let ended = worker.work();
                    if ended.is_err() {
                        stops.all();
                    }
                    // Whoever waits for events learns that this thread is done.
                    drop(end);
                    ended
                }));
            }
            drop(send);
            was_stopped = tour.attend(&events, audience, &stops);
            handles.into_iter().map(join).collect::<Vec<_>>()
        });
        stops.none();
        // Variables are back before anybody is told.
        drop((together, lent));
        self.report(results, was_stopped)
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
    fn attend(&self, events: &Receiver<Event>, audience: &mut dyn Audience, stops: &Stops) -> bool {
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
                if !audience.goes_on(&self.shared.progress(self.start)) && !was_stopped {
                    was_stopped = true;
                    stops.all();
                }
            }
        }
    }

    fn report(&self, results: Vec<Result<worker::Done>>, was_stopped: bool) -> Result<Report> {
        let mut report =
            Report { seconds: self.start.elapsed().as_secs_f64(), ..Report::default() };
        let mut failed: Option<Error> = None;
        let mut gathered: Option<Gathered> = None;
        for result in results {
            match result {
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
struct Stops {
    stopper: Mutex<Option<Stopper>>,
    interrupts: Vec<Interrupt>,
    halt: Arc<AtomicBool>,
}

impl Stops {
    fn new(readers: &[Reader], executors: &[Executor], executor: &Executor) -> Self {
        let stopper = Mutex::new(readers.first().map(Reader::stopper));
        let interrupts = executors.iter().map(Executor::interrupt).collect();
        let halt = executor.cluster().halt();
        halt.store(false, Ordering::Relaxed);
        Self { stopper, interrupts, halt }
    }

    fn all(&self) {
        if let Some(stopper) = &*self.stopper.lock().even_if_poisoned() {
            stopper.stop();
        }
        self.interrupts.iter().for_each(Interrupt::set);
        self.halt.store(true, Ordering::Relaxed);
    }

    /// The next pass begins afresh.
    fn none(&self) {
        self.halt.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
