//! Runs programs inside a job: steps, and parts of steps.

use std::sync::Arc;
use std::time::Duration;

use metrics::Stepping;
use program::Program;
use tensor::Tensor;

use super::answer::RunAnswer;
use super::host::{JobHost, RunMemory};
use crate::counters::TRAINER;
use crate::error::Result;
use crate::executor::{Executor, Feed, Fetched, Interrupt, OpRun, OpTime, Options, RunRequest};
use crate::remote::{Prefetch, TrainerJob};
use crate::scope::{Lent, Scope};

/// An executor and the job that its programs find.
///
/// Its runs are no events: a [`super::Trainer`] makes events of them, and threads and devices run parts of one.
#[derive(Debug, Default)]
pub(crate) struct JobRunner {
    executor: Executor,
    job: TrainerJob,
    memory: RunMemory,
    /// It runs parts of steps, in scopes of their own.
    is_part: bool,
}

impl JobRunner {
    pub(crate) fn with_options(options: Options) -> Self {
        Self { executor: Executor::with_options(options), ..Self::default() }
    }

    /// Another one with the same options and the same job.
    pub(crate) fn twin(&self) -> Self {
        let (executor, job) = (self.executor.twin(), self.job.clone());
        Self { executor, job, ..Self::default() }
    }

    pub(crate) fn job(&self) -> &TrainerJob {
        &self.job
    }

    pub(crate) fn set_job(&mut self, job: TrainerJob) {
        self.job = job;
    }

    /// From now on it runs parts of steps: the one that runs the whole step takes what servers send.
    pub(crate) fn set_part(&mut self) {
        self.is_part = true;
    }

    pub(crate) fn options_mut(&mut self) -> &mut Options {
        self.executor.options_mut()
    }

    pub(crate) fn executor_mut(&mut self) -> &mut Executor {
        &mut self.executor
    }

    /// What is known of the batch that comes next.
    pub(crate) fn prefetch_mut(&mut self) -> &mut Prefetch {
        &mut self.memory.prefetch
    }

    /// Shares these variables with other threads from now on.
    pub(crate) fn lend(&mut self, lent: Arc<Lent>) {
        self.executor.lend(lent);
    }

    /// Gets ready for a pass as one of the threads of `leader`.
    pub(crate) fn join_pass(&mut self, leader: &Self, lent: Option<Arc<Lent>>, is_part: bool) {
        self.executor.join_pass(&leader.executor, lent);
        self.job = leader.job.clone();
        self.is_part = is_part;
    }

    pub(crate) fn interrupt(&self) -> Interrupt {
        self.executor.interrupt()
    }

    pub(crate) fn poll(&mut self, every: Duration, stop: impl FnMut() -> bool + Send + 'static) {
        self.executor.poll(every, stop);
    }

    pub(crate) fn take_op_runs(&mut self) -> Vec<OpRun> {
        self.executor.take_op_runs()
    }

    pub(crate) fn take_profile(&mut self) -> Vec<OpTime> {
        self.executor.take_profile()
    }

    /// Runs a part of an event, and counts it.
    #[allow(clippy::too_many_arguments)] // What runs, where, on what, for what, into what.
    pub(crate) fn run_into(
        &mut self,
        program: &Program,
        scope: &Scope,
        feed: &mut Feed,
        fetch: &[&str],
        fetched: &mut Vec<Tensor>,
    ) -> Result<()> {
        let asked = RunRequest { program, scope, feed, fetch, fetched };
        counted(asked, |asked| self.run_plain(asked))
    }

    /// Runs a program of the script, or the one that takes its place since the servers are others.
    pub(crate) fn run_plain<F: Fetched>(&mut self, asked: RunRequest<'_, F>) -> Result<()> {
        let anew = self.job.links().moves.followed_program(asked.program)?;
        let program = anew.as_deref().unwrap_or(asked.program);
        let mut host = JobHost::new(&self.job, program, &mut self.memory, self.is_part);
        let RunRequest { scope, feed, fetch, fetched, .. } = asked;
        self.executor.run_on(&mut host, RunRequest { program, scope, feed, fetch, fetched })
    }
}

/// Counts a run as a step of this trainer. A run inside of a step is counted with the step.
pub(super) fn counted<F: RunAnswer>(
    asked: RunRequest<'_, F>,
    run: impl FnOnce(RunRequest<'_, F>) -> Result<()>,
) -> Result<()> {
    let Some(_step) = Stepping::begin(&TRAINER.computing_seconds) else { return run(asked) };
    let RunRequest { program, scope, feed, fetch, fetched } = asked;
    let n_samples = feed.n_samples();
    run(RunRequest { program, scope, feed, fetch, fetched: &mut *fetched })?;
    if n_samples > 0 || !fetch.is_empty() {
        TRAINER.batches.add(1);
        TRAINER.samples.add(n_samples);
    }
    fetch.iter().zip(fetched.iter()).for_each(|(name, value)| value.note(name));
    Ok(())
}
