//! `momentum`: v = mu * v + g; p -= lr * v, or with `use_nesterov` p -= lr * (g + mu * v).
//!
//! Rows that a sparse gradient does not list have g = 0: their velocity decays and still moves
//! them.

use tensor::update;

use super::optimize::{self, PARAM, Sparse};
use super::{Infer, Op, Run, Traits, Untouched, for_float};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Momentum;

const VELOCITY: (&str, &str) = ("Velocity", "VelocityOut");

impl Op for Momentum {
    fn name(&self) -> &'static str {
        "momentum"
    }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits::update(Untouched::StayAtZero)
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        optimize::infer(infer, &[PARAM, VELOCITY])
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([PARAM, VELOCITY], |run, [param, velocity]| {
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let rule = update::Momentum::<T> {
                    lr: optimize::learning_rate(run)?,
                    mu: optimize::required(run, "mu")?,
                    nesterov: run.attrs().bool("use_nesterov", false)?,
                };
                optimize::apply(run, &rule, Sparse::WithZeros, param, [velocity])
            })
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
