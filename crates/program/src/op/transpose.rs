//! `transpose2`: Out = X with its dimensions in the order of `axis`.
//!
//! XShape carries X's shape; the old name `transpose` writes none and its gradient reads X.
//! Gradient: dOut with the dimensions put back.

use tensor::{Element, RANK_MAX, Shape};

use super::reshape::{KEEP_X, KEEP_X_SHAPE, put_x_shape, x_shape};
use super::sizes::bad_attr;
use super::strips::advance;
use super::{Grad, Infer, Kernel, Op, OpOnRows, Run, for_float, for_number, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Transpose;
pub(super) struct Transpose2;
pub(super) struct TransposeGrad;
pub(super) struct Transpose2Grad;

/// Whether the dimension of the samples stays the first one.
fn samples_stay(op: &OpOnRows<'_>) -> bool {
    op.attrs().ints("axis").is_ok_and(|axes| axes.first() == Some(&0)) && op.only_rows("X")
}

impl Op for Transpose {
    traits!(When(samples_stay));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer_out(infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        forward(run)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP_X)
    }
}

impl Op for Transpose2 {
    traits!(When(samples_stay), "X": [F16, F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer_out(infer)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        forward(run)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP_X_SHAPE)
    }
}

impl Kernel for TransposeGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        backward(run)
    }
}

impl Kernel for Transpose2Grad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        backward(run)
    }
}

/// The order of the dimensions, each of `rank` named once.
fn order(attrs: &Attrs, rank: usize) -> Result<Vec<usize>> {
    let axes = attrs.ints("axis")?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..rank as i64) {
        return Err(bad_attr("axis", &format!("an order of {rank} dimensions"), axes));
    }
    Ok(axes.iter().map(|&axis| axis as usize).collect())
}

fn infer_out(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    let order = order(infer.attrs(), x.dims.len())?;
    infer.set_output("XShape", x_shape(&x))?;
    infer.set_output("Out", x.with_dims(order.iter().map(|&axis| x.dims[axis]).collect()))
}

fn forward(run: &mut Run<'_>) -> Result<()> {
    let mut out = run.take("Out");
    let x = run.input("X")?;
    let order = order(run.attrs(), x.shape().rank())?;
    for_number!(x.dtype(), run.input_name("X"), T => {
        permute(x.data::<T>()?, x.shape(), &order, out.resize::<T>(permuted(x.shape(), &order)));
        Ok(())
    })?;
    put_x_shape(run)?;
    run.put("Out", out);
    Ok(())
}

fn backward(run: &mut Run<'_>) -> Result<()> {
    let mut d_x = run.take("X@GRAD");
    let d_out = run.input("Out@GRAD")?;
    let order = order(run.attrs(), d_out.shape().rank())?;
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
    for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
        let shape = permuted(d_out.shape(), &back);
        permute(d_out.data::<T>()?, d_out.shape(), &back, d_x.resize::<T>(shape));
        Ok(())
    })?;
    run.put("X@GRAD", d_x);
    Ok(())
}

fn permuted(shape: Shape, order: &[usize]) -> Shape {
    let mut dims = [0; RANK_MAX];
    order.iter().zip(&mut dims).for_each(|(&axis, dim)| *dim = shape.dim(axis));
    Shape::new(&dims[..order.len()])
}

/// Writes `out` in order, reading `x` with the strides of its own dimensions.
fn permute<T: Element>(x: &[T], shape: Shape, order: &[usize], out: &mut [T]) {
    let stride = |axis: usize| shape.dims()[axis + 1..].iter().product::<usize>();
    let strides: Vec<usize> = order.iter().map(|&axis| stride(axis)).collect();
    let dims = permuted(shape, order);
    let Some((&inner, outer)) = strides.split_last() else { return };
    let mut at = [0; RANK_MAX];
    for row in out.chunks_exact_mut(dims.last().max(1)) {
        let start: usize = at.iter().zip(outer).map(|(i, stride)| i * stride).sum();
        row.iter_mut().enumerate().for_each(|(i, out)| *out = x[start + i * inner]);
        advance(&mut at[..outer.len()], |axis| dims.dim(axis));
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn transpose(kind: &str) -> Check {
        let x = t(&[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check(kind).input("X", x).attr("axis", vec![2, 0, 1])
    }

    #[test]
    fn reorders_dimensions() {
        let expected = || t(&[3, 1, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        transpose("transpose").gives("Out", expected());
        transpose("transpose2").output("XShape").gives("Out", expected());
        check("transpose")
            .input("X", ids(&[2, 2], &[1, 2, 3, 4]))
            .attr("axis", vec![1, 0])
            .gives("Out", ids(&[2, 2], &[1, 3, 2, 4]));
        let none = check("transpose").input("X", t(&[0, 2], &[])).attr("axis", vec![1, 0]);
        none.gives("Out", t(&[2, 0], &[]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        transpose("transpose").output("Out").grad(&["X"]);
        transpose("transpose2").output("Out").output("XShape").grad(&["X"]);
    }

    #[test]
    fn refuses_what_is_no_order() {
        for axes in [vec![0, 1], vec![0, 0, 1], vec![0, 1, 3]] {
            let error = transpose("transpose2").attr("axis", axes).output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
