//! `ftrl`: n' = n + g^2; z += g - (n'^-lr_power - n^-lr_power) / lr * p; p = 0 if |z| <= l1, else
//! (l1 * sign(z) - z) / (n'^-lr_power / lr + 2 * l2).
//!
//! A sparse gradient counts as a dense one with rows of zeros (Fluid 1.8 refuses it).

use tensor::update;

use super::{Accumulator, OptimizerKind, PARAM, Setting, Sparse, constant, learning_rate};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const SQUARED: (&str, &str) = ("SquaredAccumulator", "SquaredAccumOut");
const LINEAR: (&str, &str) = ("LinearAccumulator", "LinearAccumOut");

optimizer! {
    /// `FtrlOptimizer`: follow the regularized leader. Unlike Fluid 1.8, which hands l1 to the op
    /// twice, l2 is l2 here.
    Ftrl: "ftrl" {
        l1: f32 = 0.0 => "l1",
        l2: f32 = 0.0 => "l2",
        lr_power: f32 = -0.5 => "lr_power",
    }

    fn states(&self) -> Vec<Accumulator> {
        vec![Accumulator::per_weight("squared", SQUARED), Accumulator::per_weight("linear", LINEAR)]
    }
}

impl Op for Ftrl {
    rules! { [PARAM, SQUARED, LINEAR] }

    fn traits(&self, attrs: &Attrs) -> Traits {
        // Only then a state of zero means weights of zero.
        let forgets = attrs.float("lr_power", self.lr_power).is_ok_and(|power| power < 0.0);
        Traits::update(if forgets { Untouched::Forget } else { Untouched::Change })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        step!(run, [PARAM, SQUARED, LINEAR], Sparse::WithZeros, T => update::Ftrl::<T> {
            lr: learning_rate(run)?,
            l1: constant(run, "l1", self.l1)?,
            l2: constant(run, "l2", self.l2)?,
            power: constant(run, "lr_power", self.lr_power)?,
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
