//! `decayed_adagrad`: m = d * m + (1 - d) * g^2; p -= lr * g / (sqrt(m) + epsilon).
//!
//! A sparse gradient counts as a dense one with rows of zeros (Fluid 1.8 refuses it).

use tensor::update;

use super::{Accumulator, OptimizerKind, PARAM, Setting, Sparse, constant, learning_rate};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const MOMENT: (&str, &str) = ("Moment", "MomentOut");

optimizer! {
    /// `DecayedAdagradOptimizer`: Adagrad that forgets.
    DecayedAdagrad: "decayed_adagrad" {
        decay: f32 = 0.95 => "decay",
        epsilon: f32 = 1e-6 => "epsilon",
    }

    fn states(&self) -> Vec<Accumulator> {
        vec![Accumulator::per_weight("moment", MOMENT)]
    }
}

impl Op for DecayedAdagrad {
    rules! { Untouched::StayAtZero, [PARAM, MOMENT] }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        step!(run, [PARAM, MOMENT], Sparse::WithZeros, T => update::DecayedAdagrad::<T> {
            lr: learning_rate(run)?,
            decay: constant(run, "decay", self.decay)?,
            epsilon: constant(run, "epsilon", self.epsilon)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::op::check::{Check, t};
    use crate::op::optimize::tests::{on_table, rows};

    fn decayed(grad: impl Into<Value>) -> Check {
        on_table("decayed_adagrad", grad)
            .input("Moment", t(&[3, 2], &[7.0; 6]))
            .attr("decay", 0.5f32)
            .attr("epsilon", 1.0f32)
    }

    #[test]
    fn old_squares_fade() {
        // Where g = 5: m = 3.5 + 12.5 = 16, the step is 0.5 * 5 / 5.
        decayed(t(&[3, 2], &[5.0, 0.0, 0.0, 0.0, -5.0, 0.0]))
            .gives("MomentOut", t(&[3, 2], &[16.0, 3.5, 3.5, 3.5, 16.0, 3.5]))
            .gives("ParamOut", t(&[3, 2], &[0.5, 1.0, 2.0, 2.0, 3.5, 3.0]));
    }

    #[test]
    fn squares_of_absent_rows_fade_too() {
        decayed(rows(3, &[2, 0, 2], &[-1.0, 1.0, 5.0, 0.0, -4.0, -1.0]))
            .gives("MomentOut", t(&[3, 2], &[16.0, 3.5, 3.5, 3.5, 16.0, 3.5]))
            .gives("ParamOut", t(&[3, 2], &[0.5, 1.0, 2.0, 2.0, 3.5, 3.0]));
    }
}
