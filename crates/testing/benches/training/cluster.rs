//! Two servers and two trainers as processes, against the ceiling on two threads.
//!
//! This program starts itself again for each role. Trainers wait for a line before each turn, so
//! that turns of the cluster and of the ceiling alternate on a machine that is otherwise still.

use std::env;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use program::Net;
use program::distributed::Mode;
use server::Serving;
use testing::cluster::free_endpoints;
use testing::turns::{self, Servers, Workers};
use train::remote::CommunicatorConfig;
use train::{Feed, Scope, Trainer};
use transpile::{Config, Job, RoundRobin};

use crate::ceiling::Ceiling;
use crate::data::Samples;
use crate::model::Model;
use crate::report::{bench, bench_rounds};
use crate::{LR, N_ROWS, N_SAMPLES, N_TURN, model};

const N_ROUNDS: usize = 11;
const N_SERVERS: usize = 2;
const N_TRAINERS: usize = 2;

/// Plays the role this process was started for, if it was.
pub(crate) fn play_role() -> bool {
    let Some(role) = turns::role() else { return false };
    let [who, mode, batch, number, endpoints] = &role[..] else { return false };
    let number: usize = number.parse().expect("a number");
    let batch: usize = batch.parse().expect("a batch size");
    match who.as_str() {
        "server" => serve(mode, number, endpoints),
        "ceiling" => alone(batch, None),
        "local" => alone(batch, Model::new(N_ROWS, LR).ok()),
        _ => train(mode, batch, number, endpoints),
    }
    true
}

fn config(mode: &str) -> Config {
    match mode {
        "async" => Config::of(Mode::Async),
        "half_async" => Config::of(Mode::HalfAsync),
        "geo" => Config::of(Mode::Geo { push_every: Mode::PUSH_EVERY }),
        _ => Config::default(),
    }
}

fn net(mode: &str, trainer: usize, endpoints: &str) -> (Net, transpile::Transpiled) {
    let mut net = Net::with_seed(90);
    model::build(&mut net, N_ROWS as i64, LR).expect("the model builds");
    let job = Job::new(trainer, endpoints, N_TRAINERS);
    let (main, startup) = (&mut net.main, &mut net.startup);
    let split =
        transpile::transpile(main, startup, &config(mode), &job, &mut RoundRobin::default());
    let split = split.expect("the program can be split");
    (net, split)
}

fn serve(mode: &str, number: usize, endpoints: &str) {
    let (_, split) = net(mode, 0, endpoints);
    let endpoint = endpoints.split(',').nth(number).expect("an end point");
    let (main, scope) = testing::stores::started_server(&split, endpoint);
    let serving = Serving { log: Arc::new(|_| {}), ..Serving::default() };
    server::serve(&main, &scope, &serving, || false).expect("the server serves");
}

fn train(mode: &str, batch: usize, number: usize, endpoints: &str) {
    let (net, _) = net(mode, number, endpoints);
    let samples = Samples::new(N_SAMPLES, N_ROWS);
    let mut feeds = samples.feeds(batch);
    let (scope, mut exe) = (Scope::new(), Trainer::new());
    exe.set_job(train::TrainerJob::new(Default::default(), Arc::new(|_| {})));
    let cluster = exe.job().clone();
    let job = net.main.distributed.clone().expect("it was split");
    if mode == "async" {
        cluster.start_communicator(&job, CommunicatorConfig::default());
    }
    exe.run(&net.startup, &scope, &mut Feed::new(), &[]).expect("the trainer starts");
    let mut at = number * feeds.len() / 2;
    let mut step = |exe: &mut Trainer| {
        at = (at + 1) % feeds.len();
        exe.run(&net.main, &scope, &mut feeds[at], &[]).expect("a step");
    };
    step(&mut exe);
    turns::work(|| (0..N_TURN / batch).for_each(|_| step(&mut exe)));
    cluster.stop_communicator(&scope).expect("everything was sent");
    cluster.complete().expect("servers are there");
}

/// The ceiling, or the local model, in turns: a yardstick for the processor time of a cluster.
fn alone(batch: usize, mut model: Option<Model>) {
    let samples = Samples::new(N_SAMPLES, N_ROWS);
    let mut feeds = samples.feeds(batch);
    let mut ceiling = Ceiling::new(N_ROWS, batch, LR);
    turns::work(|| {
        for (k, feed) in feeds.iter_mut().enumerate().take(N_TURN / batch) {
            match &mut model {
                Some(model) => model.step(feed),
                None => assert!(ceiling.step(&samples, k * batch, batch).is_finite()),
            }
        }
    });
}

/// All modes at both batch sizes.
pub(crate) fn all() {
    let samples = Samples::new(N_SAMPLES, N_ROWS);
    let only = env::var("MODE").ok();
    for mode in ["sync", "async", "half_async", "geo"] {
        if only.as_deref().is_some_and(|only| only != mode) {
            continue;
        }
        for batch in [100, 1000] {
            one(mode, batch, &samples);
        }
    }
}

fn one(mode: &str, batch: usize, samples: &Samples) {
    let endpoints: Vec<String> =
        free_endpoints(N_SERVERS).iter().map(ToString::to_string).collect();
    let list = endpoints.join(",");
    let began = Instant::now();
    let roles = |who: &'static str, n: usize| {
        let list = list.clone();
        (0..n).map(move |number| format!("{who} {mode} {batch} {number} {list}"))
    };
    let servers = Servers::start(roles("server", N_SERVERS));
    let mut workers = Workers::start(roles("trainer", N_TRAINERS));
    let first_batch = began.elapsed().as_secs_f64();
    let mut ceilings: Vec<Ceiling> = (0..2).map(|_| Ceiling::new(N_ROWS, batch, LR)).collect();
    let mut rounds = Vec::new();
    for round in 0..=N_ROUNDS {
        let by_hand = ceiling(&mut ceilings, samples, batch);
        let start = Instant::now();
        workers.turn();
        let ours = (N_TRAINERS * N_TURN) as f64 / start.elapsed().as_secs_f64();
        if round > 0 {
            rounds.push((ours, by_hand));
        }
    }
    let name = format!("ps_{mode}_2x2_batch{batch}");
    bench_rounds(&name, "ceiling_2_threads_samples_per_s", &rounds);
    let rows = (N_ROWS * 10 * 4) as f64 / N_SERVERS as f64;
    let memory = servers.bytes("VmHWM:").into_iter().fold(0.0, f64::max);
    bench(&format!("{name}_server_peak_bytes"), memory, "bytes_of_rows", rows);
    bench(&format!("{name}_first_batch_s"), first_batch, "one_second", 1.0);
    workers.join();
    servers.join();
}

pub(crate) fn ceiling(ceilings: &mut [Ceiling], samples: &Samples, batch: usize) -> f64 {
    let start = Instant::now();
    let n = ceilings.len();
    thread::scope(|scope| {
        for ceiling in ceilings {
            scope.spawn(move || {
                for at in (0..N_TURN).step_by(batch) {
                    assert!(ceiling.step(samples, at, batch).is_finite(), "the ceiling trains");
                }
            });
        }
    });
    (n * N_TURN) as f64 / start.elapsed().as_secs_f64()
}
