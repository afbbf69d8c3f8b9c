//! `kron`: Out = the Kronecker product: a copy of Y, multiplied, for each number of X.
//!
//! Sizes are compared from the last on; the one with fewer dimensions has sizes of 1 before them.

use tensor::Shape;

use super::moves::for_each_place;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_number, traits};
use crate::error::Result;

pub(super) struct Kron;
pub(super) struct KronGrad;

/// The product of the sizes of both.
fn product(x: &[i64], y: &[i64]) -> Vec<i64> {
    let rank = x.len().max(y.len());
    let at = |dims: &[i64], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis])
    };
    let size = |axis| match (at(x, axis), at(y, axis)) {
        (a, b) if a < 0 || b < 0 => -1,
        (a, b) => a.saturating_mul(b),
    };
    (0..rank).map(size).collect()
}

/// The places in X and Y of the numbers whose product is at these coordinates.
fn factors(x: Shape, y: Shape, at: &[usize]) -> [usize; 2] {
    let rank = at.len();
    let mut places = [0; 2];
    for (axis, &i) in at.iter().enumerate() {
        let of = |shape: Shape| (axis + shape.rank()).checked_sub(rank).map(|axis| shape.dim(axis));
        let inner = of(y).unwrap_or(1);
        places[0] = places[0] * of(x).unwrap_or(1) + i / inner;
        places[1] = places[1] * inner + i % inner;
    }
    places
}

impl Op for Kron {
    traits!(Never, "X": [F16, F32, F64, I32, I64], "Y": [F16, F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, y) = (infer.input("X")?, infer.input("Y")?);
        let dims = product(&x.dims, &y.dims);
        infer.set_output("Out", x.with_dims(dims).with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Out", |run, out| {
            let (x, y) = (run.input("X")?, run.input("Y")?);
            let shape = Shape::from_dims(&product(&x.shape().to_i64(), &y.shape().to_i64()))?;
            for_number!(x.dtype(), run.input_name("X"), T => {
                let (a, b) = (x.data::<T>()?, run.data::<T>("Y")?);
                let out = out.try_resize::<T>(shape)?;
                for_each_place(shape, |place, at| {
                    let [i, j] = factors(x.shape(), y.shape(), at);
                    out[place] = a[i] * b[j];
                });
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]))
    }
}

/// dX = the sums of dOut Y over the copies, dY = the sums of dOut X.
impl Kernel for KronGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        let (x, y) = (run.input("X")?, run.input("Y")?);
        let shape = run.input("Out@GRAD")?.shape();
        if shape.to_i64() != product(&x.shape().to_i64(), &y.shape().to_i64()) {
            return Err(run.shapes("the gradient must have the product's shape", "Out@GRAD", "X"));
        }
        for_number!(x.dtype(), run.input_name("X"), T => {
            let (a, b) = (x.data::<T>()?, run.data::<T>("Y")?);
            let d_out = run.data::<T>("Out@GRAD")?;
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            let d_y = d_y.resize_zeroed::<T>(y.shape());
            for_each_place(shape, |place, at| {
                let [i, j] = factors(x.shape(), y.shape(), at);
                d_x[i] += d_out[place] * b[j];
                d_y[j] += d_out[place] * a[i];
            });
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        run.put("Y@GRAD", d_y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, some, t};

    #[test]
    fn a_copy_for_each_number() {
        let op = check("kron").input("X", t(&[2, 1], &[1.0, 10.0]));
        let out = [1.0, 2.0, 3.0, 10.0, 20.0, 30.0];
        op.input("Y", t(&[3], &[1.0, 2.0, 3.0])).gives("Out", t(&[2, 3], &out));
        for (x, y) in [(&[2, 2][..], &[3][..]), (&[3], &[2, 1, 2])] {
            let op = check("kron").input("X", some(x)).input("Y", some(y));
            op.output("Out").grad(&["X", "Y"]);
        }
    }
}
