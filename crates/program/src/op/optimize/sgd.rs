//! `sgd`: p -= lr * g. A sparse gradient is a step per listed row, in order.

use tensor::update;

use super::{OptimizerKind, PARAM, Sparse, learning_rate};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

optimizer! {
    /// `SGDOptimizer`: stochastic gradient descent.
    Sgd: "sgd" {}
}

impl Op for Sgd {
    rules! { Untouched::Stay, [PARAM] }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        step!(run, [PARAM], Sparse::InSequence, T => update::Sgd::<T> { lr: learning_rate(run)? })
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
