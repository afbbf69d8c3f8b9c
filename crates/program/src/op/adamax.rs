//! `adamax`: m = b1 * m + (1 - b1) * g; n = max(|g|, b2 * n + epsilon);
//! p -= lr / (1 - b1^t) * m / n. A `scale` op of the program multiplies the power.
//!
//! A sparse gradient counts as a dense one with rows of zeros (Fluid 1.8 refuses it).

use tensor::{Number, update};

use super::optimize::{self, PARAM, Sparse};
use super::{Infer, Op, Run, Traits, Untouched, for_float};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Adamax;

const MOMENT: (&str, &str) = ("Moment", "MomentOut");
const INF_NORM: (&str, &str) = ("InfNorm", "InfNormOut");

impl Op for Adamax {
    fn name(&self) -> &'static str {
        "adamax"
    }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits::update(Untouched::StayAtZero)
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        optimize::infer(infer, &[PARAM, MOMENT, INF_NORM])
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([PARAM, MOMENT, INF_NORM], |run, [param, moment, inf_norm]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let (lr, beta1_pow) = (optimize::learning_rate(run)?, run.scalar("Beta1Pow")?);
                let rule = update::Adamax::<T> {
                    lr: update::Adamax::corrected_lr(lr, T::of(beta1_pow)),
                    beta1: optimize::constant(run, "beta1", 0.9)?,
                    beta2: optimize::constant(run, "beta2", 0.999)?,
                    epsilon: optimize::constant(run, "epsilon", 1e-8)?,
                };
                optimize::apply(run, &rule, Sparse::WithZeros, param, [moment, inf_norm])
            })
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
