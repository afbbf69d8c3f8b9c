//! `pow`: Out = X^factor, elementwise. A tensor at FactorTensor stands in for the attribute.

use tensor::Number;

use super::map::{apply, apply_2, map, map_grad};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct Pow;
pub(super) struct PowGrad;

fn factor(run: &Run<'_>) -> Result<f64> {
    match run.n_inputs("FactorTensor") {
        0 => Ok(f64::from(run.attrs().float("factor", 1.0)?)),
        _ => run.scalar("FactorTensor"),
    }
}

impl Op for Pow {
    traits!(Rows("X"), "X": [F32, F64, I32, I64], "FactorTensor": [F32]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let factor = factor(run)?;
        map(run, |run, x, out| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let factor = T::of(factor);
                apply(x.data::<T>()?, out.resize::<T>(x.shape()), |x| x.powf(factor));
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "FactorTensor"]))
    }
}

/// dX = dOut factor X^(factor - 1).
impl Kernel for PowGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let factor = factor(run)?;
        map_grad(run, "X", |x, d_out, d_x| {
            for_float!(x.dtype(), "X", T => {
                let factor = T::of(factor);
                let d_x = d_x.resize::<T>(x.shape());
                apply_2(x.data::<T>()?, d_out.data::<T>()?, d_x, |x, d| {
                    d * factor * x.powf(factor - 1.0)
                });
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    #[test]
    fn raises_to_a_power() {
        let x = || t(&[3], &[-2.0, 0.0, 3.0]);
        check("pow").input("X", x()).gives("Out", x());
        let op = check("pow").input("X", x()).attr("factor", 2.0f32);
        op.gives("Out", t(&[3], &[4.0, 0.0, 9.0]));
        let op = check("pow").input("X", x()).input("FactorTensor", t(&[1], &[3.0]));
        op.gives("Out", t(&[3], &[-8.0, 0.0, 27.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let x = || t(&[2], &[0.7, 1.9]);
        check("pow").input("X", x()).attr("factor", 2.5f32).output("Out").grad(&["X"]);
        let op = check("pow").input("X", x()).input("FactorTensor", t(&[1], &[3.0]));
        op.output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_integers_and_an_empty_factor() {
        let error = check("pow").input("X", ids(&[1], &[1])).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
        let op = check("pow").input("X", t(&[1], &[1.0])).input("FactorTensor", t(&[0], &[]));
        let error = op.output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
