//! Every optimizer, regularizer and clip on one parameter with given gradients, dense and sparse:
//! each variable after each step is Fluid's.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::backward::Limits;
use program::layers::{self, Data, Elementwise, Embedding, Reduce};
use program::optimizer::*;
use program::{GradClip, Initializer, Net, NewParam, ParamAttr, Regularizer, Var};
use tensor::DType;
use testing::close::{Tolerance, assert_tensor};
use testing::golden::Golden;
use testing::session::Session;
use train::Feed;

const TOLERANCE: Tolerance = Tolerance::absolute(2e-6);
const N_STEPS: usize = 3;

/// The table `OPTS` of `golden/gen/gen_local.py`; the learning rate is 0.1 everywhere.
fn optimizer(name: &str) -> Optimizer {
    let adam_lazy = Adam { lazy_mode: true, ..Adam::default() };
    let adagrad_init = Adagrad { initial_accumulator_value: 0.5, ..Adagrad::default() };
    let decayed = DecayedAdagrad { decay: 0.8, ..DecayedAdagrad::default() };
    let centered = RmsProp { momentum: 0.9, centered: true, ..RmsProp::default() };
    let rate = 0.1;
    match name {
        "sgd" => Optimizer::new(Sgd, rate),
        "momentum" => Optimizer::new(Momentum { momentum: 0.9, use_nesterov: false }, rate),
        "nesterov" => Optimizer::new(Momentum { momentum: 0.9, use_nesterov: true }, rate),
        "adam" => Optimizer::new(Adam::default(), rate),
        "adam_lazy" => Optimizer::new(adam_lazy, rate),
        "adagrad" => Optimizer::new(Adagrad::default(), rate),
        "adagrad_init" => Optimizer::new(adagrad_init, rate),
        "decayed_adagrad" => Optimizer::new(decayed, rate),
        "adamax" => Optimizer::new(Adamax::default(), rate),
        "adadelta" => Optimizer::new(Adadelta::default(), rate),
        "rmsprop" => Optimizer::new(RmsProp::default(), rate),
        "rmsprop_centered" => Optimizer::new(centered, rate),
        "ftrl" => Optimizer::new(Ftrl::default(), rate),
        // The scripts say l2 = 0.05, but Fluid 1.8.5 passes l1 for l2, too. We pass l2.
        "ftrl_l1" => Optimizer::new(Ftrl { l1: 0.3, l2: 0.3, ..Ftrl::default() }, rate),
        "ftrl_power" => Optimizer::new(Ftrl { l1: 0.1, l2: 0.1, lr_power: -0.7 }, rate),
        "lars" => Optimizer::new(LarsMomentum { momentum: 0.9, ..LarsMomentum::default() }, rate),
        "lamb" => Optimizer::new(Lamb::default(), rate),
        "dpsgd" => Optimizer::new(Dpsgd { clip: 0.7, batch_size: 16.0, sigma: 0.0 }, rate),
        "adam_clip_l2" => with_l2(with_clip(Optimizer::new(Adam::default(), rate), global_norm())),
        other => decorated_sgd(other),
    }
}

fn decorated_sgd(name: &str) -> Optimizer {
    let mut sgd = Optimizer::new(Sgd, 0.1);
    match name {
        "sgd_l2" => with_l2(sgd),
        "sgd_l1" => {
            sgd.regularization = Some(Regularizer::L1(0.5));
            sgd
        }
        "sgd_clip_value" => with_clip(sgd, GradClip::Value { min: -0.3, max: 0.3 }),
        "sgd_clip_norm" => with_clip(sgd, GradClip::Norm { max_norm: 0.7 }),
        "sgd_clip_global" => with_clip(sgd, global_norm()),
        other => panic!("the golden file has an optimizer that is not in the table: {other}"),
    }
}

fn global_norm() -> GradClip {
    GradClip::GlobalNorm { max_norm: 0.7, group: "default_group".to_string() }
}

fn with_l2(mut optimizer: Optimizer) -> Optimizer {
    optimizer.regularization = Some(Regularizer::L2(0.5));
    optimizer
}

fn with_clip(mut optimizer: Optimizer, clip: GradClip) -> Optimizer {
    optimizer.grad_clip = Some(clip);
    optimizer
}

/// A net whose gradient for `p` is what is fed as `x`: the loss is `sum(p * x)`, or for the sparse
/// form the sum over the rows of `p` that `i` lists.
fn build(golden: &Golden, sparse: bool, mut optimizer: Optimizer) -> Session {
    let mut net = Net::default();
    let mut b = net.builder();
    let p0 = golden.tensor("p0");
    let (rows, dim) = (p0.dims()[0] as i64, p0.dims()[1] as i64);
    let fixed = Data { append_batch_size: false, ..Data::default() };
    let attr =
        ParamAttr { initializer: Some(Initializer::Array(p0.clone())), ..ParamAttr::named("p") };
    let (x, chosen): (Var, Var) = if sparse {
        let n_ids = golden.tensor("ids").dims()[1] as i64;
        let x = layers::data(&mut b, "x", &[n_ids, dim], fixed.clone()).unwrap();
        let ids = Data { dtype: DType::I64, ..fixed };
        let ids = layers::data(&mut b, "i", &[n_ids, 1], ids).unwrap();
        let options = Embedding { is_sparse: true, param_attr: attr, ..Embedding::default() };
        (x, layers::embedding(&mut b, &ids, [rows, dim], options).unwrap())
    } else {
        let x = layers::data(&mut b, "x", &[rows, dim], fixed).unwrap();
        let param = NewParam {
            layer: "create_parameter",
            suffix: "w",
            attr: &attr,
            dims: &[rows, dim],
            dtype: DType::F32,
            default_init: Initializer::XAVIER,
        };
        (x, b.parameter(&param).unwrap())
    };
    let product = layers::elementwise_mul(&mut b, &chosen, &x, Elementwise::default()).unwrap();
    let loss = layers::reduce_sum(&mut b, &product, Reduce::default()).unwrap();
    optimizer.minimize(&mut b, &loss, &Limits::default()).unwrap();
    Session::start(net)
}

fn check(golden: &Golden, name: &str, form: &str) {
    let sparse = form == "sparse";
    let mut session = build(golden, sparse, optimizer(name));
    let prefix = format!("{name}/{form}/");
    for step in 0..N_STEPS {
        let mut feed = if sparse {
            Feed::new()
                .with("x", golden.part("sparse_grad", step))
                .with("i", golden.part("ids", step))
        } else {
            Feed::new().with("x", golden.part("grad", step))
        };
        session.run(&mut feed, &[]);
        for (var, _) in golden.under(&prefix) {
            let key = format!("{prefix}{var}");
            let what = format!("{key} after step {step}");
            assert_tensor(&what, &session.tensor(var), &golden.part(&key, step), TOLERANCE);
        }
    }
}

fn names(golden: &Golden, form: &str) -> Vec<String> {
    let keys = golden.keys().filter_map(|key| key.split_once(&format!("/{form}/")));
    let mut names: Vec<String> = keys.map(|(name, _)| name.to_string()).collect();
    names.dedup();
    names
}

#[test]
fn dense_steps() {
    let golden = Golden::load("optimizer_steps.npz");
    let names = names(&golden, "dense");
    assert_eq!(names.len(), 24);
    names.iter().for_each(|name| check(&golden, name, "dense"));
}

#[test]
fn sparse_steps() {
    let golden = Golden::load("optimizer_steps.npz");
    let names = names(&golden, "sparse");
    assert_eq!(names.len(), 16);
    names.iter().for_each(|name| check(&golden, name, "sparse"));
}
