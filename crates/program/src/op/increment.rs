//! `increment`: Out = X + step for X of one element; a counter, often in place.

use tensor::Number;

use super::arith::Arith;
use super::{Infer, Op, Run, for_number, no_gradient, traits};
use crate::error::Result;

pub(super) struct Increment;

const RULE: &str = "a counter has one element";

impl Op for Increment {
    traits!(Never, "X": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        if crate::var::n_elements(&x.dims) != 1 {
            return Err(infer.shape(RULE, "X"));
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let step = f64::from(run.attrs().float("step", 1.0)?);
        if run.input("X")?.len() != 1 {
            return Err(run.shape(RULE, "X"));
        }
        run.update([("X", "Out")], |run, [x]| {
            for_number!(x.dtype(), run.input_name("X"), T => {
                for x in x.data_mut::<T>()? {
                    *x = x.plus(T::of(step));
                }
                Ok(())
            })
        })
    }

    // A counter carries no gradient.
    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    #[test]
    fn counts_in_any_number_type() {
        check("increment").input("X", t(&[1], &[3.0])).gives("Out", t(&[1], &[4.0]));
        let op = check("increment").input("X", ids(&[1, 1], &[3])).attr("step", 2.5f32);
        op.gives("Out", ids(&[1, 1], &[5]));
    }

    #[test]
    fn refuses_more_than_one_number() {
        let error = check("increment").input("X", t(&[2], &[1.0, 2.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let flag = tensor::Tensor::full([1], tensor::Bool::from(true));
        let error = check("increment").input("X", flag).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }
}
