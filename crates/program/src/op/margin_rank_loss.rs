//! `margin_rank_loss`: Out = max(0, margin - Label (X1 - X2)); Activated is 1 where Out > 0.

use super::{Grad, Infer, Keep, Op, Run, dims, for_float};
use crate::error::Result;

pub(super) struct MarginRankLoss;
pub(super) struct MarginRankLossGrad;

impl Op for MarginRankLoss {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        dims::infer_same(infer, "X1", "X2")?;
        dims::infer_same(infer, "X1", "Label")?;
        let x = infer.input("X1")?.with_lod_level(0);
        infer.set_output("Activated", x.clone())?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let margin = run.attrs().float("margin", 0.0)?;
        let (mut activated, mut out) = (run.take("Activated"), run.take("Out"));
        dims::run_same(run, "X1", "X2")?;
        dims::run_same(run, "X1", "Label")?;
        let x1 = run.input("X1")?;
        let shape = x1.shape();
        for_float!(x1.dtype(), run.input_name("X1"), T => {
            let inputs = x1.data::<T>()?.iter().zip(run.data::<T>("X2")?);
            let inputs = inputs.zip(run.data::<T>("Label")?);
            let outputs = activated.resize::<T>(shape).iter_mut().zip(out.resize::<T>(shape));
            for ((activated, out), ((&x1, &x2), &label)) in outputs.zip(inputs) {
                *out = (T::from(margin) - label * (x1 - x2)).max(0.0);
                *activated = if *out > 0.0 { 1.0 } else { 0.0 };
            }
            Ok(())
        })?;
        run.put("Activated", activated);
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["Out"], &["X1", "X2"]).inputs(&["Label"]).outputs(&["Activated"]),
        )
    }
}

/// dX1 = -dOut Label Activated, dX2 = -dX1.
impl Op for MarginRankLossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "Label", "Activated")?;
        dims::run_same(run, "Label", "Out@GRAD")?;
        for (port, sign) in [("X1@GRAD", -1.0f32), ("X2@GRAD", 1.0)] {
            if !run.wants(port) {
                continue;
            }
            let mut d = run.take(port);
            let label = run.input("Label")?;
            for_float!(label.dtype(), run.input_name("Label"), T => {
                let inputs = label.data::<T>()?.iter().zip(run.data::<T>("Activated")?);
                let inputs = inputs.zip(run.data::<T>("Out@GRAD")?);
                let d = d.resize::<T>(label.shape()).iter_mut();
                for (d, ((&label, &activated), &d_out)) in d.zip(inputs) {
                    *d = T::from(sign) * d_out * label * activated;
                }
                Ok(())
            })?;
            run.put(port, d);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn loss(x2: &[f64]) -> Check {
        check("margin_rank_loss")
            .input("Label", t(&[2, 1], &[1.0, 1.0]))
            .input("X1", t(&[2, 1], &[0.25, 0.5]))
            .input("X2", t(&[x2.len(), 1], x2))
            .attr("margin", 0.125f32)
    }

    #[test]
    fn costs_what_is_missing_to_the_margin() {
        loss(&[0.5, 0.25])
            .gives("Out", t(&[2, 1], &[0.375, 0.0]))
            .gives("Activated", t(&[2, 1], &[1.0, 0.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        loss(&[0.5, 0.25]).aux("Activated").output("Out").grad(&["X1", "X2"]);
    }

    #[test]
    fn refuses_shapes_that_differ() {
        let error = loss(&[0.5]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
