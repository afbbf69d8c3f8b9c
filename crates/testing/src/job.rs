//! A whole job in one process: servers and trainers as threads, real sockets between them.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

use program::{Net, Var};
use tensor::{Tensor, Value};
use train::remote::CommunicatorConfig;
use train::transpile::{self, Config, Job as Names, RoundRobin, Threads, Transpiled};
use train::{Executor, Feed, Scope, io};

use crate::cluster::free_endpoints;

/// How many of whom, and how they work together.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Servers.
    pub n_servers: usize,
    /// Trainers.
    pub n_trainers: usize,
    /// The transpiler's configuration.
    pub config: Config,
    /// The argument of `transpile`.
    pub sync_mode: bool,
    /// What parameters start as, instead of what the net says.
    pub init: BTreeMap<String, Tensor>,
}

impl Plan {
    /// A synchronous job.
    pub fn sync(n_servers: usize, n_trainers: usize) -> Self {
        let (config, init) = (Config::default(), BTreeMap::new());
        Self { n_servers, n_trainers, config, sync_mode: true, init }
    }

    /// An asynchronous job.
    pub fn asynchronous(n_servers: usize, n_trainers: usize) -> Self {
        let config = Config { sync_mode: false, ..Config::default() };
        Self { config, sync_mode: false, ..Self::sync(n_servers, n_trainers) }
    }

    fn transpile(&self, net: &mut Net, trainer_id: usize, endpoints: &str) -> Transpiled {
        let mut names = Names::new(trainer_id, endpoints, self.n_trainers);
        names.sync_mode = self.sync_mode;
        let mut dispatch = RoundRobin::default();
        transpile::transpile(&mut net.main, &mut net.startup, (&self.config, &names), &mut dispatch)
            .unwrap_or_else(|error| panic!("transpile: {error}"))
    }
}

/// What a job left behind.
#[derive(Debug)]
pub struct Outcome {
    /// By trainer and step.
    pub losses: Vec<Vec<f64>>,
    /// What trainer 0 saved at the end, by name.
    pub saved: BTreeMap<String, Tensor>,
    /// What each trainer's scope held at the end.
    pub scopes: Vec<Scope>,
}

/// Runs a job: every process builds its net, trainers run `n_steps` steps on their own feeds.
pub fn run(
    plan: &Plan,
    build: impl Fn() -> (Net, Var) + Sync,
    feed: impl Fn(usize, usize) -> Feed + Sync,
    n_steps: usize,
) -> Outcome {
    let endpoints = free_endpoints(plan.n_servers);
    let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let list = endpoints.join(",");
    let folder = tempfile::tempdir().expect("a folder for the model");
    thread::scope(|scope| {
        let (build, feed, list, dir) = (&build, &feed, list.as_str(), folder.path());
        let servers: Vec<_> = endpoints
            .iter()
            .map(|endpoint| scope.spawn(move || serve(plan, build().0, list, endpoint)))
            .collect();
        let trainers: Vec<_> = (0..plan.n_trainers)
            .map(|id| scope.spawn(move || train(plan, build(), (list, dir), (id, n_steps), feed)))
            .collect();
        let done: Vec<_> = trainers.into_iter().map(|t| t.join().expect("a trainer")).collect();
        for server in servers {
            server.join().expect("a server");
        }
        let (losses, scopes) = done.into_iter().unzip();
        Outcome { losses, saved: load_all(folder.path()), scopes }
    })
}

fn serve(plan: &Plan, mut net: Net, list: &str, endpoint: &str) {
    let transpiled = plan.transpile(&mut net, 0, list);
    let main = transpiled.server_main(endpoint, Threads::default());
    let main = main.unwrap_or_else(|error| panic!("server program: {error}"));
    let startup = transpiled.server_startup(endpoint, None);
    let startup = startup.unwrap_or_else(|error| panic!("server startup: {error}"));
    let (scope, mut exe) = (Scope::new(), Executor::new());
    exe.serving_mut().log = std::sync::Arc::new(|_| {});
    exe.run(&startup, &scope, &mut Feed::new(), &[]).unwrap_or_else(|e| panic!("startup: {e}"));
    for placed in transpiled.job().on(endpoint) {
        if let Some(whole) = plan.init.get(&placed.origin) {
            let width: i64 = placed.origin_dims.iter().skip(1).product::<i64>().max(1);
            let first = (placed.offset / width) as usize;
            scope.set(&placed.slice, rows(whole, first, placed.slice_dims[0] as usize));
        }
    }
    exe.run(&main, &scope, &mut Feed::new(), &[]).unwrap_or_else(|e| panic!("serving: {e}"));
}

fn rows(whole: &Tensor, first: usize, n: usize) -> Tensor {
    let row_bytes = whole.bytes().len() / whole.dims()[0];
    let bytes = &whole.bytes()[first * row_bytes..(first + n) * row_bytes];
    Tensor::from_bytes(whole.dtype(), whole.shape().with_dim(0, n), bytes).expect("rows")
}

fn train(
    plan: &Plan,
    (mut net, loss): (Net, Var),
    (list, dir): (&str, &Path),
    (id, n_steps): (usize, usize),
    feed: &(impl Fn(usize, usize) -> Feed + Sync),
) -> (Vec<f64>, Scope) {
    plan.transpile(&mut net, id, list);
    let job = net.main.distributed.clone().expect("transpiled");
    let (scope, mut exe) = (Scope::new(), Executor::new());
    exe.set_cluster(train::Cluster::new(Default::default(), std::sync::Arc::new(|_| {})));
    let cluster = exe.cluster().clone();
    let in_background = plan.config.runtime_split_send_recv && !plan.config.half_async;
    if in_background && !plan.config.geo_sgd_mode {
        cluster.start_communicator(&job, CommunicatorConfig::default());
    }
    let mut run = |program, feed: &mut Feed, fetch: &[&str]| {
        exe.run(program, &scope, feed, fetch).unwrap_or_else(|e| panic!("trainer {id}: {e}"))
    };
    run(&net.startup, &mut Feed::new(), &[]);
    let mut losses = Vec::new();
    for step in 0..n_steps {
        let got = run(&net.main, &mut feed(id, step), &[loss.name()]);
        losses.push(got[0].get_f64(0));
    }
    cluster.stop_communicator(&scope).unwrap_or_else(|error| panic!("communicator: {error}"));
    cluster.settle().expect("settled");
    cluster.meet("end", Vec::new()).unwrap_or_else(|error| panic!("meeting: {error}"));
    if id == 0 {
        let saved = io::save_distributed(&cluster, &scope, (dir, None), &net.main, &job);
        saved.unwrap_or_else(|error| panic!("saving: {error}"));
    }
    cluster.complete().unwrap_or_else(|error| panic!("completing: {error}"));
    (losses, scope)
}

fn load_all(dir: &Path) -> BTreeMap<String, Tensor> {
    let files = std::fs::read_dir(dir).expect("the model").filter_map(Result::ok);
    let load = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().ok()?;
        let bytes = std::fs::read(file.path()).ok()?;
        match program::stream::value_from_bytes(&bytes).ok()? {
            Value::Tensor(tensor) => Some((name, tensor)),
            _ => None,
        }
    };
    files.filter_map(load).collect()
}
