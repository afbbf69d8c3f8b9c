//! `partial_concat`: Out = the columns from `start_index` on of each X, `length` of them (-1: all), side by side.
//! `partial_sum`: Out = the sum of those columns.

use std::ops::Range;

use tensor::{Number, Shape};

use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_number, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct PartialConcat;
pub(super) struct PartialConcatGrad;
pub(super) struct PartialSum;
pub(super) struct PartialSumGrad;

const MATRICES: &str = "all X are matrices of one shape";

/// The columns that take part, of matrices of `width` columns.
fn columns(attrs: &Attrs, width: i64) -> Result<Range<usize>> {
    let (start, length) = (attrs.int("start_index", 0)?, attrs.int("length", -1)?);
    let begin = if start < 0 { start + width } else { start };
    if !(0..width).contains(&begin) {
        return Err(bad_attr("start_index", &format!("a column of {width}"), start));
    }
    let end = if length < 0 { width } else { begin.saturating_add(length) };
    if end > width {
        return Err(bad_attr(
            "length",
            &format!("no more than the {} columns left", width - begin),
            length,
        ));
    }
    Ok(begin as usize..end as usize)
}

/// The shape of the matrices at port X.
fn matrices(run: &Run<'_>) -> Result<Shape> {
    let shape = run.input("X")?.shape();
    for index in 0..run.n_inputs("X") {
        if shape.rank() != 2 || run.input_at("X", index)?.shape() != shape {
            return Err(run.shapes_at(MATRICES, "X", index));
        }
    }
    Ok(shape)
}

/// The result has `copies` times the columns that take part.
fn infer_columns(infer: &mut Infer<'_>, copies: impl Fn(i64) -> i64) -> Result<()> {
    let xs = infer.inputs("X")?;
    let first = infer.input("X")?;
    for (index, x) in xs.iter().enumerate() {
        if x.dims.len() != 2 || !super::dims::agree(&x.dims, &first.dims) {
            return Err(infer.shapes_at(MATRICES, "X", index));
        }
    }
    let (n_rows, width) = (first.dims[0], first.dims[1]);
    let n = match width {
        ..0 => -1,
        width => columns(infer.attrs(), width)?.len() as i64 * copies(xs.len() as i64),
    };
    infer.set_output("Out", first.with_dims(vec![n_rows, n]))
}

const KEEP: Keep<'static> = Keep::grads(&["Out"], &["X"]).inputs(&["X"]);

impl Op for PartialConcat {
    traits!(Rows("X"), "X": [F16, F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer_columns(infer, |n| n)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Out", |run, out| {
            let (shape, first) = (matrices(run)?, run.input("X")?);
            let columns = columns(run.attrs(), shape.dim(1) as i64)?;
            let (n_inputs, n) = (run.n_inputs("X"), columns.len());
            for_number!(first.dtype(), run.input_name("X"), T => {
                let out = out.try_resize::<T>(Shape::from([shape.dim(0), n * n_inputs]))?;
                for index in 0..n_inputs {
                    let x = run.input_at("X", index)?.data::<T>()?;
                    for row in 0..shape.dim(0) {
                        let from = &x[row * shape.dim(1)..][columns.clone()];
                        out[(row * n_inputs + index) * n..][..n].copy_from_slice(from);
                    }
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP)
    }
}

impl Op for PartialSum {
    traits!(Rows("X"), "X": [F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer_columns(infer, |_| 1)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Out", |run, out| {
            let (shape, first) = (matrices(run)?, run.input("X")?);
            let columns = columns(run.attrs(), shape.dim(1) as i64)?;
            let n = columns.len();
            for_number!(first.dtype(), run.input_name("X"), T => {
                let out = out.resize_zeroed::<T>(Shape::from([shape.dim(0), n]));
                for x in run.inputs("X")? {
                    let x = x.data::<T>()?;
                    for row in 0..shape.dim(0) {
                        let from = &x[row * shape.dim(1)..][columns.clone()];
                        add(&mut out[row * n..][..n], from);
                    }
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(KEEP)
    }
}

fn add<T: Number>(sums: &mut [T], numbers: &[T]) {
    // Integers wrap as they do in Fluid.
    sums.iter_mut().zip(numbers).for_each(|(sum, &x)| *sum += x);
}

impl Kernel for PartialConcatGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let n_inputs = run.n_inputs("X");
        spread(run, |row, index| row * n_inputs + index, n_inputs)
    }
}

impl Kernel for PartialSumGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        spread(run, |row, _| row, 1)
    }
}

/// dX of the columns that took part is the part of dOut that `part` says; other columns have none.
fn spread(run: &mut Run<'_>, part: impl Fn(usize, usize) -> usize, copies: usize) -> Result<()> {
    let shape = matrices(run)?;
    let columns = columns(run.attrs(), shape.dim(1) as i64)?;
    let n = columns.len();
    if run.input("Out@GRAD")?.shape() != Shape::from([shape.dim(0), n * copies]) {
        return Err(run.shapes("the result has another shape", "Out@GRAD", "X"));
    }
    for index in
        (0..run.n_inputs("X")).filter(|&index| run.wants_at("X@GRAD", index)).collect::<Vec<_>>()
    {
        let mut d_x = run.take_at("X@GRAD", index);
        let d_out = run.input("Out@GRAD")?;
        for_number!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
            let (d_x, d_out) = (d_x.resize_zeroed::<T>(shape), d_out.data::<T>()?);
            for row in 0..shape.dim(0) {
                let from = &d_out[part(row, index) * n..][..n];
                d_x[row * shape.dim(1)..][columns.clone()].copy_from_slice(from);
            }
            Ok(())
        })?;
        run.put_at("X@GRAD", index, d_x);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn two(kind: &str) -> Check {
        let x = t(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = t(&[2, 3], &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        check(kind).inputs("X", vec![x, y])
    }

    #[test]
    fn joins_and_adds_columns() {
        two("partial_concat")
            .attr("start_index", 1)
            .attr("length", 1)
            .gives("Out", t(&[2, 2], &[2.0, 20.0, 5.0, 50.0]));
        two("partial_concat")
            .attr("start_index", -2)
            .gives("Out", t(&[2, 4], &[2.0, 3.0, 20.0, 30.0, 5.0, 6.0, 50.0, 60.0]));
        two("partial_sum")
            .attr("start_index", 1)
            .gives("Out", t(&[2, 2], &[22.0, 33.0, 55.0, 66.0]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for kind in ["partial_concat", "partial_sum"] {
            let check = check(kind).inputs("X", vec![some(&[2, 4]), some(&[2, 4])]);
            check.attr("start_index", 1).attr("length", 2).output("Out").grad(&["X"]);
        }
    }

    #[test]
    fn refuses_columns_and_shapes_that_do_not_fit() {
        for (attr, value) in [("start_index", 3), ("start_index", -4), ("length", 4)] {
            let error = two("partial_sum").attr(attr, value).output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
        let check = check("partial_concat").inputs("X", vec![some(&[2, 3]), some(&[3, 3])]);
        let error = check.output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
