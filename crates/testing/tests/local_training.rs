//! Training in one process: the same losses, step by step, as Fluid's.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::Net;
use program::optimizer::*;
use serde_json::Value as Json;
use tensor::{Lod, Tensor};
use testing::close::{Tolerance, assert_close, assert_tensor};
use testing::golden::{self, Golden};
use testing::models::{self, Ctr, CtrVars};
use testing::session::Session;
use train::{Feed, Options};

/// The tolerance of a step in its loss, and of a run at its end in parameters and in the state of
/// optimizers; sums of squares grow beyond 1, so there it is a share.
const LOSS: Tolerance = Tolerance::relative(1e-5);
const PARAMETER: Tolerance = Tolerance::absolute(2e-5);
const STATE: Tolerance = Tolerance::of(2e-5);

/// Compares what a run left behind with the golden end of it.
#[track_caller]
fn check_final(golden: &Golden, session: &Session) {
    for (name, expected) in golden.under("final/") {
        let is_parameter = session.net.main.parameters().any(|param| param.name == name);
        let tolerance = if is_parameter { PARAMETER } else { STATE };
        assert_tensor(name, &session.tensor(name), expected, tolerance);
    }
}

// ---- linear regression

const N_FEATURES: usize = 13;

/// A batch of rows of the training set: features as `x`, the price as `y`.
fn housing_batch(train: &[f32], rows: impl Iterator<Item = usize> + Clone) -> Feed {
    let row = |at: usize| &train[at * (N_FEATURES + 1)..][..=N_FEATURES];
    let x: Vec<f32> = rows.clone().flat_map(|at| &row(at)[..N_FEATURES]).copied().collect();
    let y: Vec<f32> = rows.map(|at| row(at)[N_FEATURES]).collect();
    let x = Tensor::new([y.len(), N_FEATURES], &x).unwrap();
    Feed::new().with("x", x).with("y", Tensor::new([y.len(), 1], &y).unwrap())
}

#[test]
fn fit_a_line_follows_fluid() {
    let golden = Golden::load("fit_a_line.npz");
    let config = &golden::json("config.json")["fit_a_line"];
    let mut net = Net::with_seed(config["seed"].as_i64().unwrap() as i32);
    let loss = models::fit_a_line(&mut net, config["lr"].as_f64().unwrap() as f32).unwrap();
    let mut session = Session::start(net);
    for (name, expected) in golden.under("init/") {
        assert_tensor(name, &session.tensor(name), expected, Tolerance::EXACT);
    }
    let train = golden.tensor("train").data::<f32>().unwrap();
    let mut losses = Vec::new();
    for step in 0..golden.tensor("rows").dims()[0] {
        let rows = golden.part("rows", step);
        let rows = rows.data::<i32>().unwrap().iter().map(|&row| row as usize);
        let got = session.run(&mut housing_batch(train, rows), &[loss.name()]);
        losses.push(got[0].get_f64(0));
    }
    assert_close("loss", &losses, &golden.numbers("losses"), LOSS);
    check_final(&golden, &session);
}

/// The promise of `examples/fit_a_line.rs`, with another order and seed.
#[test]
fn fit_a_line_comes_below_ten() {
    let golden = Golden::load("fit_a_line.npz");
    let train = golden.tensor("train").data::<f32>().unwrap();
    let mut order: Vec<usize> = (0..train.len() / (N_FEATURES + 1)).collect();
    let mut net = Net::with_seed(7);
    let loss = models::fit_a_line(&mut net, 0.001).unwrap();
    let mut session = Session::start(net);
    let mut random = 7u64;
    for _ in 0..100 {
        for last in (1..order.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(last, (random >> 33) as usize % (last + 1));
        }
        for batch in order.chunks(20) {
            let mut feed = housing_batch(train, batch.iter().copied());
            if session.run(&mut feed, &[loss.name()])[0].get_f64(0) < 10.0 {
                return;
            }
        }
    }
    panic!("no batch came below 10");
}

// ---- click-through rate

fn ctr_model(config: &Json, run: &str) -> Ctr {
    let number = |name: &str| config[name].as_i64().unwrap();
    Ctr {
        n_slots: number("slots") as usize,
        n_dense: number("dense"),
        n_rows: number("rows"),
        dim: number("dim"),
        hidden: config["hidden"].as_array().unwrap().iter().flat_map(Json::as_i64).collect(),
        num_thresholds: number("thresholds") as i32,
        slide_steps: number("slide") as i32,
        pooled: run.ends_with("_pool"),
        is_sparse: !run.ends_with("_dense"),
    }
}

fn optimizer(config: &Json, run: &str) -> Optimizer {
    let args = &config["optimizers"][run];
    let number = |name: &str| args[name].as_f64().unwrap() as f32;
    let rate = number("lr");
    match run.trim_end_matches("_pool") {
        "sgd" => Optimizer::new(Sgd, rate),
        "adam" => Optimizer::new(Adam::default(), rate),
        "adam_lazy" => Optimizer::new(Adam { lazy_mode: true, ..Adam::default() }, rate),
        "adagrad" => Optimizer::new(Adagrad::default(), rate),
        "momentum" => {
            let momentum = number("momentum");
            Optimizer::new(Momentum { momentum, use_nesterov: false }, rate)
        }
        "rmsprop" => Optimizer::new(RmsProp { rho: number("rho"), ..RmsProp::default() }, rate),
        "ftrl_dense" => {
            let (l1, l2) = (number("l1"), number("l1"));
            Optimizer::new(Ftrl { l1, l2, ..Ftrl::default() }, rate)
        }
        other => panic!("the golden runs have an optimizer that is not in the table: {other}"),
    }
}

/// The batches of all runs, with one id per sample and slot, or with several.
struct Batches {
    golden: Golden,
    pooled: bool,
    /// Ids taken so far from the flat list of the pooled runs.
    n_taken: usize,
}

impl Batches {
    fn feed(&mut self, step: usize) -> Feed {
        let mut feed = Feed::new();
        feed.set("dense_input", self.golden.part("dense", step));
        feed.set("label", self.golden.part("label", step));
        let ids = self.golden.part("ids", step);
        let lengths = self.golden.part("pool_lens", step);
        let (n_samples, n_slots) = (ids.dims()[0], ids.dims()[1]);
        for slot in 0..n_slots {
            let places = (0..n_samples).map(|sample| sample * n_slots + slot);
            let tensor = if self.pooled {
                self.take(places.map(|at| lengths.get_f64(at) as usize).collect())
            } else {
                let ids = ids.data::<i64>().unwrap();
                ragged(&places.map(|at| ids[at]).collect::<Vec<i64>>(), vec![1; n_samples])
            };
            feed.set(&format!("C{}", slot + 1), tensor);
        }
        feed
    }

    fn take(&mut self, lengths: Vec<usize>) -> Tensor {
        let n: usize = lengths.iter().sum();
        let all = self.golden.tensor("pool_ids").data::<i64>().unwrap();
        let ids = &all[self.n_taken..][..n];
        self.n_taken += n;
        ragged(ids, lengths)
    }
}

fn ragged(ids: &[i64], lengths: Vec<usize>) -> Tensor {
    let mut tensor = Tensor::new([ids.len(), 1], ids).unwrap();
    tensor.set_lod(Lod::from_lengths(lengths));
    tensor
}

/// One golden run, replayed.
struct Replay {
    session: Session,
    /// Loss, AUC and batch AUC, a list each.
    series: [Vec<f64>; 3],
}

fn replay(run: &str, n_steps: usize, options: Options) -> Replay {
    let config = &golden::json("config.json")["ctr"];
    let model = ctr_model(config, run);
    let mut net = Net::with_seed(config["seed"].as_i64().unwrap() as i32);
    let vars = models::ctr(&mut net, &model, optimizer(config, run)).unwrap();
    let mut session = Session::start_with(net, options);
    if run == "sgd" {
        check_initial(&session);
    }
    let golden = Golden::load("ctr_batches.npz");
    let mut batches = Batches { golden, pooled: model.pooled, n_taken: 0 };
    let CtrVars { loss, auc, batch_auc } = &vars;
    let mut series = [Vec::new(), Vec::new(), Vec::new()];
    for step in 0..n_steps {
        let fetch = [loss.name(), auc.name(), batch_auc.name()];
        let got = session.run(&mut batches.feed(step), &fetch);
        series.iter_mut().zip(&got).for_each(|(list, tensor)| list.push(tensor.get_f64(0)));
    }
    Replay { session, series }
}

/// Only the sgd file holds them: they are the same in all runs.
fn check_initial(session: &Session) {
    let golden = Golden::load("ctr_sgd.npz");
    assert_eq!(golden.under("init/").count(), 7);
    for (name, expected) in golden.under("init/") {
        assert_tensor(name, &session.tensor(name), expected, Tolerance::EXACT);
    }
}

#[track_caller]
fn check_ctr(run: &str) {
    let golden = Golden::load(&format!("ctr_{run}.npz"));
    let n_steps = golden.tensor("losses").len();
    let Replay { session, series } = replay(run, n_steps, Options::default());
    for (name, actual) in ["losses", "auc", "batch_auc"].into_iter().zip(&series) {
        assert_close(&format!("{run} {name}"), actual, &golden.numbers(name), LOSS);
    }
    check_final(&golden, &session);
}

#[test]
fn ctr_with_sgd() {
    check_ctr("sgd");
}

#[test]
fn ctr_with_adam() {
    check_ctr("adam");
}

#[test]
fn ctr_with_lazy_adam() {
    check_ctr("adam_lazy");
}

#[test]
fn ctr_with_adagrad() {
    check_ctr("adagrad");
}

#[test]
fn ctr_with_momentum() {
    check_ctr("momentum");
}

#[test]
fn ctr_with_rmsprop() {
    check_ctr("rmsprop");
}

#[test]
fn ctr_with_ftrl_and_a_dense_table() {
    check_ctr("ftrl_dense");
}

#[test]
fn ctr_with_pooled_slots_and_sgd() {
    check_ctr("sgd_pool");
}

#[test]
fn ctr_with_pooled_slots_and_lazy_adam() {
    check_ctr("adam_lazy_pool");
}

#[test]
fn every_golden_run_is_replayed() {
    let replayed = [
        "adagrad",
        "adam",
        "adam_lazy",
        "adam_lazy_pool",
        "ftrl_dense",
        "momentum",
        "rmsprop",
        "sgd",
        "sgd_pool",
    ];
    let config = golden::json("config.json");
    let runs: Vec<_> = config["ctr"]["optimizers"].as_object().unwrap().keys().collect();
    assert_eq!(runs, replayed);
}

/// Fusing ops and sharing memory is the executor's own business: not a bit changes.
#[test]
fn fusion_and_shared_memory_change_no_bit() {
    for run in ["sgd", "adam", "sgd_pool"] {
        let plain = Options { fuse: false, reuse_memory: false, ..Options::default() };
        let (fast, plain) = (replay(run, 10, Options::default()), replay(run, 10, plain));
        assert_eq!(fast.series, plain.series, "{run}");
        for name in ["SparseFeatFactors", "fc_0.w_0", "fc_2.b_0"] {
            assert_eq!(fast.session.tensor(name), plain.session.tensor(name), "{run} {name}");
        }
    }
}

#[test]
fn two_runs_give_the_same_bits() {
    let (one, two) =
        (replay("adam", 10, Options::default()), replay("adam", 10, Options::default()));
    assert_eq!(one.series, two.series);
}
