//! `trace`: Out = the sums of the diagonals, `offset` above the main one, of the matrices in the dimensions
//! `dim1` and `dim2` of Input. Gradient: dOut on the diagonal, zeros elsewhere.

use tensor::Shape;

use super::moves::for_each_place;
use super::sizes::{self, bad_attr};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_number, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Trace;
pub(super) struct TraceGrad;

/// The dimensions of rows and columns, and how far the diagonal is above the main one.
#[derive(Clone, Copy)]
struct Diagonal {
    rows: usize,
    columns: usize,
    offset: i64,
}

impl Diagonal {
    fn of(attrs: &Attrs, rank: usize) -> Result<Self> {
        let rows = sizes::axis("dim1", attrs.int("dim1", -2)?, rank)?;
        let columns = sizes::axis("dim2", attrs.int("dim2", -1)?, rank)?;
        if rows == columns {
            return Err(bad_attr("dim2", "another dimension than dim1", columns));
        }
        Ok(Self { rows, columns, offset: attrs.int("offset", 0)? })
    }

    /// The other sizes; [1] if there is none.
    fn out<T: Copy>(&self, dims: &[T], one: T) -> Vec<T> {
        let others = dims.iter().enumerate();
        let others = others.filter(|(axis, _)| ![self.rows, self.columns].contains(axis));
        let others: Vec<T> = others.map(|(_, &dim)| dim).collect();
        if others.is_empty() { vec![one] } else { others }
    }

    /// Calls `f(place of the input, place of the sum)` for all that is on a diagonal.
    fn for_each(&self, shape: Shape, mut f: impl FnMut(usize, usize)) {
        for_each_place(shape, |place, at| {
            if at[self.columns] as i64 - at[self.rows] as i64 != self.offset {
                return;
            }
            let others = at.iter().enumerate();
            let others = others.filter(|(axis, _)| ![self.rows, self.columns].contains(axis));
            f(place, others.fold(0, |sum, (axis, &i)| sum * shape.dim(axis) + i));
        });
    }
}

impl Op for Trace {
    traits!(Never, "Input": [F16, F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("Input")?;
        let diagonal = Diagonal::of(infer.attrs(), x.dims.len())?;
        let dims = diagonal.out(&x.dims, 1);
        infer.set_output("Out", x.with_dims(dims).with_lod_level(0))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Out", |run, out| {
            let x = run.input("Input")?;
            let diagonal = Diagonal::of(run.attrs(), x.shape().rank())?;
            let shape = Shape::new(&diagonal.out(x.dims(), 1));
            for_number!(x.dtype(), run.input_name("Input"), T => {
                let (data, out) = (x.data::<T>()?, out.resize_zeroed::<T>(shape));
                diagonal.for_each(x.shape(), |from, to| out[to] += data[from]);
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["Input"]).inputs(&["Input"]))
    }
}

impl Kernel for TraceGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.make("Input@GRAD", |run, d_x| {
            let (x, d_out) = (run.input("Input")?, run.input("Out@GRAD")?);
            let diagonal = Diagonal::of(run.attrs(), x.shape().rank())?;
            if d_out.dims() != diagonal.out(x.dims(), 1) {
                return Err(run.shapes("one number for each matrix", "Out@GRAD", "Input"));
            }
            for_number!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
                let (d_out, d_x) = (d_out.data::<T>()?, d_x.resize_zeroed::<T>(x.shape()));
                diagonal.for_each(x.shape(), |to, from| d_x[to] = d_out[from]);
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, some, t};

    #[test]
    fn sums_diagonals() {
        let x = || t(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check("trace").input("Input", x()).gives("Out", t(&[1], &[6.0]));
        let above = check("trace").input("Input", x()).attr("offset", 1);
        above.gives("Out", t(&[1], &[8.0]));
        let below = check("trace").input("Input", x()).attr("offset", -1);
        below.gives("Out", t(&[1], &[4.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let op = check("trace").input("Input", some(&[3, 2, 4])).attr("dim1", 2).attr("dim2", 0);
        op.attr("offset", -1).output("Out").grad(&["Input"]);
    }

    #[test]
    fn refuses_equal_dimensions_and_lists() {
        let equal = check("trace").input("Input", some(&[2, 2])).attr("dim1", 1);
        for bad in [equal, check("trace").input("Input", some(&[2]))] {
            let error = bad.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
