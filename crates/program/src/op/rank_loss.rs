//! `rank_loss` (RankNet): with o = Left - Right, Out = log(1 + exp(o)) - Label o.

use super::zip::Zip;
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct RankLoss;
pub(super) struct RankLossGrad;

const COSTS: Zip<3, 1> =
    Zip { inputs: ["Left", "Right", "Label"], outputs: ["Out"], sequences: false };
const SLOPES: Zip<4, 2> = Zip {
    inputs: ["Left", "Right", "Label", "Out@GRAD"],
    outputs: ["Left@GRAD", "Right@GRAD"],
    sequences: false,
};

impl Op for RankLoss {
    traits!(Never, "Label": [F32], "Left": [F32], "Right": [F32]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        dims::infer_same(infer, "Left", "Right")?;
        let label = infer.input("Label")?;
        if !dims::agree(column(&infer.input("Left")?.dims), column(&label.dims)) {
            return Err(infer.shapes(LABELS, "Left", "Label"));
        }
        infer.set_output("Out", label.with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "Left", "Right")?;
        same_column(run, "Label")?;
        let shape = run.input("Label")?.shape();
        for_float!(run.input("Left")?.dtype(), run.input_name("Left"), T => {
            COSTS.fill(run, shape, |[left, right, label]: [T; 3]| {
                let o = left - right;
                // log(1 + e^o), without e^o growing beyond all bounds.
                [o.max(0.0) + (-o.abs()).exp().ln_1p() - label * o]
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Out"], &["Left", "Right"]).inputs(&["Label", "Left", "Right"]),
        )
    }
}

const LABELS: &str = "there must be a label for each score";

/// The sizes of one number per row, written with a width of 1 or without one.
fn column(dims: &[i64]) -> &[i64] {
    match dims {
        [rows, 1] => std::slice::from_ref(rows),
        dims => dims,
    }
}

/// Fails unless there is one number of this input for each score.
fn same_column(run: &Run<'_>, port: &str) -> Result<()> {
    let (left, other) = (run.input("Left")?.shape().to_i64(), run.input(port)?.shape().to_i64());
    if column(&left) == column(&other) {
        return Ok(());
    }
    Err(run.shapes(LABELS, "Left", port))
}

/// dLeft = dOut (sigmoid(Left - Right) - Label), dRight = -dLeft.
impl Kernel for RankLossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "Left", "Right")?;
        same_column(run, "Label")?;
        same_column(run, "Out@GRAD")?;
        let shape = run.input("Left")?.shape();
        for_float!(run.input("Left")?.dtype(), run.input_name("Left"), T => {
            SLOPES.fill(run, shape, |[left, right, label, d]: [T; 4]| {
                let d_left = d * (1.0 / (1.0 + (right - left).exp()) - label);
                [d_left, -d_left]
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn loss(right: &[f64]) -> Check {
        check("rank_loss")
            .input("Label", t(&[2, 1], &[1.0, 0.0]))
            .input("Left", t(&[2, 1], &[0.0, 800.0]))
            .input("Right", t(&[right.len(), 1], right))
    }

    #[test]
    fn compares_two_scores() {
        loss(&[0.0, 0.0]).gives("Out", t(&[2, 1], &[2f64.ln(), 800.0]));
    }

    #[test]
    fn labels_may_come_without_a_width() {
        let loss = || {
            check("rank_loss")
                .input("Label", t(&[2], &[1.0, 0.0]))
                .input("Left", t(&[2, 1], &[0.0, 2.0]))
                .input("Right", t(&[2, 1], &[0.0, 2.0]))
        };
        loss().gives("Out", t(&[2], &[2f64.ln(), 2f64.ln()]));
        loss().output("Out").grad(&["Left", "Right"]);
    }

    #[test]
    fn gradient_matches_finite_differences() {
        loss(&[0.5, 799.0]).output("Out").grad(&["Left", "Right"]);
    }

    #[test]
    fn refuses_shapes_that_differ() {
        let error = loss(&[0.5]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
