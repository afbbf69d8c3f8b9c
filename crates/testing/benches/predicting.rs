//! Predictions: a request from each of 8 threads, a sample of a large batch, and the server over HTTP.
//!
//! `cargo bench -p testing --bench predicting`; part of `make bench`. The model is the CTR-DNN of the training
//! bench: 26 slots of ids in one table, 13 numbers, three layers of 400.
#![allow(clippy::print_stdout, missing_docs)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use predict::{Column, PredictionServer, Predictor, Samples, Settings};
use program::layers::{self, Data, Embedding, Fc};
use program::{Initializer, Net, ParamAttr, Result};
use tensor::{DType, Lod, Tensor, mix};
use testing::session::Session;
use train::io::{self, SaveInference};
use train::{Executor, Feed, Scope};

const N_SLOTS: usize = 26;
const N_DENSE: usize = 13;
const N_ROWS: i64 = 1_000_000;
const N_THREADS: usize = 8;
const ROUNDS: usize = 7;

fn build(net: &mut Net) -> Result<(Vec<String>, String)> {
    let mut b = net.builder();
    let table = ParamAttr {
        initializer: Some(Initializer::Uniform { low: -0.01, high: 0.01, seed: 0 }),
        ..ParamAttr::named("SparseFeatFactors")
    };
    let (mut parts, mut feeds) = (Vec::new(), Vec::new());
    for slot in 1..=N_SLOTS {
        let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
        let ids = layers::data(&mut b, &format!("C{slot}"), &[1], ids)?;
        feeds.push(ids.name().to_string());
        let options =
            Embedding { is_sparse: true, param_attr: table.clone(), ..Embedding::default() };
        parts.push(layers::embedding(&mut b, &ids, [N_ROWS, 10], options)?);
    }
    parts.push(layers::data(&mut b, "dense_input", &[N_DENSE as i64], Data::default())?);
    feeds.push("dense_input".to_string());
    let mut hidden = layers::concat(&mut b, &parts, 1, None)?;
    for _ in 0..3 {
        hidden = layers::fc(&mut b, &[hidden], 400, Fc { act: Some("relu"), ..Fc::default() })?;
    }
    let out = layers::fc(&mut b, &[hidden], 2, Fc { act: Some("softmax"), ..Fc::default() })?;
    Ok((feeds, out.name().to_string()))
}

fn save(dir: &Path) {
    let mut net = Net::with_seed(90);
    let (feeds, out) = build(&mut net).expect("a net");
    let session = Session::start(net);
    let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
    let targets = [out.as_str()];
    let options = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
    io::save_inference_model(&session.scope, dir, &session.net.main, &options).expect("saved");
}

fn ids(seed: u64, slot: usize, n: usize) -> Vec<i64> {
    let id = |k: usize| (mix(seed * 1_000_003 + (slot * n + k) as u64) % N_ROWS as u64) as i64;
    (0..n).map(id).collect()
}

fn fill(batch: &mut Samples, seed: u64, n: usize) {
    for slot in 0..N_SLOTS {
        let ids = ids(seed, slot, n);
        batch.set(&format!("C{}", slot + 1), Column::Integers(&ids)).expect("ids");
    }
    batch.set("dense_input", Column::Numbers(&vec![0.5; n * N_DENSE])).expect("numbers");
}

fn feed(seed: u64, n: usize) -> Feed {
    let mut feed = Feed::new();
    for slot in 0..N_SLOTS {
        let mut tensor = Tensor::new([n, 1], &ids(seed, slot, n)).expect("ids");
        tensor.set_lod(Lod::from_lengths(std::iter::repeat_n(1, n)));
        feed.set(&format!("C{}", slot + 1), tensor);
    }
    feed.set("dense_input", Tensor::full([n, N_DENSE], 0.5f32));
    feed
}

/// Microseconds of one call, over `n` calls.
fn micros(n: usize, mut call: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (0..n).for_each(&mut call);
    start.elapsed().as_secs_f64() * 1e6 / n as f64
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(name: &str, what: &str, rounds: &[(f64, f64)]) {
    let ratio = median(rounds.iter().map(|(ours, against)| ours / against));
    let (ours, against) = (median(rounds.iter().map(|r| r.0)), median(rounds.iter().map(|r| r.1)));
    println!("BENCH {name} ratio={ratio:.3} ours={ours:.2} against={what}={against:.2}");
}

fn requests(predictor: &Predictor, dir: &Path) {
    let (scope, mut exe) = (Scope::new(), Executor::new());
    let model = io::load_inference_model(&scope, dir, None, None).expect("a model");
    let fetches: Vec<&str> = model.fetches.iter().map(String::as_str).collect();
    for (name, n, calls) in [("predict-one", 1, 2000), ("predict-1000", 1000, 20)] {
        let mut batches: Vec<Samples> = (0..16).map(|_| predictor.batch()).collect();
        batches.iter_mut().enumerate().for_each(|(k, batch)| fill(batch, k as u64, n));
        let mut feeds: Vec<Feed> = (0..16).map(|k| feed(k, n)).collect();
        let rounds: Vec<(f64, f64)> = (0..ROUNDS)
            .map(|_| {
                let ours = micros(calls, |k| {
                    predictor.predict(&mut batches[k % 16]).expect("a prediction");
                });
                let theirs = micros(calls, |k| {
                    let run = exe.run(&model.program, &scope, &mut feeds[k % 16], &fetches);
                    run.expect("a run");
                });
                (ours / n as f64, theirs / n as f64)
            })
            .collect();
        report(&format!("{name}-us-a-sample"), "exe.run", &rounds);
    }
    let rounds: Vec<(f64, f64)> =
        (0..ROUNDS).map(|_| (eight_threads(predictor), eight_executors(dir))).collect();
    report("predict-8-threads-us-a-request", "exe.run", &rounds);
}

const CALLS: usize = 1000;

/// Microseconds of a request, the median of 8 threads.
fn eight_threads(predictor: &Predictor) -> f64 {
    let took: Vec<f64> = std::thread::scope(|threads| {
        let run = |seed: usize| {
            threads.spawn(move || {
                let mut batch = predictor.batch();
                fill(&mut batch, seed as u64, 1);
                micros(CALLS, |_| {
                    predictor.predict(&mut batch).expect("a prediction");
                })
            })
        };
        let threads: Vec<_> = (0..N_THREADS).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    median(took.into_iter())
}

/// The same with an executor and a scope for each thread.
fn eight_executors(dir: &Path) -> f64 {
    let took: Vec<f64> = std::thread::scope(|threads| {
        let barrier = Arc::new(Barrier::new(N_THREADS));
        let run = |seed: usize| {
            let barrier = barrier.clone();
            threads.spawn(move || {
                let (scope, mut exe) = (Scope::new(), Executor::new());
                let model = io::load_inference_model(&scope, dir, None, None).expect("a model");
                let fetches: Vec<&str> = model.fetches.iter().map(String::as_str).collect();
                let mut feed = feed(seed as u64, 1);
                let mut call = || {
                    exe.run(&model.program, &scope, &mut feed, &fetches).expect("a run");
                };
                call();
                barrier.wait();
                micros(CALLS, |_| call())
            })
        };
        let threads: Vec<_> = (0..N_THREADS).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    median(took.into_iter())
}

/// A request of `n` samples as raw columns.
fn raw_request(seed: u64, n: usize) -> Vec<u8> {
    let mut body = b"PWC1".to_vec();
    body.extend_from_slice(&(n as u32).to_le_bytes());
    body.extend_from_slice(&(N_SLOTS as u32 + 1).to_le_bytes());
    let head = |body: &mut Vec<u8>, name: &str, code: u8, width: u32| {
        body.extend_from_slice(&(name.len() as u16).to_le_bytes());
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&[code, 0]);
        body.extend_from_slice(&width.to_le_bytes());
    };
    for slot in 0..N_SLOTS {
        head(&mut body, &format!("C{}", slot + 1), 3, 1);
        ids(seed, slot, n).iter().for_each(|id| body.extend_from_slice(&id.to_le_bytes()));
    }
    head(&mut body, "dense_input", 5, N_DENSE as u32);
    (0..n * N_DENSE).for_each(|_| body.extend_from_slice(&0.5f32.to_le_bytes()));
    request("application/x-paddlewheel-columns", &body)
}

/// The same as JSON.
fn json_request(seed: u64, n: usize) -> Vec<u8> {
    let mut columns = serde_json::Map::new();
    for slot in 0..N_SLOTS {
        columns.insert(format!("C{}", slot + 1), ids(seed, slot, n).into());
    }
    columns.insert("dense_input".to_string(), vec![vec![0.5; N_DENSE]; n].into());
    let body = serde_json::json!({ "columns": columns }).to_string();
    request("application/json", body.as_bytes())
}

fn request(kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /predict HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Sends a request and waits for the whole answer.
fn ask(stream: &mut TcpStream, request: &[u8], answer: &mut Vec<u8>) {
    stream.write_all(request).expect("a request");
    answer.clear();
    let mut block = [0; 16 << 10];
    loop {
        let n = stream.read(&mut block).expect("an answer");
        assert!(n > 0, "the server closed the connection");
        answer.extend_from_slice(&block[..n]);
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
        let length: usize = length.and_then(|text| text.trim().parse().ok()).expect("a length");
        if answer.len() >= end + 4 + length {
            return;
        }
    }
}

/// The measurements of clients.
struct Load {
    rows_a_second: f64,
    p99_ms: f64,
}

/// Clients that send requests of `n` samples for some seconds: as fast as they can, or so many rows a second
/// together.
fn load(
    address: SocketAddr,
    request: &(dyn Fn(u64) -> Vec<u8> + Sync),
    n: usize,
    rate: Option<f64>,
) -> Load {
    const CLIENTS: usize = 16;
    let time = Duration::from_secs(3);
    let start = Instant::now();
    let took: Vec<Vec<f64>> = std::thread::scope(|threads| {
        let run = |seed: usize| {
            threads.spawn(move || {
                let request = request(seed as u64);
                let mut stream = TcpStream::connect(address).expect("a connection");
                stream.set_nodelay(true).expect("no delay");
                let (mut answer, mut took) = (Vec::new(), Vec::new());
                let every =
                    rate.map(|rate| Duration::from_secs_f64(n as f64 * CLIENTS as f64 / rate));
                let mut due = start + every.unwrap_or_default() * seed as u32 / CLIENTS as u32;
                while start.elapsed() < time {
                    if let Some(every) = every {
                        // Late requests count from when they were due.
                        std::thread::sleep(due.saturating_duration_since(Instant::now()));
                        ask(&mut stream, &request, &mut answer);
                        took.push(due.elapsed().as_secs_f64());
                        due += every;
                    } else {
                        let begun = Instant::now();
                        ask(&mut stream, &request, &mut answer);
                        took.push(begun.elapsed().as_secs_f64());
                    }
                }
                took
            })
        };
        let threads: Vec<_> = (0..CLIENTS).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut took: Vec<f64> = took.into_iter().flatten().collect();
    took.sort_by(f64::total_cmp);
    let p99_ms = took[took.len() * 99 / 100] * 1e3;
    Load { rows_a_second: (took.len() * n) as f64 / seconds, p99_ms }
}

fn serving(predictor: &Predictor) {
    let settings = Settings { port: 0, ..Settings::default() };
    let server = PredictionServer::start(predictor.clone(), &settings).expect("a server");
    let address = server.address();
    let n = 16;
    for name in ["raw", "json"] {
        let request: &(dyn Fn(u64) -> Vec<u8> + Sync) = match name {
            "raw" => &|seed| raw_request(seed, n),
            _ => &|seed| json_request(seed, n),
        };
        let most = load(address, request, n, None);
        println!(
            "BENCH serve-{name}-rows-a-second ratio={:.3} ours={:.0} against=wanted=20000",
            most.rows_a_second / 20_000.0,
            most.rows_a_second
        );
        let half = load(address, request, n, Some(most.rows_a_second / 2.0));
        println!(
            "BENCH serve-{name}-p99-ms-at-half ratio={:.3} ours={:.2} against=wanted=10 rows={:.0}",
            half.p99_ms / 10.0,
            half.p99_ms,
            half.rows_a_second
        );
    }
}

fn main() {
    let dir = tempfile::tempdir().expect("a folder");
    save(dir.path());
    let predictor = Predictor::load(dir.path()).expect("a predictor");
    requests(&predictor, dir.path());
    serving(&predictor);
}
