//! The tiny models that the golden runs trained, built with our layers.

use program::backward::Limits;
use program::layers::{self, Auc, CrossEntropy, Data, Embedding, Fc, Reduce};
use program::optimizer::{Optimizer, Sgd};
use program::{Builder, Initializer, Net, ParamAttr, Result, Var};
use tensor::DType;

/// Linear regression: `mean((fc(x) - y)^2)` over 13 features, trained by SGD. Returns the loss.
pub fn fit_a_line(net: &mut Net, learning_rate: f32) -> Result<Var> {
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[13], Data::default())?;
    let y = layers::data(&mut b, "y", &[1], Data::default())?;
    let predicted = layers::fc(&mut b, &[x], 1, Fc::default())?;
    let cost = layers::square_error_cost(&mut b, &predicted, &y)?;
    let loss = layers::mean(&mut b, &cost, None)?;
    Optimizer::new(Sgd, learning_rate).minimize(&mut b, &loss, &Limits::default())?;
    Ok(loss)
}

/// The size and form of a small CTR-DNN.
#[derive(Clone, Debug)]
pub struct Ctr {
    /// Slots of ids, `C1`, `C2`, …
    pub n_slots: usize,
    /// Numbers in `dense_input`.
    pub n_dense: i64,
    /// Rows of the table that all slots share.
    pub n_rows: i64,
    /// Width of a row.
    pub dim: i64,
    /// Widths of the hidden layers.
    pub hidden: Vec<i64>,
    /// Buckets of the AUC, less one.
    pub num_thresholds: i32,
    /// Batches in the window of the batch AUC.
    pub slide_steps: i32,
    /// Sums up the ids of a sample (`sequence_pool`) instead of taking one each.
    pub pooled: bool,
    /// The table's gradient is rows instead of a whole table.
    pub is_sparse: bool,
}

/// The outputs of a CTR-DNN.
#[derive(Clone, Debug)]
pub struct CtrVars {
    /// Cross entropy, summed over the batch.
    pub loss: Var,
    /// Over all batches.
    pub auc: Var,
    /// Over the last few.
    pub batch_auc: Var,
}

/// Looks ids up in one shared table, joins them with the dense input, relu layers, softmax of two.
pub fn ctr(net: &mut Net, model: &Ctr, mut optimizer: Optimizer) -> Result<CtrVars> {
    let mut builder = net.builder();
    let b = &mut builder;
    let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
    let slots: Result<Vec<Var>> =
        (1..=model.n_slots).map(|k| layers::data(b, &format!("C{k}"), &[1], ids.clone())).collect();
    let dense = layers::data(b, "dense_input", &[model.n_dense], Data::default())?;
    let label = layers::data(b, "label", &[1], Data { dtype: DType::I64, ..Data::default() })?;
    let mut parts = Vec::new();
    for slot in slots? {
        parts.push(look_up(b, model, &slot)?);
    }
    parts.push(dense);
    let mut hidden = layers::concat(b, &parts, 1, None)?;
    for &width in &model.hidden {
        hidden = dense_layer(b, hidden, width, "relu")?;
    }
    let predicted = dense_layer(b, hidden, 2, "softmax")?;
    let cost = layers::cross_entropy(b, &predicted, &label, CrossEntropy::default())?;
    let loss = layers::reduce_sum(b, &cost, Reduce::default())?;
    let Ctr { num_thresholds, slide_steps, .. } = *model;
    let auc = Auc { num_thresholds, slide_steps, ..Auc::default() };
    let auc = layers::auc(b, &predicted, &label, auc)?;
    optimizer.minimize(b, &loss, &Limits::default())?;
    Ok(CtrVars { loss, auc: auc.auc, batch_auc: auc.batch_auc })
}

fn look_up(b: &mut Builder<'_>, model: &Ctr, ids: &Var) -> Result<Var> {
    let param_attr = ParamAttr {
        initializer: Some(Initializer::Uniform { low: -1.0, high: 1.0, seed: 0 }),
        ..ParamAttr::named("SparseFeatFactors")
    };
    let options = Embedding { is_sparse: model.is_sparse, param_attr, ..Embedding::default() };
    let rows = layers::embedding(b, ids, [model.n_rows, model.dim], options)?;
    if model.pooled { layers::sequence_pool(b, &rows, "sum", Default::default()) } else { Ok(rows) }
}

/// A layer whose weights start from Normal(0, 1 / sqrt(width of the input)).
fn dense_layer(b: &mut Builder<'_>, x: Var, size: i64, act: &str) -> Result<Var> {
    let width = b.meta(&x)?.dims[1] as f64;
    let normal = Initializer::Normal { loc: 0.0, scale: (1.0 / width.sqrt()) as f32, seed: 0 };
    let param_attr = vec![ParamAttr::init(normal)];
    layers::fc(b, &[x], size, Fc { act: Some(act), param_attr, ..Fc::default() })
}
