//! One server under contention: 4 trainers with 2 threads each, against 1 trainer with 1 thread, on the
//! same server in the same run. A ratio of 1 means that the server serves no faster however many ask.
//!
//! `cargo bench -p testing --bench contention`; part of `make bench`.
#![allow(clippy::print_stdout, missing_docs)]

use std::fmt::Write;
use std::time::Instant;

use data::{Dataset, DatasetKind, Slot};
use program::backward::Limits;
use program::distributed::Mode;
use program::layers::{self, Data, Embedding, Fc, SequencePool};
use program::optimizer::{Adagrad, Optimizer};
use program::{Net, ParamAttr, Var};
use tempfile::TempDir;
use tensor::DType;
use testing::job::{self, Plan};
use transpile::Config;

const N_TABLES: usize = 4;
const IDS_A_SLOT: usize = 8;
const N_ROWS: i64 = 200_000;
const WIDTH: i64 = 16;
const BATCH: usize = 256;
/// Batches of a thread.
const N_BATCHES: usize = 120;
const TRAINERS: usize = 4;
const THREADS: usize = 2;
const TURNS: usize = 5;

/// Rows of four tables, added up: the server has more to do than the trainers.
fn net() -> (Net, Var) {
    let mut net = Net::with_seed(90);
    let b = &mut net.builder();
    let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
    let mut pooled = Vec::new();
    for table in 0..N_TABLES {
        let slot = layers::data(b, &format!("slot{table}"), &[1], ids.clone()).expect("a slot");
        let options = Embedding {
            is_sparse: true,
            param_attr: ParamAttr::named(&format!("table{table}")),
            ..Embedding::default()
        };
        let rows = layers::embedding(b, &slot, [N_ROWS, WIDTH], options).expect("a table");
        pooled
            .push(layers::sequence_pool(b, &rows, "sum", SequencePool::default()).expect("a sum"));
    }
    let all = layers::concat(b, &pooled, 1, None).expect("all slots");
    let guess = layers::fc(b, &[all], 1, Fc::default()).expect("a net");
    let loss = layers::mean(b, &guess, None).expect("a loss");
    Optimizer::new(Adagrad::default(), 0.01)
        .minimize(b, &loss, &Limits::default())
        .expect("an optimizer");
    (net, loss)
}

/// A file for each thread of each trainer.
fn files() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in 0..TRAINERS * THREADS {
        let (mut text, mut x) = (String::new(), file as u64 + 1);
        for _ in 0..BATCH * N_BATCHES {
            for _ in 0..N_TABLES {
                write!(text, "{IDS_A_SLOT} ").expect("text");
                for _ in 0..IDS_A_SLOT {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    write!(text, "{} ", (x >> 33) % N_ROWS as u64).expect("text");
                }
            }
            text.push('\n');
        }
        std::fs::write(folder.path().join(format!("part-{file}")), text).expect("a file");
    }
    folder
}

fn dataset(folder: &TempDir, files: std::ops::Range<usize>) -> Dataset {
    let mut dataset = Dataset::new(DatasetKind::Queue);
    let settings = dataset.settings_mut();
    settings.slots = (0..N_TABLES).map(|table| Slot::ids(&format!("slot{table}"))).collect();
    settings.batch_size = BATCH;
    settings.n_threads = files.len();
    let path = |file| folder.path().join(format!("part-{file}")).to_string_lossy().into_owned();
    settings.files = files.map(path).collect();
    dataset
}

/// Samples a second of the whole job.
fn samples_per_s(plan: &Plan, folder: &TempDir, n_threads: usize) -> f64 {
    let begin = Instant::now();
    job::run_pass(plan, net, |id| dataset(folder, id * n_threads..(id + 1) * n_threads));
    let n_samples = plan.n_trainers * n_threads * N_BATCHES * BATCH;
    n_samples as f64 / begin.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let folder = files();
    let queued = Config::of(Mode::Async);
    for mode in ["sync", "async"] {
        let plan = |n_trainers| match mode {
            "sync" => Plan::sync(1, n_trainers),
            _ => Plan::with(1, n_trainers, queued.clone()),
        };
        let (mut one, mut many) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            one.push(samples_per_s(&plan(1), &folder, 1));
            many.push(samples_per_s(&plan(TRAINERS), &folder, THREADS));
        }
        let ratios = one.iter().zip(&many).map(|(one, many)| many / one).collect();
        let ratio = median(ratios);
        let many = median(many);
        let one = median(one);
        println!("BENCH contention_{mode} ratio={ratio:.3} ours={many:.0} against=one={one:.0}");
    }
}
