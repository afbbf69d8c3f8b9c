//! `adagrad`: m += g^2; p -= lr * g / (sqrt(m) + epsilon). Sparse: merged rows only.

use tensor::update;

use super::optimize::{self, PARAM, Sparse};
use super::{Infer, Op, Run, Traits, Untouched, for_float};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Adagrad;

const MOMENT: (&str, &str) = ("Moment", "MomentOut");

impl Op for Adagrad {
    fn name(&self) -> &'static str {
        "adagrad"
    }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits::update(Untouched::Stay)
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        optimize::infer(infer, &[PARAM, MOMENT])
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([PARAM, MOMENT], |run, [param, moment]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let rule = update::Adagrad::<T> {
                    lr: optimize::learning_rate(run)?,
                    epsilon: optimize::constant(run, "epsilon", 1e-6)?,
                };
                optimize::apply(run, &rule, Sparse::Merged, param, [moment])
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::op::check::{Check, t};
    use crate::op::optimize::tests::{on_table, rows};

    fn adagrad(grad: impl Into<Value>) -> Check {
        on_table("adagrad", grad).input("Moment", t(&[3, 2], &[7.0; 6])).attr("epsilon", 1.0f32)
    }

    #[test]
    fn divides_by_the_root_of_all_squares() {
        // Where g = 3: m = 16, the step is 0.5 * 3 / 5.
        adagrad(t(&[3, 2], &[3.0, 0.0, 0.0, 0.0, -3.0, 0.0]))
            .gives("MomentOut", t(&[3, 2], &[16.0, 7.0, 7.0, 7.0, 16.0, 7.0]))
            .gives("ParamOut", t(&[3, 2], &[0.7, 1.0, 2.0, 2.0, 3.3, 3.0]));
    }

    #[test]
    fn adds_rows_of_one_id_before_squaring() {
        adagrad(rows(3, &[2, 0, 2], &[-1.0, 1.0, 3.0, 0.0, -2.0, -1.0]))
            .gives("MomentOut", t(&[3, 2], &[16.0, 7.0, 7.0, 7.0, 16.0, 7.0]))
            .gives("ParamOut", t(&[3, 2], &[0.7, 1.0, 2.0, 2.0, 3.3, 3.0]));
    }
}
