//! `ftrl`: n' = n + g^2; z += g - (n'^-lr_power - n^-lr_power) / lr * p; p = 0 if |z| <= l1, else
//! (l1 * sign(z) - z) / (n'^-lr_power / lr + 2 * l2).
//!
//! A sparse gradient counts as a dense one with rows of zeros (Fluid 1.8 refuses it).

use tensor::update;

use super::optimize::{self, PARAM, Sparse};
use super::{Infer, Op, Run, Traits, Untouched, for_float};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Ftrl;

const SQUARED: (&str, &str) = ("SquaredAccumulator", "SquaredAccumOut");
const LINEAR: (&str, &str) = ("LinearAccumulator", "LinearAccumOut");

impl Op for Ftrl {
    fn name(&self) -> &'static str {
        "ftrl"
    }

    fn traits(&self, attrs: &Attrs) -> Traits {
        // Only then a state of zero means weights of zero.
        let forgets = attrs.float("lr_power", -0.5).is_ok_and(|power| power < 0.0);
        Traits::update(if forgets { Untouched::Forget } else { Untouched::Change })
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        optimize::infer(infer, &[PARAM, SQUARED, LINEAR])
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([PARAM, SQUARED, LINEAR], |run, [param, squared, linear]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let rule = update::Ftrl::<T> {
                    lr: optimize::learning_rate(run)?,
                    l1: optimize::constant(run, "l1", 0.0)?,
                    l2: optimize::constant(run, "l2", 0.0)?,
                    power: optimize::constant(run, "lr_power", -0.5)?,
                };
                optimize::apply(run, &rule, Sparse::WithZeros, param, [squared, linear])
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::op::check::{Check, t};
    use crate::op::optimize::tests::{on_table, rows};

    fn ftrl(grad: impl Into<Value>) -> Check {
        on_table("ftrl", grad)
            .input("SquaredAccumulator", t(&[3, 2], &[0.0; 6]))
            .input("LinearAccumulator", t(&[3, 2], &[-1.0; 6]))
            .attr("l1", 0.5f32)
            .attr("l2", 1.0f32)
    }

    #[test]
    fn follows_the_leader() {
        // Where g = 4, p = 1: n = 16, z = -1 + 4 - 4 / 0.5 = -5, p = (-0.5 + 5) / (8 + 2).
        // Elsewhere z = -1, p = 0.5 / 2.
        ftrl(t(&[3, 2], &[4.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            .gives("SquaredAccumOut", t(&[3, 2], &[16.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            .gives("LinearAccumOut", t(&[3, 2], &[-5.0, -1.0, -1.0, -1.0, -1.0, -1.0]))
            .gives("ParamOut", t(&[3, 2], &[0.45, 0.25, 0.25, 0.25, 0.25, 0.25]));
    }

    #[test]
    fn takes_rows_as_a_dense_gradient() {
        ftrl(rows(3, &[0, 0], &[1.0, 0.0, 3.0, 0.0]))
            .gives("ParamOut", t(&[3, 2], &[0.45, 0.25, 0.25, 0.25, 0.25, 0.25]));
    }
}
