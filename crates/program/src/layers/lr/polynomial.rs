//! Decay along a polynomial to an end, once or in cycles.

use super::arithmetic::{assign, binary, compare, constant, number, scale, unary};
use super::{check_positive, counter, schedule};
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::layers::{Elementwise, Switch, elementwise_min};

/// Options of [`polynomial_decay`]; defaults as in Fluid, which has none for the first two.
#[derive(Clone, Copy, Debug)]
pub struct PolynomialDecay {
    /// The rate at the start.
    pub learning_rate: f64,
    /// After how many steps the end is reached.
    pub decay_steps: f64,
    /// The rate at the end.
    pub end_learning_rate: f64,
    /// How the curve is bent; 1 is a line.
    pub power: f64,
    /// Starts over, each time towards a later end.
    pub cycle: bool,
}

impl PolynomialDecay {
    /// Fluid's defaults for the rest.
    pub fn new(learning_rate: f64, decay_steps: f64) -> Self {
        Self { learning_rate, decay_steps, end_learning_rate: 1e-4, power: 1.0, cycle: false }
    }
}

/// `(learning_rate - end) * (1 - step / decay_steps) ^ power + end`.
pub fn polynomial_decay(b: &mut Builder<'_>, decay: PolynomialDecay) -> Result<Var> {
    check_positive("polynomial_decay", "decay_steps", decay.decay_steps)?;
    schedule(b, |b| {
        let step = counter::step(b, 0)?;
        let passed = if decay.cycle {
            part_of_cycles(b, &step, decay.decay_steps)?
        } else {
            let end = constant(b, decay.decay_steps)?;
            let step = elementwise_min(b, &step, &end, Elementwise::default())?;
            scale(b, &step, 1.0 / decay.decay_steps, 0.0)?
        };
        let left = scale(b, &passed, -1.0, 1.0)?;
        let power = number(b, decay.power)?;
        let part = binary(b, "elementwise_pow", &left, &power)?;
        let above_end = scale(b, &part, decay.learning_rate - decay.end_learning_rate, 0.0)?;
        scale(b, &above_end, 1.0, decay.end_learning_rate)
    })
}

/// `step / (decay_steps * ceil(step / decay_steps))`, with one cycle at step 0.
fn part_of_cycles(b: &mut Builder<'_>, step: &Var, decay_steps: f64) -> Result<Var> {
    let cycles = scale(b, step, 1.0 / decay_steps, 0.0)?;
    let cycles = unary(b, "ceil", &cycles)?;
    let (zero, one) = (constant(b, 0.0)?, constant(b, 1.0)?);
    let at_start = compare(b, "equal", step, &zero)?;
    Switch::default().case(b, &at_start, |b| assign(b, &one, &cycles))?;
    let end = scale(b, &cycles, decay_steps, 0.0)?;
    binary(b, "elementwise_div", step, &end)
}
