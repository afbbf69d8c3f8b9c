//! `relu`: Out = max(X, 0), elementwise.

use super::{Grad, Infer, Keep, Op, Run, for_float};
use crate::error::Result;

pub(super) struct Relu;
pub(super) struct ReluGrad;

impl Op for Relu {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let x = x.data::<T>()?;
            let values = out.resize::<T>(run.input("X")?.shape());
            values.iter_mut().zip(x).for_each(|(out, &x)| *out = x.max(0.0));
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep {
            outputs: &["Out"],
            out_grads: &["Out"],
            in_grads: &["X"],
            ..Keep::default()
        })
    }
}

/// dX = dOut where Out > 0, else 0.
impl Op for ReluGrad {
    fn name(&self) -> &'static str {
        "relu_grad"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let (out, d_out) = (run.input("Out")?, run.input("Out@GRAD")?);
        for_float!(out.dtype(), run.input_name("Out"), T => {
            let d = d_x.resize::<T>(out.shape());
            for ((d, &out), &d_out) in d.iter_mut().zip(out.data::<T>()?).zip(d_out.data::<T>()?) {
                *d = if out > 0.0 { d_out } else { 0.0 };
            }
            Ok(())
        })?;
        d_x.set_lod(out.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, t};

    #[test]
    fn clamps_negative_values() {
        check("relu")
            .input("X", t(&[3], &[-1.0, 0.0, 2.0]))
            .gives("Out", t(&[3], &[0.0, 0.0, 2.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        // Stays away from 0, where relu has no derivative.
        check("relu").input("X", t(&[3], &[-1.5, 0.5, 2.0])).output("Out").grad(&["X"]);
    }
}
