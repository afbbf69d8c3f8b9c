//! Several threads in each trainer: their gradients, and that none of them is lost.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::fmt::Write;
use std::path::Path;

use data::{Dataset, DatasetKind, Slot};
use program::backward::Limits;
use program::distributed::Mode;
use program::layers::{self, Auc, CrossEntropy, Data, Embedding, Fc};
use program::optimizer::{Optimizer, Sgd};
use program::{Net, Var};
use tempfile::TempDir;
use tensor::DType;
use testing::close::{Tolerance, assert_tensor};
use testing::job::{self, Outcome, Plan};
use transpile::Config;

const BATCH: usize = 4;
const N_WORDS: i64 = 30;

/// One word and two numbers decide about a click; keeps the AUC.
fn net() -> (Net, Var) {
    net_with(Embedding { is_sparse: true, ..Embedding::default() })
}

fn net_with(table: Embedding) -> (Net, Var) {
    let mut net = Net::with_seed(90);
    let b = &mut net.builder();
    let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
    let word = layers::data(b, "word", &[1], ids.clone()).unwrap();
    let x = layers::data(b, "x", &[2], Data::default()).unwrap();
    let label = layers::data(b, "label", &[1], Data { lod_level: 0, ..ids }).unwrap();
    let row = layers::embedding(b, &word, [N_WORDS, 3], table).unwrap();
    let all = layers::concat(b, &[row, x], 1, None).unwrap();
    let guess = layers::fc(b, &[all], 2, Fc { act: Some("softmax"), ..Fc::default() }).unwrap();
    let cost = layers::cross_entropy(b, &guess, &label, CrossEntropy::default()).unwrap();
    let loss = layers::mean(b, &cost, None).unwrap();
    layers::auc(b, &guess, &label, Auc::default()).unwrap();
    Optimizer::new(Sgd, 0.1).minimize(b, &loss, &Limits::default()).unwrap();
    (net, loss)
}

/// Writes samples `first..first + n` of an endless list.
fn write_part(folder: &Path, name: &str, first: usize, n: usize) -> String {
    let mut text = String::new();
    for at in first..first + n {
        let word = at * 7 % N_WORDS as usize;
        let a = at * 5 % 11;
        let b = at * 3 % 7;
        let click = u8::from(word.is_multiple_of(3) || a > b + 2);
        writeln!(text, "1 {word} 2 {} {} 1 {click}", a as f32 / 11.0, b as f32 / 7.0).unwrap();
    }
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

/// Files of `n_batches` batches each; file `k` has the samples that come after those of `k - 1`.
struct Files(TempDir);

impl Files {
    fn new(n_files: usize, n_batches: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for file in 0..n_files {
            let n = n_batches * BATCH;
            write_part(folder.path(), &format!("part-{file}"), file * n, n);
        }
        Self(folder)
    }

    /// A dataset with a thread for each of these files.
    fn dataset(&self, files: std::ops::Range<usize>) -> Dataset {
        let mut dataset = Dataset::new(DatasetKind::Queue);
        let settings = dataset.settings_mut();
        settings.slots = vec![
            Slot::ids("word"),
            Slot::floats("x").dense(&[-1, 2]),
            Slot::ids("label").dense(&[-1, 1]),
        ];
        settings.batch_size = BATCH;
        settings.n_threads = files.len();
        let path = |file| self.0.path().join(format!("part-{file}")).to_string_lossy().into_owned();
        settings.files = files.map(path).collect();
        dataset
    }
}

/// Runs a job whose trainers have so many files each, and a thread for each file.
fn train(plan: &Plan, files: &Files, n_threads: usize) -> Outcome {
    job::run_pass(plan, net, |id| files.dataset(id * n_threads..(id + 1) * n_threads))
}

fn half_async() -> Config {
    Config::of(Mode::HalfAsync)
}

fn in_background() -> Config {
    Config::of(Mode::Async)
}

#[track_caller]
fn assert_same(left: &Outcome, right: &Outcome, tolerance: Tolerance) {
    let is_state = |name: &str| name.starts_with("_generated") || name.starts_with("learning");
    let names: Vec<&String> = left.saved.keys().filter(|name| !is_state(name)).collect();
    assert!(names.len() >= 3, "{names:?}");
    for name in names {
        assert_tensor(name, &left.saved[name], &right.saved[name], tolerance);
    }
}

/// How many samples a trainer's AUC has counted.
fn n_counted(outcome: &Outcome, trainer: usize) -> f64 {
    let count = |name: &str| {
        let tensor = outcome.of_trainer(trainer, name);
        (0..tensor.len()).map(|at| tensor.get_f64(at)).sum::<f64>()
    };
    count("_generated_var_2") + count("_generated_var_3")
}

#[test]
fn two_threads_of_one_trainer_are_two_trainers_when_all_step_together() {
    let files = Files::new(2, 12);
    let threads = train(&Plan::sync(2, 1), &files, 2);
    let trainers = train(&Plan::sync(2, 2), &files, 1);
    assert_same(&threads, &trainers, Tolerance::of(0.0));
    assert_eq!(n_counted(&threads, 0), (2 * 12 * BATCH) as f64);
    let again = train(&Plan::sync(1, 1), &files, 2);
    assert_same(&threads, &again, Tolerance::of(0.0));
}

/// Rows of a table that is spread by id are fetched by every thread for itself.
#[test]
fn threads_share_a_spread_table() {
    let spread =
        || net_with(Embedding { is_sparse: true, is_distributed: true, ..Embedding::default() });
    let files = Files::new(2, 12);
    let train = |plan: &Plan, n_threads: usize| {
        let dataset = |id: usize| files.dataset(id * n_threads..(id + 1) * n_threads);
        job::run_pass(plan, spread, dataset)
    };
    let (threads, trainers) = (train(&Plan::sync(2, 1), 2), train(&Plan::sync(2, 2), 1));
    for name in ["fc_0.w_0", "fc_0.b_0"] {
        // Each step depends on every row that was learnt before.
        assert_eq!(threads.saved[name], trainers.saved[name], "{name}");
    }
    assert_eq!(n_counted(&threads, 0), (2 * 12 * BATCH) as f64);
}

#[test]
fn four_workers_in_any_arrangement() {
    let files = Files::new(4, 8);
    let two_by_two = train(&Plan::sync(2, 2), &files, 2);
    let four = train(&Plan::sync(3, 4), &files, 1);
    assert_same(&two_by_two, &four, Tolerance::of(1e-6));
}

#[test]
fn who_has_no_more_data_is_not_waited_for() {
    let files = Files::new(2, 6);
    // The second thread's file is shorter: the first one continues alone.
    write_part(files.0.path(), "part-1", 24, 2 * BATCH);
    for plan in [Plan::sync(2, 1), Plan::with(2, 1, half_async())] {
        let outcome = train(&plan, &files, 2);
        assert_eq!(n_counted(&outcome, 0), (8 * BATCH) as f64);
        assert_eq!(outcome.losses[0].len(), 6);
    }
}

#[test]
fn half_async_threads_step_together() {
    let files = Files::new(2, 12);
    // With one trainer no gradients of others come in between.
    let half = train(&Plan::with(2, 1, half_async()), &files, 2);
    let sync = train(&Plan::sync(2, 1), &files, 2);
    assert_same(&half, &sync, Tolerance::of(1e-6));
}

#[test]
fn async_and_geo_threads_lose_nothing() {
    let geo = Config::of(Mode::Geo { push_every: 5 });
    for config in [in_background(), geo] {
        let files = Files::new(4, 60);
        let outcome = train(&Plan::with(2, 2, config.clone()), &files, 2);
        for trainer in 0..2 {
            assert_eq!(n_counted(&outcome, trainer), (2 * 60 * BATCH) as f64, "{config:?}");
            let losses = &outcome.losses[trainer];
            let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
            let (early, late) = (mean(&losses[..10]), mean(&losses[50..]));
            assert!(late < early, "{early} {late}");
        }
    }
}

/// Rows are asked for a batch ahead and parameters come in the background: the values that a step
/// reads lack its trainer's last step at most, and are never older.
#[test]
fn a_pass_in_the_background_lacks_one_own_step_at_most() {
    let (files, n_batches) = (Files::new(2, 80), 80);
    let outcome = train(&Plan::with(2, 2, in_background()), &files, 1);
    assert_eq!(outcome.staleness.len(), 2);
    for staleness in &outcome.staleness {
        assert_eq!(staleness.n_steps, n_batches);
        assert!(staleness.max <= 1 && staleness.rows_max <= 1, "{staleness:?}");
    }
    for stats in &outcome.stats {
        assert_eq!(stats.updates, 2 * n_batches, "one for each step");
    }
}
