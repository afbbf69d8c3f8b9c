//! `adagrad`: m += g^2; p -= lr * g / (sqrt(m) + epsilon). Sparse: merged rows only.

use tensor::update;

use super::{Accumulator, OptimizerKind, PARAM, Setting, Sparse, constant, learning_rate};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const MOMENT: (&str, &str) = ("Moment", "MomentOut");

optimizer! {
    /// `AdagradOptimizer`.
    Adagrad: "adagrad" {
        epsilon: f32 = 1e-6 => "epsilon",
        initial_accumulator_value: f32 = 0.0,
    }

    fn states(&self) -> Vec<Accumulator> {
        let fill = self.initial_accumulator_value;
        vec![Accumulator { fill, ..Accumulator::per_weight("moment", MOMENT) }]
    }
}

impl Op for Adagrad {
    rules! { Untouched::Stay, [PARAM, MOMENT] }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        step!(run, [PARAM, MOMENT], Sparse::Merged, T => update::Adagrad::<T> {
            lr: learning_rate(run)?,
            epsilon: constant(run, "epsilon", self.epsilon)?,
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
