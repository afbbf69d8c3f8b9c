//! Models that have grown since they were saved: the parts that fit are loaded, on one machine and
//! on servers.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use program::layers::{self, Data, Reduce, SparseEmbedding};
use program::optimizer::{Adagrad, Optimizer, Sgd};
use program::{Distributed, Initializer, Meta, Net, ParamAttr, Var, VarDesc, backward::Limits};
use tensor::{DType, Rows, Tensor};
use testing::job::{self, Plan};
use testing::nets;
use train::io::{self, Fitted};
use train::{Error, Executor, Feed, Scope};
use transpile::{Config, Job, RoundRobin, Threads};

/// A table, a layer and Adam's state of both, in two sizes.
fn build(rows: i64, dim: i64, hidden: &[i64]) -> (Net, Var) {
    let net = serde_json::json!(
        {"kind": "ctr", "slots": 1, "rows": rows, "dim": dim, "hidden": hidden, "mean": true}
    );
    let case = serde_json::json!({"net": net, "optimizer": "adam", "lr": 0.05, "seed": 90});
    nets::build(&case).unwrap()
}

fn small() -> (Net, Var) {
    build(100, 4, &[5])
}

fn large() -> (Net, Var) {
    build(103, 6, &[7, 3])
}

fn feed(_: usize, step: usize) -> Feed {
    let ids = Tensor::new([4, 1], &[5i64, 7 + step as i64, 90, 7]).unwrap();
    let label = Tensor::new([4, 1], &[0i64, 1, 1, 0]).unwrap();
    Feed::new().with("C1", ids).with("label", label)
}

/// A program with its variables after the startup program and some steps.
fn trained(net: Net, n_steps: usize) -> (Net, Scope) {
    let (scope, mut exe) = (Scope::new(), Executor::new());
    exe.run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    for step in 0..n_steps {
        exe.run(&net.main, &scope, &mut feed(0, step), &[]).unwrap();
    }
    (net, scope)
}

fn tensor(scope: &Scope, name: &str) -> Tensor {
    scope.read(name, |value| value.tensor().cloned()).flatten().unwrap()
}

/// The number at a place of a matrix.
fn at(tensor: &Tensor, row: usize, column: usize) -> f64 {
    tensor.get_f64(row * tensor.dims()[1] + column)
}

/// Weights of the first layer and their state are partly of the small model and partly as they started.
#[track_caller]
fn check_grown(old: &Scope, start: &Scope, grown: &Scope) {
    for name in ["fc_0.w_0", "fc_0.w_0_moment1_0", "SparseFeatFactors"] {
        let [old, start, grown] = [old, start, grown].map(|scope| tensor(scope, name));
        for row in 0..grown.dims()[0] {
            for column in 0..grown.dims()[1] {
                let is_old = row < old.dims()[0] && column < old.dims()[1];
                let expected = if is_old { &old } else { &start };
                assert_eq!(
                    at(&grown, row, column),
                    at(expected, row, column),
                    "{name} {row} {column}"
                );
            }
        }
    }
}

#[track_caller]
fn check_report(fitted: &Fitted) {
    let dims = |name: &str| {
        let found = fitted.partly.iter().find(|(partly, ..)| partly == name);
        found.map(|(_, from, to)| (from.clone(), to.clone()))
    };
    assert_eq!(dims("fc_0.w_0"), Some((vec![4, 5], vec![6, 7])), "{fitted:?}");
    assert_eq!(dims("SparseFeatFactors"), Some((vec![100, 4], vec![103, 6])), "{fitted:?}");
    assert!(fitted.new.contains(&"fc_2.w_0".to_string()), "{fitted:?}");
    assert!(fitted.loaded.contains(&"fc_0.w_0_beta1_pow_acc_0".to_string()), "{fitted:?}");
}

#[test]
fn one_machine_takes_what_fits() {
    let (net, old) = trained(small().0, 3);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    io::save_persistables(&old, &path.join("separate"), &net.main, None).unwrap();
    io::save_persistables(&old, &path.join("combined"), &net.main, Some("all")).unwrap();
    io::save(&old, &net.main, &path.join("state")).unwrap();
    let (net, start) = trained(large().0, 0);
    let error = io::load_persistables(&start, &path.join("separate"), &net.main, None).unwrap_err();
    assert!(matches!(error, Error::OtherModel { .. }), "{error}");
    let persistables = || net.main.list_vars().filter(|var| io::is_persistable(var));
    for way in ["separate", "combined", "state"] {
        let (_, grown) = trained(large().0, 0);
        let fitted = match way {
            "separate" => io::fit_vars(&grown, &path.join(way), persistables(), None),
            "combined" => io::fit_vars(&grown, &path.join(way), persistables(), Some("all")),
            _ => io::fit_state(&grown, &net.main, &path.join(way)),
        };
        let fitted = fitted.unwrap();
        check_report(&fitted);
        assert_eq!(fitted.left_out, [""; 0], "{way}");
        check_grown(&old, &start, &grown);
        // A model that has shrunk takes what is left, and says what is not.
        let (back, shrunk) = trained(small().0, 0);
        let dir = path.join(format!("{way} back"));
        io::save_persistables(&grown, &dir, &net.main, None).unwrap();
        let vars = back.main.list_vars().filter(|var| io::is_persistable(var));
        let fitted = io::fit_vars(&shrunk, &dir, vars, None).unwrap();
        assert!(fitted.left_out.contains(&"fc_2.w_0".to_string()), "{fitted:?}");
        assert_eq!(tensor(&shrunk, "fc_0.w_0"), tensor(&old, "fc_0.w_0"));
    }
    // The grown model trains on.
    let (net, grown) = trained(large().0, 0);
    io::fit_state(&grown, &net.main, &path.join("separate")).unwrap();
    Executor::new().run(&net.main, &grown, &mut feed(0, 0), &[]).unwrap();
}

#[test]
fn what_does_not_fit_at_all_is_left_out_or_refused() {
    let (net, old) = trained(small().0, 1);
    let dir = tempfile::tempdir().unwrap();
    let persistables = || net.main.list_vars().filter(|var| io::is_persistable(var));
    old.set("fc_0.w_0", Tensor::full([20], 1.0f32));
    old.set("fc_0.b_0", Tensor::full([5], 1.0f64));
    io::save_persistables(&old, dir.path(), &net.main, None).unwrap();
    let (_, start) = trained(small().0, 0);
    let fitted = io::fit_vars(&start, dir.path(), persistables(), None).unwrap();
    assert_eq!(fitted.left_out, ["fc_0.b_0", "fc_0.w_0"]);
    assert_eq!(tensor(&start, "fc_0.w_0").dims(), [4, 5]);
    // New variables must have been started, and saved ones must be whole.
    let empty = Scope::new();
    let nowhere = tempfile::tempdir().unwrap();
    let error = io::fit_vars(&empty, nowhere.path(), persistables(), None).unwrap_err();
    assert!(matches!(error, Error::NotInScope { .. }), "{error}");
    std::fs::write(dir.path().join("fc_0.b_0"), "changed").unwrap();
    let error = io::fit_vars(&start, dir.path(), persistables(), None).unwrap_err();
    assert!(matches!(error, Error::FileDiffers { .. }), "{error}");
}

#[test]
fn a_folder_of_which_nothing_fits_is_refused() {
    let (net, old) = trained(small().0, 0);
    let persistables = || net.main.list_vars().filter(|var| io::is_persistable(var));
    let dir = tempfile::tempdir().unwrap();
    let error = io::fit_vars(&old, &dir.path().join("none"), persistables(), None).unwrap_err();
    assert!(matches!(error, Error::NoDirectory { .. }), "{error}");
    let model = dir.path().join("foreign");
    let theirs = VarDesc::new("table", Meta::dense(DType::F32, &[2]));
    let values = Scope::new();
    values.set("table", Tensor::full([2], 1.0f32));
    io::save_vars(&values, &model, [&theirs], None).unwrap();
    let error = io::fit_vars(&old, &model, persistables(), None).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("saved there: table") && text.contains("SparseFeatFactors"), "{text}");
}

/// The only server of a net, with its start values.
fn server(mut net: Net) -> (Arc<Distributed>, Scope) {
    let endpoint = "127.0.0.1:6174";
    let (names, config) = (Job::new(0, endpoint, 1), Config::default());
    let (main, startup) = (&mut net.main, &mut net.startup);
    let split =
        transpile::transpile(main, startup, &config, &names, &mut RoundRobin::default()).unwrap();
    let main = split.server_main(endpoint, Threads::default()).unwrap();
    let startup = split.server_startup(endpoint, None).unwrap();
    let scope = Scope::new();
    Executor::new().run(&startup, &scope, &mut Feed::new(), &[]).unwrap();
    (main.distributed.unwrap(), scope)
}

/// Also if the model holds more than the server needs.
#[test]
fn servers_refuse_a_model_of_other_sizes() {
    let (net, scope) = trained(build(103, 4, &[7]).0, 1);
    let dir = tempfile::tempdir().unwrap();
    io::save_persistables(&scope, dir.path(), &net.main, None).unwrap();
    for (rows, hidden) in [(100, 7), (103, 5), (103, 9), (106, 7)] {
        let (job, scope) = server(build(rows, 4, &[hidden]).0);
        let error = io::load_slices(&job, &scope, dir.path()).unwrap_err();
        assert!(matches!(error, Error::LoadedShape { .. }), "{rows} {hidden}: {error}");
    }
    let (job, scope) = server(build(103, 4, &[7]).0);
    io::load_slices(&job, &scope, dir.path()).unwrap();
    let error = io::fit_slices(&job, &scope, &dir.path().join("none")).unwrap_err();
    assert!(matches!(error, Error::NoDirectory { .. }), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = io::fit_slices(&job, &scope, empty.path()).unwrap_err();
    assert!(matches!(error, Error::NothingFits { .. }), "{error}");
}

#[test]
fn servers_take_what_fits() {
    let first = job::run(&Plan::sync(2, 1), small, feed, 3);
    let model = first.folder.path();
    // A layer that is only wider has as many rows as before.
    let wider = || build(100, 4, &[7]);
    for (n_servers, large) in [(1, large as fn() -> (Net, Var)), (3, large), (1, wider), (2, wider)]
    {
        let plan = Plan { model: Some(model.into()), fits: true, ..Plan::sync(n_servers, 1) };
        let grown = job::run(&plan, large, feed, 0);
        let (net, scope) = trained(large().0, 0);
        let vars = net.main.list_vars().filter(|var| io::is_persistable(var));
        io::fit_vars(&scope, model, vars, None).unwrap();
        for (name, value) in &grown.saved {
            assert_eq!(*value, tensor(&scope, name), "{name} on {n_servers} servers");
        }
        // It trains on.
        let again = Plan { model: Some(grown.folder.path().into()), ..Plan::sync(2, 1) };
        assert_eq!(job::run(&again, large, feed, 2).losses[0].len(), 2);
    }
}

/// A table that servers keep row by row, of this width.
fn sparse(height: i64, width: i64, mut optimizer: Optimizer) -> (Net, Var) {
    let mut net = Net::with_seed(90);
    let b = &mut net.builder();
    let ids = Data { dtype: DType::I64, ..Data::default() };
    let ids = layers::data(b, "ids", &[1], ids).unwrap();
    let half = Initializer::Constant { value: 0.5 };
    let param_attr = ParamAttr { initializer: Some(half), ..ParamAttr::named("table") };
    let options = SparseEmbedding { param_attr, ..SparseEmbedding::default() };
    let rows = layers::sparse_embedding(b, &ids, [height, width], options).unwrap();
    let loss = layers::reduce_sum(b, &rows, Reduce::default()).unwrap();
    optimizer.minimize(b, &loss, &Limits::default()).unwrap();
    (net, loss)
}

fn ids(ids: &[i64]) -> Feed {
    Feed::new().with("ids", Tensor::new([ids.len(), 1], ids).unwrap())
}

/// The rows that servers wrote of a table.
fn rows(folder: &Path, var: &str) -> BTreeMap<i64, Vec<f64>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder.join("__lookup_table__")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let number = name.strip_prefix(var).and_then(|rest| rest.strip_prefix('_'));
        let is_part = |number: &str| number.starts_with(|c: char| c.is_ascii_digit());
        if !number.is_some_and(|number| is_part(number) && !number.ends_with("_rule")) {
            continue;
        }
        let Rows { ids, value, .. } =
            program::stream::rows_from_bytes(&std::fs::read(path).unwrap()).unwrap();
        let width = value.dims()[1];
        for (at, id) in ids.into_iter().enumerate() {
            all.insert(id, (0..width).map(|k| value.get_f64(at * width + k)).collect());
        }
    }
    all
}

#[test]
fn tables_of_rows_take_what_fits() {
    let sgd = || sparse(1 << 40, 2, Optimizer::new(Sgd, 0.25));
    let first = job::run(&Plan::sync(2, 1), sgd, |_, _| ids(&[7, (1 << 39) + 1]), 1);
    let model = first.folder.path();
    // Another height and width, an optimizer with state, another number of servers.
    let adagrad = || {
        let adagrad = Adagrad { initial_accumulator_value: 0.1, ..Adagrad::default() };
        sparse(1 << 39, 3, Optimizer::new(adagrad, 0.25))
    };
    let plan = Plan { model: Some(model.into()), fits: true, ..Plan::sync(3, 1) };
    let grown = job::run(&plan, adagrad, |_, _| ids(&[9]), 1);
    let found = rows(grown.folder.path(), "table");
    // The row that was learnt keeps its numbers, new ones in it and a new row start by the rule.
    assert_eq!(found[&7], [0.25, 0.25, 0.5]);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [7, 9]);
    assert!(found[&9].iter().all(|&x| x < 0.5), "{found:?}");
    let state = rows(grown.folder.path(), "table_moment_0");
    assert_eq!(state[&7], [f64::from(0.1f32); 3]);
}
