//! `sigmoid_cross_entropy_with_logits`: Out = max(X, 0) - X Label + log(1 + exp(-|X|)).
//!
//! Elements labelled `ignore_index` cost nothing. With `normalize` everything is divided by how
//! many elements are not ignored.

use tensor::Float;

use super::{Grad, Infer, Keep, Op, Run, dims, for_float};
use crate::error::Result;

pub(super) struct SigmoidCrossEntropyWithLogits;
pub(super) struct SigmoidCrossEntropyWithLogitsGrad;

impl Op for SigmoidCrossEntropyWithLogits {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        dims::infer_same(infer, "X", "Label")?;
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "X", "Label")?;
        run.fill("Out", "X", |run, x, out| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, label) = (x.data::<T>()?, run.data::<T>("Label")?);
                let rule = Rule::new(run, label)?;
                let out = out.resize::<T>(x.shape());
                for ((out, &x), &label) in out.iter_mut().zip(data).zip(label) {
                    let loss = x.max(0.0) - x * label + (-x.abs()).exp().ln_1p();
                    *out = rule.apply(label, loss);
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "Label"]))
    }
}

/// dX = (sigmoid(X) - Label) dOut, 0 where ignored.
impl Op for SigmoidCrossEntropyWithLogitsGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "X", "Label")?;
        dims::run_same(run, "X", "Out@GRAD")?;
        run.fill("X@GRAD", "X", |run, x, d_x| for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, label) = (x.data::<T>()?, run.data::<T>("Label")?);
            let rule = Rule::new(run, label)?;
            let d_out = run.data::<T>("Out@GRAD")?;
            let d_x = d_x.resize::<T>(x.shape());
            for (((d_x, &x), &label), &d_out) in d_x.iter_mut().zip(data).zip(label).zip(d_out) {
                *d_x = rule.apply(label, (1.0 / (1.0 + (-x).exp()) - label) * d_out);
            }
            Ok(())
        }))
    }
}

/// Which elements count, and by what all are divided.
struct Rule<T> {
    ignored: T,
    divisor: T,
}

impl<T: Float> Rule<T> {
    fn new(run: &Run<'_>, label: &[T]) -> Result<Self> {
        let ignored = T::of(run.attrs().int("ignore_index", -100)? as f64);
        if !run.attrs().bool("normalize", false)? {
            return Ok(Self { ignored, divisor: T::one() });
        }
        let n = label.iter().filter(|&&label| label != ignored).count();
        Ok(Self { ignored, divisor: T::of((n as f64).max(1e-5)) })
    }

    fn apply(&self, label: T, value: T) -> T {
        if label == self.ignored { T::zero() } else { value / self.divisor }
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn loss() -> Check {
        check("sigmoid_cross_entropy_with_logits")
            .input("X", t(&[1, 3], &[0.0, 3f64.ln(), -500.0]))
            .input("Label", t(&[1, 3], &[1.0, -1.0, 1.0]))
    }

    #[test]
    fn computes_a_loss_per_element() {
        // log(1 + e^-log 3) = log(4 / 3); label -1 adds log 3 twice.
        let middle = 2.0 * 3f64.ln() + (4f64 / 3.0).ln();
        loss().gives("Out", t(&[1, 3], &[2f64.ln(), middle, 500.0]));
    }

    #[test]
    fn ignores_and_normalizes() {
        let check = loss().attr("ignore_index", -1).attr("normalize", true);
        check.gives("Out", t(&[1, 3], &[2f64.ln() / 2.0, 0.0, 250.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        loss().output("Out").grad(&["X"]);
        let check = loss().attr("ignore_index", -1).attr("normalize", true);
        check.output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_labels_of_another_shape() {
        let error = check("sigmoid_cross_entropy_with_logits")
            .input("X", t(&[1, 2], &[0.0, 1.0]))
            .input("Label", t(&[2, 1], &[1.0, 0.0]))
            .output("Out")
            .fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
