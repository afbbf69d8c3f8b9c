//! `log_loss`: Loss = -Labels log(Predicted + epsilon) - (1 - Labels) log(1 - Predicted + epsilon).

use super::{Grad, Infer, Keep, Op, Run, dims, for_float};
use crate::error::Result;

pub(super) struct LogLoss;
pub(super) struct LogLossGrad;

impl Op for LogLoss {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        dims::infer_same(infer, "Predicted", "Labels")?;
        let p = infer.input("Predicted")?;
        infer.set_output("Loss", p)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let epsilon = run.attrs().float("epsilon", 1e-4)?;
        dims::run_same(run, "Predicted", "Labels")?;
        run.fill("Loss", "Predicted", |run, p, loss| {
            for_float!(p.dtype(), run.input_name("Predicted"), T => {
                let epsilon = T::from(epsilon);
                let labels = run.data::<T>("Labels")?.iter();
                let out = loss.resize::<T>(p.shape()).iter_mut();
                for ((loss, &p), &label) in out.zip(p.data::<T>()?).zip(labels) {
                    *loss = -label * (p + epsilon).ln() - (1.0 - label) * (1.0 - p + epsilon).ln();
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Loss"], &["Predicted"]).inputs(&["Predicted", "Labels"]))
    }
}

/// dPredicted = dLoss ((1 - Labels) / (1 - Predicted + epsilon) - Labels / (Predicted + epsilon)).
impl Op for LogLossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let epsilon = run.attrs().float("epsilon", 1e-4)?;
        dims::run_same(run, "Predicted", "Labels")?;
        dims::run_same(run, "Predicted", "Loss@GRAD")?;
        run.fill("Predicted@GRAD", "Predicted", |run, p, d_p| for_float!(p.dtype(), run.input_name("Predicted"), T => {
            let epsilon = T::from(epsilon);
            let (labels, d_loss) = (run.data::<T>("Labels")?, run.data::<T>("Loss@GRAD")?);
            let inputs = p.data::<T>()?.iter().zip(labels).zip(d_loss);
            for (d_p, ((&p, &label), &d_loss)) in d_p.resize::<T>(p.shape()).iter_mut().zip(inputs) {
                *d_p = d_loss * ((1.0 - label) / (1.0 - p + epsilon) - label / (p + epsilon));
            }
            Ok(())
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn loss(labels: &[f64]) -> Check {
        check("log_loss")
            .input("Predicted", t(&[2, 1], &[0.25, 0.75]))
            .input("Labels", t(&[labels.len(), 1], labels))
            .attr("epsilon", 0.25f32)
    }

    #[test]
    fn weighs_both_logs() {
        loss(&[1.0, 0.5]).gives("Loss", t(&[2, 1], &[2f64.ln(), 0.5 * 2f64.ln()]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        loss(&[1.0, 0.0]).output("Loss").grad(&["Predicted"]);
    }

    #[test]
    fn refuses_labels_of_another_shape() {
        let error = loss(&[1.0]).output("Loss").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
