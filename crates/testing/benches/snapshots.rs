//! The cost of snapshots for a server with a table of 1 GB: the longest step while one is written, bytes
//! against bytes that changed, and how fast all of it is written and loaded, against plain writes with
//! fsync to the same disk in the same run.
//!
//! `cargo bench -p testing --bench snapshots`; part of `make bench`.
#![allow(clippy::print_stdout, missing_docs)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use protocol::server::{CutRecord, Store};
use server::BlockStore;
use tensor::{Rows, Tensor, Value, mix};
use testing::big_table::{HEIGHT, fill, row, store};
use testing::stores::id_of;
use wire::TrainerId;
use wire::message::Grad;

const WIDTH: usize = 16;
const TABLE_BYTES: usize = 1 << 30;
const N_ROWS: u64 = (TABLE_BYTES / WIDTH / size_of::<f32>()) as u64;
/// Rows that a step changes: two trainers with batches of 100 and 26 slots.
const STEP_ROWS: usize = 5200;
const TURNS: usize = 3;
/// Steps between two cuts.
const INCREMENT_STEPS: usize = 200;
/// Time of a step of the job.
const PACE: Duration = Duration::from_millis(8);

/// A gradient for rows anywhere in the table.
fn grad(store: &BlockStore, number: u64) -> Grad {
    let ids = (0..STEP_ROWS as u64).map(|at| row(mix(number * 7919 + at) % N_ROWS)).collect();
    let value = Tensor::full([STEP_ROWS, WIDTH], 0.001f32);
    Grad {
        var: id_of(store, "table@GRAD"),
        value: Value::Rows(Rows { ids, height: HEIGHT, value }),
    }
}

/// How long steps took.
#[derive(Debug, Default)]
struct Steps(Vec<Duration>);

impl Steps {
    fn run(&mut self, store: &BlockStore, number: u64) {
        let grad = grad(store, number);
        let begin = Instant::now();
        let units = store.begin_round(vec![(TrainerId(0), vec![grad])]).expect("a round");
        units.into_iter().for_each(|unit| store.apply_unit(unit).expect("a unit"));
        self.0.push(begin.elapsed());
    }

    fn longest_ms(&self) -> f64 {
        self.0.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3
    }
}

fn record(cut: u64) -> CutRecord {
    CutRecord { cut, term: 1, complete: cut.saturating_sub(1), ..CutRecord::default() }
}

/// Writes a cut in a thread of its own while steps continue, at the pace of a job; its seconds and
/// bytes.
fn cut(store: &BlockStore, number: u64, steps: &mut Steps, first: &mut u64) -> (f64, u64) {
    let marked = Instant::now();
    store.mark(number).expect("a mark");
    steps.0.push(marked.elapsed());
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let begin = Instant::now();
            let written = store.write_cut(&record(number)).expect("a cut");
            is_done.store(true, Ordering::Relaxed);
            (begin.elapsed().as_secs_f64(), written.bytes)
        });
        while !is_done.load(Ordering::Relaxed) {
            let next = Instant::now() + PACE;
            *first += 1;
            steps.run(store, *first);
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        writer.join().expect("a writer")
    })
}

/// Does the work of `dd if=/dev/zero bs=1M conv=fsync`, with bytes that are not all the same.
fn plain_write(folder: &Path) -> f64 {
    let block: Vec<u8> = (0..1u32 << 20).map(|n| mix(n.into()) as u8).collect();
    let path = folder.join("file");
    let begin = Instant::now();
    let mut file = File::create(&path).expect("a file");
    (0..TABLE_BYTES / block.len()).for_each(|_| file.write_all(&block).expect("space"));
    file.sync_all().expect("a disk");
    let seconds = begin.elapsed().as_secs_f64();
    std::fs::remove_file(path).expect("it is there");
    seconds
}

/// Writes everything, without other work; seconds.
fn base_write(store: &mut BlockStore, folder: &Path) -> f64 {
    keep_cuts(store, folder);
    let begin = Instant::now();
    store.mark(0).expect("a mark");
    store.write_cut(&record(0)).expect("a cut");
    begin.elapsed().as_secs_f64()
}

fn keep_cuts(store: &mut BlockStore, folder: &Path) {
    store.keep_cuts(folder, Arc::new(|_| ())).expect("a folder");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(name: &str, ours: f64, other: &str, theirs: f64) {
    println!("BENCH {name} ratio={:.3} ours={ours:.3} against={other}={theirs:.3}", ours / theirs);
}

fn main() {
    // Where the build is: a folder in memory would have no disk to wait for.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(folder("plain")).expect("a folder");
    let mut store = self::store(WIDTH);
    fill(&store, N_ROWS);
    let (mut plain, mut written) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        plain.push(plain_write(&folder("plain")));
        let own = folder(&format!("base{turn}"));
        written.push(base_write(&mut store, &own));
        std::fs::remove_dir_all(own).expect("it is there");
    }
    let mb = TABLE_BYTES as f64 / 1e6;
    let plain = mb / median(plain);
    report("snapshot_write_mb_s", mb / median(written), "fsync", plain);

    let (mut usual, mut number) = (Steps::default(), 0);
    for _ in 0..300 {
        number += 1;
        usual.run(&store, number);
    }
    // All of the table, which is the worst that can happen to a step.
    keep_cuts(&mut store, &folder("server.0"));
    let mut during = Steps::default();
    cut(&store, 0, &mut during, &mut number);
    report("snapshot_pause_ms", during.longest_ms(), "longest_without", usual.longest_ms());

    let mut n_steps = during.0.len();
    let mut during = Steps::default();
    let mut bytes = Vec::new();
    for turn in 1..=TURNS as u64 {
        for _ in n_steps..INCREMENT_STEPS {
            number += 1;
            usual.run(&store, number);
        }
        let touched = INCREMENT_STEPS.max(n_steps) * STEP_ROWS * WIDTH * size_of::<f32>();
        let n_before = during.0.len();
        let (_, n_bytes) = cut(&store, turn, &mut during, &mut number);
        n_steps = during.0.len() - n_before;
        bytes.push(n_bytes as f64 / touched as f64);
    }
    report(
        "snapshot_increment_pause_ms",
        during.longest_ms(),
        "longest_without",
        usual.longest_ms(),
    );
    report("snapshot_bytes", median(bytes), "touched", 1.0);

    let last = TURNS as u64;
    let load = |store: &BlockStore, term| {
        let begin = Instant::now();
        store.roll_back(last, term).expect("a cut");
        begin.elapsed().as_secs_f64()
    };
    let back: Vec<f64> = (0..TURNS as u64).map(|turn| load(&store, 2 + turn)).collect();
    report("snapshot_back_mb_s", mb / median(back), "fsync", plain);
    drop(store);
    // Another process: without a table, and without the rows' places.
    let mut store = self::store(WIDTH);
    keep_cuts(&mut store, &folder("server.0"));
    report("snapshot_load_mb_s", mb / load(&store, 9), "fsync", plain);
}
