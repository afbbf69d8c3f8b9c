//! Synchronous training with servers: the losses of Fluid's own runs, and the same bits however
//! many servers there are.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::distributed::Mode;
use serde_json::Value as Json;
use tensor::{Lod, Tensor};
use testing::close::{Tolerance, assert_close, assert_tensor};
use testing::job::{self, Plan};
use testing::recorded::RecordedJob;
use testing::{nets, reference};
use train::Feed;
use transpile::Config;

/// Replays one of Fluid's recorded runs with real sockets.
#[track_caller]
fn follows_fluid(name: &str) {
    let recorded = RecordedJob::load(name);
    let (golden, case) = (&recorded.golden, &recorded.case);
    let mut plan = recorded.plan();
    plan.init = recorded.init().collect();
    let feed = |trainer: usize, step: usize| recorded.feed(trainer, step);
    let outcome = job::run(&plan, || nets::build(case).unwrap(), feed, recorded.n("steps"));
    for (trainer, losses) in outcome.losses.iter().enumerate() {
        let key = format!("trainer{trainer}/losses");
        assert_close(&key, losses, &golden.numbers(&key), Tolerance::of(1e-5));
    }
    for (name, expected) in golden.under("final/").chain(golden.under("state/")) {
        let saved = outcome.saved.get(name).unwrap_or_else(|| panic!("{name} was not saved"));
        assert_tensor(name, saved, expected, Tolerance::of(1e-5));
    }
    // Fluid leaves the learning rate out of a distributed save.
    let saved = outcome.saved.keys().filter(|name| !name.starts_with("learning_rate"));
    let expected: Vec<&String> = golden.words("saved_files").iter().collect();
    assert_eq!(saved.collect::<Vec<_>>(), expected);
}

#[test]
fn one_layer_on_one_server() {
    follows_fluid("fit_sgd_2x1");
}

#[test]
fn two_layers_on_two_servers() {
    follows_fluid("fit_sgd_2x2");
}

#[test]
fn adam_on_two_servers() {
    follows_fluid("fit_adam_2x2");
}

#[test]
fn momentum_with_weight_decay_and_a_falling_rate_on_the_server() {
    follows_fluid("fit_momentum_l2_decay_2x1");
}

#[test]
fn parameters_cut_into_pieces() {
    follows_fluid("fit_sliced_momentum_2x2");
}

#[test]
fn a_sparse_table_on_two_servers() {
    follows_fluid("ctr_sgd_2x2");
}

#[test]
fn a_sparse_table_with_adam() {
    follows_fluid("ctr_adam_2x2");
}

/// A sparse net whose table and first layer are cut as soon as there are two servers.
fn sparse(optimizer: &str) -> Json {
    serde_json::json!({
        "net": {"kind": "ctr", "slots": 3, "rows": 10001, "dim": 4, "hidden": [700], "mean": true},
        "optimizer": optimizer, "lr": 0.05, "seed": 90,
    })
}

fn sparse_feed(trainer: usize, step: usize) -> Feed {
    let n = 8;
    let at = |k: usize, row: usize| (trainer * 7919 + step * 104_729 + row * 31 + k * 5) as i64;
    let mut feed = Feed::new();
    for k in 0..3 {
        // Few ids, so that trainers touch each other's rows.
        let ids: Vec<i64> =
            (0..n).map(|row| at(k, row) * 2503 % 10001 % (9 + 3400 * (k as i64 + 1))).collect();
        let mut ids = Tensor::new([n, 1], &ids).unwrap();
        ids.set_lod(Lod::from_lengths(vec![1; n]));
        feed = feed.with(&format!("C{}", k + 1), ids);
    }
    let labels: Vec<i64> = (0..n).map(|row| at(0, row) / 3 % 2).collect();
    feed.with("label", Tensor::new([n, 1], &labels).unwrap())
}

fn trained(optimizer: &str, n_servers: usize, n_trainers: usize) -> job::Outcome {
    let case = sparse(optimizer);
    let plan = Plan::sync(n_servers, n_trainers);
    job::run(&plan, || nets::build(&case).unwrap(), sparse_feed, 6)
}

/// The number of servers, timing and repetition change not a bit of the result.
#[test]
fn servers_do_not_change_a_bit() {
    for optimizer in ["sgd", "momentum", "adam", "adagrad"] {
        for n_trainers in [1, 2, 4] {
            let one = trained(optimizer, 1, n_trainers);
            for n_servers in [2, 3, 1] {
                let other = trained(optimizer, n_servers, n_trainers);
                let what = format!("{optimizer}, {n_trainers} trainers, {n_servers} servers");
                assert_eq!(one.losses, other.losses, "{what}");
                assert_eq!(one.saved, other.saved, "{what}");
            }
        }
    }
}

/// A dense net whose first layer is cut as soon as there are two servers.
fn dense(optimizer: &str) -> Json {
    let net = serde_json::json!({"kind": "fit", "features": 30, "hidden": [700], "tanh": true});
    serde_json::json!({"net": net, "optimizer": optimizer, "lr": 0.01, "seed": 90})
}

fn dense_feed(trainer: usize, step: usize) -> Feed {
    dense_rows(step, trainer * 4..trainer * 4 + 4)
}

/// Some rows of a batch.
fn dense_rows(step: usize, rows: std::ops::Range<usize>) -> Feed {
    let n = rows.len();
    let at = |row: usize, k: usize| ((step * 977 + row * 31 + k * 7) % 101) as f32 / 101.0 - 0.5;
    let x: Vec<f32> = rows.clone().flat_map(|row| (0..30).map(move |k| at(row, k))).collect();
    let y: Vec<f32> = rows.map(|row| at(row, 3) * 2.0 + 0.25).collect();
    Feed::new()
        .with("x", Tensor::new([n, 30], &x).unwrap())
        .with("y", Tensor::new([n, 1], &y).unwrap())
}

fn sparse_rows(step: usize, rows: std::ops::Range<usize>) -> Feed {
    let n = rows.len();
    let at = |k: usize, row: usize| (step * 104_729 + row * 31 + k * 5) as i64;
    let mut feed = Feed::new();
    for k in 0..3 {
        let ids: Vec<i64> = rows.clone().map(|row| at(k, row) * 2503 % 10001 % 3409).collect();
        let mut ids = Tensor::new([n, 1], &ids).unwrap();
        ids.set_lod(Lod::from_lengths(vec![1; n]));
        feed = feed.with(&format!("C{}", k + 1), ids);
    }
    let labels: Vec<i64> = rows.map(|row| at(0, row) / 3 % 2).collect();
    feed.with("label", Tensor::new([n, 1], &labels).unwrap())
}

/// Keeps a trainer waiting for up to 8 ms, each time for another time.
fn dawdle(trainer: usize, step: usize) {
    use std::hash::{BuildHasher, RandomState};
    let ms = RandomState::new().hash_one((trainer, step)) % 9;
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

const OPTIMIZERS: [&str; 4] = ["sgd", "momentum", "adam", "adagrad"];

/// Fleet's synchronous strategy.
fn by_communicator() -> Config {
    Config::of(Mode::Sync)
}

#[track_caller]
fn is_the_average(case: &Json, feed: fn(usize, usize) -> Feed) {
    for n_trainers in [1, 2, 4] {
        let (net, loss) = nets::build(case).unwrap();
        let one = reference::run(&net, &loss, n_trainers, feed, 5);
        // No trainer is ahead of another: the same bits.
        let strict = Config { mode: Mode::Ssp { staleness: 0 }, ..Config::default() };
        let mut configs = vec![Config::default(), by_communicator()];
        if n_trainers == 2 {
            configs.extend([strict, Config::of(Mode::Ssp { staleness: 0 })]);
        }
        for config in configs {
            let kind = (config.mode, config.via_communicator);
            let plan = Plan::with(2, n_trainers, config);
            let slow_feed = |trainer, step| {
                dawdle(trainer, step);
                feed(trainer, step)
            };
            let many = job::run(&plan, || nets::build(case).unwrap(), slow_feed, 5);
            let what = format!("{}, {n_trainers} trainers, {kind:?}", case["optimizer"]);
            assert_eq!(many.losses, one.losses, "{what}");
            assert!(many.saved.len() >= 4, "{what}: {:?}", many.saved.keys());
            for (name, tensor) in &many.saved {
                let expected = one.scope.get(name).unwrap();
                assert_eq!(Some(tensor), expected.tensor(), "{what}: {name}");
            }
        }
    }
}

/// One process that averages the same gradients in trainer order gets the same bits.
#[test]
fn dense_training_is_the_average_of_gradients() {
    OPTIMIZERS.iter().for_each(|optimizer| is_the_average(&dense(optimizer), dense_feed));
}

#[test]
fn sparse_training_is_the_average_of_gradients() {
    OPTIMIZERS.iter().for_each(|optimizer| is_the_average(&sparse(optimizer), sparse_feed));
}

/// Its ops run other blocks, which stay in the trainer's program without anything that runs them.
#[test]
fn a_rate_that_falls_in_steps_is_the_servers() {
    let mut case = dense("momentum");
    case["piecewise"] = serde_json::json!({"boundaries": [2, 3], "values": [0.05, 0.02, 0.01]});
    is_the_average(&case, dense_feed);
}

/// Trains on parts of one batch and on the whole of it.
#[track_caller]
fn parts_make_a_whole(case: &Json, batch: fn(usize, std::ops::Range<usize>) -> Feed) {
    let mut case = case.clone();
    if case["optimizer"] == "adam" || case["optimizer"] == "adagrad" {
        // Their first steps have one size, also where a gradient is nothing but rounding: the rate says
        // how much of the last bit's noise is seen.
        case["lr"] = 0.001.into();
    }
    let (net, loss) = nets::build(&case).unwrap();
    let whole = reference::run(&net, &loss, 1, |_, step| batch(step, 0..16), 5);
    for n_trainers in [1, 2, 4] {
        let n = 16 / n_trainers;
        let feed = |trainer: usize, step: usize| batch(step, trainer * n..trainer * n + n);
        let plan = Plan::sync(2, n_trainers);
        let many = job::run(&plan, || nets::build(&case).unwrap(), feed, 5);
        for (name, tensor) in &many.saved {
            let expected = whole.scope.get(name).unwrap();
            let what = format!("{}, {n_trainers} trainers: {name}", case["optimizer"]);
            assert_tensor(&what, tensor, expected.tensor().unwrap(), Tolerance::of(1e-6));
        }
    }
}

#[test]
fn any_number_of_trainers_trains_dense_parameters_alike() {
    OPTIMIZERS.iter().for_each(|optimizer| parts_make_a_whole(&dense(optimizer), dense_rows));
}

#[test]
fn any_number_of_trainers_trains_tables_alike() {
    OPTIMIZERS.iter().for_each(|optimizer| parts_make_a_whole(&sparse(optimizer), sparse_rows));
}

/// Two devices of a trainer make one step; rows of tables are asked for by both at once.
#[test]
fn devices_of_a_trainer_train_as_one() {
    let case = sparse("sgd");
    for config in [Config::default(), by_communicator()] {
        let plan = Plan { config, ..Plan::sync(2, 2) };
        let build = || nets::build(&case).unwrap();
        let one = job::run(&plan, build, sparse_feed, 5);
        let two = job::run(&Plan { n_devices: 2, ..plan }, build, sparse_feed, 5);
        for (name, tensor) in &one.saved {
            assert_tensor(name, &two.saved[name], tensor, Tolerance::of(1e-6));
        }
        let counts = |outcome: &job::Outcome| -> Vec<(u64, u64)> {
            outcome.stats.iter().map(|stats| (stats.rounds, stats.pushes)).collect()
        };
        assert_eq!(counts(&one), counts(&two), "one send for each step");
        assert_eq!(one.stats[0].rounds, 5);
    }
}
