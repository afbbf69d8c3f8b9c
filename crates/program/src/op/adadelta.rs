//! `adadelta`: G = rho * G + (1 - rho) * g^2; u = sqrt((U + epsilon) / (G + epsilon)) * g;
//! U = rho * U + (1 - rho) * u^2; p -= sqrt((U + epsilon) / (G + epsilon)) * g with the new U.
//!
//! There is no learning rate. A sparse gradient counts as a dense one with rows of zeros (Fluid
//! 1.8 refuses it).

use tensor::update;

use super::optimize::{self, PARAM, Sparse};
use super::{Infer, Op, Run, Traits, Untouched, for_float};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Adadelta;

const SQUARED_GRAD: (&str, &str) = ("AvgSquaredGrad", "AvgSquaredGradOut");
const SQUARED_UPDATE: (&str, &str) = ("AvgSquaredUpdate", "AvgSquaredUpdateOut");

impl Op for Adadelta {
    fn name(&self) -> &'static str {
        "adadelta"
    }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits::update(Untouched::StayAtZero)
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        optimize::infer(infer, &[PARAM, SQUARED_GRAD, SQUARED_UPDATE])
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([PARAM, SQUARED_GRAD, SQUARED_UPDATE], |run, [param, square, update]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let rule = update::Adadelta::<T> {
                    rho: optimize::constant(run, "rho", 0.95)?,
                    epsilon: optimize::constant(run, "epsilon", 1e-6)?,
                };
                optimize::apply(run, &rule, Sparse::WithZeros, param, [square, update])
            })
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
