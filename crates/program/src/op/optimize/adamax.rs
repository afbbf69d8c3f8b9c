//! `adamax`: m = b1 * m + (1 - b1) * g; n = max(|g|, b2 * n + epsilon);
//! p -= lr / (1 - b1^t) * m / n. A `scale` op of the program multiplies the power.
//!
//! A sparse gradient counts as a dense one with rows of zeros (Fluid 1.8 refuses it).

use tensor::{Number, update};

use super::{Accumulator, OptimizerKind, PARAM, Setting, Sparse, constant, learning_rate};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const MOMENT: (&str, &str) = ("Moment", "MomentOut");
const INF_NORM: (&str, &str) = ("InfNorm", "InfNormOut");
const BETA1_POW: &str = "beta1_pow_acc";

optimizer! {
    /// `AdamaxOptimizer`. A `scale` op per parameter multiplies the power of beta1.
    Adamax: "adamax" {
        beta1: f32 = 0.9 => "beta1",
        beta2: f32 = 0.999 => "beta2",
        epsilon: f32 = 1e-8 => "epsilon",
    }

    fn states(&self) -> Vec<Accumulator> {
        vec![
            Accumulator::per_weight("moment", MOMENT),
            Accumulator::per_weight("inf_norm", INF_NORM),
            Accumulator::scalar(BETA1_POW, "Beta1Pow", self.beta1),
        ]
    }

    fn scaled_after(&self) -> Option<(&'static str, f32)> {
        Some((BETA1_POW, self.beta1))
    }
}

impl Op for Adamax {
    rules! { Untouched::StayAtZero, [PARAM, MOMENT, INF_NORM] }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        step!(run, [PARAM, MOMENT, INF_NORM], Sparse::WithZeros, T => {
            let (lr, beta1_pow) = (learning_rate(run)?, run.scalar("Beta1Pow")?);
            update::Adamax::<T> {
                lr: update::Adamax::corrected_lr(lr, T::of(beta1_pow)),
                beta1: constant(run, "beta1", self.beta1)?,
                beta2: constant(run, "beta2", self.beta2)?,
                epsilon: constant(run, "epsilon", self.epsilon)?,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::op::check::{Check, t};
    use crate::op::optimize::tests::{on_table, rows};

    fn adamax(grad: impl Into<Value>) -> Check {
        on_table("adamax", grad)
            .input("Moment", t(&[3, 2], &[0.0; 6]))
            .input("InfNorm", t(&[3, 2], &[1.0; 6]))
            .input("Beta1Pow", t(&[1], &[0.5]))
            .attr("beta1", 0.5f32)
            .attr("beta2", 0.5f32)
            .attr("epsilon", 0.5f32)
    }

    #[test]
    fn divides_by_the_largest_gradient() {
        // lr_t = 1. Where g = 4: m = 2, n = 4.
        adamax(t(&[3, 2], &[4.0, 0.0, 0.0, 0.0, 0.0, -0.5]))
            .gives("MomentOut", t(&[3, 2], &[2.0, 0.0, 0.0, 0.0, 0.0, -0.25]))
            .gives("InfNormOut", t(&[3, 2], &[4.0, 1.0, 1.0, 1.0, 1.0, 1.0]))
            .gives("ParamOut", t(&[3, 2], &[0.5, 1.0, 2.0, 2.0, 3.0, 3.25]));
    }

    #[test]
    fn takes_rows_as_a_dense_gradient() {
        adamax(rows(3, &[2, 0], &[0.0, -0.5, 4.0, 0.0]))
            .gives("ParamOut", t(&[3, 2], &[0.5, 1.0, 2.0, 2.0, 3.0, 3.25]));
    }
}
