//! `lamb`: m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * g^2;
//! r = m / (sqrt(v) + epsilon) + weight_decay * p; p -= lr * |p| / |r| * r.
//!
//! No bias correction, as in Fluid 1.8: the powers of the betas are declared and not used. Rows
//! that a sparse gradient does not list have g = 0.

use tensor::update;

use super::optimize::{self, PARAM, Sparse};
use super::{Infer, Op, Run, Traits, Untouched, for_float};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Lamb;

const MOMENT1: (&str, &str) = ("Moment1", "Moment1Out");
const MOMENT2: (&str, &str) = ("Moment2", "Moment2Out");

impl Op for Lamb {
    fn name(&self) -> &'static str {
        "lamb"
    }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits { needs_whole: true, ..Traits::update(Untouched::Change) }
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        optimize::infer(infer, &[PARAM, MOMENT1, MOMENT2])
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([PARAM, MOMENT1, MOMENT2], |run, [param, moment1, moment2]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let rule = update::Lamb::<T> {
                    lr: optimize::learning_rate(run)?,
                    beta1: optimize::constant(run, "beta1", 0.9)?,
                    beta2: optimize::constant(run, "beta2", 0.999)?,
                    epsilon: optimize::constant(run, "epsilon", 1e-6)?,
                    decay: optimize::constant(run, "weight_decay", 0.01)?,
                };
                optimize::apply(run, &rule, Sparse::AsDense, param, [moment1, moment2])
            })
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
