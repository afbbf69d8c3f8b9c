//! `decayed_adagrad`: m = d * m + (1 - d) * g^2; p -= lr * g / (sqrt(m) + epsilon).
//!
//! A sparse gradient counts as a dense one with rows of zeros (Fluid 1.8 refuses it).

use tensor::update;

use super::optimize::{self, PARAM, Sparse};
use super::{Infer, Op, Run, Traits, Untouched, for_float};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct DecayedAdagrad;

const MOMENT: (&str, &str) = ("Moment", "MomentOut");

impl Op for DecayedAdagrad {
    fn name(&self) -> &'static str {
        "decayed_adagrad"
    }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits::update(Untouched::StayAtZero)
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        optimize::infer(infer, &[PARAM, MOMENT])
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([PARAM, MOMENT], |run, [param, moment]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let rule = update::DecayedAdagrad::<T> {
                    lr: optimize::learning_rate(run)?,
                    decay: optimize::constant(run, "decay", 0.95)?,
                    epsilon: optimize::constant(run, "epsilon", 1e-6)?,
                };
                optimize::apply(run, &rule, Sparse::WithZeros, param, [moment])
            })
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
