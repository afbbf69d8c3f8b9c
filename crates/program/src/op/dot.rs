//! `dot`: Out = the sum of X Y over the last dimension, which stays with a size of 1.

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_number, traits};
use crate::error::Result;

pub(super) struct Dot;
pub(super) struct DotGrad;

const RANK: &str = "one dimension or two are needed";

impl Op for Dot {
    traits!(When(|op| op.rank("X") == Some(2) && op.all_rows("X") && op.all_rows("Y")),
        "X": [F32, F64, I32, I64], "Y": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        dims::infer_same(infer, "X", "Y")?;
        if !(1..=2).contains(&x.dims.len()) {
            return Err(infer.shape(RANK, "X"));
        }
        let mut dims = x.dims.clone();
        dims[x.dims.len() - 1] = 1;
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "X", "Y")?;
        run.make("Out", |run, out| {
            let x = run.input("X")?;
            let rank = x.shape().rank();
            if !(1..=2).contains(&rank) {
                return Err(run.shape(RANK, "X"));
            }
            let width = x.shape().last();
            for_number!(x.dtype(), run.input_name("X"), T => {
                let (x, y) = (run.data::<T>("X")?, run.data::<T>("Y")?);
                let out = out.resize_zeroed::<T>(run.input("X")?.shape().with_dim(rank - 1, 1));
                for (at, (&a, &b)) in x.iter().zip(y).enumerate() {
                    out[at / width] += a * b;
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]))
    }
}

/// dX = dOut Y, dY = dOut X.
impl Kernel for DotGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        dims::run_same(run, "X", "Y")?;
        let x = run.input("X")?;
        let width = x.shape().last();
        if run.input("Out@GRAD")?.len() * width != x.len() {
            return Err(run.shapes("one number for each row", "Out@GRAD", "X"));
        }
        for_number!(x.dtype(), run.input_name("X"), T => {
            let (a, b) = (x.data::<T>()?, run.data::<T>("Y")?);
            let d_out = run.data::<T>("Out@GRAD")?;
            let (d_x, d_y) = (d_x.resize::<T>(x.shape()), d_y.resize::<T>(x.shape()));
            for at in 0..a.len() {
                d_x[at] = d_out[at / width] * b[at];
                d_y[at] = d_out[at / width] * a[at];
            }
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, some, t};

    #[test]
    fn sums_products_of_rows() {
        let op = check("dot").input("X", t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
        op.input("Y", t(&[2, 2], &[5.0, 6.0, 7.0, 8.0])).gives("Out", t(&[2, 1], &[17.0, 53.0]));
        let op = check("dot").input("X", ids(&[2], &[1, 2])).input("Y", ids(&[2], &[3, 4]));
        op.gives("Out", ids(&[1], &[11]));
        let op = check("dot").input("X", some(&[3, 2])).input("Y", some(&[3, 2]));
        op.output("Out").grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_other_shapes() {
        let error =
            check("dot").input("X", some(&[3])).input("Y", some(&[2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let cube = || some(&[1, 1, 1]);
        let error = check("dot").input("X", cube()).input("Y", cube()).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
