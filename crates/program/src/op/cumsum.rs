//! `cumsum`: Out = running sums of X along `axis`.
//!
//! `exclusive` leaves an element out of its own sum; `reverse` sums from the end. Gradient: the same
//! in the other direction.

use tensor::Number;

use super::sizes;
use super::{Grad, Infer, Op, Run, for_number, traits};
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct Cumsum;

impl Op for Cumsum {
    traits!(Inner("X", "axis", -1));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        sizes::axis("axis", infer.attrs().int("axis", -1)?, x.dims.len())?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let exclusive = attrs.bool("exclusive", false)?;
        let reverse = attrs.bool("reverse", false)?;
        run.fill("Out", "X", |run, x, out| {
            let axis = sizes::axis("axis", attrs.int("axis", -1)?, x.shape().rank())?;
            let around = x.shape().around(axis);
            for_number!(x.dtype(), run.input_name("X"), T => {
                let (x, out) = (x.data::<T>()?, out.resize::<T>(x.shape()));
                for vector in 0..around.n_vectors() {
                    let start = around.start(vector);
                    let mut sum = T::of(0.0);
                    for step in 0..around.size {
                        let step = if reverse { around.size - 1 - step } else { step };
                        let at = start + step * around.inner;
                        let before = sum;
                        sum += x[at];
                        out[at] = if exclusive { before } else { sum };
                    }
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let attrs = &grad.op().attrs;
        let op = OpDesc::new("cumsum")
            .attr("axis", attrs.int("axis", -1)? as i32)
            .attr("exclusive", attrs.bool("exclusive", false)?)
            .attr("reverse", !attrs.bool("reverse", false)?);
        grad.emit(op.input("X", grad.output_grad("Out")).output("Out", grad.input_grad("X")))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn cumsum(axis: i32, exclusive: bool, reverse: bool) -> Check {
        let op = check("cumsum").input("X", t(&[2, 2], &[1.0, 2.0, 3.0, 4.0])).attr("axis", axis);
        op.attr("exclusive", exclusive).attr("reverse", reverse)
    }

    #[test]
    fn sums_on_the_way() {
        cumsum(-1, false, false).gives("Out", t(&[2, 2], &[1.0, 3.0, 3.0, 7.0]));
        cumsum(0, false, true).gives("Out", t(&[2, 2], &[4.0, 6.0, 3.0, 4.0]));
        cumsum(0, true, true).gives("Out", t(&[2, 2], &[3.0, 4.0, 0.0, 0.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            cumsum(0, exclusive, reverse).output("Out").grad(&["X"]);
        }
    }

    #[test]
    fn refuses_an_axis_that_is_not_there() {
        let error = cumsum(2, false, false).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
