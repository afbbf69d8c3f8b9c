//! Trainers without servers: Fluid's programs op by op, the same bits on all trainers, the numbers of a sync job with
//! servers, and what is refused.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::BTreeMap;

use program::{Attr, Program, UniqueNames};
use serde_json::{Value as Json, json};
use tensor::{Lod, Tensor};
use testing::close::{Tolerance, assert_close, assert_tensor};
use testing::golden;
use testing::job::{self, Plan};
use testing::mates::{Mates, Trained};
use testing::nets;
use testing::recorded::RecordedJob;
use train::Feed;
use transpile::Error;
use transpile::{CollectiveJob, CollectiveMode, transpile_collective};

const CASES: [&str; 7] = [
    "ctr_grad_allreduce",
    "ctr_local_sgd",
    "ctr_nccl2",
    "fit_grad_allreduce",
    "fit_local_sgd",
    "fit_nccl2",
    "fit_rings_l2",
];
const MODES: [CollectiveMode; 2] = [CollectiveMode::GradAllReduce, CollectiveMode::Nccl2];

fn strings(list: &Json) -> Vec<String> {
    list.as_array().unwrap().iter().flat_map(Json::as_str).map(str::to_string).collect()
}

fn plain(attr: &Attr) -> Json {
    match attr {
        Attr::Int(value) => json!(value),
        Attr::Float(value) => json!(f64::from(*value)),
        Attr::Str(value) => json!(value),
        Attr::Bool(value) => json!(value),
        Attr::Ints(values) => json!(values),
        Attr::Longs(values) => json!(values),
        Attr::Strs(values) => json!(values),
        other => panic!("{other:?} is not among the golden ones"),
    }
}

/// Numbers are of 32 bits on both sides; json readers differ in the last bit of 64.
fn narrow(value: &Json) -> Json {
    // Of ops that the wheel does not know it keeps numbers.
    if let Some(flag) = value.as_bool() {
        return json!(u8::from(flag));
    }
    match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => json!(f64::from(number as f32)),
        None => value.clone(),
    }
}

fn ports(ports: &[(String, Vec<String>)]) -> Json {
    let all = ports.iter().filter(|(_, vars)| !vars.is_empty()).cloned();
    json!(all.collect::<BTreeMap<_, _>>())
}

#[track_caller]
fn compare(what: &str, program: &Program, golden: &Json) {
    let block = program.block(0);
    let kinds: Vec<&str> = block.ops.iter().map(|op| op.kind.as_str()).collect();
    assert_eq!(json!(kinds), golden["op_types"][0], "{what}: ops");
    for (at, (op, like)) in
        block.ops.iter().zip(golden["blocks"][0]["ops"].as_array().unwrap()).enumerate()
    {
        let what = format!("{what}: op {at}, {}", op.kind);
        assert_eq!(json!(op.role()), like["role"], "{what}: role");
        assert_eq!(ports(&op.inputs), like["in"], "{what}: inputs");
        assert_eq!(ports(&op.outputs), like["out"], "{what}: outputs");
        let pairs = like.get("role_var").map(strings).unwrap_or_default();
        assert_eq!(op.attrs.strs("op_role_var").unwrap(), pairs, "{what}: role_var");
        for (name, value) in like["attrs"].as_object().into_iter().flatten() {
            let own = op.attrs.get(name).map(plain);
            // An attribute at its default may be left out.
            let default = if name == "bias" { json!(0.0) } else { Json::Null };
            assert_eq!(narrow(&own.unwrap_or(default)), narrow(value), "{what}: {name}");
        }
    }
    let expected = golden["blocks"][0]["vars"].as_object().unwrap();
    let actual: BTreeMap<&str, Json> = block
        .vars()
        .iter()
        .map(|var| {
            let kind = var.meta.kind;
            let dims = if kind.has_tensor() { json!(var.meta.dims) } else { Json::Null };
            (var.name.as_str(), json!([kind.name(), dims, var.persistable]))
        })
        .collect();
    for name in expected.keys().map(String::as_str).chain(actual.keys().copied()) {
        assert_eq!(actual.get(name), expected.get(name), "{what}: variable {name}");
    }
}

fn job(case: &Json) -> CollectiveJob {
    let n_rings = case["nccl_comm_num"].as_u64().unwrap_or(1) as usize;
    let endpoints = strings(&case["endpoints"]).join(",");
    CollectiveJob {
        n_rings,
        ..CollectiveJob::new(case["trainer_id"].as_i64().unwrap(), &endpoints)
    }
}

#[test]
fn programs_are_fluids_op_by_op() {
    for name in CASES {
        let file = golden::json(&format!("collective_{name}.json"));
        let case = &file["case"];
        let mode = CollectiveMode::from_fluid(
            case["mode"].as_str().unwrap(),
            case["collective_mode"].as_str(),
        );
        let (mut net, _) = nets::build(case).unwrap();
        let mut names = UniqueNames::default();
        transpile_collective(
            &mut net.main,
            &mut net.startup,
            mode.unwrap(),
            &job(case),
            &mut names,
        )
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        compare(&format!("{name} main"), &net.main, &file["main"]);
        compare(&format!("{name} startup"), &net.startup, &file["startup"]);
    }
}

/// All trainers have the same parameters, bit for bit, after every step.
#[track_caller]
fn equal(trained: &[Trained]) {
    for other in &trained[1..] {
        for (step, (one, other)) in trained[0].after.iter().zip(&other.after).enumerate() {
            assert_eq!(one, other, "parameters after step {step}");
        }
    }
}

#[track_caller]
fn all(trained: Vec<train::Result<Trained>>) -> Vec<Trained> {
    trained.into_iter().map(|one| one.unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// Trains with the batches of one of Fluid's recorded jobs with servers: the numbers are the same.
#[track_caller]
fn follows_fluid(name: &str) {
    let recorded = RecordedJob::load(name);
    let (golden, case) = (&recorded.golden, &recorded.case);
    // The initial values of Fluid's servers, where golden numbers do not have them.
    let plan = recorded.plan();
    let begin = job::run(&plan, || nets::build(case).unwrap(), |_, _| Feed::new(), 0).saved;
    for mode in MODES {
        let mut mates = Mates::new(recorded.n("trainers"), mode, recorded.n("steps"));
        mates.init = begin.clone().into_iter().chain(recorded.init()).collect();
        let feed = |trainer: usize, step: usize| recorded.feed(trainer, step);
        let trained = all(mates.train(|_| nets::build(case).unwrap(), feed));
        equal(&trained);
        for (trainer, own) in trained.iter().enumerate() {
            let key = format!("trainer{trainer}/losses");
            assert_close(&key, &own.losses, &golden.numbers(&key), Tolerance::of(1e-5));
        }
        for (var, expected) in golden.under("final/") {
            let own = trained[0].scope.get(var).and_then(|value| value.tensor().cloned());
            let own = own.unwrap_or_else(|| panic!("{var} is nowhere"));
            assert_tensor(&format!("{var}, {mode:?}"), &own, expected, Tolerance::of(1e-5));
        }
    }
}

#[test]
fn one_layer_has_the_numbers_of_fluids_job_with_servers() {
    follows_fluid("fit_sgd_2x1");
}

#[test]
fn adam_has_the_numbers_of_fluids_job_with_servers() {
    follows_fluid("fit_adam_2x2");
}

#[test]
fn a_sparse_table_has_the_numbers_of_fluids_job_with_servers() {
    follows_fluid("ctr_sgd_2x2");
    follows_fluid("ctr_adam_2x2");
}

/// A net with a sparse table, and layers that travel in several chunks.
fn sparse(optimizer: &str) -> Json {
    json!({
        "net": {"kind": "ctr", "slots": 3, "rows": 10001, "dim": 4, "hidden": [900, 200], "mean": true},
        "optimizer": optimizer, "lr": 0.05, "seed": 90,
    })
}

fn sparse_feed(trainer: usize, step: usize) -> Feed {
    let n = 8;
    let at = |k: usize, row: usize| (trainer * 7919 + step * 104_729 + row * 31 + k * 5) as i64;
    let mut feed = Feed::new();
    for k in 0..3 {
        let ids: Vec<i64> = (0..n).map(|row| at(k, row) * 2503 % 10001 % 97).collect();
        let mut ids = Tensor::new([n, 1], &ids).unwrap();
        ids.set_lod(Lod::from_lengths(vec![1; n]));
        feed = feed.with(&format!("C{}", k + 1), ids);
    }
    let labels: Vec<i64> = (0..n).map(|row| at(0, row) / 3 % 2).collect();
    feed.with("label", Tensor::new([n, 1], &labels).unwrap())
}

/// Sync training with servers and training without them come to the same.
#[test]
fn servers_or_not_the_numbers_are_the_same() {
    for (optimizer, n) in [("sgd", 2), ("adam", 2), ("momentum", 3)] {
        let case = sparse(optimizer);
        let served = job::run(&Plan::sync(2, n), || nets::build(&case).unwrap(), sparse_feed, 5);
        // Devices cut a batch, which adds up its samples in another order. Adam makes much of that where
        // a gradient is nearly 0.
        let n_devices_max = if optimizer == "adam" { 1 } else { 2 };
        for (mode, n_devices) in [(MODES[0], 1), (MODES[1], 1), (MODES[1], n_devices_max)] {
            let mates = Mates { n_devices, ..Mates::new(n, mode, 5) };
            let trained = all(mates.train(|_| nets::build(&case).unwrap(), sparse_feed));
            equal(&trained);
            let tolerance = if n_devices == 1 { 1e-6 } else { 1e-5 };
            for (name, own) in &trained[0].after[4] {
                let what =
                    format!("{name}, {optimizer}, {mode:?}, {n} trainers, {n_devices} devices");
                assert_tensor(&what, own, &served.saved[name], Tolerance::of(tolerance));
            }
        }
    }
}

/// The order of arrival changes nothing: a job gives the same bits again.
#[test]
fn a_job_gives_the_same_bits_again() {
    for n in [3, 4] {
        let case = sparse("adagrad");
        let run =
            || all(Mates::new(n, MODES[0], 4).train(|_| nets::build(&case).unwrap(), sparse_feed));
        let (one, other) = (run(), run());
        equal(&one);
        assert_eq!(one[0].after, other[n - 1].after);
        assert_eq!(one[1].losses, other[1].losses);
    }
}

/// With plain SGD, the mean of parameters that were updated apart is an update by the mean of the gradients.
#[test]
fn local_sgd_averages_parameters() {
    let case = json!({"net": {"kind": "fit", "features": 13, "hidden": [8]}, "optimizer": "sgd", "lr": 0.01, "seed": 3});
    let feed = |trainer: usize, step: usize| {
        let x: Vec<f32> =
            (0..13 * 4).map(|at| ((at * 7 + trainer * 3 + step) % 11) as f32 / 11.0).collect();
        let y: Vec<f32> = (0..4).map(|at| ((at + trainer) % 3) as f32).collect();
        Feed::new()
            .with("x", Tensor::new([4, 13], &x).unwrap())
            .with("y", Tensor::new([4, 1], &y).unwrap())
    };
    let train = |mode| all(Mates::new(2, mode, 6).train(|_| nets::build(&case).unwrap(), feed));
    let (local, summed) = (train(CollectiveMode::LocalSgd), train(CollectiveMode::GradAllReduce));
    equal(&local);
    for (name, own) in &local[0].after[5] {
        assert_tensor(name, own, &summed[0].after[5][name], Tolerance::of(1e-5));
    }
}

#[test]
fn trainers_start_with_the_values_of_the_first() {
    for mode in MODES {
        let net = |me: usize| {
            let mut case = sparse("sgd");
            case["seed"] = (me + 1).into();
            nets::build(&case).unwrap()
        };
        let trained = all(Mates::new(2, mode, 1).train(net, sparse_feed));
        equal(&trained);
    }
}

fn errors(trained: Vec<train::Result<Trained>>) -> Vec<String> {
    trained.into_iter().map(|one| one.expect_err("refused").to_string()).collect()
}

#[test]
fn trainers_with_different_programs_are_named_to_each_other() {
    // Another size is seen when they meet.
    let sizes = |me: usize| {
        let case = json!({"net": {"kind": "fit", "features": 13, "hidden": [8 + me]}, "optimizer": "sgd", "seed": 3});
        nets::build(&case).unwrap()
    };
    let no_feed = |_: usize, _: usize| Feed::new();
    for error in errors(Mates::new(2, MODES[0], 1).train(sizes, no_feed)) {
        assert!(error.contains("trainers 0 and 1 do not do the same"), "{error}");
    }
    // Another update is seen at the first step.
    let updates = |me: usize| {
        let (mut net, loss) = nets::build(
            &json!({"net": {"kind": "fit", "features": 13}, "optimizer": "sgd", "seed": 3}),
        )
        .unwrap();
        if me == 1 {
            let ops = &mut net.main.block_mut(0).ops;
            let at = ops.iter().position(|op| op.kind == "sgd").unwrap();
            ops[at].kind = "dpsgd".to_string();
        }
        (net, loss)
    };
    let feed = |_: usize, _: usize| {
        let x = Tensor::full([4, 13], 1.0f32);
        Feed::new().with("x", x).with("y", Tensor::full([4, 1], 1.0f32))
    };
    for error in errors(Mates::new(2, MODES[0], 1).train(updates, feed)) {
        assert!(error.contains("trainers 0 and 1 do not do the same"), "{error}");
        assert!(error.contains("the program"), "{error}");
    }
}

#[test]
fn a_trainer_with_fewer_batches_is_named() {
    let case = sparse("sgd");
    let mates = Mates::new(2, MODES[0], 3);
    let trained = mates.train(
        |_| nets::build(&case).unwrap(),
        |me, step| if me == 1 && step == 2 { Feed::new() } else { sparse_feed(me, step) },
    );
    let texts: Vec<String> = trained
        .into_iter()
        .map(|one| one.err().map_or(String::new(), |error| error.to_string()))
        .collect();
    assert!(
        texts[0].contains("trainer 1 (127.0.0.1:") && texts[0].contains("has ended its script"),
        "{}",
        texts[0]
    );
    assert!(texts[0].contains("@GRAD`"), "the variable is named: {}", texts[0]);
}

#[test]
fn lists_that_cannot_be_are_refused() {
    let refused = |mode: CollectiveMode, job: &CollectiveJob| {
        let (mut net, _) =
            nets::build(&json!({"net": {"kind": "fit"}, "optimizer": "sgd"})).unwrap();
        let (main, mut names) = (net.main.clone(), UniqueNames::default());
        let error = transpile_collective(&mut net.main, &mut net.startup, mode, job, &mut names)
            .unwrap_err();
        assert_eq!(net.main, main, "nothing was changed");
        error
    };
    let job = CollectiveJob::new(0, "a:1,b:2");
    for mode in MODES {
        let twice = refused(mode, &CollectiveJob::new(0, "a:1,b:2,a:1"));
        assert!(
            matches!(twice, Error::TrainerTwice { ref endpoint } if endpoint == "a:1"),
            "{twice}"
        );
        let far = refused(mode, &CollectiveJob::new(2, "a:1,b:2"));
        assert!(matches!(far, Error::TrainerId { trainer_id: 2, n_trainers: 2 }), "{far}");
        let negative = refused(mode, &CollectiveJob::new(-1, "a:1,b:2"));
        assert!(matches!(negative, Error::NegativeTrainer { .. }), "{negative}");
        let elsewhere = CollectiveJob { current_endpoint: "c:3".to_string(), ..job.clone() };
        assert!(matches!(refused(mode, &elsewhere), Error::NotATrainer { .. }));
        let other = CollectiveJob { current_endpoint: "b:2".to_string(), ..job.clone() };
        assert!(matches!(refused(mode, &other), Error::OtherEndpoint { trainer_id: 0, .. }));
        assert!(matches!(refused(mode, &CollectiveJob::new(0, "a,b:2")), Error::Endpoint { .. }));
    }
    assert!(matches!(refused(MODES[0], &CollectiveJob::new(0, "a:1")), Error::OneTrainer));
    let bad = CollectiveMode::from_fluid("collective", Some("other")).unwrap_err();
    assert!(matches!(bad, Error::BadConfig { field: "collective_mode", .. }), "{bad}");
}
