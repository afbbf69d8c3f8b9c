//! Runs programs: prepare once, run many.
//!
//! Preparing resolves every op and variable to a place in a list, fuses what is safe, and lets
//! variables that are never alive together share memory. A run that was prepared before looks no
//! variable name up and allocates no tensor.

mod blame;
mod borrow;
pub(crate) mod event;
mod fetched;
mod fuse;
mod hoist;
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

use count::Stepping;
pub use data::Feed;
use data::FeedNames;
use program::Program;
use program::distributed::route::Servers;
use tensor::{Tensor, Value};

pub use packed::PackedWeights;
pub(crate) use plan::NATIVE;
pub use prepared::{Prepared, sharing};
pub use profile::{OpTime, Profile};
pub use single::run_op;

use self::event::{Again, RunEvent, RunRequest};
use self::fetched::Fetched;
use crate::counters::TRAINER;
use crate::error::Result;
use crate::remote::{Cluster, Exchanging, Prefetch, Session};
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
    cluster: Cluster,
    /// Other executors for threads that train together, kept for the next pass.
    executors: Vec<Executor>,
    /// Variables that other threads train too.
    lent: Option<Arc<Lent>>,
    /// What is known of the batch that comes next.
    prefetch: Prefetch,
    /// It runs a part of a step, in a scope of its own: what servers send is not for that scope.
    is_part: bool,
    /// Its runs are parts of something larger: they are no events of the job.
    is_inner: bool,
    /// Its runs are no steps of a trainer: a server applies gradients, or a model predicts.
    is_apart: bool,
    /// Weights that were arranged beforehand.
    packed: PackedWeights,
    /// What is needed to run things again.
    again: Again<Executor>,
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

/// What a program was prepared for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    program: u64,
    version: u64,
    options: Options,
    feed: FeedNames,
    fetch: Vec<String>,
    /// The job whose servers it speaks to, if it has none of its own.
    joined: Option<u64>,
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

    /// An executor whose runs are no steps of a trainer: they are no events of a job, and are not counted as its.
    pub fn apart() -> Self {
        Self { is_apart: true, is_inner: true, ..Self::default() }
    }

    /// An executor with other options.
    pub fn with_options(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// The options, to change; programs are prepared again as needed.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// The servers that programs of this executor talk to.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Shares the connections of another executor.
    pub fn set_cluster(&mut self, cluster: Cluster) {
        self.cluster = cluster;
    }

    /// From now on this executor runs parts of steps. The executor of the whole step takes what
    /// servers send.
    pub(crate) fn set_part(&mut self) {
        (self.is_part, self.is_inner) = (true, true);
    }

    /// Its runs are no events of the job from now on.
    pub(crate) fn set_inner(&mut self) {
        self.is_inner = true;
    }

    /// From now on products use weights that were arranged beforehand. They must be those of every
    /// program and scope that this executor runs.
    pub fn set_packed(&mut self, packed: PackedWeights) {
        self.packed = packed;
    }

    /// Another executor that does as this one does.
    pub(crate) fn twin(&self) -> Self {
        let cluster = self.cluster.clone();
        Self { options: self.options, cluster, is_inner: true, ..Self::default() }
    }

    /// The executors of other threads.
    pub(crate) fn executors_mut(&mut self) -> &mut Vec<Executor> {
        &mut self.executors
    }

    /// What is known of the batch that comes next.
    pub(crate) fn prefetch_mut(&mut self) -> &mut Prefetch {
        &mut self.prefetch
    }

    /// Shares these variables with other threads from now on.
    pub(crate) fn lend(&mut self, lent: Arc<Lent>) {
        self.lent = Some(lent);
    }

    /// Gets ready for a pass as one of the threads of `leader`.
    pub(crate) fn join_pass(&mut self, leader: &Self, lent: Option<Arc<Lent>>, is_part: bool) {
        self.options = leader.options;
        self.cluster = leader.cluster.clone();
        (self.lent, self.is_part) = (lent, is_part);
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
        self.run_for(RunRequest { program, scope, feed, fetch, fetched })
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
        self.run_for(RunRequest { program, scope, feed, fetch, fetched })
    }

    /// Runs as an event, if the job recovers.
    fn run_for<F: Fetched>(&mut self, asked: RunRequest<'_, F>) -> Result<()> {
        if self.is_apart {
            return self.run_untimed(asked);
        }
        // A thread of a pass is inside of a step already.
        let Some(_step) = Stepping::begin(&TRAINER.computing_seconds) else {
            return self.run_untimed(asked);
        };
        let RunRequest { program, scope, feed, fetch, fetched } = asked;
        let n_samples = feed.n_samples();
        let fetched_by = &mut *fetched;
        self.run_untimed(RunRequest { program, scope, feed, fetch, fetched: fetched_by })?;
        if n_samples > 0 || !fetch.is_empty() {
            TRAINER.batches.add(1);
            TRAINER.samples.add(n_samples);
        }
        fetch.iter().zip(fetched.iter()).for_each(|(name, value)| value.note(name));
        Ok(())
    }

    fn run_untimed<F: Fetched>(&mut self, asked: RunRequest<'_, F>) -> Result<()> {
        if self.is_inner || self.cluster.is_plain() {
            let RunRequest { program, scope, feed, fetch, fetched } = asked;
            return self.run_plain(program, scope, feed, fetch, fetched);
        }
        let cluster = self.cluster.clone();
        cluster.do_event(&mut RunEvent { executor: self, asked })
    }

    #[allow(clippy::too_many_arguments)] // What runs, where, on what, for what, into what.
    fn run_plain<F: Fetched>(
        &mut self,
        program: &Program,
        scope: &Scope,
        feed: &mut Feed,
        fetch: &[&str],
        fetched: &mut Vec<F>,
    ) -> Result<()> {
        self.interrupt.clear();
        let anew = self.cluster.followed_program(program)?;
        let program = anew.as_deref().unwrap_or(program);
        let at = self.ready(program, feed, fetch)?;
        let (_, prepared) = &mut self.cache[at];
        let mut watch = step::Watch {
            options: self.options,
            profile: &mut self.profile,
            interrupt: &self.interrupt,
            poll: self.poll.as_mut(),
            scope,
            remote: Session::new(&self.cluster, program.distributed.clone(), &mut self.prefetch),
            trainers: Exchanging::new(&self.cluster, prepared.sum()),
            packed: &self.packed,
            borrows: None,
        };
        if !self.is_part {
            watch.remote.start(scope);
        }
        let result = match &self.lent {
            Some(lent) => prepared.run_lent(feed, fetched, &mut watch, lent),
            None => prepared.run(feed, fetched, &mut watch),
        };
        let result = result.and_then(|()| watch.remote.finish(scope));
        result.map_err(|error| blame::users_op(error, program))
    }

    /// Prepares a program without running it; a later [`Executor::run`] with the same feeds and
    /// fetches finds it ready.
    pub fn prepare(&mut self, program: &Program, feed: &Feed, fetch: &[&str]) -> Result<&Prepared> {
        let at = self.ready(program, feed, fetch)?;
        Ok(&self.cache[at].1)
    }

    /// How often each op ran and how long it took, since the last call; the longest first.
    pub fn take_profile(&mut self) -> Vec<OpTime> {
        std::mem::take(&mut self.profile).into_times()
    }

    /// The place of the prepared program in the cache, made if it is not there; it becomes the last.
    fn ready(&mut self, program: &Program, feed: &Feed, fetch: &[&str]) -> Result<usize> {
        let joined = self.joined(program);
        let hit = self.cache.iter().rposition(|(key, _)| {
            (key.program, key.version) == (program.id(), program.version())
                && (&key.options, key.joined) == (&self.options, joined)
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
                let (joined, named) = (self.cluster.endpoints(), self.cluster.vars());
                let endpoints = job.map_or(&joined, |job| &job.endpoints);
                let vars = job.map_or(&named, |job| &job.vars);
                let servers = Servers { job, endpoints, vars };
                let prepared = Prepared::new(program, feed, fetch, self.options, &servers)?;
                if self.cache.len() == PREPARED_MAX {
                    self.cache.remove(0);
                }
                self.cache.push((self.key(program, feed, fetch), prepared));
            }
        }
        Ok(self.cache.len() - 1)
    }

    fn key(&self, program: &Program, feed: &Feed, fetch: &[&str]) -> Key {
        Key {
            program: program.id(),
            version: program.version(),
            options: self.options,
            feed: feed.layout().clone(),
            fetch: fetch.iter().map(|name| name.to_string()).collect(),
            joined: self.joined(program),
        }
    }

    /// Which job gave a program its servers and the numbers of their variables, if not its own.
    fn joined(&self, program: &Program) -> Option<u64> {
        program.distributed.is_none().then(|| self.cluster.n_joined())
    }
}

/// Seeds for random ops that have none: different in every process and at every call.
pub(crate) fn fresh_seed() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let seed = RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
    (seed as u32).max(1)
}

#[cfg(test)]
mod tests;
