//! How cost grows with the number of keys and of slots: the tables of `docs/measured/scaling.md`.
//!
//! Two servers and two trainers as processes, synchronous: this program starts itself again for each
//! role. Every key exists before the clock starts, and batches use all of them alike, which caches
//! like least. `cargo bench -p testing --bench scaling -- 1e5 1e6 1e7 1e8` makes the first table for
//! these numbers of keys (up to 1e7 if none is given; 1e8 takes 7 GB), `-- slots` the second one.
#![allow(clippy::print_stdout, missing_docs)]

use std::env;
use std::sync::Arc;
use std::time::Instant;

use program::layers::{self, Data, Embedding, Fc};
use program::optimizer::{Adagrad, Optimizer};
use program::{Initializer, Net, ParamAttr};
use server::Serving;
use tensor::{DType, Tensor};
use testing::cluster::free_endpoints;
use testing::turns::{self, Servers, Workers};
use train::{Feed, Scope, Trainer};
use transpile::{Config, Job, RoundRobin};
use wire::message::LookUp;

const WIDTH: usize = 8;
const BATCH: usize = 1000;
const N_DENSE: usize = 13;
const N_PROCESSES: usize = 2;
/// Different batches of a trainer, and batches between two looks at the clock.
const N_BATCHES: usize = 20;
const N_TURNS: usize = 7;
/// Keys asked for at once before the clock starts.
const FILL_KEYS: usize = 1 << 16;
const TABLE: &str = "SparseFeatFactors";

#[derive(Clone, Copy, Debug)]
struct Size {
    n_keys: usize,
    n_slots: usize,
}

fn main() {
    if play_role() {
        return;
    }
    let given: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let keys: Vec<usize> =
        given.iter().filter_map(|arg| arg.parse::<f64>().ok()).map(|n| n as usize).collect();
    match (given.iter().any(|arg| arg == "slots"), keys.is_empty()) {
        (false, true) => {
            by_keys(&[100_000, 1_000_000, 10_000_000]);
            by_slots();
        }
        (is_slots, _) => {
            by_keys(&keys);
            if is_slots {
                by_slots();
            }
        }
    }
}

fn by_keys(all: &[usize]) {
    if all.is_empty() {
        return;
    }
    println!("\n| keys | samples/s | of the first | both servers | most ever | bytes a key |");
    println!("|---|---|---|---|---|---|");
    let mut first = None;
    for &n_keys in all {
        let Measured { rate, memory, peak } = measure(Size { n_keys, n_slots: 26 });
        let first = *first.get_or_insert(rate);
        println!(
            "| {n_keys:e} | {rate:.0} | {:.2} | {} | {} | {:.1} |",
            rate / first,
            megabytes(memory),
            megabytes(peak),
            memory / n_keys as f64,
        );
    }
}

fn by_slots() {
    println!("\n| slots | samples/s | of the first | ids/s, of the first | both servers |");
    println!("|---|---|---|---|---|");
    let mut first = None;
    for factor in [1, 2, 4, 8] {
        let size = Size { n_keys: 1_000_000, n_slots: 26 * factor };
        let Measured { rate, memory, .. } = measure(size);
        let first = *first.get_or_insert(rate);
        println!(
            "| {} | {rate:.0} | {:.2} | {:.2} | {} |",
            size.n_slots,
            rate / first,
            rate * factor as f64 / first,
            megabytes(memory),
        );
    }
}

fn megabytes(bytes: f64) -> String {
    format!("{:.0} MB", bytes / 1e6)
}

struct Measured {
    /// Samples per second of all trainers.
    rate: f64,
    /// Bytes of all servers.
    memory: f64,
    peak: f64,
}

fn measure(size: Size) -> Measured {
    let endpoints: Vec<String> =
        free_endpoints(N_PROCESSES).iter().map(ToString::to_string).collect();
    let list = endpoints.join(",");
    let roles = |who: &'static str| {
        let list = list.clone();
        let Size { n_keys, n_slots } = size;
        (0..N_PROCESSES).map(move |number| format!("{who} {n_keys} {n_slots} {number} {list}"))
    };
    let servers = Servers::start(roles("server"));
    let mut trainers = Workers::start(roles("trainer"));
    let mut rates = Vec::new();
    for _ in 0..=N_TURNS {
        let begin = Instant::now();
        trainers.turn();
        let n_samples = N_PROCESSES * N_BATCHES * BATCH;
        rates.push(n_samples as f64 / begin.elapsed().as_secs_f64());
    }
    // The first turn warms up.
    let rates = &mut rates[1..];
    rates.sort_by(f64::total_cmp);
    let of = |what: &str| servers.bytes(what).into_iter().sum();
    let measured =
        Measured { rate: rates[rates.len() / 2], memory: of("VmRSS:"), peak: of("VmHWM:") };
    trainers.join();
    servers.join();
    measured
}

/// Plays the role this process was started for, if it was.
fn play_role() -> bool {
    let Some(role) = turns::role() else { return false };
    let [who, n_keys, n_slots, number, endpoints] = &role[..] else { return false };
    let number_of = |word: &str| word.parse::<usize>().expect("a number");
    let size = Size { n_keys: number_of(n_keys), n_slots: number_of(n_slots) };
    match who.as_str() {
        "server" => serve(size, number_of(number), endpoints),
        _ => train(size, number_of(number), endpoints),
    }
    true
}

fn net(size: Size, trainer: usize, endpoints: &str) -> (Net, transpile::Transpiled) {
    let mut net = Net::with_seed(90);
    build(&mut net, size).expect("the model builds");
    let job = Job::new(trainer, endpoints, N_PROCESSES);
    let (main, startup) = (&mut net.main, &mut net.startup);
    let config = Config::default();
    let split = transpile::transpile(main, startup, &config, &job, &mut RoundRobin::default());
    (net, split.expect("the program can be split"))
}

/// Look-ups in one shared table, three layers, Adagrad.
fn build(net: &mut Net, size: Size) -> program::Result<()> {
    let mut b = net.builder();
    let int64 = Data { dtype: DType::I64, ..Data::default() };
    let table = ParamAttr {
        initializer: Some(Initializer::Uniform { low: -0.01, high: 0.01, seed: 0 }),
        ..ParamAttr::named(TABLE)
    };
    let mut parts = Vec::new();
    for slot in 0..size.n_slots {
        let ids = layers::data(&mut b, &format!("C{slot}"), &[1], int64.clone())?;
        let options =
            Embedding { is_sparse: true, param_attr: table.clone(), ..Embedding::default() };
        let shape = [size.n_keys as i64, WIDTH as i64];
        parts.push(layers::embedding(&mut b, &ids, shape, options)?);
    }
    parts.push(layers::data(&mut b, "dense", &[N_DENSE as i64], Data::default())?);
    let label = layers::data(&mut b, "label", &[1], int64)?;
    let mut x = layers::concat(&mut b, &parts, 1, None)?;
    for (width, act) in [(128, "relu"), (64, "relu"), (32, "relu"), (2, "softmax")] {
        x = layers::fc(&mut b, &[x], width, Fc { act: Some(act), ..Fc::default() })?;
    }
    let cost = layers::cross_entropy(&mut b, &x, &label, layers::CrossEntropy::default())?;
    let loss = layers::mean(&mut b, &cost, None)?;
    Optimizer::new(Adagrad::default(), 0.01).minimize(&mut b, &loss, &Default::default())?;
    Ok(())
}

fn serve(size: Size, number: usize, endpoints: &str) {
    let (_, split) = net(size, 0, endpoints);
    let endpoint = endpoints.split(',').nth(number).expect("an end point");
    let (main, scope) = testing::stores::started_server(&split, endpoint);
    let serving = Serving { log: Arc::new(|_| {}), ..Serving::default() };
    server::serve(&main, &scope, &serving, || false).expect("the server serves");
}

fn train(size: Size, number: usize, endpoints: &str) {
    let (net, _) = net(size, number, endpoints);
    let (scope, mut exe) = (Scope::new(), Trainer::new());
    exe.set_job(train::TrainerJob::new(Default::default(), Arc::new(|_| {})));
    let cluster = exe.job().clone();
    exe.run(&net.startup, &scope, &mut Feed::new(), &[]).expect("the trainer starts");
    let job = net.main.distributed.clone().expect("it was split");
    // Each trainer makes the rows of one server.
    let pieces = job.pieces(TABLE).map(|placed| &placed.piece);
    for piece in pieces.filter(|piece| piece.block % N_PROCESSES == number) {
        let client = cluster.client(piece.server).expect("a server");
        let (n_rows, table) = (piece.n_rows(), wire::VarId(piece.var.0));
        for from in (0..n_rows).step_by(FILL_KEYS) {
            let keys = (from..n_rows.min(from + FILL_KEYS as i64)).collect();
            let look_up = LookUp::new(0, table, keys);
            let ticket = client.ask(look_up).expect("a question");
            client.wait(ticket, "rows").expect("rows");
        }
    }
    let mut feeds = feeds(size, number as u64 + 1);
    turns::work(|| {
        for feed in &mut feeds {
            exe.run(&net.main, &scope, feed, &[]).expect("a step");
        }
    });
    cluster.complete().expect("servers are there");
}

/// Batches whose ids are spread evenly over all keys.
fn feeds(size: Size, seed: u64) -> Vec<Feed> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    let mut batch = || {
        let mut feed = Feed::new();
        for slot in 0..size.n_slots {
            let ids: Vec<i64> = (0..BATCH).map(|_| (draw() % size.n_keys as u64) as i64).collect();
            let ids = Tensor::new([BATCH, 1], &ids).expect("ids");
            feed = feed.with(&format!("C{slot}"), ids);
        }
        let labels: Vec<i64> = (0..BATCH).map(|_| (draw() % 2) as i64).collect();
        let dense: Vec<f32> = (0..BATCH * N_DENSE).map(|_| (draw() % 100) as f32 / 100.0).collect();
        feed.with("dense", Tensor::new([BATCH, N_DENSE], &dense).expect("numbers"))
            .with("label", Tensor::new([BATCH, 1], &labels).expect("labels"))
    };
    (0..N_BATCHES).map(|_| batch()).collect()
}
