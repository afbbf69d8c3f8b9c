//! `adam`: m1 = b1 * m1 + (1 - b1) * g; m2 = b2 * m2 + (1 - b2) * g^2;
//! p -= lr * sqrt(1 - b2^t) / (1 - b1^t) * m1 / (sqrt(m2) + epsilon).
//!
//! The powers b1^t and b2^t are multiplied by the op itself if it has the outputs for them
//! (Fluid 1.8); programs of older versions do it with `scale` ops. With a sparse gradient Fluid
//! 1.8 multiplies *before* the step, so that step t uses the powers of t + 1 where they are changed in
//! place, as optimizers have it; the attribute `powers_after_step` asks for the order of the dense
//! case. Version 2 has epsilon * sqrt(1 - b2^t) in place of epsilon, for which `corrected_epsilon`
//! asks. Rows that a sparse gradient does not list have g = 0, or with `lazy_mode` stay as they are.

use tensor::{Float, Tensor, Value, update};

use super::{
    Accumulator, OptimizerKind, PARAM, Setting, Sparse, constant, is_without_rows, learning_rate,
};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

const MOMENT1: (&str, &str) = ("Moment1", "Moment1Out");
const MOMENT2: (&str, &str) = ("Moment2", "Moment2Out");
const BETA1_POW: (&str, &str) = ("Beta1Pow", "Beta1PowOut");
const BETA2_POW: (&str, &str) = ("Beta2Pow", "Beta2PowOut");
const BETA1: (&str, &str) = ("Beta1Tensor", "beta1");
const BETA2: (&str, &str) = ("Beta2Tensor", "beta2");
const PAIRS: [(&str, &str); 5] = [PARAM, MOMENT1, MOMENT2, BETA1_POW, BETA2_POW];

/// Below this many rows Fluid does not use threads; kept for readers of the program.
const MULTITHREAD_ROWS_MIN: i64 = 1000;

optimizer! {
    /// `AdamOptimizer`.
    Adam: "adam" {
        beta1: f32 = 0.9 => "beta1",
        beta2: f32 = 0.999 => "beta2",
        epsilon: f32 = 1e-8 => "epsilon",
        /// Rows that a sparse gradient does not list stay as they are.
        lazy_mode: bool = false => "lazy_mode",
        /// With sparse gradients, multiplies the powers of the betas after the step as the paper
        /// does, not before it as Fluid 1.8 does.
        powers_after_step: bool = false,
        /// Makes epsilon smaller in the first steps, as version 2 does.
        corrected_epsilon: bool = false,
    }

    fn states(&self) -> Vec<Accumulator> {
        let power = |name, ports: (&'static str, &'static str), fill| Accumulator {
            output: Some(ports.1),
            ..Accumulator::scalar(name, ports.0, fill)
        };
        vec![
            Accumulator::per_weight("moment1", MOMENT1),
            Accumulator::per_weight("moment2", MOMENT2),
            power("beta1_pow_acc", BETA1_POW, self.beta1),
            power("beta2_pow_acc", BETA2_POW, self.beta2),
        ]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        let mut attrs = self.options();
        attrs.push(("min_row_size_to_use_multithread", MULTITHREAD_ROWS_MIN.into()));
        // An attribute Fluid does not know is only written when it is asked for.
        if self.powers_after_step {
            attrs.push(("powers_after_step", true.into()));
        }
        if self.corrected_epsilon {
            attrs.push(("corrected_epsilon", true.into()));
        }
        attrs
    }
}

impl Op for Adam {
    rules! { PAIRS }

    fn traits(&self, attrs: &Attrs) -> Traits {
        // With a lazy step, rows that are not listed keep their state too.
        let lazy = attrs.bool("lazy_mode", false).unwrap_or(false);
        Traits::update(if lazy { Untouched::Stay } else { Untouched::StayAtZero })
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update(PAIRS, |run, [param, moment1, moment2, pow1, pow2]| {
            if is_without_rows(run)? {
                return Ok(());
            }
            for_float!(param.dtype(), run.input_name("Param"), T => {
                let betas = [beta::<T>(run, BETA1, self.beta1)?, beta::<T>(run, BETA2, self.beta2)?];
                let is_sparse = matches!(run.value("Grad")?, Value::Rows(_));
                let before = is_sparse
                    && in_place(run, "Beta1Pow", "Beta1PowOut")
                    && in_place(run, "Beta2Pow", "Beta2PowOut")
                    && !run.attrs().bool("powers_after_step", false)?;
                if before {
                    multiply(run, [pow1, pow2], betas)?;
                }
                step(run, betas, [pow1, pow2], param, [moment1, moment2])?;
                if before { Ok(()) } else { multiply(run, [pow1, pow2], betas) }
            })
        })
    }
}

fn in_place(run: &Run<'_>, input: &str, output: &str) -> bool {
    run.wants(output) && run.op().input_names(input) == run.op().output_names(output)
}

/// A beta: from its variable if there is one, else from the attribute.
fn beta<T: Float>(run: &Run<'_>, from: (&str, &str), default: f32) -> Result<T> {
    let (port, attr) = from;
    match run.opt_input(port) {
        Some(_) => Ok(T::of(run.scalar(port)?)),
        None => constant(run, attr, default),
    }
}

/// The one power in a tensor.
fn power<'a, T: Float>(run: &Run<'_>, port: &str, pow: &'a mut Tensor) -> Result<&'a mut T> {
    let power = pow.data_mut::<T>().map_err(|e| run.in_var(port, e.into()))?;
    power.first_mut().ok_or_else(|| run.shape("one element is needed", port))
}

fn multiply<T: Float>(run: &Run<'_>, pows: [&mut Tensor; 2], [beta1, beta2]: [T; 2]) -> Result<()> {
    let [pow1, pow2] = pows;
    *power::<T>(run, "Beta1Pow", pow1)? *= beta1;
    *power::<T>(run, "Beta2Pow", pow2)? *= beta2;
    Ok(())
}

fn step<T: Float>(
    run: &mut Run<'_>,
    [beta1, beta2]: [T; 2],
    [pow1, pow2]: [&mut Tensor; 2],
    param: &mut Tensor,
    moments: [&mut Tensor; 2],
) -> Result<()> {
    let lr = learning_rate(run)?;
    let pows = (*power(run, "Beta1Pow", pow1)?, *power(run, "Beta2Pow", pow2)?);
    let mut epsilon: T = constant(run, "epsilon", Adam::USUAL.epsilon)?;
    if run.attrs().bool("corrected_epsilon", false)? {
        epsilon *= (T::one() - pows.1).sqrt();
    }
    let rule = update::Adam::<T> {
        lr: update::Adam::corrected_lr(lr, pows.0, pows.1),
        beta1,
        beta2,
        epsilon,
    };
    let lazy = run.attrs().bool("lazy_mode", false)?;
    let sparse = if lazy { Sparse::Merged } else { Sparse::WithZeros };
    super::apply(run, &rule, sparse, param, moments)
}

#[cfg(test)]
mod tests {
    use tensor::Value;

    use crate::error::Error;
    use crate::op::check::{Check, t};
    use crate::op::optimize::tests::{on_table, rows};

    /// Betas 0.5 and 0.75, powers as before the first step, m1 = 2 and m2 = 4 everywhere.
    fn adam(grad: impl Into<Value>) -> Check {
        on_table("adam", grad)
            .input("Moment1", t(&[3, 2], &[2.0; 6]))
            .input("Moment2", t(&[3, 2], &[4.0; 6]))
            .input("Beta1Pow", t(&[1], &[0.5]))
            .input("Beta2Pow", t(&[1], &[0.75]))
            .attr("beta1", 0.5f32)
            .attr("beta2", 0.75f32)
            .attr("epsilon", 1.0f32)
    }

    /// Where g = 6: m1 = 4, m2 = 12. Where g = 0: m1 = 1, m2 = 3.
    const MOMENTS: ([f64; 2], [f64; 2]) = ([4.0, 12.0], [1.0, 3.0]);

    fn table(at_6: f64, at_0: f64) -> [f64; 6] {
        [at_6, at_0, at_0, at_0, at_0, at_6]
    }

    /// Steps with powers b1^t and b2^t.
    fn stepped(pow1: f64, pow2: f64, touches: impl Fn(usize) -> bool) -> Vec<f64> {
        let lr = 0.5 * (1.0 - pow2).sqrt() / (1.0 - pow1);
        let step = |[m1, m2]: [f64; 2]| lr * m1 / (m2.sqrt() + 1.0);
        let steps = table(step(MOMENTS.0), step(MOMENTS.1));
        let moved = |i: usize| if touches(i / 2) { steps[i] } else { 0.0 };
        (0..6).map(|i| (i / 2 + 1) as f64 - moved(i)).collect()
    }

    fn dense() -> Check {
        adam(t(&[3, 2], &[6.0, 0.0, 0.0, 0.0, 0.0, 6.0]))
    }

    /// With powers that the op changes where they are.
    fn in_place(check: Check) -> Check {
        check.writes("Beta1PowOut", "Beta1Pow0").writes("Beta2PowOut", "Beta2Pow0")
    }

    fn sparse() -> Check {
        adam(rows(3, &[2, 0, 2], &[0.0, 2.0, 6.0, 0.0, 0.0, 4.0]))
    }

    #[test]
    fn powers_follow_a_dense_step() {
        dense()
            .gives("Moment1Out", t(&[3, 2], &table(4.0, 1.0)))
            .gives("Moment2Out", t(&[3, 2], &table(12.0, 3.0)))
            .gives("Beta1PowOut", t(&[1], &[0.25]))
            .gives("Beta2PowOut", t(&[1], &[0.5625]))
            .gives("ParamOut", t(&[3, 2], &stepped(0.5, 0.75, |_| true)));
    }

    #[test]
    fn epsilon_is_corrected_if_asked() {
        let (lr, epsilon) = (0.5 * 0.25f64.sqrt() / 0.5, 0.25f64.sqrt());
        let step = |[m1, m2]: [f64; 2]| lr * m1 / (m2.sqrt() + epsilon);
        let steps = table(step(MOMENTS.0), step(MOMENTS.1));
        let moved: Vec<f64> = (0..6).map(|i| (i / 2 + 1) as f64 - steps[i]).collect();
        dense().attr("corrected_epsilon", true).gives("ParamOut", t(&[3, 2], &moved));
    }

    #[test]
    fn powers_precede_a_sparse_step_in_place() {
        let step = stepped(0.25, 0.5625, |_| true);
        in_place(sparse()).gives("ParamOut", t(&[3, 2], &step));
    }

    /// The numbers of Paddle's own test of the op.
    #[test]
    fn powers_of_other_variables_follow_a_sparse_step() {
        sparse()
            .gives("Beta1PowOut", t(&[1], &[0.25]))
            .gives("Beta2PowOut", t(&[1], &[0.5625]))
            .gives("ParamOut", t(&[3, 2], &stepped(0.5, 0.75, |_| true)));
    }

    #[test]
    fn the_textbook_order_can_be_asked_for() {
        sparse()
            .attr("powers_after_step", true)
            .gives("Beta1PowOut", t(&[1], &[0.25]))
            .gives("ParamOut", t(&[3, 2], &stepped(0.5, 0.75, |_| true)));
    }

    #[test]
    fn a_program_with_scale_ops_keeps_its_powers() {
        sparse().gives("ParamOut", t(&[3, 2], &stepped(0.5, 0.75, |_| true)));
    }

    #[test]
    fn lazy_mode_leaves_absent_rows_alone() {
        in_place(sparse())
            .attr("lazy_mode", true)
            .gives("ParamOut", t(&[3, 2], &stepped(0.25, 0.5625, |row| row != 1)))
            .gives("Moment1Out", t(&[3, 2], &[4.0, 1.0, 2.0, 2.0, 1.0, 4.0]));
    }

    #[test]
    fn no_rows_change_nothing_at_all() {
        adam(rows(3, &[], &[]))
            .gives("Beta1PowOut", t(&[1], &[0.5]))
            .gives("Moment1Out", t(&[3, 2], &[2.0; 6]))
            .gives("ParamOut", t(&[3, 2], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]));
    }

    #[test]
    fn betas_may_come_from_variables() {
        dense()
            .attr("beta1", 0.1f32)
            .input("Beta1Tensor", t(&[1], &[0.5]))
            .gives("Moment1Out", t(&[3, 2], &table(4.0, 1.0)));
    }

    #[test]
    fn refuses_an_empty_power() {
        let error = on_table("adam", t(&[3, 2], &[0.0; 6]))
            .input("Moment1", t(&[3, 2], &[2.0; 6]))
            .input("Moment2", t(&[3, 2], &[4.0; 6]))
            .input("Beta1Pow", t(&[0], &[]))
            .input("Beta2Pow", t(&[1], &[0.75]))
            .output("ParamOut")
            .fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
