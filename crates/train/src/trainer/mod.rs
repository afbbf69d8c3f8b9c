//! A trainer: an executor, the job that it takes part in, and what a script asks of both.
//!
//! Each run is an event of the script, if the job recovers from deaths; see [`crate::recover`]. The parts of the job
//! and the order of their locks are in [`crate::remote`].

mod answer;
pub(crate) mod event;
mod host;
mod runner;

use std::time::Duration;

use program::Program;
use tensor::{Tensor, Value};

pub(crate) use runner::JobRunner;

use self::answer::RunAnswer;
use self::event::{Again, RunEvent};
use self::runner::counted;
use crate::error::Result;
use crate::executor::{Executor, Feed, Interrupt, OpRun, OpTime, Options, RunRequest};
use crate::remote::TrainerJob;
use crate::scope::Scope;

/// Runs the programs of a trainer: alone, with servers, or with other trainers.
///
/// ```
/// use program::Net;
/// use program::layers::{self, Data};
/// use tensor::Tensor;
/// use train::{Feed, Scope, Trainer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut net = Net::with_seed(1);
/// let b = &mut net.builder();
/// let x = layers::data(b, "x", &[2], Data::default())?;
/// let y = layers::square(b, &x, None)?;
/// let mut feed = Feed::new().with("x", Tensor::new([1, 2], &[2.0f32, 3.0])?);
/// let fetched = Trainer::new().run(&net.main, &Scope::new(), &mut feed, &[y.name()])?;
/// assert_eq!(fetched[0].data::<f32>()?, [4.0, 9.0]);
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Trainer {
    runner: JobRunner,
    /// Those of other threads, kept for the next pass.
    threads: Vec<JobRunner>,
    /// What is needed to run things again.
    again: Again<JobRunner>,
}

impl Trainer {
    /// A trainer with the usual options, in no job yet. A program that belongs to a job joins it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A trainer with other options.
    pub fn with_options(options: Options) -> Self {
        Self { runner: JobRunner::with_options(options), ..Self::default() }
    }

    /// The options, to change; programs are prepared again as needed.
    pub fn options_mut(&mut self) -> &mut Options {
        self.runner.options_mut()
    }

    /// What runs the programs.
    pub fn executor_mut(&mut self) -> &mut Executor {
        self.runner.executor_mut()
    }

    /// The job that this trainer takes part in.
    pub fn job(&self) -> &TrainerJob {
        self.runner.job()
    }

    /// Takes part in the job of another trainer of this process, with its connections.
    pub fn set_job(&mut self, job: TrainerJob) {
        self.runner.set_job(job);
    }

    /// A handle that ends runs of this trainer.
    pub fn interrupt(&self) -> Interrupt {
        self.runner.interrupt()
    }

    /// Calls `stop` now and then to ask whether a run must end; see [`Executor::poll`].
    pub fn poll(&mut self, every: Duration, stop: impl FnMut() -> bool + Send + 'static) {
        self.runner.poll(every, stop);
    }

    /// The first runs of ops since the last call, in order; [`Trainer::take_profile`] forgets them.
    pub fn take_op_runs(&mut self) -> Vec<OpRun> {
        self.runner.take_op_runs()
    }

    /// How often each op ran and how long it took, since the last call; the longest first.
    pub fn take_profile(&mut self) -> Vec<OpTime> {
        self.runner.take_profile()
    }

    pub(crate) fn runner(&self) -> &JobRunner {
        &self.runner
    }

    /// The runners of other threads.
    pub(crate) fn threads_mut(&mut self) -> &mut Vec<JobRunner> {
        &mut self.threads
    }

    /// Runs all ops of block 0 in order and returns the variables asked for.
    ///
    /// `feed` lends its tensors: they are back, unchanged, when the call returns.
    pub fn run(
        &mut self,
        program: &Program,
        scope: &Scope,
        feed: &mut Feed,
        fetch: &[&str],
    ) -> Result<Vec<Tensor>> {
        let mut fetched = Vec::new();
        self.run_into(program, scope, feed, fetch, &mut fetched)?;
        Ok(fetched)
    }

    /// Like [`Trainer::run`], with the memory of `fetched` used again: nothing is allocated once
    /// shapes are known.
    #[allow(clippy::too_many_arguments)] // What runs, where, on what, for what, into what.
    pub fn run_into(
        &mut self,
        program: &Program,
        scope: &Scope,
        feed: &mut Feed,
        fetch: &[&str],
        fetched: &mut Vec<Tensor>,
    ) -> Result<()> {
        self.run_step(RunRequest { program, scope, feed, fetch, fetched })
    }

    /// Like [`Trainer::run_into`], for variables that may hold lists of tensors.
    #[allow(clippy::too_many_arguments)] // What runs, where, on what, for what, into what.
    pub fn run_values(
        &mut self,
        program: &Program,
        scope: &Scope,
        feed: &mut Feed,
        fetch: &[&str],
        fetched: &mut Vec<Value>,
    ) -> Result<()> {
        self.run_step(RunRequest { program, scope, feed, fetch, fetched })
    }

    /// Runs a step and counts it; as an event, if the job recovers.
    fn run_step<F: RunAnswer>(&mut self, asked: RunRequest<'_, F>) -> Result<()> {
        counted(asked, |asked| {
            if self.job().is_plain() {
                return self.runner.run_plain(asked);
            }
            let job = self.job().clone();
            job.do_event(&mut RunEvent { trainer: self, asked })
        })
    }
}
