//! `lars_momentum`: v = mu * v + local * (g + wd * p); p -= v, where
//! local = lr * coeff * |p| / (|g| + wd * |p|), or lr where a norm is 0.
//!
//! A sparse gradient counts as a dense one with rows of zeros (Fluid 1.8 refuses it).

use tensor::update;

use super::optimize::{self, PARAM, Sparse};
use super::{Infer, Op, Run, Traits, Untouched, for_float};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct LarsMomentum;

const VELOCITY: (&str, &str) = ("Velocity", "VelocityOut");

impl Op for LarsMomentum {
    fn name(&self) -> &'static str {
        "lars_momentum"
    }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits { needs_whole: true, ..Traits::update(Untouched::Change) }
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        optimize::infer(infer, &[PARAM, VELOCITY])
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([PARAM, VELOCITY], |run, [param, velocity]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let rule = update::LarsMomentum::<T> {
                    lr: optimize::learning_rate(run)?,
                    mu: optimize::required(run, "mu")?,
                    coeff: optimize::constant(run, "lars_coeff", 0.001)?,
                    decay: optimize::constant(run, "lars_weight_decay", 0.0005)?,
                };
                optimize::apply(run, &rule, Sparse::AsDense, param, [velocity])
            })
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
