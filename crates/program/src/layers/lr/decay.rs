//! Decay by a rate every so many steps: exponential, natural, by inverse time.

use super::arithmetic::{binary, number, scale, unary};
use super::{check_positive, counter, schedule};
use crate::builder::{Builder, Var};
use crate::error::Result;

/// How a rate decays. Fluid has no defaults but `staircase: false`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decay {
    /// The rate at the start.
    pub learning_rate: f64,
    /// After how many steps it has decayed once.
    pub decay_steps: f64,
    /// What it decays by.
    pub decay_rate: f64,
    /// Decays in jumps, every `decay_steps`.
    pub staircase: bool,
}

impl Decay {
    /// How many times `decay_steps` have passed.
    fn periods(&self, b: &mut Builder<'_>) -> Result<Var> {
        let step = counter::step(b, 0)?;
        let periods = scale(b, &step, 1.0 / self.decay_steps, 0.0)?;
        if self.staircase { unary(b, "floor", &periods) } else { Ok(periods) }
    }
}

/// `learning_rate * decay_rate ^ (step / decay_steps)`.
pub fn exponential_decay(b: &mut Builder<'_>, decay: Decay) -> Result<Var> {
    check_positive("exponential_decay", "decay_steps", decay.decay_steps)?;
    schedule(b, |b| {
        let periods = decay.periods(b)?;
        let rate = number(b, decay.decay_rate)?;
        let power = binary(b, "elementwise_pow", &rate, &periods)?;
        scale(b, &power, decay.learning_rate, 0.0)
    })
}

/// `learning_rate * exp(-decay_rate * step / decay_steps)`.
pub fn natural_exp_decay(b: &mut Builder<'_>, decay: Decay) -> Result<Var> {
    check_positive("natural_exp_decay", "decay_steps", decay.decay_steps)?;
    schedule(b, |b| {
        let periods = decay.periods(b)?;
        let exponent = scale(b, &periods, -decay.decay_rate, 0.0)?;
        let power = unary(b, "exp", &exponent)?;
        scale(b, &power, decay.learning_rate, 0.0)
    })
}

/// `learning_rate / (1 + decay_rate * step / decay_steps)`.
pub fn inverse_time_decay(b: &mut Builder<'_>, decay: Decay) -> Result<Var> {
    check_positive("inverse_time_decay", "decay_steps", decay.decay_steps)?;
    schedule(b, |b| {
        let periods = decay.periods(b)?;
        let decayed = scale(b, &periods, decay.decay_rate, 0.0)?;
        let divisor = scale(b, &decayed, 1.0, 1.0)?;
        let rate = number(b, decay.learning_rate)?;
        binary(b, "elementwise_div", &rate, &divisor)
    })
}
