//! Counts of steps.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::layers;
use crate::var::Meta;

/// The count of all schedules of a program.
const LR_COUNTER: &str = "@LR_DECAY_COUNTER@";

/// Options of [`autoincreased_step_counter`]; defaults as in Fluid.
#[derive(Clone, Copy, Debug)]
pub struct StepCounter<'a> {
    /// Name of the variable that counts.
    pub counter_name: &'a str,
    /// What the first run sees if `step` is 1: the count starts from `begin - 1`.
    pub begin: i64,
    /// What each run adds.
    pub step: i64,
}

impl Default for StepCounter<'_> {
    fn default() -> Self {
        Self { counter_name: "@STEP_COUNTER@", begin: 1, step: 1 }
    }
}

/// A variable that each run raises before anything else. One that exists already is shared.
pub fn autoincreased_step_counter(b: &mut Builder<'_>, options: StepCounter<'_>) -> Result<Var> {
    let StepCounter { counter_name, begin, step } = options;
    let is_new = b.main.block(0).var(counter_name).is_none();
    let before = begin.saturating_sub(1) as f32;
    let counter = b.state(counter_name, Meta::dense(DType::I64, &[1]), before)?;
    if is_new {
        let op = OpDesc::new("increment").input("X", &counter).output("Out", &counter);
        b.main.prepend_op(0, op.attr("step", step as f32))?;
    }
    Ok(counter)
}

/// The count of schedules as a float; the first run sees `begin`.
pub(super) fn step(b: &mut Builder<'_>, begin: i64) -> Result<Var> {
    let options = StepCounter { counter_name: LR_COUNTER, begin, step: 1 };
    let counter = autoincreased_step_counter(b, options)?;
    layers::cast(b, &counter, DType::F32)
}
