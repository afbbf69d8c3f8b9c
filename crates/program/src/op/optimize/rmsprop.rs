//! `rmsprop`: s = d * s + (1 - d) * g^2; m = momentum * m + lr * g / sqrt(s + epsilon); p -= m.
//! With `centered` also a = d * a + (1 - d) * g, and the divisor is sqrt(s - a^2 + epsilon).
//!
//! Rows that a sparse gradient does not list have g = 0.

use tensor::update;

use super::{Accumulator, OptimizerKind, PARAM, Setting, Sparse, constant, learning_rate};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const SQUARE: (&str, &str) = ("MeanSquare", "MeanSquareOut");
const MOMENT: (&str, &str) = ("Moment", "MomentOut");
const MEAN: (&str, &str) = ("MeanGrad", "MeanGradOut");

optimizer! {
    /// `RMSPropOptimizer`, plain and centered.
    RmsProp: "rmsprop" {
        rho: f32 = 0.95 => "decay",
        epsilon: f32 = 1e-6 => "epsilon",
        momentum: f32 = 0.0 => "momentum",
        centered: bool = false => "centered",
    }

    fn states(&self) -> Vec<Accumulator> {
        vec![
            Accumulator::per_weight("momentum", MOMENT),
            Accumulator::per_weight("mean_square", SQUARE),
            Accumulator::per_weight("mean_grad", MEAN),
        ]
    }
}

impl Op for RmsProp {
    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits::update(Untouched::StayAtZero)
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let pairs = [PARAM, SQUARE, MOMENT, MEAN];
        // Programs without centering may leave the mean out.
        let n_pairs = if infer.opt_input("MeanGrad")?.is_some() { 4 } else { 3 };
        super::infer(infer, &pairs[..n_pairs])
    }

    fn optimizer(&self) -> Option<Box<dyn OptimizerKind>> {
        Some(Box::new(Self::USUAL))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        if run.attrs().bool("centered", self.centered)? {
            return step!(run, [PARAM, SQUARE, MOMENT, MEAN], Sparse::WithZeros, T => {
                update::CenteredRmsProp::<T>(rule(run)?)
            });
        }
        step!(run, [PARAM, SQUARE, MOMENT], Sparse::WithZeros, T => rule::<T>(run)?)
    }
}

/// The op's own defaults are not the optimizer's.
fn rule<T: tensor::Float>(run: &Run<'_>) -> Result<update::RmsProp<T>> {
    Ok(update::RmsProp {
        lr: learning_rate(run)?,
        rho: constant(run, "decay", 0.9)?,
        epsilon: constant(run, "epsilon", 1e-10)?,
        momentum: constant(run, "momentum", 0.0)?,
    })
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::op::check::{Check, t};
    use crate::op::optimize::tests::{on_table, rows};

    fn rmsprop(grad: impl Into<Value>) -> Check {
        on_table("rmsprop", grad)
            .input("MeanSquare", t(&[3, 2], &[0.0; 6]))
            .input("Moment", t(&[3, 2], &[1.0; 6]))
            .input("MeanGrad", t(&[3, 2], &[0.0; 6]))
            .attr("decay", 0.5f32)
            .attr("momentum", 0.5f32)
            .attr("epsilon", 1.0f32)
    }

    #[test]
    fn divides_by_the_root_mean_square() {
        // Where g = 4: s = 8, m = 0.5 + 2 / 3. Elsewhere m = 0.5.
        let m = 0.5 + 2.0 / 3.0;
        rmsprop(t(&[3, 2], &[4.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            .gives("MeanSquareOut", t(&[3, 2], &[8.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            .gives("MomentOut", t(&[3, 2], &[m, 0.5, 0.5, 0.5, 0.5, 0.5]))
            .gives("ParamOut", t(&[3, 2], &[1.0 - m, 0.5, 1.5, 1.5, 2.5, 2.5]));
    }

    #[test]
    fn centered_takes_the_mean_out() {
        // Where g = 4: s = 8, a = 2, m = 0.5 + 2 / sqrt 5.
        let m = 0.5 + 2.0 / 5f64.sqrt();
        rmsprop(t(&[3, 2], &[4.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            .attr("centered", true)
            .gives("MeanGradOut", t(&[3, 2], &[2.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            .gives("ParamOut", t(&[3, 2], &[1.0 - m, 0.5, 1.5, 1.5, 2.5, 2.5]));
    }

    #[test]
    fn rows_that_are_absent_go_on_moving() {
        let m = 0.5 + 2.0 / 3.0;
        rmsprop(rows(3, &[2, 0], &[0.0, 0.0, 4.0, 0.0]))
            .gives("ParamOut", t(&[3, 2], &[1.0 - m, 0.5, 1.5, 1.5, 2.5, 2.5]));
    }
}
