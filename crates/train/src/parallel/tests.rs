//! Several devices against one, the order of sums, what is lent and what is kept.

use program::backward::Limits;
use program::layers::{self, Data, Embedding, Fc};
use program::optimizer::{Optimizer, Sgd};
use program::{Net, OpDesc, role};
use tensor::DType;

use super::*;
use crate::executor::Executor;

/// `w[x] -> fc -> mean`, trained with SGD; the table's gradient is sparse.
struct Model {
    net: Net,
    loss: String,
    scope: Scope,
}

fn model() -> Model {
    let mut net = Net::with_seed(90);
    let mut b = net.builder();
    let ids =
        layers::data(&mut b, "ids", &[1], Data { dtype: DType::I64, ..Data::default() }).unwrap();
    let sparse = Embedding { is_sparse: true, ..Embedding::default() };
    let rows = layers::embedding(&mut b, &ids, [8, 3], sparse).unwrap();
    let out = layers::fc(&mut b, &[rows], 2, Fc::default()).unwrap();
    let loss = layers::mean(&mut b, &out, None).unwrap();
    Optimizer::new(Sgd, 0.5).minimize(&mut b, &loss, &Limits::default()).unwrap();
    let scope = Scope::new();
    Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    Model { net, loss: loss.name().into(), scope }
}

fn batch(ids: &[i64]) -> Feed {
    Feed::new().with("ids", Tensor::new([ids.len(), 1], ids).unwrap())
}

fn table(scope: &Scope) -> Tensor {
    scope.get("embedding_0.w_0").unwrap().tensor().unwrap().clone()
}

const IDS: [i64; 6] = [1, 2, 3, 1, 1, 7];

/// The scope after one step on `n` devices.
fn trained(n: usize) -> Scope {
    let Model { net, loss, scope } = model();
    let mut parallel = Parallel::new(n, Some(LossScale::PerDevice));
    let mut feeds = split(&batch(&IDS), n, false, |_| false).unwrap();
    let got = parallel.run(&net.main, &scope, &mut feeds, &[&loss]).unwrap();
    assert_eq!(got[0].len(), n, "a loss of each device");
    scope
}

#[test]
fn several_devices_equal_one() {
    let Model { net, scope, .. } = model();
    Executor::new().run(&net.main, &scope, &mut batch(&IDS), &[]).unwrap();
    for n in [1, 2, 3, 6] {
        let (whole, apart) = (table(&scope), table(&trained(n)));
        for (one, other) in whole.data::<f32>().unwrap().iter().zip(apart.data::<f32>().unwrap()) {
            assert!((one - other).abs() < 1e-6, "{n} devices: {one} and {other}");
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let run = |threads: bool| {
        let Model { net, scope, .. } = model();
        let mut parallel = Parallel::new(3, Some(LossScale::PerDevice));
        for _ in 0..4 {
            let mut feeds = split(&batch(&IDS), 3, false, |_| false).unwrap();
            parallel.devices.iter_mut().for_each(|device| device.pretend_slow(threads));
            parallel.run(&net.main, &scope, &mut feeds, &[]).unwrap();
        }
        table(&scope)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn the_scope_keeps_only_the_users_variables() {
    let Model { net, scope, .. } = model();
    let before = scope.names();
    let mut parallel = Parallel::new(2, Some(LossScale::PerDevice));
    let mut feeds = vec![batch(&[1]), batch(&[2, 3])];
    parallel.run(&net.main, &scope, &mut feeds, &["fc_0.w_0@GRAD"]).unwrap();
    assert_eq!(scope.names(), before);
    for name in before {
        let lent = scope.read(&name, |value| matches!(value, Value::Shared(_)));
        assert_eq!(lent, Some(false), "{name}");
    }
}

#[test]
fn a_failed_step_changes_nothing() {
    let Model { net, scope, .. } = model();
    let before = table(&scope);
    let mut parallel = Parallel::new(2, Some(LossScale::PerDevice));
    let error = parallel.run(&net.main, &scope, &mut [batch(&[1]), batch(&[99])], &[]).unwrap_err();
    assert!(matches!(error, Error::Program(ProgramError::InOp { index: 0, .. })), "{error}");
    assert_eq!(table(&scope), before);
    let error = parallel.run(&net.main, &scope, &mut [batch(&[1])], &[]).unwrap_err();
    assert!(matches!(error, Error::FeedCount { feeds: 1, devices: 2 }), "{error}");
}

#[test]
fn what_is_sent_is_sent_once() {
    let Model { mut net, .. } = model();
    let main = &mut net.main;
    let kinds: Vec<String> = main.block(0).ops.iter().map(|op| op.kind.clone()).collect();
    let grads = ["fc_0.w_0@GRAD", "embedding_0.w_0@GRAD"];
    for grad in grads {
        let op = OpDesc::new("send").input("X", grad).attr(role::ROLE, role::RPC);
        main.block_mut(0).ops.push(op);
    }
    let loss = Loss {
        scale: Some(LossScale::PerDevice),
        n_devices: 2,
        n_trainers: 1,
        counts_together: false,
    };
    let stages = Stages::new(main, loss, &Names::new());
    let [stage] = &stages.stages[..] else { panic!("one stage: {stages:?}") };
    let ops = |part: &stage::StageProgram| {
        let ops = part.program.block(0).ops.iter();
        ops.map(|op| op.kind.clone()).collect::<Vec<_>>()
    };
    let updates = kinds.iter().filter(|kind| *kind == "sgd").count();
    assert_eq!(ops(&stage.once)[updates..], ["send", "send"]);
    assert!(grads.iter().all(|grad| stage.merge.contains(*grad)), "merged before they are sent");
    assert!(!ops(&stage.local).contains(&"send".to_string()));
}

/// Fluid's devices on CPUs share all variables with `ReduceStrategy.Reduce`: the area is that of all
/// samples, and grows from device to device.
#[test]
fn devices_that_count_together_have_one_area() {
    let mut net = Net::with_seed(90);
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[2], Data::default()).unwrap();
    let label = Data { dtype: DType::I64, ..Data::default() };
    let label = layers::data(&mut b, "label", &[1], label).unwrap();
    let guess = layers::softmax(&mut b, &x, Default::default()).unwrap();
    let auc = layers::auc(&mut b, &guess, &label, Default::default()).unwrap();
    let loss = layers::mean(&mut b, &guess, None).unwrap();
    let (area, state) = (auc.auc.name().to_string(), auc.states[2].name().to_string());
    let scope = Scope::new();
    Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    let xs: [f32; 8] = [0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 0.0, 3.0];
    let whole = Feed::new()
        .with("x", Tensor::new([4, 2], &xs).unwrap())
        .with("label", Tensor::new([4, 1], &[1i64, 0, 0, 1]).unwrap());
    let mut parallel = Parallel::new(4, None);
    parallel.count_together();
    for n_before in [0.0, 2.0] {
        let mut feeds = split(&whole, 4, true, |_| false).unwrap();
        let fetch = [area.as_str(), loss.name()];
        let got = parallel.run(&net.main, &scope, &mut feeds, &fetch).unwrap();
        let areas: Vec<f64> = got[0].iter().map(|value| value.get_f64(0)).collect();
        assert_eq!(areas.len(), 4);
        // Positives at 1 and 3, negatives at -1 and 2: of four pairs three are right.
        assert!((areas[3] - 0.75).abs() < 1e-9, "{areas:?}");
        let counted = |value: &Value| {
            let tensor = value.tensor().unwrap();
            (0..tensor.len()).map(|at| tensor.get_f64(at)).sum::<f64>()
        };
        assert_eq!(scope.read(&state, counted), Some(n_before + 2.0), "positives of all devices");
    }
    let mut of_job = Parallel::new(4, None);
    of_job.fetch_first();
    let mut feeds = split(&whole, 4, true, |_| false).unwrap();
    let got = of_job.run(&net.main, &scope, &mut feeds, &[area.as_str()]).unwrap();
    assert_eq!(got[0].len(), 1, "Fluid's places run apart in a job, and the first is asked");
}
