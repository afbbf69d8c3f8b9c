//! `adadelta`: G = rho * G + (1 - rho) * g^2; u = sqrt((U + epsilon) / (G + epsilon)) * g;
//! U = rho * U + (1 - rho) * u^2; p -= sqrt((U + epsilon) / (G + epsilon)) * g with the new U.
//!
//! There is no learning rate. A sparse gradient counts as a dense one with rows of zeros (Fluid
//! 1.8 refuses it).

use tensor::update;

use super::{Accumulator, OptimizerKind, PARAM, Setting, Sparse, constant};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const SQUARED_GRAD: (&str, &str) = ("AvgSquaredGrad", "AvgSquaredGradOut");
const SQUARED_UPDATE: (&str, &str) = ("AvgSquaredUpdate", "AvgSquaredUpdateOut");
const PAIRS: [(&str, &str); 3] = [PARAM, SQUARED_GRAD, SQUARED_UPDATE];

optimizer! {
    /// `AdadeltaOptimizer`.
    Adadelta: "adadelta" {
        epsilon: f32 = 1e-6 => "epsilon",
        rho: f32 = 0.95 => "rho",
    }

    fn states(&self) -> Vec<Accumulator> {
        // The underscores in front are part of the names on disk.
        vec![
            Accumulator::per_weight("_avg_squared_grad", SQUARED_GRAD),
            Accumulator::per_weight("_avg_squared_update", SQUARED_UPDATE),
        ]
    }

    fn has_learning_rate(&self) -> bool {
        false
    }
}

impl Op for Adadelta {
    rules! { Untouched::StayAtZero, PAIRS }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        step!(run, PAIRS, Sparse::WithZeros, T => update::Adadelta::<T> {
            rho: constant(run, "rho", self.rho)?,
            epsilon: constant(run, "epsilon", self.epsilon)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::op::check::{Check, t};
    use crate::op::optimize::tests::{on_table, rows};

    fn adadelta(grad: impl Into<Value>) -> Check {
        on_table("adadelta", grad)
            .input("AvgSquaredGrad", t(&[3, 2], &[0.0; 6]))
            .input("AvgSquaredUpdate", t(&[3, 2], &[2.0; 6]))
            .attr("rho", 0.5f32)
            .attr("epsilon", 1.0f32)
    }

    #[test]
    fn steps_by_the_new_average() {
        // Where g = 2: G = 2, u^2 = 4, U = 3, the step is sqrt(4 / 3) * 2.
        let step = 2.0 * (4.0f64 / 3.0).sqrt();
        adadelta(t(&[3, 2], &[2.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            .gives("AvgSquaredGradOut", t(&[3, 2], &[2.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            .gives("AvgSquaredUpdateOut", t(&[3, 2], &[3.0, 1.0, 1.0, 1.0, 1.0, 1.0]))
            .gives("ParamOut", t(&[3, 2], &[1.0 - step, 1.0, 2.0, 2.0, 3.0, 3.0]));
    }

    #[test]
    fn takes_rows_as_a_dense_gradient() {
        adadelta(rows(3, &[0], &[2.0, 0.0]))
            .gives("AvgSquaredUpdateOut", t(&[3, 2], &[3.0, 1.0, 1.0, 1.0, 1.0, 1.0]));
    }
}
