//! `sign`: Out = -1, 0 or 1 as X is negative, zero or positive.

use super::map::{apply, map};
use super::{Grad, Infer, Op, Run, for_float, traits};
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct Sign;

impl Op for Sign {
    traits!(Rows("X"), "X": [F16, F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        map(run, |run, x, out| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                apply(x.data::<T>()?, out.resize::<T>(x.shape()), sign);
                Ok(())
            })
        })
    }

    /// dX = 0.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let op = OpDesc::new("scale").input("X", grad.output_grad("Out"));
        grad.emit(op.output("Out", grad.input_grad("X")).attr("scale", 0.0f32))
    }
}

/// -1, 0 or 1; the library's `signum` has no 0.
pub(super) fn sign<T: tensor::Float>(x: T) -> T {
    let (zero, one) = (T::zero(), T::one());
    if x > zero {
        one
    } else if x < zero {
        -one
    } else {
        zero
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    #[test]
    fn zero_has_no_sign() {
        let op = check("sign").input("X", t(&[4], &[-3.0, 0.0, -0.0, 0.5]));
        op.gives("Out", t(&[4], &[-1.0, 0.0, 0.0, 1.0]));
    }

    #[test]
    fn gradient_is_zero() {
        check("sign").input("X", t(&[2], &[-3.0, 0.5])).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_integers() {
        let error = check("sign").input("X", ids(&[1], &[1])).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
    }
}
