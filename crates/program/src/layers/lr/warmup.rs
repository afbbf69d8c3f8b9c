//! A straight line up to where another schedule goes on.

use tensor::DType;

use super::arithmetic::{assign, compare, constant, number, scale};
use super::{LearningRate, check_positive, counter, schedule};
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::layers::Switch;
use crate::var::Meta;

/// From `start_lr` in a line towards `end_lr` for `warmup_steps`, then `learning_rate`.
pub fn linear_lr_warmup(
    b: &mut Builder<'_>,
    learning_rate: impl Into<LearningRate>,
    warmup_steps: f64,
    start_lr: f64,
    end_lr: f64,
) -> Result<Var> {
    check_positive("linear_lr_warmup", "warmup_steps", warmup_steps)?;
    let learning_rate = learning_rate.into();
    if let LearningRate::Var(var) = &learning_rate {
        b.desc(var)?;
    }
    schedule(b, |b| {
        let name = "learning_rate_warmup";
        let rate = b.state(name, Meta::dense(DType::F32, &[1]), 0.0)?;
        let step = counter::step(b, 0)?;
        let end = number(b, warmup_steps)?;
        let warming = compare(b, "less_than", &step, &end)?;
        let mut switch = Switch::default();
        switch.case(b, &warming, |b| {
            let part = scale(b, &step, 1.0 / warmup_steps, 0.0)?;
            let above_start = scale(b, &part, end_lr - start_lr, 0.0)?;
            let line = scale(b, &above_start, 1.0, start_lr)?;
            assign(b, &line, &rate)
        })?;
        switch.otherwise(b, |b| {
            let from = match learning_rate {
                LearningRate::Var(var) => var,
                LearningRate::Value(value) => constant(b, f64::from(value))?,
            };
            assign(b, &from, &rate)
        })?;
        Ok(rate)
    })
}
