//! Threads of one trainer that step together: their gradients are averaged and go to the servers, or to the
//! other trainers in a job without servers, as one (Fluid: the communicator of sync and half-async training).
//!
//! A thread that has its gradients waits for the others; the last one to come averages them in thread
//! order and runs the ops that run once: sending and receiving. Nothing waits for a thread without more
//! data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use base::EvenIfPoisoned;
use metrics::WaitingStep;
use program::distributed::Mode;
use program::op::collective::mode_of;
use tensor::{Tensor, Value};

use super::cutting::Cutting;
use super::{Pass, TICK};
use crate::counters::TRAINER;
use crate::error::{Error, Result};
use crate::executor::Feed;
use crate::gradients::{add_up, scale};
use crate::parallel::loss::{Loss, LossScale};
use crate::parallel::stage::{Stage, Stages};
use crate::scope::{Lent, Scope};
use crate::trainer::JobRunner;

/// A step of one thread.
pub(super) struct ThreadStep<'a> {
    /// The number of the thread.
    pub(super) index: usize,
    pub(super) runner: &'a mut JobRunner,
    pub(super) scope: &'a Scope,
    pub(super) feed: &'a mut Feed,
    pub(super) fetch: &'a [String],
    /// The fetched values.
    pub(super) values: &'a mut Vec<Tensor>,
}

pub(super) struct Together<'a> {
    stages: Stages,
    cutting: &'a Cutting<'a>,
    state: Mutex<ThreadsState>,
    round_over: Condvar,
    has_failed: AtomicBool,
}

struct ThreadsState {
    once: JobRunner,
    /// The gradient of a table that is spread by id: servers add up those of trainers and do not
    /// divide, and threads count as trainers.
    summed: Option<String>,
    /// Where what runs once has its variables.
    inner: Scope,
    /// Scopes of threads that wait, by thread.
    waiting: Vec<Option<Scope>>,
    n_active: usize,
    n_rounds: u64,
}

impl<'a> Together<'a> {
    pub(super) fn new(
        Pass { program, scope, options }: Pass<'_>,
        mut once: JobRunner,
        lent: &Arc<Lent>,
        n_threads: usize,
        cutting: &'a Cutting<'a>,
    ) -> Result<Self> {
        let keep = options.fetch.iter().chain(&options.watch).cloned().collect();
        let loss = Loss {
            scale: Some(LossScale::One),
            n_devices: n_threads,
            n_trainers: 1,
            counts_together: false,
        };
        let stages = Stages::new(program, loss, &keep);
        let is_data = |name: &String| program.find_var(0, name).is_some_and(|var| var.is_data);
        let is_fed = stages.stages.iter().any(|stage| stage.fed.iter().any(is_data));
        // The ops that run once would need every thread's batch before the threads continue.
        if is_fed || stages.stages.len() > 1 {
            let mode = mode_of(program).map_or("local", Mode::name);
            return Err(Error::ThreadsCannotSynchronize { mode });
        }
        once.lend(lent.clone());
        let spread = program.distributed.as_ref().and_then(|job| job.lookup_table.as_deref());
        let state = ThreadsState {
            once,
            summed: spread.map(program::names::grad),
            inner: scope.detached(),
            waiting: vec![None; n_threads],
            n_active: n_threads,
            n_rounds: 0,
        };
        let (state, round_over) = (Mutex::new(state), Condvar::new());
        Ok(Self { stages, cutting, state, round_over, has_failed: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, ThreadsState> {
        self.state.lock().even_if_poisoned()
    }

    /// One step of one thread.
    pub(super) fn step(&self, step: ThreadStep<'_>) -> Result<()> {
        let ThreadStep { index, runner, scope, feed, fetch, values } = step;
        for stage in &self.stages.stages {
            let ran = runner.run_into(&stage.local.program, scope, feed, &[], &mut Vec::new());
            ran.map_err(|error| stage.local.blame(error))?;
            self.synchronize(index, scope, stage, runner)?;
        }
        values.clear();
        for name in fetch {
            values.push(self.value(name, scope, feed)?);
        }
        Ok(())
    }

    /// Waits until all threads have come; the last one does what runs once.
    fn synchronize(
        &self,
        index: usize,
        scope: &Scope,
        stage: &Stage,
        own: &JobRunner,
    ) -> Result<()> {
        let mut state = self.lock();
        let round = state.n_rounds;
        state.waiting[index] = Some(scope.clone());
        if state.is_full() {
            return self.finish(&mut state, stage);
        }
        let _waiting = WaitingStep::begin(&TRAINER.threads_waiting_seconds);
        while state.n_rounds == round {
            let stops = own.interrupt().is_set() || self.has_failed.load(Ordering::Relaxed);
            if stops {
                return Err(Error::PassStopped);
            }
            let waited = self.round_over.wait_timeout(state, TICK);
            state = waited.even_if_poisoned().0;
        }
        Ok(())
    }

    /// A thread has no more batches, or failed.
    pub(super) fn leave(&self, index: usize, has_failed: bool) -> Result<()> {
        let mut state = self.lock();
        state.n_active -= 1;
        state.waiting[index] = None;
        if has_failed {
            // A round without this thread's part would be another one than was meant.
            self.has_failed.store(true, Ordering::Relaxed);
            self.round_over.notify_all();
            return Ok(());
        }
        let waits = state.waiting.iter().any(Option::is_some);
        match self.stages.stages.first() {
            Some(stage) if waits && state.is_full() => self.finish(&mut state, stage),
            _ => Ok(()),
        }
    }

    /// Averages, sends, receives, and lets all go on. Between two rounds all threads wait: so here
    /// is where a cut is made.
    fn finish(&self, state: &mut ThreadsState, stage: &Stage) -> Result<()> {
        let mut result = state.run(stage);
        if result.is_ok() && self.cutting.is_due() {
            result = self.cutting.cut();
        }
        if result.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        state.waiting.iter_mut().for_each(|scope| *scope = None);
        state.n_rounds += 1;
        self.round_over.notify_all();
        result
    }

    /// A variable after a step: the thread's own, or the one that all threads share.
    fn value(&self, name: &str, scope: &Scope, feed: &Feed) -> Result<Tensor> {
        if let Some(fed) = feed.get(name) {
            return Ok(fed.clone());
        }
        let of = |scope: &Scope| scope.read(name, |value| value.tensor().cloned()).flatten();
        let inner = self.lock().inner.clone();
        let value = of(scope).or_else(|| of(&inner));
        value.ok_or_else(|| Error::FetchNotComputed { var: name.to_string() })
    }
}

impl ThreadsState {
    fn is_full(&self) -> bool {
        self.waiting.iter().flatten().count() == self.n_active
    }

    fn run(&mut self, stage: &Stage) -> Result<()> {
        let scopes: Vec<Scope> = self.waiting.iter().flatten().cloned().collect();
        let Some((first, others)) = scopes.split_first() else { return Ok(()) };
        for name in &stage.merge {
            // The old sum's memory becomes that of the first thread's next gradient.
            let mut sum = self.inner.write_own(name, std::mem::take);
            first.write_own(name, |own| std::mem::swap(own, &mut sum));
            let taken: Vec<Value> =
                others.iter().map(|scope| scope.write_own(name, std::mem::take)).collect();
            let added = add_up(name, &mut sum, &taken);
            for (scope, value) in others.iter().zip(taken) {
                scope.write_own(name, |own| *own = value);
            }
            if scopes.len() > 1 && self.summed.as_ref() != Some(name) {
                scale(&mut sum, 1.0 / scopes.len() as f64);
            }
            self.inner.write_own(name, |own| *own = sum);
            added?;
        }
        for name in &stage.hand {
            let value = first.get(name).unwrap_or_default();
            self.inner.write_own(name, |own| *own = value);
        }
        let once = &stage.once;
        let mut feed = Feed::new();
        let ran = self.once.run_into(&once.program, &self.inner, &mut feed, &[], &mut Vec::new());
        ran.map_err(|error| once.blame(error))
    }
}
