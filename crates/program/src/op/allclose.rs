//! `allclose`: Out = whether |Input - Other| <= atol + rtol |Other| everywhere; `equal_nan` lets two NaNs be
//! close.

use tensor::{Bool, DType, Number, Shape};

use super::{Infer, Op, Run, dims, for_number, no_gradient, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Allclose;

impl Op for Allclose {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        dims::infer_same(infer, "Input", "Other")?;
        infer.set_output("Out", Meta::dense(DType::Bool, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "Input", "Other")?;
        let attrs = run.attrs();
        let rtol = f64::from(attrs.float("rtol", 1e-5)?);
        let atol = f64::from(attrs.float("atol", 1e-8)?);
        let equal_nan = attrs.bool("equal_nan", false)?;
        run.make("Out", |run, out| {
            let input = run.input("Input")?;
            for_number!(input.dtype(), run.input_name("Input"), T => {
                let (a, b) = (input.data::<T>()?, run.data::<T>("Other")?);
                let close = |a: f64, b: f64| {
                    (a - b).abs() <= atol + rtol * b.abs() || (equal_nan && a.is_nan() && b.is_nan())
                };
                let all = a.iter().zip(b).all(|(&a, &b)| close(a.f64(), b.f64()));
                out.resize::<Bool>(Shape::from([1]))[0] = Bool::from(all);
                Ok(())
            })
        })
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use tensor::{Bool, Tensor};

    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn op(other: [f64; 2]) -> Check {
        let op = check("allclose").input("Input", t(&[2], &[10000.0, f64::NAN]));
        op.input("Other", t(&[2], &other))
    }

    fn is(truth: bool) -> Tensor {
        Tensor::new([1], &[Bool::from(truth)]).unwrap()
    }

    #[test]
    fn near_numbers_are_close() {
        op([10000.01, f64::NAN]).attr("equal_nan", true).gives("Out", is(true));
        op([10000.01, f64::NAN]).gives("Out", is(false));
        op([10001.0, f64::NAN]).attr("equal_nan", true).gives("Out", is(false));
    }

    #[test]
    fn refuses_other_shapes() {
        let bad = check("allclose").input("Input", some(&[2])).input("Other", some(&[3]));
        let error = bad.output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
