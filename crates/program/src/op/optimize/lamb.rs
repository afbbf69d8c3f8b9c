//! `lamb`: m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * g^2;
//! r = m / (sqrt(v) + epsilon) + weight_decay * p; p -= lr * |p| / |r| * r.
//!
//! No bias correction, as in Fluid 1.8: the powers of the betas are declared and not used. Rows
//! that a sparse gradient does not list have g = 0.

use tensor::update;

use super::{Accumulator, OptimizerKind, PARAM, Setting, Sparse, constant, learning_rate};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const MOMENT1: (&str, &str) = ("Moment1", "Moment1Out");
const MOMENT2: (&str, &str) = ("Moment2", "Moment2Out");

optimizer! {
    /// `LambOptimizer`. `Optimizer::undecayed` says which parameters do not decay.
    Lamb: "lamb" {
        lamb_weight_decay: f32 = 0.01 => "weight_decay",
        beta1: f32 = 0.9 => "beta1",
        beta2: f32 = 0.999 => "beta2",
        epsilon: f32 = 1e-6 => "epsilon",
    }

    fn states(&self) -> Vec<Accumulator> {
        vec![
            Accumulator::per_weight("moment1", MOMENT1),
            Accumulator::per_weight("moment2", MOMENT2),
            Accumulator::scalar("beta1_pow_acc", "Beta1Pow", self.beta1),
            Accumulator::scalar("beta2_pow_acc", "Beta2Pow", self.beta2),
        ]
    }

    fn decay(&self) -> Option<&'static str> {
        Some("weight_decay")
    }
}

impl Op for Lamb {
    rules! { [PARAM, MOMENT1, MOMENT2] }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits { needs_whole: true, ..Traits::update(Untouched::Change) }
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        step!(run, [PARAM, MOMENT1, MOMENT2], Sparse::AsDense, T => update::Lamb::<T> {
            lr: learning_rate(run)?,
            beta1: constant(run, "beta1", self.beta1)?,
            beta2: constant(run, "beta2", self.beta2)?,
            epsilon: constant(run, "epsilon", self.epsilon)?,
            decay: constant(run, "weight_decay", self.lamb_weight_decay)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::op::check::{Check, check, t};
    use crate::op::optimize::tests::rows;

    fn lamb(grad: impl Into<Value>) -> Check {
        check("lamb")
            .input("Param", t(&[2, 2], &[3.0, 0.0, 0.0, 4.0]))
            .input("Grad", grad)
            .input("Moment1", t(&[2, 2], &[0.0; 4]))
            .input("Moment2", t(&[2, 2], &[0.0; 4]))
            .input("LearningRate", t(&[1], &[0.1]))
            .attr("beta1", 0.5f32)
            .attr("beta2", 0.75f32)
            .attr("epsilon", 1.0f32)
            .attr("weight_decay", 0.5f32)
            .within(1e-7)
    }

    /// m = 2 and v = 4 in the first place: r = [2 / 3 + 1.5, 0, 0, 2], |p| = 5.
    fn expected() -> Vec<f64> {
        let r = [2.0 / 3.0 + 1.5, 2.0f64];
        let step = 0.5 / r[0].hypot(r[1]);
        vec![3.0 - step * r[0], 0.0, 0.0, 4.0 - step * r[1]]
    }

    #[test]
    fn the_step_is_as_long_as_the_weights() {
        lamb(t(&[2, 2], &[4.0, 0.0, 0.0, 0.0]))
            .gives("Moment1Out", t(&[2, 2], &[2.0, 0.0, 0.0, 0.0]))
            .gives("Moment2Out", t(&[2, 2], &[4.0, 0.0, 0.0, 0.0]))
            .gives("ParamOut", t(&[2, 2], &expected()));
    }

    #[test]
    fn takes_rows_as_a_dense_gradient() {
        lamb(rows(2, &[0, 0], &[1.0, 0.0, 3.0, 0.0])).gives("ParamOut", t(&[2, 2], &expected()));
    }
}
