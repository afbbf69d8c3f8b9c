//! A whole job in one process: servers and trainers as threads, real sockets between them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use data::Dataset;
use program::distributed::Mode;
use program::{Net, Program, Var};
use server::Serving;
use tempfile::TempDir;
use tensor::{Tensor, Value};
use train::from_dataset::{Observer, Pass, PassOptions};
use train::io::{self, JobScope};
use train::parallel::{LossScale, Parallel, split};
use train::remote::{CommunicatorConfig, Staleness};
use train::{Executor, Feed, Scope};
use transpile::{Config, Job as Names, RoundRobin, Threads, Transpiled};
use wire::message::Stats;

use crate::cluster::free_endpoints;

/// The size of a job, its mode, and how its processes run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Servers.
    pub n_servers: usize,
    /// Trainers.
    pub n_trainers: usize,
    /// The transpiler's configuration.
    pub config: Config,
    /// Initial values of parameters, instead of those of the net.
    pub init: BTreeMap<String, Tensor>,
    /// A saved model that servers load before they serve.
    pub model: Option<PathBuf>,
    /// They take what fits of it.
    pub fits: bool,
    /// How gradients are sent in the background, where they are.
    pub communicator: CommunicatorConfig,
    /// Whose step is next, so that an asynchronous job runs the same way each time; empty if
    /// trainers run as they like.
    pub turns: Vec<usize>,
    /// Devices of each trainer.
    pub n_devices: usize,
}

impl Plan {
    /// A synchronous job.
    pub fn sync(n_servers: usize, n_trainers: usize) -> Self {
        Self {
            n_servers,
            n_trainers,
            config: Config::default(),
            init: BTreeMap::new(),
            model: None,
            fits: false,
            communicator: CommunicatorConfig::default(),
            turns: Vec::new(),
            n_devices: 1,
        }
    }

    /// An asynchronous job.
    pub fn asynchronous(n_servers: usize, n_trainers: usize) -> Self {
        let config = Config { mode: Mode::Async, ..Config::default() };
        Self { config, ..Self::sync(n_servers, n_trainers) }
    }

    /// A job with this configuration.
    pub fn with(n_servers: usize, n_trainers: usize, config: Config) -> Self {
        Self { config, ..Self::sync(n_servers, n_trainers) }
    }

    fn transpile(&self, net: &mut Net, trainer_id: usize, endpoints: &str) -> Transpiled {
        let names = Names::new(trainer_id, endpoints, self.n_trainers);
        let mut dispatch = RoundRobin::default();
        transpile::transpile(&mut net.main, &mut net.startup, &self.config, &names, &mut dispatch)
            .unwrap_or_else(|error| panic!("transpile: {error}"))
    }
}

/// The results of a job.
#[derive(Debug)]
pub struct Outcome {
    /// By trainer and step.
    pub losses: Vec<Vec<f64>>,
    /// The variables that trainer 0 saved at the end, by name.
    pub saved: BTreeMap<String, Tensor>,
    /// The scope of each trainer at the end.
    pub scopes: Vec<Scope>,
    /// The counts of each server.
    pub stats: Vec<Stats>,
    /// The staleness that each trainer counted, where gradients are sent in the background.
    pub staleness: Vec<Staleness>,
    /// Where the model was saved.
    pub folder: TempDir,
}

impl Outcome {
    /// A variable in a trainer's scope.
    pub fn of_trainer(&self, id: usize, name: &str) -> Tensor {
        let value = self.scopes[id].get(name).unwrap_or_else(|| panic!("{name} is nowhere"));
        value.tensor().unwrap_or_else(|| panic!("{name} is no tensor")).clone()
    }
}

/// Lets trainers step in a given order.
struct Turns<'a> {
    order: &'a [usize],
    at: Mutex<usize>,
    moved: Condvar,
}

/// Tells all others when a thread of the job fails, so that they do not wait for it.
#[derive(Clone, Default)]
struct Alarm(Arc<AtomicBool>);

impl Alarm {
    fn rings(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// After so long a test has failed.
const DEADLINE: Duration = Duration::from_secs(60);

impl Turns<'_> {
    /// How many steps of `n` are this trainer's.
    fn n_steps(&self, id: usize, n: usize) -> usize {
        match self.order {
            [] => n,
            order => order.iter().filter(|&&turn| turn == id).count(),
        }
    }

    /// Runs a step when it is its turn.
    fn take<R>(&self, id: usize, step: impl FnOnce() -> R) -> R {
        if self.order.is_empty() {
            return step();
        }
        let is_others = |at: &mut usize| self.order.get(*at) != Some(&id);
        let at = self.at.lock().expect("no step failed");
        let (mut at, late) =
            self.moved.wait_timeout_while(at, DEADLINE, is_others).expect("no step failed");
        assert!(!late.timed_out(), "trainer {id} never had its turn");
        let done = step();
        *at += 1;
        self.moved.notify_all();
        done
    }
}

/// Runs a job: every process builds its net, trainers run `n_steps` steps on their own feeds.
pub fn run(
    plan: &Plan,
    build: impl Fn() -> (Net, Var) + Sync,
    feed: impl Fn(usize, usize) -> Feed + Sync,
    n_steps: usize,
) -> Outcome {
    run_work(plan, build, |trainer, steps, net, loss| {
        let (id, turns) = (trainer.id, trainer.turns);
        let mut losses = Vec::new();
        for step in 0..turns.n_steps(id, n_steps) {
            let feed = feed(id, step);
            let got = turns.take(id, || steps.step(&net.main, feed, loss.name()));
            losses.push(got.unwrap_or_else(|error| panic!("trainer {id}, step {step}: {error}")));
        }
        losses
    })
}

/// Runs a job whose trainers make one pass over a dataset of theirs. The losses are those that the
/// first thread of each saw.
pub fn run_pass(
    plan: &Plan,
    build: impl Fn() -> (Net, Var) + Sync,
    dataset: impl Fn(usize) -> Dataset + Sync,
) -> Outcome {
    run_work(plan, build, |trainer, steps, net, loss| {
        let (id, mut dataset) = (trainer.id, dataset(trainer.id));
        let fetch = vec![loss.name().into()];
        let options = PassOptions { fetch, fetch_every: 1, ..PassOptions::default() };
        let mut losses = Losses::default();
        let pass = Pass { program: &net.main, scope: &steps.scope, options: &options };
        let ran = steps.exe.run_dataset(pass, &mut dataset, &mut losses);
        let report = ran.unwrap_or_else(|error| panic!("trainer {id}: {error}"));
        steps.staleness = report.staleness;
        losses.0
    })
}

/// Keeps the losses of a pass.
#[derive(Default)]
struct Losses(Vec<f64>);

impl Observer for Losses {
    fn fetched(&mut self, values: &[Tensor]) {
        self.0.push(values[0].get_f64(0));
    }
}

/// The work of a trainer between its start and its end; returns the losses it saw.
trait Work: Fn(&Trainer<'_>, &mut Steps, &Net, &Var) -> Vec<f64> + Sync {}

impl<F: Fn(&Trainer<'_>, &mut Steps, &Net, &Var) -> Vec<f64> + Sync> Work for F {}

fn run_work(plan: &Plan, build: impl Fn() -> (Net, Var) + Sync, work: impl Work) -> Outcome {
    let endpoints = free_endpoints(plan.n_servers);
    let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let list = endpoints.join(",");
    let folder = tempfile::tempdir().expect("a folder for the model");
    let turns = Turns { order: &plan.turns, at: Mutex::default(), moved: Condvar::new() };
    let alarm = Alarm::default();
    let (done, stats) = thread::scope(|scope| {
        let build = &build;
        let work = &work;
        let list = list.as_str();
        let dir = folder.path();
        let servers: Vec<_> = endpoints
            .iter()
            .map(|endpoint| {
                let alarm = alarm.clone();
                scope.spawn(move || serve(plan, &alarm, build().0, list, endpoint))
            })
            .collect();
        let turns = &turns;
        let start = |id| {
            let trainer = Trainer { plan, id, dir, turns, alarm: alarm.clone() };
            scope.spawn(move || {
                let (net, loss) = build();
                trainer.run(net, &loss, list, work)
            })
        };
        let trainers: Vec<_> = (0..plan.n_trainers).map(start).collect();
        let done: Vec<_> = trainers.into_iter().map(|t| t.join().expect("a trainer")).collect();
        for server in servers {
            server.join().expect("a server");
        }
        let stats = done.iter().find_map(|done| done.stats.clone()).unwrap_or_default();
        (done, stats)
    });
    let staleness = done.iter().filter_map(|done| done.staleness).collect();
    let (losses, scopes) = done.into_iter().map(|done| (done.losses, done.scope)).unzip();
    Outcome { losses, saved: load_all(folder.path()), scopes, stats, staleness, folder }
}

fn serve(plan: &Plan, alarm: &Alarm, mut net: Net, list: &str, endpoint: &str) {
    let transpiled = plan.transpile(&mut net, 0, list);
    let main = transpiled.server_main(endpoint, Threads::default());
    let main = main.unwrap_or_else(|error| panic!("server program: {error}"));
    let startup = transpiled.server_startup(endpoint, None);
    let startup = startup.unwrap_or_else(|error| panic!("server startup: {error}"));
    let (scope, mut exe) = (Scope::new(), Executor::new());
    exe.run(&startup, &scope, &mut Feed::new(), &[]).unwrap_or_else(|e| panic!("startup: {e}"));
    for placed in transpiled.job().on(endpoint) {
        if let Some(whole) = plan.init.get(&placed.origin) {
            let piece = &placed.piece;
            let (first, n_rows) = (piece.rows.start as usize, piece.n_rows() as usize);
            scope.set(&piece.name, rows(whole, first, n_rows));
        }
    }
    if let Some(dir) = &plan.model {
        let job = main.distributed.as_ref().expect("transpiled");
        let loaded = if plan.fits {
            io::fit_slices(job, &scope, dir).map(drop)
        } else {
            io::load_slices(job, &scope, dir)
        };
        loaded.unwrap_or_else(|error| panic!("loading: {error}"));
    }
    let serving = Serving { log: Arc::new(|_| {}), ..Serving::default() };
    let served = server::serve(&main, &scope, &serving, || alarm.rings());
    served.unwrap_or_else(|error| panic!("serving: {error}"));
}

fn rows(whole: &Tensor, first: usize, n: usize) -> Tensor {
    let row_bytes = whole.bytes().len() / whole.dims()[0];
    let bytes = &whole.bytes()[first * row_bytes..(first + n) * row_bytes];
    Tensor::from_bytes(whole.dtype(), whole.shape().with_dim(0, n), bytes).expect("rows")
}

struct Trainer<'a> {
    plan: &'a Plan,
    id: usize,
    dir: &'a Path,
    turns: &'a Turns<'a>,
    alarm: Alarm,
}

struct Done {
    losses: Vec<f64>,
    scope: Scope,
    staleness: Option<Staleness>,
    /// From trainer 0.
    stats: Option<Vec<Stats>>,
}

impl Trainer<'_> {
    fn run(&self, mut net: Net, loss: &Var, list: &str, work: &impl Work) -> Done {
        let (plan, id) = (self.plan, self.id);
        plan.transpile(&mut net, id, list);
        let job = net.main.distributed.clone().expect("transpiled");
        let mut steps = Steps::new(plan.n_devices);
        let cluster = steps.exe.job().clone();
        let alarm = self.alarm.clone();
        cluster.configure(|settings| settings.stops = Arc::new(move || alarm.rings()));
        if job.via_communicator && job.mode.sends_in_background() {
            cluster.start_communicator(&job, plan.communicator.clone());
        }
        let started = steps.exe.run(&net.startup, &steps.scope, &mut Feed::new(), &[]);
        started.unwrap_or_else(|error| panic!("trainer {id} starts: {error}"));
        cluster
            .all_gather("start", Vec::new())
            .unwrap_or_else(|error| panic!("all-gather: {error}"));
        let losses = work(self, &mut steps, &net, loss);
        let staleness = steps.staleness.or_else(|| cluster.take_staleness());
        let scope = steps.scope;
        let stopped = cluster.stop_communicator(&scope);
        stopped.unwrap_or_else(|error| panic!("communicator of {id}: {error}"));
        cluster.settle().expect("settled");
        cluster.all_gather("end", Vec::new()).unwrap_or_else(|error| panic!("all-gather: {error}"));
        let stats = (id == 0).then(|| {
            let vars = JobScope { trainer: &cluster, scope: &scope, job: &job };
            let saved = vars.save_persistables(self.dir, &net.main, None);
            saved.unwrap_or_else(|error| panic!("saving: {error}"));
            cluster.stats().unwrap_or_else(|error| panic!("counters: {error}"))
        });
        cluster.complete().unwrap_or_else(|error| panic!("completing: {error}"));
        Done { losses, scope, staleness, stats }
    }
}

/// Runs steps on one device or on several.
struct Steps {
    exe: train::Trainer,
    parallel: Option<Parallel>,
    scope: Scope,
    /// The staleness that a pass reported.
    staleness: Option<Staleness>,
}

impl Steps {
    fn new(n_devices: usize) -> Self {
        let (scope, mut exe) = (Scope::new(), train::Trainer::new());
        exe.set_job(train::TrainerJob::new(Default::default(), Arc::new(|_| {})));
        let parallel = (n_devices > 1).then(|| {
            let mut parallel = Parallel::new(n_devices, Some(LossScale::PerDevice));
            parallel.set_job(exe.job());
            parallel
        });
        Self { exe, parallel, scope, staleness: None }
    }

    fn step(&mut self, main: &Program, mut feed: Feed, loss: &str) -> train::Result<f64> {
        let Some(parallel) = &mut self.parallel else {
            return Ok(self.exe.run(main, &self.scope, &mut feed, &[loss])?[0].get_f64(0));
        };
        let n = parallel.n_devices();
        let mut feeds = split(&feed, n, false, |_| false)?;
        let got = parallel.run(main, &self.scope, &mut feeds, &[loss])?;
        Ok(got[0].iter().map(|loss| loss.get_f64(0)).sum::<f64>() / n as f64)
    }
}

fn load_all(dir: &Path) -> BTreeMap<String, Tensor> {
    let files = std::fs::read_dir(dir).expect("the model").filter_map(Result::ok);
    let load = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().ok().filter(|name| name != ".paddlewheel")?;
        let bytes = std::fs::read(file.path()).ok()?;
        match program::stream::value_from_bytes(&bytes).ok()? {
            Value::Tensor(tensor) => Some((name, tensor)),
            _ => None,
        }
    };
    files.filter_map(load).collect()
}
