//! `softmax_with_cross_entropy`: Softmax = softmax(Logits), Loss = -log Softmax\[label\].
//!
//! The loss is computed from the logits (log-sum-exp), so that it stays finite. Classes lie along
//! `axis`; with soft labels Loss = -sum(label log Softmax).

use tensor::{AxisSplit, Float};

use super::label::{self, Labels};
use super::softmax::softmax;
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct SoftmaxWithCrossEntropy;
pub(super) struct SoftmaxWithCrossEntropyGrad;

struct SoftmaxOptions {
    axis: usize,
    soft: bool,
    ignored: i64,
}

fn options(attrs: &Attrs, rank: usize) -> Result<SoftmaxOptions> {
    Ok(SoftmaxOptions {
        axis: dims::axis(attrs, "axis", -1, rank)?,
        soft: attrs.bool("soft_label", false)?,
        ignored: attrs.int("ignore_index", -100)?,
    })
}

impl Op for SoftmaxWithCrossEntropy {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let logits = infer.input("Logits")?;
        let SoftmaxOptions { axis, soft, .. } = options(infer.attrs(), logits.dims.len())?;
        let loss = label::infer_loss(infer, "Logits", axis, soft)?;
        infer.set_output("Softmax", logits)?;
        infer.set_output("Loss", loss)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut out, mut loss) = (run.take("Softmax"), run.take("Loss"));
        let x = run.input("Logits")?;
        let SoftmaxOptions { axis, soft, ignored } = options(run.attrs(), x.shape().rank())?;
        let shape = label::loss_shape(run, "Logits", axis, soft)?;
        let around = x.shape().around(axis);
        for_float!(x.dtype(), run.input_name("Logits"), T => {
            let (data, loss) = (x.data::<T>()?, loss.resize::<T>(shape));
            softmax(data, out.resize::<T>(x.shape()), around);
            if soft {
                soft_loss(data, run.data::<T>("Label")?, loss, around);
                Ok(())
            } else {
                hard_loss(data, &Labels::new(run, "Label", around.size, Some(ignored))?, loss, around)
            }
        })?;
        out.set_lod(x.lod().clone());
        loss.set_lod(x.lod().clone());
        run.put("Softmax", out);
        run.put("Loss", loss);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Loss"], &["Logits"]).inputs(&["Label"]).outputs(&["Softmax"]),
        )
    }
}

/// log of the sum of exp over the classes of an example.
fn log_sum_exp<T: Float>(x: &[T], classes: impl Iterator<Item = usize> + Clone) -> T {
    let max = classes.clone().fold(T::neg_infinity(), |max, at| max.max(x[at]));
    let sum = classes.fold(T::zero(), |sum, at| sum + (x[at] - max).exp());
    max + sum.ln()
}

fn hard_loss<T: Float>(
    x: &[T],
    labels: &Labels<'_>,
    loss: &mut [T],
    around: AxisSplit,
) -> Result<()> {
    for (row, loss) in loss.iter_mut().enumerate() {
        *loss = match labels.class(row)? {
            Some(class) => {
                let right = around.start(row) + class * around.inner;
                log_sum_exp(x, around.places(row)) - x[right]
            }
            None => T::zero(),
        };
    }
    Ok(())
}

fn soft_loss<T: Float>(x: &[T], label: &[T], loss: &mut [T], around: AxisSplit) {
    for (row, loss) in loss.iter_mut().enumerate() {
        let log_sum = log_sum_exp(x, around.places(row));
        *loss = around.places(row).fold(T::zero(), |sum, at| sum + label[at] * (log_sum - x[at]));
    }
}

/// dLogits = (Softmax - label) dLoss; the label is 1 at the class with hard ones, and ignored
/// rows get 0.
impl Kernel for SoftmaxWithCrossEntropyGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("Logits@GRAD");
        let (out, d_loss) = (run.input("Softmax")?, run.input("Loss@GRAD")?);
        let SoftmaxOptions { axis, soft, ignored } = options(run.attrs(), out.shape().rank())?;
        if label::loss_shape(run, "Softmax", axis, soft)? != d_loss.shape() {
            return Err(run.shapes(dims::LOSS, "Softmax", "Loss@GRAD"));
        }
        let around = out.shape().around(axis);
        for_float!(out.dtype(), run.input_name("Softmax"), T => {
            let (d_loss, data) = (run.data::<T>("Loss@GRAD")?, out.data::<T>()?);
            let d_x = d_x.resize::<T>(out.shape());
            if soft {
                soft_grad(data, run.data::<T>("Label")?, d_loss, d_x, around);
            } else {
                let labels = Labels::new(run, "Label", around.size, Some(ignored))?;
                hard_grad(data, &labels, d_loss, d_x, around)?;
            }
            Ok::<(), Error>(())
        })?;
        d_x.set_lod(out.lod().clone());
        run.put("Logits@GRAD", d_x);
        Ok(())
    }
}

fn hard_grad<T: Float>(
    out: &[T],
    labels: &Labels<'_>,
    d_loss: &[T],
    d_x: &mut [T],
    around: AxisSplit,
) -> Result<()> {
    for (row, &d_loss) in d_loss.iter().enumerate() {
        let class = labels.class(row)?;
        for (k, at) in around.places(row).enumerate() {
            let hit = if class == Some(k) { T::one() } else { T::zero() };
            d_x[at] = if class.is_none() { T::zero() } else { (out[at] - hit) * d_loss };
        }
    }
    Ok(())
}

fn soft_grad<T: Float>(out: &[T], label: &[T], d_loss: &[T], d_x: &mut [T], around: AxisSplit) {
    for (row, &d_loss) in d_loss.iter().enumerate() {
        for at in around.places(row) {
            d_x[at] = (out[at] - label[at]) * d_loss;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn hard(labels: &[i64]) -> Check {
        check("softmax_with_cross_entropy")
            .input("Logits", t(&[2, 2], &[0.0, 3f64.ln(), 1000.0, 0.0]))
            .input("Label", ids(&[2, 1], labels))
    }

    #[test]
    fn stays_finite_where_a_class_is_out_of_reach() {
        let low = (-64f64).exp();
        hard(&[0, 1])
            .gives("Loss", t(&[2, 1], &[4f64.ln(), 1000.0]))
            .gives("Softmax", t(&[2, 2], &[0.25, 0.75, 1.0, low]));
    }

    #[test]
    fn ignored_rows_cost_nothing() {
        let check = hard(&[0, 1]).attr("ignore_index", 1).output("Softmax");
        check.gives("Loss", t(&[2, 1], &[4f64.ln(), 0.0]));
    }

    #[test]
    fn soft_labels_weigh_the_logs() {
        check("softmax_with_cross_entropy")
            .input("Logits", t(&[1, 2], &[0.0, 3f64.ln()]))
            .input("Label", t(&[1, 2], &[0.5, 0.5]))
            .attr("soft_label", true)
            .gives("Loss", t(&[1, 1], &[0.5 * 4f64.ln() + 0.5 * (4f64 / 3.0).ln()]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let x = [0.1, -0.4, 0.3, 1.2, -0.7, 0.5, 0.2, -1.1];
        let soft = [0.1, 0.4, 0.9, 0.6, 0.3, 0.7, 0.7, 0.3];
        let op = || check("softmax_with_cross_entropy").input("Logits", t(&[2, 2, 2], &x));
        let outputs = |check: Check| check.aux("Softmax").output("Loss").grad(&["Logits"]);
        outputs(op().input("Label", ids(&[2, 2, 1], &[0, 1, 1, 0])));
        outputs(op().input("Label", ids(&[2, 1, 2], &[0, 1, 1, -100])).attr("axis", 1));
        let soft = op().input("Label", t(&[2, 2, 2], &soft)).attr("axis", 1);
        // The labels of an example must sum to 1 for the formula to be the derivative.
        outputs(soft.attr("soft_label", true));
    }

    #[test]
    fn refuses_a_label_that_is_no_class() {
        let error = hard(&[0, 2]).output("Softmax").output("Loss").fails();
        let at = |e: &Error| matches!(e, Error::LabelOutOfRange { row: 1, label: 2, .. });
        assert!(at(error.root()), "{error}");
    }
}
