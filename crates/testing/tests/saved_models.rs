//! A model saved by a job is loaded by any number of servers and by one machine, and back.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::path::Path;

use program::{Net, Var};
use tensor::Tensor;
use testing::job::{self, Outcome, Plan};
use testing::nets;
use train::{Error, Executor, Feed, Scope, io};
use transpile::{Config, Job, RoundRobin, transpile};

/// A table, a layer that is cut, and Adam's state of both.
fn build() -> (Net, Var) {
    let net = serde_json::json!(
        {"kind": "ctr", "slots": 1, "rows": 10001, "dim": 4, "hidden": [5000], "mean": true}
    );
    let case = serde_json::json!({"net": net, "optimizer": "adam", "lr": 0.05, "seed": 90});
    nets::build(&case).unwrap()
}

fn feed(_: usize, step: usize) -> Feed {
    let ids = Tensor::new([4, 1], &[5i64, 7 + step as i64, 9000, 7]).unwrap();
    let label = Tensor::new([4, 1], &[0i64, 1, 1, 0]).unwrap();
    Feed::new().with("C1", ids).with("label", label)
}

/// A job that continues from a saved model, or starts.
fn run(n_servers: usize, model: Option<&Path>, n_steps: usize) -> Outcome {
    let plan = Plan { model: model.map(Path::to_path_buf), ..Plan::sync(n_servers, 1) };
    job::run(&plan, build, feed, n_steps)
}

#[test]
fn any_number_of_servers_loads_what_two_saved() {
    let two = run(2, None, 3);
    let names: Vec<&str> = two.saved.keys().map(String::as_str).collect();
    for name in ["SparseFeatFactors_moment1_0", "fc_0.w_0_beta1_pow_acc_0", "learning_rate_0"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert_eq!(two.saved["SparseFeatFactors_beta1_pow_acc_0"].dims(), [1]);
    let three = run(3, Some(two.folder.path()), 0);
    assert_eq!(three.saved, two.saved);
    let back = run(2, Some(three.folder.path()), 0);
    assert_eq!(back.saved, two.saved);
}

#[test]
fn one_machine_goes_on_where_servers_ended_and_back() {
    let two = run(2, None, 3);
    let more = |_: usize, step: usize| feed(0, step + 3);
    let plan = Plan { model: Some(two.folder.path().into()), ..Plan::sync(3, 1) };
    let three = job::run(&plan, build, more, 2);
    let (net, loss) = build();
    let (scope, mut exe) = (Scope::new(), Executor::new());
    exe.run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    io::load_persistables(&scope, two.folder.path(), &net.main, None).unwrap();
    for (step, expected) in three.losses[0].iter().enumerate() {
        let got = exe.run(&net.main, &scope, &mut more(0, step), &[loss.name()]).unwrap();
        assert_eq!(got[0].get_f64(0), *expected, "step {step}");
    }
    for (name, tensor) in &three.saved {
        assert_eq!(scope.get(name).unwrap().tensor(), Some(tensor), "{name}");
    }
    let local = tempfile::tempdir().unwrap();
    io::save_persistables(&scope, local.path(), &net.main, None).unwrap();
    assert_eq!(run(2, Some(local.path()), 0).saved, three.saved);
}

#[test]
fn what_is_missing_or_of_another_shape_is_said() {
    let two = run(2, None, 1);
    let load = |endpoint: Option<&str>| {
        let (mut net, _) = build();
        let list = "127.0.0.1:7001,127.0.0.1:7002";
        let names = Job::new(0, list, 1);
        let (main, startup) = (&mut net.main, &mut net.startup);
        let dispatch = &mut RoundRobin::default();
        let split = transpile(main, startup, &Config::default(), &names, dispatch).unwrap();
        let mut job = split.job().clone();
        job.ps_endpoint = endpoint.map(str::to_string);
        io::load_slices(&job, &Scope::new(), two.folder.path())
    };
    load(Some("127.0.0.1:7002")).unwrap();
    let error = load(None).unwrap_err();
    assert!(matches!(error, Error::NoServerEndpoint), "{error}");
    let moment = two.folder.path().join("fc_0.w_0_moment1_0");
    let other = program::stream::to_bytes(&Tensor::full([4, 4999], 0.0f32).into()).unwrap();
    std::fs::write(&moment, other).unwrap();
    let error = load(Some("127.0.0.1:7002")).unwrap_err();
    assert!(matches!(&error, Error::FileDiffers { path, .. } if *path == moment), "{error}");
    // Also from a folder without a manifest.
    std::fs::remove_file(two.folder.path().join(".paddlewheel")).unwrap();
    let error = load(Some("127.0.0.1:7002")).unwrap_err();
    let Error::LoadedShape { var, expected, found } = &error else { panic!("{error}") };
    assert_eq!((var.as_str(), &expected[..], &found[..]), (MOMENT, &[4, 5000][..], &[4, 4999][..]));
    std::fs::remove_file(&moment).unwrap();
    let error = load(Some("127.0.0.1:7002")).unwrap_err();
    assert!(matches!(&error, Error::CannotLoad { path, .. } if *path == moment), "{error}");
}

const MOMENT: &str = "fc_0.w_0_moment1_0";
