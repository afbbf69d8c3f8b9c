//! `momentum`: v = mu * v + g; p -= lr * v, or with `use_nesterov` p -= lr * (g + mu * v).
//!
//! Rows that a sparse gradient does not list have g = 0: their velocity decays and still moves
//! them.

use tensor::update;

use super::{Accumulator, OptimizerKind, PARAM, Setting, Sparse, learning_rate, required};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const VELOCITY: (&str, &str) = ("Velocity", "VelocityOut");

optimizer! {
    /// `MomentumOptimizer`, plain and Nesterov's.
    Momentum: "momentum" {
        /// Fluid has no default.
        momentum: f32 = 0.0 => "mu",
        use_nesterov: bool = false => "use_nesterov",
    }

    fn states(&self) -> Vec<Accumulator> {
        vec![Accumulator::per_weight("velocity", VELOCITY)]
    }
}

impl Op for Momentum {
    rules! { Untouched::StayAtZero, [PARAM, VELOCITY] }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        step!(run, [PARAM, VELOCITY], Sparse::WithZeros, T => update::Momentum::<T> {
            lr: learning_rate(run)?,
            mu: required(run, "mu")?,
            nesterov: run.attrs().bool("use_nesterov", self.use_nesterov)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::error::Error;
    use crate::op::check::{Check, t};
    use crate::op::optimize::tests::{on_table, rows};

    fn momentum(grad: impl Into<Value>) -> Check {
        on_table("momentum", grad).input("Velocity", t(&[3, 2], &[2.0; 6])).attr("mu", 0.5f32)
    }

    #[test]
    fn velocity_carries_over() {
        // v = 1 + g.
        momentum(t(&[3, 2], &[1.0, 0.0, 0.0, 0.0, -1.0, 3.0]))
            .gives("VelocityOut", t(&[3, 2], &[2.0, 1.0, 1.0, 1.0, 0.0, 4.0]))
            .gives("ParamOut", t(&[3, 2], &[0.0, 0.5, 1.5, 1.5, 3.0, 1.0]));
    }

    #[test]
    fn nesterov_looks_ahead() {
        // Steps of g + v / 2.
        momentum(t(&[3, 2], &[1.0, 0.0, 0.0, 0.0, -1.0, 3.0]))
            .attr("use_nesterov", true)
            .gives("ParamOut", t(&[3, 2], &[0.0, 0.75, 1.75, 1.75, 3.5, 0.5]));
    }

    #[test]
    fn rows_that_are_absent_go_on_moving() {
        // Distinct ids out of order: none may be lost.
        momentum(rows(3, &[2, 0], &[-1.0, 3.0, 1.0, 0.0]))
            .gives("VelocityOut", t(&[3, 2], &[2.0, 1.0, 1.0, 1.0, 0.0, 4.0]))
            .gives("ParamOut", t(&[3, 2], &[0.0, 0.5, 1.5, 1.5, 3.0, 1.0]));
    }

    #[test]
    fn no_rows_change_nothing() {
        momentum(rows(3, &[], &[])).gives("VelocityOut", t(&[3, 2], &[2.0; 6]));
    }

    #[test]
    fn needs_mu() {
        let check = on_table("momentum", t(&[3, 2], &[0.0; 6]));
        let error = check.input("Velocity", t(&[3, 2], &[0.0; 6])).output("ParamOut").fails();
        assert!(matches!(error.root(), Error::MissingAttr { attr } if attr == "mu"), "{error}");
    }
}
