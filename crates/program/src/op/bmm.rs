//! `bmm`: Out[i] = X[i] Y[i], matrix by matrix.

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct Bmm;
pub(super) struct BmmGrad;

const RULE: &str =
    "both must be as many matrices (3 dimensions), X with as many columns as Y has rows";

/// How many matrices, their rows, inner size and columns.
#[derive(Clone, Copy)]
struct BatchSizes {
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
}

impl BatchSizes {
    fn of(run: &Run<'_>) -> Result<Self> {
        match (run.input("X")?.dims(), run.input("Y")?.dims()) {
            (&[batch, m, k], &[other, rows, n]) if batch == other && k == rows => {
                Ok(Self { batch, m, k, n })
            }
            _ => Err(run.shapes(RULE, "X", "Y")),
        }
    }
}

impl Op for Bmm {
    traits!(All(&["X", "Y"]), "X": [F32, F64], "Y": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        let (&[batch, m, k], &[other, rows, n]) = (&x.dims[..], &y.dims[..]) else {
            return Err(infer.shapes(RULE, "X", "Y"));
        };
        if !dims::agree(&[batch, k], &[other, rows]) {
            return Err(infer.shapes(RULE, "X", "Y"));
        }
        infer.set_output("Out", x.with_dims(vec![batch, m, n]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("Out", "X", |run, x, out| {
            let sizes @ BatchSizes { batch, m, k, n } = BatchSizes::of(run)?;
            for_float!(x.dtype(), run.input_name("X"), T => {
                let out = out.try_resize_zeroed::<T>(Shape::from([batch, m, n]))?;
                let (x, y) = (x.data::<T>()?, run.data::<T>("Y")?);
                for i in 0..if k == 0 { 0 } else { sizes.batch } {
                    let (a, b) = (part(x, i, m, k), part(y, i, k, n));
                    gemm(1.0, a, b, 0.0, &mut out[i * m * n..][..m * n]);
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]))
    }
}

/// One of the matrices.
fn part<T: Float>(data: &[T], i: usize, rows: usize, columns: usize) -> Matrix<'_, T> {
    Matrix::new(&data[i * rows * columns..][..rows * columns], rows, columns)
}

/// dX[i] = dOut[i] Y[i]ᵀ, dY[i] = X[i]ᵀ dOut[i].
impl Kernel for BmmGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let BatchSizes { batch, m, k, n } = BatchSizes::of(run)?;
        if run.input("Out@GRAD")?.dims() != [batch, m, n] {
            return Err(run.shapes("the gradient must have the product's shape", "Out@GRAD", "X"));
        }
        for_float!(run.input("X")?.dtype(), run.input_name("X"), T => {
            let (x, y) = (run.data::<T>("X")?, run.data::<T>("Y")?);
            let d_out = run.data::<T>("Out@GRAD")?;
            let d_x = d_x.resize_zeroed::<T>(Shape::from([batch, m, k]));
            let d_y = d_y.resize_zeroed::<T>(Shape::from([batch, k, n]));
            for i in 0..batch {
                let d_out = part(d_out, i, m, n);
                gemm(1.0, d_out, part(y, i, k, n).t(), 0.0, &mut d_x[i * m * k..][..m * k]);
                gemm(1.0, part(x, i, m, k).t(), d_out, 0.0, &mut d_y[i * k * n..][..k * n]);
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
    use crate::op::check::{check, some, t};

    #[test]
    fn multiplies_matrix_by_matrix() {
        check("bmm")
            .input("X", t(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Y", t(&[2, 2, 1], &[5.0, 6.0, 7.0, 8.0]))
            .gives("Out", t(&[2, 1, 1], &[17.0, 53.0]));
        let op = check("bmm").input("X", some(&[2, 3, 2])).input("Y", some(&[2, 2, 4]));
        op.output("Out").grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_sizes_that_do_not_fit() {
        for (x, y) in
            [(&[2, 3][..], &[2, 3][..]), (&[2, 1, 2], &[1, 2, 1]), (&[1, 1, 2], &[1, 3, 1])]
        {
            let error = check("bmm").input("X", some(x)).input("Y", some(y)).output("Out").fails();
            assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        }
    }
}
