//! Synchronous training with servers: the losses of Fluid's own runs, and the same bits however
//! many servers there are.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use serde_json::Value as Json;
use tensor::{Lod, Tensor};
use testing::close::{Tolerance, assert_close, assert_tensor};
use testing::golden::{self, Golden};
use testing::job::{self, Plan};
use testing::nets;
use train::Feed;

/// Replays one of Fluid's recorded runs with real sockets.
#[track_caller]
fn follows_fluid(name: &str) {
    let golden = Golden::load(&format!("ps_{name}.npz"));
    let config = golden::json("config.json");
    let cases = config["ps"].as_array().unwrap();
    let mut case = cases.iter().find(|case| case["name"] == name).unwrap().clone();
    case["net"]["tanh"] = true.into();
    case["net"]["mean"] = true.into();
    let n = |key: &str| case[key].as_u64().unwrap() as usize;
    let mut plan = Plan::sync(n("servers"), n("trainers"));
    plan.config.fluid_block_init = true;
    let init = golden.under("init/").map(|(name, tensor)| (name.to_string(), tensor.clone()));
    plan.init = init.collect();
    let feed = |trainer: usize, step: usize| golden_feed(&golden, trainer, step);
    let outcome = job::run(&plan, || nets::build(&case).unwrap(), feed, n("steps"));
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

fn golden_feed(golden: &Golden, trainer: usize, step: usize) -> Feed {
    let prefix = format!("trainer{trainer}/batch/");
    let names: Vec<String> = golden.under(&prefix).map(|(name, _)| name.to_string()).collect();
    names.iter().fold(Feed::new(), |feed, name| {
        let mut batch = golden.part(&format!("{prefix}{name}"), step);
        if name.starts_with('C') {
            batch.set_lod(Lod::from_lengths(vec![1; batch.dims()[0]]));
        }
        feed.with(name, batch)
    })
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
