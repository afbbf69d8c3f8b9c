//! Losses place by place: a cost from the numbers of the inputs at one place, and its derivatives.
//!
//! The table holds the formulas. Each is compiled for `f32` and `f64`, and the gradient reads what
//! Fluid's reads, so that programs of either are the same.

use super::zip::Zip;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

/// `Loss, LossGrad [attribute = default, ..], sequences, [port: [types that layers take], ..],`
/// `[inputs] => [loss, kept ..], |inputs| [loss, kept ..],`
/// `[inputs read] [outputs read] => [differentiated], |inputs read, outputs read, d| [gradients];`
///
/// `sequences` says whether the loss has those of the first input, and `d` is the gradient of the loss.
macro_rules! losses {
    ($(
        $op:ident, $grad:ident [$($param:ident = $default:expr),*], $sequences:literal,
        [$($typed:literal: $dtypes:tt),*],
        [$first:literal $(, $input:literal)*] => [$loss:literal $(, $kept:literal)*],
        |$($x:ident),*| $costs:expr,
        [$($known_in:literal),*] [$($known_out:literal),*] => [$($wanted:literal),*],
        |$($known:ident),*| $slopes:expr;
    )*) => {$(
        pub(super) struct $op;
        pub(super) struct $grad;

        impl $op {
            const PORTS: Zip<{ [$first $(, $input)*].len() }, { [$loss $(, $kept)*].len() }> = Zip {
                inputs: [$first $(, $input)*],
                outputs: [$loss $(, $kept)*],
                sequences: $sequences,
            };
        }

        impl Op for $op {
            traits!(All(&[$first $(, $input)*]) $(, $typed: $dtypes)*);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                Self::PORTS.infer(infer)
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                $(let $param = run.attrs().float(stringify!($param), $default)?;)*
                for_float!(run.input($first)?.dtype(), run.input_name($first), T => {
                    $(let $param = T::from($param);)*
                    Self::PORTS.run(run, |[$($x),*]: [T; _]| $costs)
                })
            }

            fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
                let keep = Keep::grads(&[$loss], &[$($wanted),*]);
                grad.emit_usual(keep.inputs(&[$($known_in),*]).outputs(&[$($known_out),*]))
            }
        }

        impl $grad {
            const PORTS: Zip<{ [$(stringify!($known)),*].len() }, { [$($wanted),*].len() }> = Zip {
                inputs: [$($known_in,)* $($known_out,)* concat!($loss, "@GRAD")],
                outputs: [$(concat!($wanted, "@GRAD")),*],
                sequences: $sequences,
            };
        }

        impl Kernel for $grad {
            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                $(let $param = run.attrs().float(stringify!($param), $default)?;)*
                let first = Self::PORTS.inputs[0];
                for_float!(run.input(first)?.dtype(), run.input_name(first), T => {
                    $(let $param = T::from($param); let _ = $param;)*
                    Self::PORTS.run(run, |[$($known),*]: [T; _]| $slopes)
                })
            }
        }
    )*};
}

losses! {
    // Out = -Label ln X - (1 - Label) ln (1 - X), no logarithm below -100.
    BceLoss, BceLossGrad [], true,
        ["X": [F32, F64], "Label": [F32, F64]],
        ["X", "Label"] => ["Out"],
        |x, label| [-label * x.ln().max(-100.0) - (1.0 - label) * (1.0 - x).ln().max(-100.0)],
        ["X", "Label"] [] => ["X"],
        |x, label, d| [d * (x - label) / (x * (1.0 - x)).max(1e-12)];

    // With Residual r = Y - X, Out = r²/2 where |r| <= delta, else delta (|r| - delta/2).
    HuberLoss, HuberLossGrad [delta = 1.0], true,
        ["X": [F32, F64], "Y": [F32, F64]],
        ["X", "Y"] => ["Out", "Residual"],
        |x, y| {
            let (r, size) = (y - x, (y - x).abs());
            [if size <= delta { 0.5 * size * size } else { delta * (size - 0.5 * delta) }, r]
        },
        [] ["Residual"] => ["X", "Y"],
        |r, d| {
            let d_y = d * r.max(-delta).min(delta);
            [-d_y, d_y]
        };

    // Loss = -Labels log(Predicted + epsilon) - (1 - Labels) log(1 - Predicted + epsilon).
    LogLoss, LogLossGrad [epsilon = 1e-4], true,
        ["Labels": [F32], "Predicted": [F32]],
        ["Predicted", "Labels"] => ["Loss"],
        |p, label| [-label * (p + epsilon).ln() - (1.0 - label) * (1.0 - p + epsilon).ln()],
        ["Predicted", "Labels"] [] => ["Predicted"],
        |p, label, d| [d * ((1.0 - label) / (1.0 - p + epsilon) - label / (p + epsilon))];

    // Out = max(0, margin - Label (X1 - X2)); Activated is 1 where Out > 0.
    MarginRankLoss, MarginRankLossGrad [margin = 0.0], false,
        ["Label": [F32]],
        ["X1", "X2", "Label"] => ["Out", "Activated"],
        |x1, x2, label| {
            let cost = (margin - label * (x1 - x2)).max(0.0);
            [cost, if cost > 0.0 { 1.0 } else { 0.0 }]
        },
        ["Label"] ["Activated"] => ["X1", "X2"],
        |label, activated, d| {
            let d_x2 = d * label * activated;
            [-d_x2, d_x2]
        };
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn huber(y: &[f64]) -> Check {
        check("huber_loss")
            .input("X", t(&[3, 1], &[0.0, 1.0, 2.0]))
            .input("Y", t(&[y.len(), 1], y))
            .attr("delta", 0.5f32)
    }

    fn log(labels: &[f64]) -> Check {
        check("log_loss")
            .input("Predicted", t(&[2, 1], &[0.25, 0.75]))
            .input("Labels", t(&[labels.len(), 1], labels))
            .attr("epsilon", 0.25f32)
    }

    fn bce(labels: &[f64]) -> Check {
        check("bce_loss")
            .input("X", t(&[2, 1], &[0.5, 0.75]))
            .input("Label", t(&[labels.len(), 1], labels))
    }

    #[test]
    fn bce_loss_weighs_both_logs() {
        bce(&[1.0, 0.0]).gives("Out", t(&[2, 1], &[2f64.ln(), 4f64.ln()]));
        let sure = check("bce_loss").input("X", t(&[1], &[0.0])).input("Label", t(&[1], &[1.0]));
        sure.gives("Out", t(&[1], &[100.0]));
    }

    fn margin_rank(x2: &[f64]) -> Check {
        check("margin_rank_loss")
            .input("Label", t(&[2, 1], &[1.0, 1.0]))
            .input("X1", t(&[2, 1], &[0.25, 0.5]))
            .input("X2", t(&[x2.len(), 1], x2))
            .attr("margin", 0.125f32)
    }

    #[test]
    fn huber_loss_is_quadratic_near_and_linear_far() {
        huber(&[0.25, 3.0, 0.0])
            .gives("Out", t(&[3, 1], &[0.03125, 0.875, 0.875]))
            .gives("Residual", t(&[3, 1], &[0.25, 2.0, -2.0]));
    }

    #[test]
    fn log_loss_weighs_both_logs() {
        log(&[1.0, 0.5]).gives("Loss", t(&[2, 1], &[2f64.ln(), 0.5 * 2f64.ln()]));
    }

    #[test]
    fn margin_rank_loss_costs_what_is_missing_to_the_margin() {
        margin_rank(&[0.5, 0.25])
            .gives("Out", t(&[2, 1], &[0.375, 0.0]))
            .gives("Activated", t(&[2, 1], &[1.0, 0.0]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        huber(&[0.25, 3.0, 0.0]).aux("Residual").output("Out").grad(&["X", "Y"]);
        log(&[1.0, 0.0]).output("Loss").grad(&["Predicted"]);
        bce(&[1.0, 0.0]).output("Out").grad(&["X"]);
        margin_rank(&[0.5, 0.25]).aux("Activated").output("Out").grad(&["X1", "X2"]);
    }

    #[test]
    fn inputs_of_different_shapes_are_refused() {
        for check in [huber(&[0.25]), log(&[1.0]).output("Loss"), margin_rank(&[0.5])] {
            let error = check.output("Out").fails();
            assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        }
    }
}
