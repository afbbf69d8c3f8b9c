//! A job that recovers, in one process: servers and trainers are threads that can be killed and are
//! started again, real sockets between them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use net::tcp::{Listener, Patience, Stop};
use program::distributed::Applies;
use program::{Net, Program, Var};
use protocol::server::{Apply, End, Server, ServerConfig, Store};
use server::BlockStore;
use tempfile::TempDir;
use tensor::{Tensor, Value};
use train::io::JobScope;
use train::remote::{CommunicatorConfig, Log};
use train::{Feed, Scope, TrainerJob};
use transpile::{Config, Job as Names, RoundRobin, Transpiled};

use crate::cluster::free_endpoints;
use crate::stores::started_server;

/// After so long a test has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// A process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// A server, by number.
    Server(usize),
    /// A trainer, by rank.
    Trainer(usize),
}

/// A death: when a trainer has done a step, and a number of cuts is kept by all servers.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// The trainer whose step it follows.
    pub by: usize,
    /// After which step of it, or the first one with enough cuts.
    pub step: usize,
    /// It dies when the job has made this many cuts; near the last step, after any number of cuts.
    pub n_cuts: u64,
    /// The process that dies.
    pub victim: Victim,
}

/// The size of a job, and which processes die when.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Servers.
    pub n_servers: usize,
    /// Trainers.
    pub n_trainers: usize,
    /// The transpiler's configuration.
    pub config: Config,
    /// Steps of each trainer; 0 if its script knows.
    pub n_steps: Vec<usize>,
    /// Between two cuts.
    pub cut_every_ms: u64,
    /// The deaths, in order.
    pub deaths: Vec<Death>,
}

/// The results of a job.
#[derive(Debug)]
pub struct Outcome {
    /// By trainer and step, as its last process saw them.
    pub losses: Vec<Vec<f64>>,
    /// The variables that trainer 0 saved at the end, by name.
    pub saved: BTreeMap<String, Tensor>,
    /// The files it saved, by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The lines of all processes.
    pub lines: Vec<String>,
    /// How often trainers were started.
    pub n_starts: Vec<usize>,
    /// Where the model was saved.
    pub folder: TempDir,
}

/// State that the threads of a job share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    list: String,
    endpoints: Vec<String>,
    folder: PathBuf,
    /// Deaths that are to come, in order.
    deaths: Mutex<Vec<Death>>,
    /// Kills a server.
    stops: Vec<Mutex<Stop>>,
    dying: Vec<AtomicBool>,
    /// Cuts that each server has kept.
    kept: Vec<AtomicU64>,
    lines: Mutex<Vec<String>>,
    has_failed: AtomicBool,
    start: Instant,
}

/// The least time of a step while deaths are still to come.
const PACE: Duration = Duration::from_millis(3);

/// Ends a trainer where it stands.
#[derive(Debug)]
pub struct Died;

/// One process of a trainer, as its script sees it.
#[derive(Debug)]
pub struct Trainer<'a> {
    /// Its rank.
    pub id: usize,
    /// Which start of it this is, from 1.
    pub n_starts: usize,
    /// Its programs.
    pub net: &'a Net,
    /// The loss.
    pub loss: &'a Var,
    /// The scope of its variables.
    pub scope: &'a Scope,
    /// Its servers.
    pub cluster: &'a TrainerJob,
    /// The folder of the job.
    pub folder: &'a Path,
    shared: &'a Shared,
    /// Set when it dies: it stops waiting.
    dead: Arc<AtomicBool>,
}

impl Trainer<'_> {
    /// It has done a step: processes that should die now die. If it is this trainer, it ends at
    /// once.
    pub fn stepped(&self, step: usize) -> Result<(), Died> {
        self.shared.stepped(self.id, step).inspect_err(|_| self.dead.store(true, Ordering::Relaxed))
    }
}

impl Shared {
    fn log(self: &Arc<Self>, who: String) -> Log {
        let shared = self.clone();
        Arc::new(move |line| shared.say(&who, &line.text))
    }

    fn say(&self, who: &str, text: &str) {
        let at = self.start.elapsed().as_millis();
        self.lines.lock().expect("no panic").push(format!("{at:>6} {who}: {text}"));
    }

    fn is_over(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) || self.start.elapsed() > DEADLINE
    }

    /// After a step of a trainer: kills the processes that should die now.
    fn stepped(&self, trainer: usize, step: usize) -> Result<(), Died> {
        let n_cuts = self.kept.iter().map(|kept| kept.load(Ordering::Relaxed)).min().unwrap_or(0);
        let mut deaths = self.deaths.lock().expect("no panic");
        let n_steps = self.plan.n_steps[trainer];
        let is_last = n_steps > 0 && step + 10 >= n_steps;
        let is_due = |death: &Death| {
            death.by == trainer && step >= death.step && (n_cuts >= death.n_cuts || is_last)
        };
        while deaths.first().is_some_and(is_due) {
            let death = deaths.remove(0);
            self.say("fate", &format!("{:?} dies after step {step} of {trainer}", death.victim));
            match death.victim {
                Victim::Server(server) => self.stops[server].lock().expect("no panic").set(),
                Victim::Trainer(other) if other == trainer => return Err(Died),
                Victim::Trainer(other) => self.dying[other].store(true, Ordering::Relaxed),
            }
        }
        // A job must not be over before the cuts that a death waits for.
        let is_awaited = !deaths.is_empty();
        drop(deaths);
        if is_awaited {
            std::thread::sleep(PACE);
        }
        if self.dying[trainer].swap(false, Ordering::Relaxed) { Err(Died) } else { Ok(()) }
    }

    fn transpile(&self, net: &mut Net, trainer_id: usize) -> Transpiled {
        let names = Names::new(trainer_id, &self.list, self.plan.n_trainers);
        let (mut dispatch, config) = (RoundRobin::default(), &self.plan.config);
        transpile::transpile(&mut net.main, &mut net.startup, config, &names, &mut dispatch)
            .unwrap_or_else(|error| panic!("transpile: {error}"))
    }
}

/// Marks the job as failed when its thread panics, so that the others do not wait for it.
struct Alarm(Arc<Shared>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.has_failed.store(true, Ordering::Relaxed);
            self.0.stops.iter().for_each(|stop| stop.lock().expect("no panic").set());
        }
    }
}

/// Runs a job: every process builds its net, trainers run steps on their own feeds.
pub fn run(
    plan: &Plan,
    build: impl Fn() -> (Net, Var) + Sync,
    feed: impl Fn(usize, usize) -> Feed + Sync,
) -> Outcome {
    run_script(plan, build, |trainer, exe| {
        let (id, mut losses) = (trainer.id, Vec::new());
        for step in 0..plan.n_steps[id] {
            let (feed, fetch) = (&mut feed(id, step), [trainer.loss.name()]);
            let ran = exe.run(&trainer.net.main, trainer.scope, feed, &fetch);
            let values = ran.unwrap_or_else(|error| panic!("trainer {id}, step {step}: {error}"));
            losses.push(values[0].get_f64(0));
            trainer.stepped(step)?;
        }
        Ok(losses)
    })
}

/// The work of a script between its start and its end; returns the losses it saw.
pub trait Script: Fn(&Trainer<'_>, &mut train::Trainer) -> Result<Vec<f64>, Died> + Sync {}

impl<F: Fn(&Trainer<'_>, &mut train::Trainer) -> Result<Vec<f64>, Died> + Sync> Script for F {}

/// Like [`run`], for trainers that run any script.
pub fn run_script(
    plan: &Plan,
    build: impl Fn() -> (Net, Var) + Sync,
    script: impl Script,
) -> Outcome {
    let endpoints = free_endpoints(plan.n_servers);
    let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let folder = tempfile::tempdir().expect("a folder for the job");
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        list: endpoints.join(","),
        folder: folder.path().to_path_buf(),
        deaths: Mutex::new(plan.deaths.clone()),
        stops: endpoints.iter().map(|_| Mutex::default()).collect(),
        dying: (0..plan.n_trainers).map(|_| AtomicBool::new(false)).collect(),
        kept: endpoints.iter().map(|_| AtomicU64::new(0)).collect(),
        lines: Mutex::default(),
        has_failed: AtomicBool::new(false),
        start: Instant::now(),
        endpoints,
    });
    let done = thread::scope(|scope| {
        let build = &build;
        let script = &script;
        let shared = &shared;
        for server in 0..plan.n_servers {
            scope.spawn(move || keep_server(shared, server, build));
        }
        let start = |id| scope.spawn(move || keep_trainer(shared, id, build, script));
        let trainers: Vec<_> = (0..plan.n_trainers).map(start).collect();
        let done = trainers.into_iter().map(|trainer| trainer.join());
        done.collect::<Vec<_>>()
    });
    let lines = std::mem::take(&mut *shared.lines.lock().expect("no panic"));
    let done: Result<Vec<_>, _> = done.into_iter().collect();
    let done = done.unwrap_or_else(|_| panic!("a trainer failed:\n{}", lines.join("\n")));
    let (losses, n_starts) = done.into_iter().unzip();
    let (saved, files) = load_all(&folder.path().join("model"));
    Outcome { losses, saved, files, lines, n_starts, folder }
}

/// Starts a server again whenever it was killed.
fn keep_server(shared: &Arc<Shared>, server: usize, build: &(impl Fn() -> (Net, Var) + Sync)) {
    let _alarm = Alarm(shared.clone());
    loop {
        let stop = Stop::default();
        *shared.stops[server].lock().expect("no panic") = stop.clone();
        match serve(shared, server, build().0, &stop) {
            Some(End::Completed) => return,
            Some(End::Failed(refusal)) => panic!("server {server}: {refusal}"),
            None if shared.is_over() => return,
            None => shared.say(&format!("server {server}"), "was killed"),
        }
    }
}

fn serve(shared: &Arc<Shared>, server: usize, mut net: Net, stop: &Stop) -> Option<End> {
    let endpoint = &shared.endpoints[server];
    let transpiled = shared.transpile(&mut net, 0);
    let (main, scope) = started_server(&transpiled, endpoint);
    let op = transpile::server_op(&main).expect("a server's program");
    let mut store = BlockStore::new(&main, op, &scope).expect("a store");
    let who = format!("server {server}");
    let cuts = shared.folder.join(format!("cuts/server.{server}"));
    store.keep_cuts(&cuts, shared.log(who.clone())).expect("a folder for cuts");
    let config = server_config(shared, &main, server);
    let started = Server::start(config, store.vars().to_vec(), &store);
    let started = started.unwrap_or_else(|error| panic!("{who}: {error}"));
    let listener = bind(endpoint);
    let (log, noted) = (shared.log(who), shared.clone());
    listener.serve(started, Arc::new(store), stop, move |severity, text| {
        if text.contains("is kept: ") {
            noted.kept[server].fetch_add(1, Ordering::Relaxed);
        }
        let (site, text) = ("server", text.to_string());
        log(&net::lines::Line { severity, site, text });
    })
}

/// Binds, as soon as the process before has let go of the port.
fn bind(endpoint: &str) -> Listener {
    let (endpoint, start) = (endpoint.parse().expect("an end point"), Instant::now());
    loop {
        match Listener::bind(&endpoint) {
            Ok(listener) => return listener,
            Err(error) if start.elapsed() > DEADLINE => panic!("{error}"),
            Err(_) => thread::yield_now(),
        }
    }
}

fn server_config(shared: &Shared, main: &Program, server: usize) -> ServerConfig {
    let op = transpile::server_op(main).expect("a server's program");
    let job = main.distributed.as_ref().map(|job| job.job.clone()).unwrap_or_default();
    ServerConfig {
        job: op.attrs.str("job", &job).expect("a name").to_string(),
        n_trainers: shared.plan.n_trainers as u32,
        apply: match Applies::told(op).expect("a mode") {
            Applies::Round { ahead } => Apply::ByRound { ahead },
            Applies::Arrival | Applies::Difference => Apply::AtOnce,
        },
        recovers: true,
        is_lead: server == 0,
        cut_every_ms: shared.plan.cut_every_ms,
        ready_ms: 500,
        recover_ms: DEADLINE.as_millis() as u64,
        ..ServerConfig::default()
    }
}

/// Starts a trainer again whenever it was killed; its losses, and how often it was started.
fn keep_trainer(
    shared: &Arc<Shared>,
    id: usize,
    build: &(impl Fn() -> (Net, Var) + Sync),
    script: &impl Script,
) -> (Vec<f64>, usize) {
    let _alarm = Alarm(shared.clone());
    for n_starts in 1.. {
        let (net, loss) = build();
        match train(shared, Incarnation { id, n_starts }, net, &loss, script) {
            Ok(losses) => return (losses, n_starts),
            Err(Died) => shared.say(&format!("trainer {id}"), "was killed"),
        }
    }
    (Vec::new(), 0)
}

/// One process of a trainer.
#[derive(Clone, Copy)]
struct Incarnation {
    id: usize,
    /// Processes of this trainer so far, with this one.
    n_starts: usize,
}

/// The script of a trainer, from its beginning to its end.
fn train(
    shared: &Arc<Shared>,
    Incarnation { id, n_starts }: Incarnation,
    mut net: Net,
    loss: &Var,
    script: &impl Script,
) -> Result<Vec<f64>, Died> {
    shared.transpile(&mut net, id);
    let job = net.main.distributed.clone().expect("transpiled");
    let log = shared.log(format!("trainer {id}"));
    let patience = Patience { recover_ms: DEADLINE.as_millis() as u64, ..Patience::default() };
    let cluster = TrainerJob::new(patience, log);
    let dead = Arc::new(AtomicBool::new(false));
    let (stops, is_dead) = (shared.clone(), dead.clone());
    cluster.configure(|settings| {
        settings.stops = Arc::new(move || is_dead.load(Ordering::Relaxed) || stops.is_over())
    });
    let (scope, mut exe) = (Scope::new(), train::Trainer::new());
    exe.set_job(cluster.clone());
    if job.via_communicator && job.mode.sends_in_background() {
        cluster.start_communicator(&job, CommunicatorConfig::default());
    }
    let fail = |what: &str, error: train::Error| -> ! { panic!("trainer {id}, {what}: {error}") };
    let started = exe.run(&net.startup, &scope, &mut Feed::new(), &[]);
    started.unwrap_or_else(|error| fail("startup", error));
    let net = &net;
    let scope = &scope;
    let folder = shared.folder.as_path();
    let cluster = &cluster;
    let trainer = Trainer { id, n_starts, net, loss, scope, cluster, folder, shared, dead };
    let ran = script(&trainer, &mut exe);
    let losses = ran.inspect_err(|_| cluster.abandon())?;
    let dir = shared.folder.join("model");
    cluster.stop_communicator(scope).unwrap_or_else(|error| fail("stop", error));
    // A trainer in an all-gather sends no rounds: others must not wait for one.
    let n_steps = &shared.plan.n_steps;
    if n_steps.iter().all(|n| *n == n_steps[0]) {
        cluster.all_gather("end", Vec::new()).unwrap_or_else(|error| fail("all-gather", error));
    }
    if id == 0 {
        let vars = JobScope { trainer: cluster, scope, job: &job };
        let save = || vars.save_persistables(&dir, &net.main, None);
        let saved = cluster.saves("model", &mut || save().map(|()| Vec::new()));
        saved.unwrap_or_else(|error| fail("save", error));
    }
    cluster.complete().unwrap_or_else(|error| fail("complete", error));
    Ok(losses)
}

type Saved = (BTreeMap<String, Tensor>, BTreeMap<String, Vec<u8>>);

fn load_all(dir: &Path) -> Saved {
    let mut saved = Saved::default();
    for file in std::fs::read_dir(dir).expect("the model").filter_map(Result::ok) {
        let name = file.file_name().to_string_lossy().into_owned();
        if name == ".paddlewheel" {
            continue;
        }
        let Ok(bytes) = std::fs::read(file.path()) else { continue };
        if let Ok(Value::Tensor(tensor)) = program::stream::value_from_bytes(&bytes) {
            saved.0.insert(name.clone(), tensor);
        }
        saved.1.insert(name, bytes);
    }
    saved
}
