//! `sgd`: p -= lr * g. A sparse gradient is a step per listed row, in order.

use tensor::update;

use super::optimize::{self, PARAM, Sparse};
use super::{Infer, Op, Run, Traits, Untouched, for_float};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Sgd;

impl Op for Sgd {
    fn name(&self) -> &'static str {
        "sgd"
    }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits::update(Untouched::Stay)
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        optimize::infer(infer, &[PARAM])
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([PARAM], |run, [param]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let rule = update::Sgd::<T> { lr: optimize::learning_rate(run)? };
                optimize::apply(run, &rule, Sparse::InSequence, param, [])
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::op::check::t;
    use crate::op::optimize::tests::{on_table, rows};

    #[test]
    fn steps_on_a_dense_gradient() {
        on_table("sgd", t(&[3, 2], &[2.0, 0.0, -2.0, 0.0, 0.0, 4.0]))
            .gives("ParamOut", t(&[3, 2], &[0.0, 1.0, 3.0, 2.0, 3.0, 1.0]));
    }

    #[test]
    fn a_row_listed_twice_steps_twice() {
        on_table("sgd", rows(3, &[2, 0, 2], &[1.0, 2.0, 2.0, 2.0, 1.0, 2.0]))
            .gives("ParamOut", t(&[3, 2], &[0.0, 0.0, 2.0, 2.0, 2.0, 1.0]));
    }

    #[test]
    fn no_rows_change_nothing() {
        on_table("sgd", rows(3, &[], &[]))
            .gives("ParamOut", t(&[3, 2], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]));
    }
}
