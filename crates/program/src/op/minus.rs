//! `minus`: Out = X - Y, of one shape.

use super::zip::Zip;
use super::{Grad, Infer, Op, Run, for_float, traits};
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct Minus;

const PORTS: Zip<2, 1> = Zip { inputs: ["X", "Y"], outputs: ["Out"], sequences: true };

impl Op for Minus {
    traits!(All(&["X", "Y"]));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        PORTS.infer(infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        for_float!(run.input("X")?.dtype(), run.input_name("X"), T => {
            PORTS.run(run, |[x, y]: [T; 2]| [x - y])
        })
    }

    /// dX = dOut, dY = -dOut.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        for (port, factor) in [("X", 1.0f32), ("Y", -1.0)] {
            let op = OpDesc::new("scale").input("X", grad.output_grad("Out"));
            grad.emit(op.output("Out", grad.input_grad(port)).attr("scale", factor))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn minus(y: &[f64]) -> Check {
        let op = check("minus").input("X", t(&[2], &[1.0, 2.0]));
        op.input("Y", t(&[y.len()], y))
    }

    #[test]
    fn subtracts() {
        minus(&[4.0, -5.0]).gives("Out", t(&[2], &[-3.0, 7.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        minus(&[4.0, -5.0]).output("Out").grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_other_shapes() {
        let error = minus(&[4.0]).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
