//! The nets of the golden runs with servers, as `gen_transpiler.py` and `gen_ps.py` describe them.

use program::backward::Limits;
use program::layers::{self, CrossEntropy, Data, Decay, Embedding, Fc, Reduce};
use program::optimizer::{Adagrad, Adam, LearningRate, Momentum, Optimizer, Sgd};
use program::{Builder, GradClip, Initializer, Net, ParamAttr, Regularizer, Result, Var};
use serde_json::Value as Json;
use tensor::DType;

/// Builds a case's net with its optimizer; returns the loss.
pub fn build(case: &Json) -> Result<(Net, Var)> {
    let mut net = Net::with_seed(case["seed"].as_i64().unwrap_or(0) as i32);
    let mut b = net.builder();
    let loss = match case["net"]["kind"].as_str() {
        Some("fit") => fit(&mut b, &case["net"])?,
        _ => ctr(&mut b, &case["net"])?,
    };
    optimizer(&mut b, case)?.minimize(&mut b, &loss, &Limits::default())?;
    Ok((net, loss))
}

fn widths(net: &Json) -> Vec<i64> {
    net["hidden"]
        .as_array()
        .map(|all| all.iter().flat_map(Json::as_i64).collect())
        .unwrap_or_default()
}

fn fc(b: &mut Builder<'_>, x: Var, size: i64, act: Option<&'static str>) -> Result<Var> {
    layers::fc(b, &[x], size, Fc { act, ..Fc::default() })
}

fn fit(b: &mut Builder<'_>, net: &Json) -> Result<Var> {
    let features = net["features"].as_i64().unwrap_or(13);
    let x = layers::data(b, "x", &[features], Data::default())?;
    let y = layers::data(b, "y", &[1], Data::default())?;
    let mut hidden = x;
    for width in widths(net) {
        let act = if net["tanh"] == true { "tanh" } else { "relu" };
        hidden = fc(b, hidden, width, Some(act))?;
    }
    let predicted = fc(b, hidden, 1, None)?;
    let cost = layers::square_error_cost(b, &predicted, &y)?;
    layers::mean(b, &cost, None)
}

fn ctr(b: &mut Builder<'_>, net: &Json) -> Result<Var> {
    let size = ["rows", "dim"].map(|name| net[name].as_i64().unwrap_or(1));
    let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
    let n_slots = net["slots"].as_i64().unwrap_or(1);
    let slots: Result<Vec<Var>> =
        (1..=n_slots).map(|k| layers::data(b, &format!("C{k}"), &[1], ids.clone())).collect();
    let label = layers::data(b, "label", &[1], Data { dtype: DType::I64, ..Data::default() })?;
    let mut rows = Vec::new();
    for slot in slots? {
        let options = Embedding {
            is_sparse: true,
            is_distributed: net["is_distributed"].as_bool().unwrap_or(false),
            param_attr: table(net),
            ..Embedding::default()
        };
        rows.push(layers::embedding(b, &slot, size, options)?);
    }
    let mut hidden = layers::concat(b, &rows, 1, None)?;
    for width in widths(net) {
        hidden = fc(b, hidden, width, Some("relu"))?;
    }
    let predicted = fc(b, hidden, 2, Some("softmax"))?;
    let cost = layers::cross_entropy(b, &predicted, &label, CrossEntropy::default())?;
    if net["mean"] == true {
        return layers::mean(b, &cost, None);
    }
    layers::reduce_sum(b, &cost, Reduce::default())
}

fn table(net: &Json) -> ParamAttr {
    let attr = ParamAttr::named("SparseFeatFactors");
    let uniform = Initializer::Uniform { low: -1.0, high: 1.0, seed: 0 };
    ParamAttr { initializer: (net["mean"] == true).then_some(uniform), ..attr }
}

fn rate(b: &mut Builder<'_>, case: &Json) -> Result<LearningRate> {
    let steps = &case["piecewise"];
    if !steps.is_null() {
        let list = |name: &str| -> Vec<f64> {
            steps[name].as_array().into_iter().flatten().flat_map(Json::as_f64).collect()
        };
        return Ok(layers::piecewise_decay(b, &list("boundaries"), &list("values"))?.into());
    }
    let decay = &case["decay"];
    if !decay.is_null() {
        // `gen_ps.py` has short names for it.
        let number = |value: &Json| value.as_f64().unwrap_or(0.0);
        let decay = Decay {
            learning_rate: number(&case["lr"]),
            decay_steps: number(&decay["steps"]),
            decay_rate: number(&decay["rate"]),
            staircase: false,
        };
        return Ok(layers::exponential_decay(b, decay)?.into());
    }
    let args = &case["lr_decay"]["args"];
    if args.is_null() {
        return Ok((case["lr"].as_f64().unwrap_or(0.1) as f32).into());
    }
    let number = |name: &str| args[name].as_f64().unwrap_or(0.0);
    let decay = Decay {
        learning_rate: number("learning_rate"),
        decay_steps: number("decay_steps"),
        decay_rate: number("decay_rate"),
        staircase: false,
    };
    Ok(layers::exponential_decay(b, decay)?.into())
}

fn optimizer(b: &mut Builder<'_>, case: &Json) -> Result<Optimizer> {
    let rate = rate(b, case)?;
    let mut optimizer = match case["optimizer"].as_str() {
        Some("adam") => Optimizer::new(Adam::default(), rate),
        Some("adam_lazy") => Optimizer::new(Adam { lazy_mode: true, ..Adam::default() }, rate),
        Some("momentum") => Optimizer::new(Momentum { momentum: 0.9, use_nesterov: false }, rate),
        Some("adagrad") => Optimizer::new(Adagrad::default(), rate),
        _ => Optimizer::new(Sgd, rate),
    };
    optimizer.regularization = case["l2"].as_f64().map(|l2| Regularizer::L2(l2 as f32));
    let value = |max: f64| GradClip::Value { min: -max as f32, max: max as f32 };
    let norm = |max: f64| GradClip::Norm { max_norm: max as f32 };
    let global =
        |max: f64| GradClip::GlobalNorm { max_norm: max as f32, group: "default_group".into() };
    optimizer.grad_clip = case["clip_value"].as_f64().map(value);
    optimizer.grad_clip = optimizer.grad_clip.or(case["clip_norm"].as_f64().map(norm));
    optimizer.grad_clip = optimizer.grad_clip.or(case["clip_global"].as_f64().map(global));
    Ok(optimizer)
}
