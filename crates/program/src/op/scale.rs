//! `scale`: Out = scale X + bias, or scale (X + bias) if `bias_after_scale` is false.
//!
//! A tensor at ScaleTensor stands in for the attribute `scale`. Rows keep their ids.

use tensor::Number;

use super::arith::Arith;
use super::map::{apply, map};
use super::{Grad, Infer, Op, Run, for_number, traits};
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct Scale;

impl Op for Scale {
    traits!(Rows("X"), "X": [F16, F32, F64, I8, I16, I32, I64, U8]; keeps_to_gradients);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let scale = match run.n_inputs("ScaleTensor") {
            0 => f64::from(run.attrs().float("scale", 1.0)?),
            _ => run.scalar("ScaleTensor")?,
        };
        let bias = f64::from(run.attrs().float("bias", 0.0)?);
        let bias_after_scale = run.attrs().bool("bias_after_scale", true)?;
        map(run, |run, x, out| {
            for_number!(x.dtype(), run.input_name("X"), T => {
                let (scale, bias) = (T::of(scale), T::of(bias));
                let (x, out) = (x.data::<T>()?, out.resize::<T>(x.shape()));
                if bias_after_scale {
                    apply(x, out, |x| x.times(scale).plus(bias));
                } else {
                    apply(x, out, |x| x.plus(bias).times(scale));
                }
                Ok(())
            })
        })
    }

    /// dX = scale dOut: the same op without its bias.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let scale = grad.op().attrs.float("scale", 1.0)?;
        let mut op = OpDesc::new("scale").input("X", grad.output_grad("Out"));
        if !grad.input("ScaleTensor").is_empty() {
            op = op.input("ScaleTensor", grad.input("ScaleTensor"));
        }
        let op = op.output("Out", grad.input_grad("X")).attr("scale", scale);
        grad.emit(op.attr("bias", 0.0f32).attr("bias_after_scale", true))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, seq, t};
    use tensor::{Rows, Tensor, Value};

    #[test]
    fn scales_before_or_after_the_bias() {
        let x = || seq(t(&[2], &[1.0, -2.0]), &[1, 1]);
        let op = || check("scale").input("X", x()).attr("scale", 3.0f32).attr("bias", 1.0f32);
        op().gives("Out", seq(t(&[2], &[4.0, -5.0]), &[1, 1]));
        op().attr("bias_after_scale", false).gives("Out", seq(t(&[2], &[6.0, -3.0]), &[1, 1]));
    }

    #[test]
    fn takes_the_factor_from_a_tensor() {
        check("scale")
            .input("X", t(&[2], &[1.0, -2.0]))
            .input("ScaleTensor", t(&[1], &[10.0]))
            .attr("scale", 3.0f32)
            .gives("Out", t(&[2], &[10.0, -20.0]));
    }

    #[test]
    fn integers_lose_the_fraction_of_the_factor() {
        let op = check("scale").input("X", ids(&[2], &[3, 4]));
        op.attr("scale", 0.5f32).attr("bias", 1.7f32).gives("Out", ids(&[2], &[1, 1]));
    }

    #[test]
    fn keeps_the_ids_of_rows() {
        let rows = Rows { ids: vec![3, 1, 3], height: 5, value: t(&[3, 1], &[1.0, 2.0, 3.0]) };
        let op = check("scale").input("X", rows.clone()).attr("scale", 2.0f32).output("Out");
        let expected = Rows { value: t(&[3, 1], &[2.0, 4.0, 6.0]), ..rows };
        assert_eq!(op.run("Out"), Value::Rows(expected));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let op = check("scale").input("X", t(&[2], &[1.0, -2.0])).attr("scale", 3.0f32);
        op.attr("bias", 1.0f32).attr("bias_after_scale", false).output("Out").grad(&["X"]);
        let op = check("scale").input("X", t(&[2], &[1.0, -2.0]));
        op.input("ScaleTensor", t(&[1], &[10.0])).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_what_is_no_number() {
        let flags = Tensor::full([2], tensor::Bool::from(true));
        let error = check("scale").input("X", flags).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
        let op = check("scale").input("X", t(&[1], &[1.0]));
        let error = op.input("ScaleTensor", t(&[0], &[])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
