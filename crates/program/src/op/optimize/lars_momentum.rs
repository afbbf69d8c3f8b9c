//! `lars_momentum`: v = mu * v + local * (g + wd * p); p -= v, where
//! local = lr * coeff * |p| / (|g| + wd * |p|), or lr where a norm is 0.
//!
//! A sparse gradient counts as a dense one with rows of zeros (Fluid 1.8 refuses it).

use tensor::update;

use super::{
    Accumulator, OptimizerKind, PARAM, Setting, Sparse, constant, learning_rate, required,
};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const VELOCITY: (&str, &str) = ("Velocity", "VelocityOut");

optimizer! {
    /// `LarsMomentumOptimizer`: momentum with a learning rate per layer.
    LarsMomentum: "lars_momentum" {
        /// Fluid has no default.
        momentum: f32 = 0.0 => "mu",
        lars_coeff: f32 = 0.001 => "lars_coeff",
        lars_weight_decay: f32 = 0.0005 => "lars_weight_decay",
    }

    fn states(&self) -> Vec<Accumulator> {
        vec![Accumulator::per_weight("velocity", VELOCITY)]
    }
}

impl Op for LarsMomentum {
    rules! { [PARAM, VELOCITY] }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits { needs_whole: true, ..Traits::update(Untouched::Change) }
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        step!(run, [PARAM, VELOCITY], Sparse::AsDense, T => update::LarsMomentum::<T> {
            lr: learning_rate(run)?,
            mu: required(run, "mu")?,
            coeff: constant(run, "lars_coeff", self.lars_coeff)?,
            decay: constant(run, "lars_weight_decay", self.lars_weight_decay)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::op::check::{Check, check, t};
    use crate::op::optimize::tests::rows;

    fn lars(grad: impl Into<Value>) -> Check {
        check("lars_momentum")
            .input("Param", t(&[2, 2], &[3.0, 0.0, 0.0, 4.0]))
            .input("Grad", grad)
            .input("Velocity", t(&[2, 2], &[1.0, 0.0, 0.0, 0.0]))
            .input("LearningRate", t(&[1], &[1.0]))
            .attr("mu", 0.5f32)
            .attr("lars_coeff", 0.25f32)
            .attr("lars_weight_decay", 0.5f32)
    }

    /// |p| = 5, |g| = 4: local = 1.25 / 6.5, v = [0.5 + local * 1.5, 0, 0, local * 6].
    fn expected() -> (f64, f64) {
        let local = 1.25 / 6.5;
        (0.5 + local * 1.5, local * 6.0)
    }

    #[test]
    fn scales_by_the_norms() {
        let (a, b) = expected();
        lars(t(&[2, 2], &[0.0, 0.0, 0.0, 4.0]))
            .gives("VelocityOut", t(&[2, 2], &[a, 0.0, 0.0, b]))
            .gives("ParamOut", t(&[2, 2], &[3.0 - a, 0.0, 0.0, 4.0 - b]));
    }

    #[test]
    fn takes_rows_as_a_dense_gradient() {
        let (a, b) = expected();
        lars(rows(2, &[1, 1], &[0.0, 1.0, 0.0, 3.0]))
            .gives("ParamOut", t(&[2, 2], &[3.0 - a, 0.0, 0.0, 4.0 - b]));
    }
}
