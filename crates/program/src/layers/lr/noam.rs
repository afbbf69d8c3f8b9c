//! The schedule of the Transformer.

use super::arithmetic::{binary, number, scale};
use super::{check_positive, counter, schedule};
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::layers::{Elementwise, elementwise_min};

/// `learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)`, steps from 1.
pub fn noam_decay(
    b: &mut Builder<'_>,
    d_model: f64,
    warmup_steps: f64,
    learning_rate: f64,
) -> Result<Var> {
    check_positive("noam_decay", "d_model", d_model)?;
    check_positive("noam_decay", "warmup_steps", warmup_steps)?;
    schedule(b, |b| {
        let step = counter::step(b, 1)?;
        let exponent = number(b, -0.5)?;
        let falling = binary(b, "elementwise_pow", &step, &exponent)?;
        let rising = scale(b, &step, warmup_steps.powf(-1.5), 0.0)?;
        let least = elementwise_min(b, &falling, &rising, Elementwise::default())?;
        scale(b, &least, learning_rate * d_model.powf(-0.5), 0.0)
    })
}
