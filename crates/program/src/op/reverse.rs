//! `reverse`: Out = X with the order turned around along each of `axis`.

use super::sizes;
use super::{Grad, Infer, Op, Run, traits};
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct Reverse;

impl Op for Reverse {
    traits!(Never, "X": [F32, F64, I32, I64, U8]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        for axis in infer.attrs().ints("axis")? {
            sizes::axis("axis", axis, x.dims.len())?;
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let x = run.input("X")?;
        out.copy_from(x);
        for axis in run.attrs().ints("axis")? {
            let axis = sizes::axis("axis", axis, x.shape().rank())?;
            let around = x.shape().around(axis);
            let inner = around.inner * x.dtype().size();
            for block in out.bytes_mut().chunks_exact_mut((around.size * inner).max(1)) {
                turn(block, inner.max(1));
            }
        }
        run.put("Out", out);
        Ok(())
    }

    /// dX = dOut turned back.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let mut op = OpDesc::new("reverse").input("X", grad.output_grad("Out"));
        op.attrs = grad.op().attrs.clone();
        grad.emit(op.output("Out", grad.input_grad("X")))
    }
}

/// Reverses the order of the steps of a block.
fn turn(block: &mut [u8], step: usize) {
    let mut steps = block.chunks_exact_mut(step);
    while let (Some(first), Some(last)) = (steps.next(), steps.next_back()) {
        first.swap_with_slice(last);
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn reverse(axes: &[i32]) -> Check {
        let x = t(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check("reverse").input("X", x).attr("axis", axes.to_vec())
    }

    #[test]
    fn turns_around_each_axis() {
        reverse(&[0]).gives("Out", t(&[2, 3], &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0]));
        reverse(&[0, -1]).gives("Out", t(&[2, 3], &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        reverse(&[1]).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_an_axis_that_is_not_there() {
        let error = reverse(&[2]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
