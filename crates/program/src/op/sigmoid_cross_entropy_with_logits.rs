//! `sigmoid_cross_entropy_with_logits`: Out = max(X, 0) - X Label + log(1 + exp(-|X|)).
//!
//! Elements labelled `ignore_index` cost nothing. With `normalize` everything is divided by how
//! many elements are not ignored.

use tensor::Float;

use super::zip::Zip;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct SigmoidCrossEntropyWithLogits;
pub(super) struct SigmoidCrossEntropyWithLogitsGrad;

const COSTS: Zip<2, 1> = Zip { inputs: ["X", "Label"], outputs: ["Out"], sequences: true };
const SLOPES: Zip<3, 1> =
    Zip { inputs: ["X", "Label", "Out@GRAD"], outputs: ["X@GRAD"], sequences: true };

impl Op for SigmoidCrossEntropyWithLogits {
    traits!(Never, "X": [F16, F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        COSTS.infer(infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        for_float!(run.input("X")?.dtype(), run.input_name("X"), T => {
            let rule = LossRule::<T>::new(run)?;
            COSTS.run(run, |[x, label]: [T; 2]| {
                let loss = x.max(0.0) - x * label + (-x.abs()).exp().ln_1p();
                [rule.apply(label, loss)]
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "Label"]))
    }
}

/// dX = (sigmoid(X) - Label) dOut, 0 where ignored.
impl Kernel for SigmoidCrossEntropyWithLogitsGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        for_float!(run.input("X")?.dtype(), run.input_name("X"), T => {
            let rule = LossRule::<T>::new(run)?;
            let slope = |x: T, label: T| 1.0 / (1.0 + (-x).exp()) - label;
            SLOPES.run(run, |[x, label, d]| [rule.apply(label, slope(x, label) * d)])
        })
    }
}

/// Which elements count, and by what all are divided.
struct LossRule<T> {
    ignored: T,
    divisor: T,
}

impl<T: Float> LossRule<T> {
    fn new(run: &Run<'_>) -> Result<Self> {
        let ignored = T::of(run.attrs().int("ignore_index", -100)? as f64);
        if !run.attrs().bool("normalize", false)? {
            return Ok(Self { ignored, divisor: T::one() });
        }
        let n = run.data::<T>("Label")?.iter().filter(|&&label| label != ignored).count();
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
