//! Half a cosine over all epochs.

use super::arithmetic::{scale, unary};
use super::{check_positive, counter, schedule};
use crate::builder::{Builder, Var};
use crate::error::Result;

/// `learning_rate * 0.5 * (cos(epoch * pi / epochs) + 1)`.
pub fn cosine_decay(
    b: &mut Builder<'_>,
    learning_rate: f64,
    step_each_epoch: f64,
    epochs: f64,
) -> Result<Var> {
    check_positive("cosine_decay", "step_each_epoch", step_each_epoch)?;
    check_positive("cosine_decay", "epochs", epochs)?;
    schedule(b, |b| {
        let step = counter::step(b, 0)?;
        let epoch = scale(b, &step, 1.0 / step_each_epoch, 0.0)?;
        let epoch = unary(b, "floor", &epoch)?;
        let angle = scale(b, &epoch, std::f64::consts::PI, 0.0)?;
        let angle = scale(b, &angle, 1.0 / epochs, 0.0)?;
        let cosine = unary(b, "cos", &angle)?;
        let raised = scale(b, &cosine, 1.0, 1.0)?;
        scale(b, &raised, learning_rate * 0.5, 0.0)
    })
}
