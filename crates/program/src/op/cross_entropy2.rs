//! `cross_entropy2`: Y = -log X\[label\], and the matched probability MatchX for the gradient.
//!
//! XShape carries the shape of X (with a trailing 0, so it holds nothing) to the gradient op.

use tensor::{Float, Shape};

use super::cross_entropy::{infer_loss, log};
use super::label::{self, Labels};
use super::{Grad, Infer, Kernel, Op, Run, dims, for_float, traits};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names;

pub(super) struct CrossEntropy2;
pub(super) struct CrossEntropyGrad2;

impl Op for CrossEntropy2 {
    traits!(Never, "X": [F16, F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let loss = infer_loss(infer, false)?;
        let x = infer.input("X")?;
        let x_shape = [&x.dims[..], &[0]].concat();
        infer.set_output("XShape", x.with_dims(x_shape))?;
        let rows = [&x.dims[..x.dims.len() - 1], &[1]].concat();
        infer.set_output("MatchX", loss.with_lod_level(0).with_dims(rows))?;
        infer.set_output("Y", loss)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let ignored = run.attrs().int("ignore_index", -100)?;
        let mut y = run.take("Y");
        let mut match_x = run.take("MatchX");
        let mut x_shape = run.take("XShape");
        let x = run.input("X")?;
        let n = x.shape().last();
        let shape = label::loss_shape(run, "X", x.shape().rank() - 1, false)?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let labels = Labels::new(run, "Label", n, Some(ignored))?;
            // One column even where Label and Y have none, as in Fluid.
            let rows = x.shape().with_dim(x.shape().rank() - 1, 1);
            let (y, match_x) = (y.resize::<T>(shape), match_x.resize::<T>(rows));
            forward(x.data::<T>()?, &labels, y, match_x, n)
        })?;
        x_shape.resize_as(x.dtype(), with_zero(x.shape())?);
        y.set_lod(x.lod().clone());
        x_shape.set_lod(x.lod().clone());
        run.put("Y", y);
        run.put("MatchX", match_x);
        run.put("XShape", x_shape);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let mut op = OpDesc::new("cross_entropy_grad2")
            .input("Label", grad.input("Label"))
            .input("MatchX", grad.output("MatchX"))
            .input("XShape", grad.output("XShape"))
            .input("Y@GRAD", grad.output_grad("Y"))
            .output(&names::grad("X"), grad.input_grad("X"));
        op.attrs = grad.op().attrs.clone();
        grad.emit(op)
    }
}

/// The shape followed by a 0.
fn with_zero(shape: Shape) -> Result<Shape> {
    let (rank, mut dims) = (shape.rank(), [0; tensor::RANK_MAX]);
    if rank == dims.len() {
        return Err(tensor::Error::RankTooHigh { rank: rank + 1 }.into());
    }
    dims[..rank].copy_from_slice(shape.dims());
    Ok(Shape::new(&dims[..rank + 1]))
}

fn forward<T: Float>(
    x: &[T],
    labels: &Labels<'_>,
    y: &mut [T],
    match_x: &mut [T],
    n: usize,
) -> Result<()> {
    for (row, (y, match_x)) in y.iter_mut().zip(match_x).enumerate() {
        (*y, *match_x) = match labels.class(row)? {
            Some(class) => (-log(x[row * n + class]), x[row * n + class]),
            None => (T::zero(), T::zero()),
        };
    }
    Ok(())
}

/// dX = -dY / MatchX at the label, 0 elsewhere.
impl Kernel for CrossEntropyGrad2 {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let ignored = run.attrs().int("ignore_index", -100)?;
        let mut d_x = run.take("X@GRAD");
        if run.input("MatchX")?.len() != run.input("Y@GRAD")?.len() {
            return Err(run.shapes(dims::LOSS, "Y@GRAD", "MatchX"));
        }
        let (match_x, x_shape) = (run.input("MatchX")?, run.input("XShape")?);
        let [dims @ .., 0] = x_shape.dims() else {
            return Err(run.shape("XShape must end with a 0", "XShape"));
        };
        let shape = Shape::new(dims);
        let n = shape.last();
        if match_x.len() * n != shape.n_elements() || run.input("Label")?.len() != match_x.len() {
            return Err(run.shapes(dims::LOSS, "XShape", "MatchX"));
        }
        for_float!(match_x.dtype(), run.input_name("MatchX"), T => {
            let labels = Labels::new(run, "Label", n, Some(ignored))?;
            let (match_x, d_y) = (match_x.data::<T>()?, run.data::<T>("Y@GRAD")?);
            let d_x = d_x.resize_zeroed::<T>(shape);
            for (row, (&d_y, &match_x)) in d_y.iter().zip(match_x).enumerate() {
                if let Some(class) = labels.class(row)? {
                    d_x[row * n + class] = -d_y / match_x;
                }
            }
            Ok::<(), Error>(())
        })?;
        d_x.set_lod(x_shape.lod().clone());
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn ce(labels: &[i64]) -> Check {
        check("cross_entropy2")
            .input("X", t(&[2, 3], &[0.2, 0.3, 0.5, 0.6, 0.4, 0.1]))
            .input("Label", ids(&[2, 1], labels))
    }

    #[test]
    fn keeps_the_matched_probability() {
        ce(&[2, 0])
            .gives("Y", t(&[2, 1], &[2f64.ln(), -(0.6f64.ln())]))
            .gives("MatchX", t(&[2, 1], &[0.5, 0.6]))
            .gives("XShape", t(&[2, 3, 0], &[]));
    }

    #[test]
    fn labels_without_a_column_match_in_one() {
        let flat = check("cross_entropy2")
            .input("X", t(&[2, 3], &[0.2, 0.3, 0.5, 0.6, 0.4, 0.1]))
            .input("Label", ids(&[2], &[2, 0]));
        let flat = flat.gives("Y", t(&[2], &[2f64.ln(), -(0.6f64.ln())]));
        let flat = flat.gives("MatchX", t(&[2, 1], &[0.5, 0.6]));
        drop(flat);
        check("cross_entropy2")
            .input("X", t(&[2, 3], &[0.2, 0.3, 0.5, 0.6, 0.4, 0.1]))
            .input("Label", ids(&[2], &[2, 0]))
            .output("Y")
            .aux("MatchX")
            .aux("XShape")
            .grad(&["X"]);
    }

    #[test]
    fn ignored_rows_cost_nothing() {
        ce(&[2, -100])
            .gives("Y", t(&[2, 1], &[2f64.ln(), 0.0]))
            .gives("MatchX", t(&[2, 1], &[0.5, 0.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        ce(&[2, 0]).output("Y").aux("MatchX").aux("XShape").grad(&["X"]);
        ce(&[2, -100]).output("Y").aux("MatchX").aux("XShape").grad(&["X"]);
    }

    #[test]
    fn refuses_a_label_that_is_no_class() {
        let error = ce(&[-1, 0]).output("Y").aux("MatchX").aux("XShape").fails();
        let at = |e: &Error| matches!(e, Error::LabelOutOfRange { row: 0, label: -1, .. });
        assert!(at(error.root()), "{error}");
    }
}
