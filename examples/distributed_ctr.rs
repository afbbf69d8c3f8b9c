//! Click-through rate on several processes: one program, two roles, no Python.
//!
//! `cargo build --example distributed_ctr`, then
//! `paddlewheel launch_ps --worker_num 2 --server_num 2 target/debug/examples/distributed_ctr`,
//! or each process in a shell of its own with the variables that tell it who it is
//! (`PADDLE_PSERVERS_IP_PORT_LIST`, `PADDLE_TRAINERS_NUM`, `TRAINING_ROLE`, …). Options:
//! `--mode sync|half_async|async|geo` and `--batches N`.

#![allow(clippy::print_stdout, clippy::print_stderr)] // An example talks to its user.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use paddlewheel::fleet::lifecycle::{Minimize, Served};
use paddlewheel::fleet::ready::Watch;
use paddlewheel::fleet::{self, Flags, Fleet, Strategy, env};
use paddlewheel::program::backward::Limits;
use paddlewheel::program::distributed::Mode;
use paddlewheel::program::layers::{self, CrossEntropy, Data, Embedding, Fc};
use paddlewheel::program::optimizer::{Adagrad, Optimizer};
use paddlewheel::program::{self, Builder, Initializer, Net, ParamAttr, Var};
use paddlewheel::tensor::{self, DType, Tensor};
use paddlewheel::train::{Cluster, Executor, Feed, Scope};

const N_SLOTS: usize = 8;
const N_ROWS: i64 = 10_001;
const DIM: i64 = 8;
const BATCH: usize = 100;
const REPORT_EVERY: usize = 50;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let flags = Flags::from_environment(&env::process)?;
    let role = fleet::role::from_environment(&env::process)?;
    let strategy = Strategy::new(options.mode, &flags, 1);
    let mut fleet = Fleet::init(role, flags, Cluster::default());

    let mut net = Net::with_seed(90);
    let mut b = net.builder();
    let loss = build(&mut b)?;
    let mut optimizer = Optimizer::new(Adagrad::default(), 0.05);
    let (optimizer, limits) = (&mut optimizer, &Limits::default());
    let minimized = Minimize { optimizer, loss: &loss, limits, strategy };
    let mut watch = Watch { on_line: &mut |line| eprintln!("{line}"), stops: &mut || false };
    fleet.minimize(&mut b, minimized, &mut watch)?;

    match fleet.role().is_server() {
        true => serve(&mut fleet),
        false => train(&mut fleet, &net, &loss, options.n_batches),
    }
}

fn serve(fleet: &mut Fleet) -> Result<(), Box<dyn Error>> {
    let scope = Scope::new();
    fleet.init_server(&scope, None)?;
    match fleet.run_server(&scope)? {
        Served::Completed => println!("all trainers have completed"),
        Served::Signalled => println!("told to end"),
    }
    Ok(())
}

fn train(fleet: &mut Fleet, net: &Net, loss: &Var, n_batches: usize) -> Result<(), Box<dyn Error>> {
    fleet.init_worker(&mut |line| println!("{line}"))?;
    let (mut exe, scope) = (Executor::new(), Scope::new());
    exe.set_cluster(fleet.cluster().clone());
    exe.run(&net.startup, &scope, &mut Feed::new(), &[])?;
    let mut clicks = Clicks { state: u64::from(fleet.role().id) };
    let (mut fetched, mut sum) = (Vec::new(), 0.0);
    for batch in 1..=n_batches {
        let mut feed = clicks.next()?;
        exe.run_into(&net.main, &scope, &mut feed, &[loss.name()], &mut fetched)?;
        sum += fetched[0].get_f64(0);
        if batch % REPORT_EVERY == 0 {
            println!("batch {batch:4}: loss {:.4}", sum / REPORT_EVERY as f64);
            sum = 0.0;
        }
    }
    fleet.barrier_worker()?;
    let n_samples = fleet.all_reduce_worker(&[(n_batches * BATCH) as f64], "sum")?;
    println!("trained on {} samples together", n_samples[0]);
    if fleet.role().is_first_trainer() {
        fleet.save_persistables(&scope, Path::new("ctr.model"), &net.main)?;
    }
    fleet.stop_worker(&scope)?;
    Ok(())
}

struct Options {
    mode: Mode,
    n_batches: usize,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self { mode: Mode::Sync, n_batches: 300 };
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            match (word.as_str(), value.as_str()) {
                ("--mode", "sync") => options.mode = Mode::Sync,
                ("--mode", "ssp") => options.mode = Mode::Ssp { staleness: 2 },
                ("--mode", "half_async") => options.mode = Mode::HalfAsync,
                ("--mode", "async") => options.mode = Mode::Async,
                ("--mode", "geo") => options.mode = Mode::Geo { push_every: 10 },
                ("--batches", n) => options.n_batches = n.parse()?,
                _ => return Err(format!("unknown: {word} {value}").into()),
            }
        }
        Ok(options)
    }
}

/// The model: slots of ids that share one sparse table, two layers; returns the mean loss.
fn build(b: &mut Builder<'_>) -> program::Result<Var> {
    let mut parts = Vec::new();
    for slot in 0..N_SLOTS {
        let id = Data { dtype: DType::I64, ..Data::default() };
        let ids = layers::data(b, &slot_name(slot), &[1], id)?;
        let table = Embedding {
            is_sparse: true,
            param_attr: ParamAttr {
                initializer: Some(Initializer::Uniform { low: -0.1, high: 0.1, seed: 0 }),
                ..ParamAttr::named("SparseFeatFactors")
            },
            ..Embedding::default()
        };
        parts.push(layers::embedding(b, &ids, [N_ROWS, DIM], table)?);
    }
    let label = Data { dtype: DType::I64, ..Data::default() };
    let label = layers::data(b, "label", &[1], label)?;
    let joined = layers::concat(b, &parts, 1, None)?;
    let hidden = layers::fc(b, &[joined], 32, Fc { act: Some("relu"), ..Fc::default() })?;
    let predicted = layers::fc(b, &[hidden], 2, Fc { act: Some("softmax"), ..Fc::default() })?;
    let cost = layers::cross_entropy(b, &predicted, &label, CrossEntropy::default())?;
    layers::mean(b, &cost, None)
}

fn slot_name(slot: usize) -> String {
    format!("C{}", slot + 1)
}

/// Made-up clicks: every id has a hidden weight, and the sum decides whether there is a click.
struct Clicks {
    state: u64,
}

impl Clicks {
    /// The next batch.
    fn next(&mut self) -> tensor::Result<Feed> {
        let mut feed = Feed::new();
        let mut scores = vec![0.0; BATCH];
        for slot in 0..N_SLOTS {
            let mut ids = Vec::with_capacity(BATCH);
            for score in &mut scores {
                self.state = self.state.wrapping_add(1);
                let rank = mix(self.state) % 100;
                let id = mix(slot as u64 * 7919 + rank + 1) % N_ROWS as u64;
                *score += unit(mix(id + 1)) - 0.5;
                ids.push(id as i64);
            }
            feed.set(&slot_name(slot), Tensor::new([BATCH, 1], &ids)?);
        }
        let labels: Vec<i64> = scores.iter().map(|&score| i64::from(score > 0.0)).collect();
        feed.set("label", Tensor::new([BATCH, 1], &labels)?);
        // Trainers see different clicks.
        self.state = mix(self.state);
        Ok(feed)
    }
}

fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Spreads bits: neighbours become strangers.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
