//! The CTR-DNN as a Fluid user writes it: 26 look-ups in one shared table, three relu layers.

use program::layers::{self, Data, Embedding, Fc};
use program::optimizer::{Optimizer, Sgd};
use program::{Initializer, Net, ParamAttr, Result};
use tensor::DType;
use train::{Executor, Feed, Scope};

use crate::ceiling::{HIDDEN, WIDTH};
use crate::data::{N_DENSE, N_SLOTS};

pub(crate) struct Model {
    pub(crate) net: Net,
    pub(crate) scope: Scope,
    pub(crate) exe: Executor,
}

impl Model {
    /// Built, with parameters filled.
    pub(crate) fn new(n_rows: usize, lr: f32) -> Result<Self> {
        let mut net = Net::with_seed(90);
        build(&mut net, n_rows as i64, lr)?;
        let (scope, mut exe) = (Scope::new(), Executor::new());
        exe.run(&net.startup, &scope, &mut Feed::new(), &[]).expect("the startup program runs");
        Ok(Self { net, scope, exe })
    }

    /// One training step; nothing is fetched, as in a loop that only trains.
    pub(crate) fn step(&mut self, feed: &mut Feed) {
        let ran = self.exe.run(&self.net.main, &self.scope, feed, &[]);
        ran.expect("a training step runs");
    }
}

pub(crate) fn build(net: &mut Net, n_rows: i64, lr: f32) -> Result<()> {
    build_either(net, n_rows, lr, false)
}

/// The same with the AUC that click models keep.
pub(crate) fn build_with_auc(net: &mut Net, n_rows: i64, lr: f32) -> Result<()> {
    build_either(net, n_rows, lr, true)
}

fn build_either(net: &mut Net, n_rows: i64, lr: f32, with_auc: bool) -> Result<()> {
    let mut b = net.builder();
    let int64 = Data { dtype: DType::I64, ..Data::default() };
    let table = ParamAttr {
        initializer: Some(Initializer::Uniform { low: -0.01, high: 0.01, seed: 0 }),
        ..ParamAttr::named("SparseFeatFactors")
    };
    let mut parts = Vec::new();
    for slot in 1..=N_SLOTS {
        let ids = Data { lod_level: 1, ..int64.clone() };
        let ids = layers::data(&mut b, &format!("C{slot}"), &[1], ids)?;
        let options =
            Embedding { is_sparse: true, param_attr: table.clone(), ..Embedding::default() };
        parts.push(layers::embedding(&mut b, &ids, [n_rows, WIDTH as i64], options)?);
    }
    parts.push(layers::data(&mut b, "dense_input", &[N_DENSE as i64], Data::default())?);
    let label = layers::data(&mut b, "label", &[1], int64)?;
    let mut x = layers::concat(&mut b, &parts, 1, None)?;
    for (size, act) in [(HIDDEN, "relu"), (HIDDEN, "relu"), (HIDDEN, "relu"), (2, "softmax")] {
        let fan_in = b.meta(&x)?.dims[1] as f32;
        let normal = Initializer::Normal { loc: 0.0, scale: 1.0 / fan_in.sqrt(), seed: 0 };
        let options =
            Fc { param_attr: vec![ParamAttr::init(normal)], act: Some(act), ..Fc::default() };
        x = layers::fc(&mut b, &[x], size as i64, options)?;
    }
    let cost = layers::cross_entropy(&mut b, &x, &label, layers::CrossEntropy::default())?;
    let loss = layers::reduce_sum(&mut b, &cost, layers::Reduce::default())?;
    if with_auc {
        let auc = layers::Auc { num_thresholds: 4096, slide_steps: 20, ..Default::default() };
        layers::auc(&mut b, &x, &label, auc)?;
    }
    Optimizer::new(Sgd, lr).minimize(&mut b, &loss, &Default::default())?;
    Ok(())
}
