//! Runs programs: prepare once, run many.
//!
//! Preparing resolves every op and variable to a place in a list, fuses what is safe, and lets
//! variables that are never alive together share memory. A run that was prepared before looks no
//! variable name up and allocates no tensor.

mod blame;
mod borrow;
mod fetched;
mod fuse;
mod hoist;
mod host;
mod keyed;
mod liveness;
mod packed;
mod plan;
mod prepared;
mod profile;
mod single;
mod step;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use data::Feed;
use data::FeedNames;
use program::Program;
use program::distributed::route::Servers;
use program::op::NoHost;
use tensor::{Tensor, Value};

pub(crate) use fetched::Fetched;
pub use host::{KnownServers, RunHost};
pub use packed::PackedWeights;
pub(crate) use plan::NATIVE;
pub use prepared::{Prepared, sharing};
pub use profile::{OpRun, OpTime, Profile};
pub use single::run_op;

use crate::error::Result;
use crate::scope::{Lent, Scope};

/// How programs are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Fail as soon as an op writes a number that is not finite (`FLAGS_check_nan_inf`).
    pub check_nan_inf: bool,
    /// Measure the time of each op; see [`Executor::take_profile`].
    pub profile: bool,
    /// Compute ops together in one pass where that is safe. Checking and profiling switch this off,
    /// so that they report the user's own ops.
    pub fuse: bool,
    /// Let variables that are never alive together share memory.
    pub reuse_memory: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { check_nan_inf: false, profile: false, fuse: true, reuse_memory: true }
    }
}

/// Programs kept ready; the one not used for longest goes when there are more.
const PREPARED_MAX: usize = 32;

/// Runs programs in a scope.
///
/// It computes, and knows nothing of jobs: the programs of a trainer are run by a [`crate::Trainer`].
///
/// ```
/// use program::Net;
/// use program::layers::{self, Data};
/// use tensor::Tensor;
/// use train::{Executor, Feed, Scope};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut net = Net::with_seed(1);
/// let b = &mut net.builder();
/// let x = layers::data(b, "x", &[2], Data::default())?;
/// let y = layers::square(b, &x, None)?;
/// let mut feed = Feed::new().with("x", Tensor::new([1, 2], &[2.0f32, 3.0])?);
/// let fetched = Executor::new().run(&net.main, &Scope::new(), &mut feed, &[y.name()])?;
/// assert_eq!(fetched[0].data::<f32>()?, [4.0, 9.0]);
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Executor {
    options: Options,
    cache: Vec<(Key, Prepared)>,
    profile: Profile,
    interrupt: Interrupt,
    poll: Option<Poll>,
    /// Variables that other threads train too.
    lent: Option<Arc<Lent>>,
    /// Weights that were arranged beforehand.
    packed: PackedWeights,
}

/// The request of a run.
pub(crate) struct RunRequest<'a, F> {
    pub(crate) program: &'a Program,
    pub(crate) scope: &'a Scope,
    pub(crate) feed: &'a mut Feed,
    pub(crate) fetch: &'a [&'a str],
    pub(crate) fetched: &'a mut Vec<F>,
}

/// Asked now and then, between two ops, whether to go on.
struct Poll {
    every: Duration,
    last: Instant,
    stop: Box<dyn FnMut() -> bool + Send>,
}

impl Poll {
    /// Whether the run must end; asks only if it has not asked for a while.
    fn stops(&mut self) -> bool {
        if self.last.elapsed() < self.every {
            return false;
        }
        self.last = Instant::now();
        (self.stop)()
    }
}

impl std::fmt::Debug for Poll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Poll every {:?}", self.every)
    }
}

/// The key of a prepared program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    program: u64,
    version: u64,
    options: Options,
    feed: FeedNames,
    fetch: Vec<String>,
    /// The job of the host, for a program that has none of its own.
    host_job: Option<u64>,
}

/// Stops a run from another thread (or a signal handler): the run ends before its next op.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks the current run to end.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Executor {
    /// An executor with the usual options.
    pub fn new() -> Self {
        Self::default()
    }

    /// An executor with other options.
    pub fn with_options(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// The options, to change; programs are prepared again as needed.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// From now on products use weights that were arranged beforehand. They must be those of every
    /// program and scope that this executor runs.
    pub fn set_packed(&mut self, packed: PackedWeights) {
        self.packed = packed;
    }

    /// Another executor with the same options.
    pub(crate) fn twin(&self) -> Self {
        Self::with_options(self.options)
    }

    /// Shares these variables with other threads from now on.
    pub(crate) fn lend(&mut self, lent: Arc<Lent>) {
        self.lent = Some(lent);
    }

    /// Gets ready for a pass as one of the threads of `leader`.
    pub(crate) fn join_pass(&mut self, leader: &Self, lent: Option<Arc<Lent>>) {
        self.options = leader.options;
        self.lent = lent;
        self.interrupt.clear();
    }

    /// A handle that ends runs of this executor.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Calls `stop` between two ops, at most once in `every`, to ask whether the run must end. For
    /// callers that can see signals only on the running thread.
    pub fn poll(&mut self, every: Duration, stop: impl FnMut() -> bool + Send + 'static) {
        self.poll = Some(Poll { every, last: Instant::now(), stop: Box::new(stop) });
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

    /// Like [`Executor::run`], with the memory of `fetched` used again: nothing is allocated once
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
        self.run_on(&mut NoHost, RunRequest { program, scope, feed, fetch, fetched })
    }

    /// Like [`Executor::run_into`], for variables that may hold lists of tensors.
    #[allow(clippy::too_many_arguments)] // What runs, where, on what, for what, into what.
    pub fn run_values(
        &mut self,
        program: &Program,
        scope: &Scope,
        feed: &mut Feed,
        fetch: &[&str],
        fetched: &mut Vec<Value>,
    ) -> Result<()> {
        self.run_on(&mut NoHost, RunRequest { program, scope, feed, fetch, fetched })
    }

    /// Runs a program whose ops find servers and other trainers at `host`.
    pub(crate) fn run_on<F: Fetched>(
        &mut self,
        host: &mut dyn RunHost,
        asked: RunRequest<'_, F>,
    ) -> Result<()> {
        let RunRequest { program, scope, feed, fetch, fetched } = asked;
        self.interrupt.clear();
        let at = self.ready(program, feed, fetch, host)?;
        let (_, prepared) = &mut self.cache[at];
        host.begin(scope);
        let mut watch = step::Watch {
            options: self.options,
            profile: &mut self.profile,
            interrupt: &self.interrupt,
            poll: self.poll.as_mut(),
            scope,
            host,
            packed: &self.packed,
            borrows: None,
        };
        let result = match &self.lent {
            Some(lent) => prepared.run_lent(feed, fetched, &mut watch, lent),
            None => prepared.run(feed, fetched, &mut watch),
        };
        let result = result.and_then(|()| host.end(scope));
        result.map_err(|error| blame::users_op(error, program))
    }

    /// Prepares a program without running it; a later [`Executor::run`] with the same feeds and
    /// fetches finds it ready.
    pub fn prepare(&mut self, program: &Program, feed: &Feed, fetch: &[&str]) -> Result<&Prepared> {
        let at = self.ready(program, feed, fetch, &NoHost)?;
        Ok(&self.cache[at].1)
    }

    /// The first runs of ops since the last call, in order; [`Executor::take_profile`] forgets them.
    pub fn take_op_runs(&mut self) -> Vec<OpRun> {
        self.profile.take_runs()
    }

    /// How often each op ran and how long it took, since the last call; the longest first.
    pub fn take_profile(&mut self) -> Vec<OpTime> {
        std::mem::take(&mut self.profile).into_times()
    }

    /// The place of the prepared program in the cache, made if it is not there; it becomes the last.
    fn ready(
        &mut self,
        program: &Program,
        feed: &Feed,
        fetch: &[&str],
        host: &dyn RunHost,
    ) -> Result<usize> {
        let host_job = program.distributed.is_none().then(|| host.job_number());
        let hit = self.cache.iter().rposition(|(key, _)| {
            (key.program, key.version) == (program.id(), program.version())
                && (&key.options, key.host_job) == (&self.options, host_job)
                && key.feed == *feed.layout()
                && key.fetch.iter().map(String::as_str).eq(fetch.iter().copied())
        });
        let last = self.cache.len().saturating_sub(1);
        match hit {
            Some(at) if at == last => {}
            Some(at) => {
                let entry = self.cache.remove(at);
                self.cache.push(entry);
            }
            None => {
                let job = program.distributed.as_deref();
                // A program that was read from bytes speaks to the servers of the job at hand.
                let known = host.servers();
                let endpoints = job.map_or(&known.endpoints, |job| &job.endpoints);
                let vars = job.map_or(&known.vars, |job| &job.vars);
                let servers = Servers { job, endpoints, vars };
                let prepared = Prepared::new(program, feed, fetch, self.options, &servers)?;
                if self.cache.len() == PREPARED_MAX {
                    self.cache.remove(0);
                }
                let key = Key {
                    program: program.id(),
                    version: program.version(),
                    options: self.options,
                    feed: feed.layout().clone(),
                    fetch: fetch.iter().map(|name| name.to_string()).collect(),
                    host_job,
                };
                self.cache.push((key, prepared));
            }
        }
        Ok(self.cache.len() - 1)
    }
}

/// Seeds for random ops that have none: different in every process and at every call.
pub fn fresh_seed() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let seed = RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
    (seed as u32).max(1)
}

#[cfg(test)]
mod tests;
