//! `cross`: Out = the cross products of the vectors of X and Y along `dim`, which has a size of 3; the first
//! such dimension if `dim` is 9, Fluid's word for none. dX = Y × dOut, dY = dOut × X.

use tensor::{Number, Shape};

use super::sizes::{self, bad_attr};
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_number, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Cross;
pub(super) struct CrossGrad;

/// `dim` where nobody said it.
const NONE: i64 = 9;

/// The dimension of the vectors; none if it is not known yet.
fn axis(attrs: &Attrs, dims: &[i64]) -> Result<Option<usize>> {
    let expected = "a dimension of size 3";
    let dim = attrs.int("dim", NONE)?;
    if dim == NONE {
        let axis = dims.iter().position(|&size| size == 3);
        let is_unknown = axis.is_none() && dims.iter().any(|&size| size < 0);
        return if axis.is_some() || is_unknown {
            Ok(axis)
        } else {
            Err(bad_attr("dim", expected, dims))
        };
    }
    let axis = sizes::axis("dim", dim, dims.len())?;
    match dims[axis] {
        3 => Ok(Some(axis)),
        ..0 => Ok(None),
        _ => Err(bad_attr("dim", expected, dims)),
    }
}

/// out = a × b for all vectors along an axis.
fn cross<T: Number>(shape: Shape, axis: usize, a: &[T], b: &[T], out: &mut [T]) {
    let around = shape.around(axis);
    for vector in 0..around.n_vectors() {
        let (start, step) = (around.start(vector), around.inner);
        let [x, y, z] = [start, start + step, start + 2 * step];
        out[x] = a[y] * b[z] - a[z] * b[y];
        out[y] = a[z] * b[x] - a[x] * b[z];
        out[z] = a[x] * b[y] - a[y] * b[x];
    }
}

impl Op for Cross {
    traits!(Never, "X": [F32, F64, I32, I64], "Y": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        dims::infer_same(infer, "X", "Y")?;
        let x = infer.input("X")?;
        axis(infer.attrs(), &x.dims)?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "X", "Y")?;
        run.fill("Out", "X", |run, x, out| {
            let Some(axis) = axis(run.attrs(), &x.shape().to_i64())? else { return Ok(()) };
            for_number!(x.dtype(), run.input_name("X"), T => {
                let out = out.resize::<T>(x.shape());
                cross(x.shape(), axis, x.data::<T>()?, run.data::<T>("Y")?, out);
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Y"]).inputs(&["X", "Y"]))
    }
}

impl Kernel for CrossGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_y) = (run.take("X@GRAD"), run.take("Y@GRAD"));
        dims::run_same(run, "X", "Y")?;
        dims::run_same(run, "X", "Out@GRAD")?;
        let shape = run.input("X")?.shape();
        let Some(axis) = axis(run.attrs(), &shape.to_i64())? else { return Ok(()) };
        for_number!(run.input("X")?.dtype(), run.input_name("X"), T => {
            let (x, y) = (run.data::<T>("X")?, run.data::<T>("Y")?);
            let d_out = run.data::<T>("Out@GRAD")?;
            cross(shape, axis, y, d_out, d_x.resize::<T>(shape));
            cross(shape, axis, d_out, x, d_y.resize::<T>(shape));
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
    fn products_of_vectors() {
        let op = check("cross").input("X", t(&[1, 3], &[1.0, 2.0, 3.0]));
        op.input("Y", t(&[1, 3], &[4.0, 5.0, 7.0])).gives("Out", t(&[1, 3], &[-1.0, 5.0, -3.0]));
        let op = check("cross").input("X", some(&[3, 3, 2])).input("Y", some(&[3, 3, 2]));
        op.attr("dim", 1).output("Out").grad(&["X", "Y"]);
        let op = check("cross").input("X", some(&[2, 3])).input("Y", some(&[2, 3]));
        op.output("Out").grad(&["X", "Y"]);
    }

    #[test]
    fn refuses_other_sizes() {
        let bad = check("cross").input("X", some(&[3, 2])).input("Y", some(&[3, 2])).attr("dim", 1);
        let error = bad.output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let bad = check("cross").input("X", some(&[2])).input("Y", some(&[2])).output("Out");
        assert!(matches!(bad.fails().root(), Error::BadAttr { .. }));
    }
}
