//! `flip`: Out = X with the order turned around along each of `dims`, which are named once.

use tensor::Shape;

use super::moves::{MovePorts, Moves, run_moves};
use super::sizes::{self, bad_attr};
use super::{Grad, Infer, Op, Run, traits};
use crate::attr::Attrs;
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct Flip;

/// Which dimensions turn around.
fn turned(attrs: &Attrs, rank: usize) -> Result<Vec<bool>> {
    let dims = attrs.ints("dims")?;
    let mut turned = vec![false; rank];
    for &dim in &dims {
        let axis = sizes::axis("dims", dim, rank)?;
        if std::mem::replace(&mut turned[axis], true) {
            return Err(bad_attr("dims", "each dimension once", dims));
        }
    }
    if dims.is_empty() {
        return Err(bad_attr("dims", "one dimension at least", dims));
    }
    Ok(turned)
}

struct FlipPlan {
    shape: Shape,
    turned: Vec<bool>,
}

fn plan(run: &Run<'_>) -> Result<FlipPlan> {
    let shape = run.input("X")?.shape();
    Ok(FlipPlan { shape, turned: turned(run.attrs(), shape.rank())? })
}

impl Moves for FlipPlan {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        Some(at.iter().enumerate().fold(0, |place, (axis, &i)| {
            let size = self.shape.dim(axis);
            place * size + if self.turned[axis] { size - 1 - i } else { i }
        }))
    }
}

const PORTS: MovePorts = MovePorts { from: "X", to: "Out", d_from: "X@GRAD", d_to: "Out@GRAD" };

impl Op for Flip {
    traits!(When(|op| op.axes_are_inner("X", "dims") && op.only_rows("X")),
        "X": [F16, F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        turned(infer.attrs(), x.dims.len())?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run_moves(run, PORTS, plan)
    }

    /// dX = dOut turned back.
    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let mut op = OpDesc::new("flip").input("X", grad.output_grad("Out"));
        op.attrs = grad.op().attrs.clone();
        grad.emit(op.output("Out", grad.input_grad("X")))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn flip(dims: &[i32]) -> Check {
        let x = t(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check("flip").input("X", x).attr("dims", dims.to_vec())
    }

    #[test]
    fn turns_around_each_dimension() {
        flip(&[0]).gives("Out", t(&[2, 3], &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0]));
        flip(&[0, -1]).gives("Out", t(&[2, 3], &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]));
        flip(&[1]).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_no_dimension_and_one_twice() {
        for bad in [flip(&[]), flip(&[1, -1]), flip(&[2])] {
            let error = bad.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
