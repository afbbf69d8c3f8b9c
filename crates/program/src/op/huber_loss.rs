//! `huber_loss`: with Residual r = Y - X, Out = r²/2 where |r| <= delta, else delta (|r| - delta/2).

use super::{Grad, Infer, Keep, Op, Run, dims, for_float};
use crate::error::Result;

pub(super) struct HuberLoss;
pub(super) struct HuberLossGrad;

impl Op for HuberLoss {
    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        dims::infer_same(infer, "X", "Y")?;
        let x = infer.input("X")?;
        infer.set_output("Residual", x.with_lod_level(0))?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let delta = run.attrs().float("delta", 1.0)?;
        let (mut residual, mut out) = (run.take("Residual"), run.take("Out"));
        dims::run_same(run, "X", "Y")?;
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let delta = T::from(delta);
            let outputs = residual.resize::<T>(x.shape()).iter_mut().zip(out.resize::<T>(x.shape()));
            let inputs = x.data::<T>()?.iter().zip(run.data::<T>("Y")?);
            for ((r, out), (&x, &y)) in outputs.zip(inputs) {
                *r = y - x;
                let size = r.abs();
                *out = if size <= delta { 0.5 * size * size } else { delta * (size - 0.5 * delta) };
            }
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Residual", residual);
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).outputs(&["Residual"]))
    }
}

/// dY = dOut r bounded to [-delta, delta], dX = -dY.
impl Op for HuberLossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let delta = run.attrs().float("delta", 1.0)?;
        dims::run_same(run, "Residual", "Out@GRAD")?;
        for (port, sign) in [("X@GRAD", -1.0f32), ("Y@GRAD", 1.0)] {
            if !run.wants(port) {
                continue;
            }
            let mut d = run.take(port);
            let r = run.input("Residual")?;
            for_float!(r.dtype(), run.input_name("Residual"), T => {
                let (delta, sign) = (T::from(delta), T::from(sign));
                let inputs = r.data::<T>()?.iter().zip(run.data::<T>("Out@GRAD")?);
                for (d, (&r, &d_out)) in d.resize::<T>(r.shape()).iter_mut().zip(inputs) {
                    *d = sign * d_out * r.max(-delta).min(delta);
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

    fn loss(y: &[f64]) -> Check {
        check("huber_loss")
            .input("X", t(&[3, 1], &[0.0, 1.0, 2.0]))
            .input("Y", t(&[y.len(), 1], y))
            .attr("delta", 0.5f32)
    }

    #[test]
    fn is_quadratic_near_and_linear_far() {
        loss(&[0.25, 3.0, 0.0])
            .gives("Out", t(&[3, 1], &[0.03125, 0.875, 0.875]))
            .gives("Residual", t(&[3, 1], &[0.25, 2.0, -2.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        loss(&[0.25, 3.0, 0.0]).aux("Residual").output("Out").grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_shapes_that_differ() {
        let error = loss(&[0.25]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
