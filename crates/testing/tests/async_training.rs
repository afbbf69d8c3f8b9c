//! Training without waiting for each other: the sums of each mode.
//!
//! The net's gradients do not depend on its parameters, and every number has few bits: the results
//! are exact, whatever the order in which gradients arrive.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::distributed::Mode;
use tensor::Tensor;
use testing::close::{Tolerance, assert_tensor};
use testing::job::{self, Outcome, Plan};
use testing::linear::{self, COMMON, LR, Linear, N_FEATURES, ROW_GRAD, own_row};
use testing::{nets, reference};
use train::remote::{CommunicatorConfig, Staleness};
use transpile::Config;

const DENSE: Linear = Linear { table: false, is_distributed: false, halving: false };
const SPARSE: Linear = Linear { table: true, ..DENSE };

fn run(plan: &Plan, net: Linear, n_steps: usize) -> Outcome {
    job::run(plan, || net.build(), |trainer, step| net.feed(trainer, step), n_steps)
}

/// Gradients pass through queues.
fn queued() -> Config {
    Config::of(Mode::Async)
}

fn half_async() -> Config {
    Config::of(Mode::HalfAsync)
}

fn geo(push_every: u32) -> Config {
    Config::of(Mode::Geo { push_every })
}

fn all(n_trainers: usize, n_steps: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n_trainers).flat_map(move |trainer| (0..n_steps).map(move |step| (trainer, step)))
}

/// `w` after gradients that add up to this.
fn w_after(sum: [f32; N_FEATURES]) -> Tensor {
    Tensor::new([N_FEATURES, 1], &sum.map(|g| 1.0 - LR * g)).unwrap()
}

fn row(table: &Tensor, id: i64) -> &[f32] {
    &table.data::<f32>().unwrap()[id as usize * 4..][..4]
}

/// Every trainer's every step was applied once; `share` of it.
#[track_caller]
fn assert_applied(table: &Tensor, n_trainers: usize, n_steps: usize, share: f32) {
    let after = |n: usize| [0.5 - LR * ROW_GRAD * share * n as f32; 4];
    assert_eq!(row(table, COMMON), after(n_trainers * n_steps));
    for trainer in 0..n_trainers {
        assert_eq!(row(table, own_row(trainer)), after(n_steps), "of trainer {trainer}");
    }
    assert_eq!(row(table, COMMON + 1), [0.5; 4], "a row that nobody used");
}

fn n_pushes(outcome: &Outcome) -> u64 {
    outcome.stats.iter().map(|stats| stats.pushes).sum()
}

#[test]
fn plain_async_applies_every_gradient_whole() {
    let outcome = run(&Plan::asynchronous(2, 3), SPARSE, 8);
    assert_eq!(outcome.saved["w"], w_after(linear::sum(all(3, 8))));
    assert_applied(&outcome.saved["table"], 3, 8, 1.0);
    // For each step: `w` and two halves of the table.
    assert_eq!(n_pushes(&outcome), 3 * 8 * 3);
    assert!(outcome.stats.iter().all(|stats| stats.repeated == 0 && stats.rounds == 0));
}

/// A trainer that is alone and waits for its own parameters trains as on one machine.
#[test]
fn alone_without_a_queue_is_local_training() {
    let net = serde_json::json!(
        {"kind": "ctr", "slots": 1, "rows": 10001, "dim": 4, "hidden": [700], "mean": true}
    );
    let feed = |_: usize, step: usize| {
        let ids = Tensor::new([4, 1], &[5i64, 7 + step as i64, 9000, 7]).unwrap();
        let label = Tensor::new([4, 1], &[0i64, 1, 1, 0]).unwrap();
        train::Feed::new().with("C1", ids).with("label", label)
    };
    for optimizer in ["sgd", "adam"] {
        let case = serde_json::json!({"net": net, "optimizer": optimizer, "lr": 0.05, "seed": 90});
        let build = || nets::build(&case).unwrap();
        let (net, loss) = build();
        let one = reference::run(&net, &loss, 1, feed, 5);
        for plan in [Plan::asynchronous(2, 1), Plan::with(2, 1, half_async())] {
            let outcome = job::run(&plan, build, feed, 5);
            assert_eq!(outcome.losses, one.losses, "{optimizer}");
            for (name, tensor) in &outcome.saved {
                let expected = one.scope.get(name).unwrap();
                assert_eq!(Some(tensor), expected.tensor(), "{optimizer}: {name}");
            }
        }
    }
}

/// Several steps may be under way and go as one.
fn merging(queue_max: usize, fetch_after: u64) -> CommunicatorConfig {
    CommunicatorConfig { queue_max, merge_max: queue_max, fetch_after, is_sum: true }
}

/// However many steps are merged, nothing is lost, and what is merged is one update.
#[test]
fn queued_gradients_are_added_up() {
    let plan = Plan { communicator: merging(4, 1_000), ..Plan::with(2, 2, queued()) };
    let outcome = run(&plan, SPARSE, 8);
    assert_eq!(outcome.saved["w"], w_after(linear::sum(all(2, 8))));
    assert_applied(&outcome.saved["table"], 2, 8, 1.0);
    for stats in &outcome.stats {
        assert!((2 * 2..=2 * 8).contains(&stats.updates), "{stats:?}");
    }
    // For each update: `w` on one server, half of the table on each.
    let n_updates: u64 = outcome.stats.iter().map(|stats| stats.updates).sum();
    assert_eq!(2 * n_pushes(&outcome), 3 * n_updates);
}

/// Parameters come after so many sends, and once more at the end.
#[test]
fn parameters_are_fetched_after_enough_was_sent() {
    let plan = Plan { communicator: merging(4, 1_000), ..Plan::with(2, 1, queued()) };
    let feed = |_: usize, _: usize| DENSE.feed(0, 0);
    let late = job::run(&plan, || DENSE.build(), feed, 8);
    let first = late.losses[0][0];
    assert!(late.losses[0].iter().all(|&loss| loss == first), "{:?}", late.losses);
    assert_eq!(late.of_trainer(0, "w"), late.saved["w"]);
    let none_seen = Staleness { n_steps: 8, sum: (0..8).sum(), max: 7, rows_max: 0 };
    assert_eq!(late.staleness, [none_seen]);
    let often = CommunicatorConfig { fetch_after: 1, ..CommunicatorConfig::default() };
    let plan = Plan { communicator: often, ..plan };
    let early = job::run(&plan, || DENSE.build(), feed, 200);
    // Every step has all of its trainer's but the last: the loss falls by the same each time.
    let losses = &early.losses[0];
    assert!((2..200).all(|step| losses[step] < losses[step - 2]), "{losses:?}");
    assert_eq!(early.of_trainer(0, "w"), early.saved["w"]);
}

/// A step lacks at most as many of its trainer's own steps as may be in flight: one, unless the
/// user allows more.
#[test]
fn no_step_is_older_than_what_may_be_under_way() {
    for queue_max in [1, 2, 20] {
        let plan = Plan { communicator: merging(queue_max, 1), ..Plan::with(2, 2, queued()) };
        let outcome = run(&plan, SPARSE, 60);
        assert_eq!(outcome.saved["w"], w_after(linear::sum(all(2, 60))));
        assert_eq!(outcome.staleness.len(), 2);
        for staleness in &outcome.staleness {
            assert_eq!(staleness.n_steps, 60);
            assert!(staleness.max <= queue_max as u64, "{staleness:?}");
            assert_eq!(staleness.rows_max, 0, "rows are asked for behind all gradients");
        }
    }
}

#[test]
fn what_is_queued_at_the_end_is_sent() {
    let communicator = CommunicatorConfig { queue_max: 64, ..CommunicatorConfig::default() };
    let plan = Plan { communicator, ..Plan::with(2, 2, queued()) };
    let outcome = run(&plan, SPARSE, 50);
    assert_eq!(outcome.saved["w"], w_after(linear::sum(all(2, 50))));
    assert_applied(&outcome.saved["table"], 2, 50, 1.0);
    assert_eq!(n_pushes(&outcome), 2 * 50 * 3);
}

#[test]
fn half_async_trainers_do_not_share() {
    let outcome = run(&Plan::with(2, 2, half_async()), SPARSE, 8);
    assert_eq!(outcome.saved["w"], w_after(linear::sum(all(2, 8))));
    assert_applied(&outcome.saved["table"], 2, 8, 1.0);
    assert_eq!(n_pushes(&outcome), 2 * 8 * 3);
}

/// Trainer 0 steps three times while trainer 1 still has the first parameters.
#[test]
fn staleness_is_what_others_did_meanwhile() {
    let plan = Plan { turns: vec![0, 0, 0, 1, 0], ..Plan::asynchronous(1, 2) };
    let outcome = run(&plan, DENSE, 0);
    let stats = &outcome.stats[0];
    assert_eq!((stats.pushes, stats.staleness_max, stats.staleness_sum), (5, 3, 3 + 1));
    assert_eq!(stats.staleness_mean(), 0.8);
}

/// g + g * g * (p - what the trainer had).
#[test]
fn old_gradients_are_corrected() {
    let config = Config { mode: Mode::Async, enable_dc_asgd: true, ..Config::default() };
    let plan = Plan { turns: vec![0, 1], ..Plan::with(1, 2, config) };
    let outcome = run(&plan, DENSE, 0);
    // 1 - 0.25 * [1, 1, 0.5, -1] after trainer 0; trainer 1 computed its [2, 1, 0.5, -1] at 1.
    let first = [0.75f32, 0.75, 0.875, 1.25];
    assert_eq!(outcome.losses[1][0], 2.5);
    let corrected = [2.0 + 4.0 * -0.25, 1.0 - 0.25, 0.5 + 0.25 * -0.125, -1.0 + 0.25f32];
    let expected: Vec<f32> = first.iter().zip(corrected).map(|(p, g)| p - 0.25 * g).collect();
    assert_eq!(expected, [0.5, 0.5625, 0.7578125, 1.4375]);
    assert_eq!(outcome.saved["w"], Tensor::new([4, 1], &expected).unwrap());
    // A gradient of a trainer that was up to date is not corrected.
    let plan = Plan { turns: vec![0, 0, 0], ..plan };
    assert_eq!(run(&plan, DENSE, 0).saved["w"], w_after(linear::sum(all(1, 3))));
}

/// The rate of a gradient depends on how many steps of any trainer the servers have counted.
#[test]
fn servers_count_the_steps_of_all_trainers() {
    let net = Linear { halving: true, ..DENSE };
    for config in [Config { mode: Mode::Async, ..Config::default() }, half_async(), queued()] {
        let is_queued = config == queued();
        let mut plan = Plan { turns: vec![0, 1, 1, 0], ..Plan::with(1, 2, config) };
        if is_queued {
            // The order of what is queued is not the order of the steps.
            plan = Plan { turns: vec![0, 0, 0, 0], ..plan };
        }
        let outcome = run(&plan, net, 0);
        let mut w = [1.0f32; N_FEATURES];
        let mut n_steps = [0, 0];
        for (n, &trainer) in plan.turns.iter().enumerate() {
            let grad = linear::grad(trainer, n_steps[trainer]);
            n_steps[trainer] += 1;
            w.iter_mut().zip(grad).for_each(|(w, g)| *w -= LR * 0.5f32.powi(n as i32) * g);
        }
        let expected = Tensor::new([N_FEATURES, 1], &w).unwrap();
        if !is_queued {
            assert_tensor("w", &outcome.saved["w"], &expected, Tolerance::of(1e-6));
        }
        let rate = outcome.saved.iter().find(|(name, _)| name.starts_with("learning_rate"));
        if let Some((_, rate)) = rate {
            assert_eq!(rate.get_f64(0), f64::from(LR) / 16.0);
        }
        let counter = &outcome.saved["@LR_DECAY_COUNTER@"];
        assert_eq!(counter.get_f64(0), 4.0, "{:?}", outcome.saved.keys());
    }
}

/// One trainer that exchanges after every step trains as on one machine.
#[test]
fn geo_alone_is_local_training() {
    let case = serde_json::json!({
        "net": {"kind": "ctr", "slots": 1, "rows": 10001, "dim": 4, "hidden": [700], "mean": true},
        "optimizer": "adam", "lr": 0.001, "seed": 90,
    });
    let feed = |_: usize, step: usize| {
        let ids = Tensor::new([4, 1], &[5i64, 7 + step as i64, 9000, 7]).unwrap();
        let label = Tensor::new([4, 1], &[0i64, 1, 1, 0]).unwrap();
        train::Feed::new().with("C1", ids).with("label", label)
    };
    let build = || nets::build(&case).unwrap();
    let (net, loss) = build();
    let one = reference::run(&net, &loss, 1, feed, 5);
    let outcome = job::run(&Plan::with(2, 1, geo(1)), build, feed, 5);
    for name in ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0"] {
        let expected = one.scope.get(name).unwrap();
        let expected = expected.tensor().unwrap();
        assert_tensor(name, &outcome.saved[name], expected, Tolerance::of(1e-6));
        assert_tensor(name, &outcome.of_trainer(0, name), expected, Tolerance::of(1e-6));
    }
    // Adam moves rows that no step uses as well; those do not travel.
    let (own, servers) =
        (outcome.of_trainer(0, "SparseFeatFactors"), &outcome.saved["SparseFeatFactors"]);
    let expected = one.scope.get("SparseFeatFactors").unwrap();
    let expected = expected.tensor().unwrap();
    assert_tensor("own table", &own, expected, Tolerance::of(1e-6));
    for id in [5, 7, 9000] {
        assert_eq!(row(servers, id), row(&own, id), "row {id}");
    }
}

/// The part of a trainer's learning that has reached the servers when it learns `by_step` at each
/// step, and the part that is pending: one part in `n_trainers` of the pending sum is sent each
/// time.
fn geo_sent(by_step: &[f32], n_trainers: usize, need_push_nums: usize) -> (f32, f32) {
    let (mut sent, mut pending) = (0.0, 0.0);
    for steps in by_step.chunks(need_push_nums) {
        pending += steps.iter().sum::<f32>();
        let delta = pending / n_trainers as f32;
        (sent, pending) = (sent + delta, pending - delta);
    }
    (sent, pending)
}

/// Each trainer's differences are added up, also those of the steps after the last exchange.
#[test]
fn geo_adds_up_differences() {
    for (need_push_nums, n_steps) in [(1, 4), (3, 7), (100, 5)] {
        let outcome = run(&Plan::with(2, 2, geo(need_push_nums)), SPARSE, n_steps);
        let what = format!("{n_steps} steps, exchange after {need_push_nums}");
        let sent = |by_step: &[f32]| geo_sent(by_step, 2, need_push_nums as usize).0;
        let mut w = [1.0; N_FEATURES];
        for (k, w) in w.iter_mut().enumerate() {
            for trainer in 0..2 {
                let grads = (0..n_steps).map(|step| -LR * linear::grad(trainer, step)[k]);
                *w += sent(&grads.collect::<Vec<_>>());
            }
        }
        let w = Tensor::new([N_FEATURES, 1], &w).unwrap();
        assert_tensor(&what, &outcome.saved["w"], &w, Tolerance::of(1e-6));
        let of_row = sent(&vec![-LR * ROW_GRAD; n_steps]);
        let table = &outcome.saved["table"];
        assert_eq!(row(table, COMMON), [0.5 + 2.0 * of_row; 4], "{what}");
        for trainer in 0..2 {
            assert_eq!(row(table, own_row(trainer)), [0.5 + of_row; 4], "{what}");
        }
        assert_eq!(row(table, COMMON + 1), [0.5; 4], "a row that nobody used");
    }
}

/// A trainer learns of rows that it never used, when it exchanges next.
#[test]
fn geo_brings_the_rows_of_others() {
    let plan = Plan { turns: vec![0, 0, 1], ..Plan::with(2, 2, geo(1)) };
    let outcome = run(&plan, SPARSE, 0);
    let mine = outcome.of_trainer(1, "table");
    let (theirs, _) = geo_sent(&[-LR * ROW_GRAD; 2], 2, 1);
    assert_eq!(row(&mine, own_row(0)), [0.5 + theirs; 4]);
    let (own, pending) = geo_sent(&[-LR * ROW_GRAD], 2, 1);
    assert_eq!(row(&outcome.saved["table"], own_row(1)), [0.5 + own; 4]);
    assert_eq!(row(&mine, own_row(1)), [0.5 + own + pending; 4]);
    assert_eq!(row(&mine, COMMON), [0.5 + theirs + own + pending; 4]);
    // `w`, and the two halves of the table, of each exchange.
    assert_eq!(n_pushes(&outcome), 3 * 3);
}

/// Several devices make one step of a trainer: their gradients are averaged and sent once.
#[test]
fn devices_send_once() {
    let modes = [
        ("async", Config { mode: Mode::Async, ..Config::default() }),
        ("half async", half_async()),
        ("queued", queued()),
    ];
    for (mode, config) in modes {
        let plan = Plan { n_devices: 2, ..Plan::with(2, 2, config) };
        let outcome = run(&plan, SPARSE, 6);
        assert_eq!(outcome.saved["w"], w_after(linear::sum(all(2, 6))), "{mode}");
        assert_applied(&outcome.saved["table"], 2, 6, 1.0);
        assert_eq!(n_pushes(&outcome), 2 * 6 * 3, "{mode}");
    }
}

/// Parameters that the background fetched reach the scope that all devices read.
#[test]
fn devices_see_what_was_fetched() {
    let plan = Plan { n_devices: 2, ..Plan::with(1, 1, queued()) };
    let outcome = job::run(&plan, || DENSE.build(), |_, _| DENSE.feed(0, 0), 200);
    assert!(outcome.losses[0][199] < outcome.losses[0][20], "{:?}", outcome.losses);
    assert_eq!(outcome.of_trainer(0, "w"), outcome.saved["w"]);
}

/// Rows that any device used travel.
#[test]
fn geo_on_several_devices_is_geo_on_one() {
    let one = run(&Plan::with(2, 2, geo(2)), SPARSE, 5);
    let two = run(&Plan { n_devices: 2, ..Plan::with(2, 2, geo(2)) }, SPARSE, 5);
    assert_eq!(one.saved, two.saved);
}

/// One trainer after the other, which is impossible if each waits for all of a round: the first one
/// is a round ahead each time. Each round is still the average of all trainers, so the result is
/// that of sync.
#[test]
fn a_trainer_may_be_a_round_ahead() {
    let plan = Plan::with(2, 2, Config::of(Mode::Ssp { staleness: 1 }));
    for net in [DENSE, SPARSE] {
        let ahead = run(&Plan { turns: [0, 1].repeat(8), ..plan.clone() }, net, 8);
        let sync = run(&Plan::with(2, 2, Config::of(Mode::Sync)), net, 8);
        assert_eq!(ahead.saved, sync.saved);
        assert!(ahead.saved.len() >= 2, "{:?}", ahead.saved.keys());
    }
}
