//! Learning-rate schedules: ops that compute the rate from a count of steps.
//!
//! The count `@LR_DECAY_COUNTER@` is raised by one at the start of each run, so that the first run
//! sees 0 (with `noam_decay`: 1). All ops here have the role of a schedule; a transpiler moves them
//! to the servers.

mod arithmetic;
mod cosine;
mod counter;
mod decay;
mod noam;
mod piecewise;
mod polynomial;
mod warmup;

pub use cosine::cosine_decay;
pub use counter::{StepCounter, autoincreased_step_counter};
pub use decay::{Decay, exponential_decay, inverse_time_decay, natural_exp_decay};
pub use noam::noam_decay;
pub use piecewise::piecewise_decay;
pub use polynomial::{PolynomialDecay, polynomial_decay};
pub use warmup::linear_lr_warmup;

use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::role;

/// How fast to learn: a number, or a variable that a schedule computes.
#[derive(Clone, Debug, PartialEq)]
pub enum LearningRate {
    /// Kept in a variable `learning_rate_0`, so that it can be changed later.
    Value(f32),
    /// One number, computed by the program.
    Var(Var),
}

impl From<f32> for LearningRate {
    fn from(value: f32) -> Self {
        LearningRate::Value(value)
    }
}

impl From<Var> for LearningRate {
    fn from(var: Var) -> Self {
        LearningRate::Var(var)
    }
}

/// Ops that `build` appends compute a learning rate.
fn schedule(
    b: &mut Builder<'_>,
    build: impl FnOnce(&mut Builder<'_>) -> Result<Var>,
) -> Result<Var> {
    b.with_role(role::LR_SCHED, &[], build)
}

/// Numbers that are divided by, or raised to a negative power.
fn check_positive(layer: &'static str, argument: &'static str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    let rule = "a positive number is needed";
    Err(Error::BadArgument { layer, argument, rule, actual: value.to_string() })
}

#[cfg(test)]
mod tests;
