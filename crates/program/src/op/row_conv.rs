//! `row_conv`: Out\[t\] = sum over w of X\[t + w\] Filter\[w\], column by column, as far as the sequence goes. Sequences are those of X, or the
//! samples of its three dimensions.

use tensor::{Float, Shape, Tensor};

use super::ragged;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct RowConv;
pub(super) struct RowConvGrad;

const OP: &str = "RowConvOp";
const RULE: &str =
    "Filter is a matrix as wide as X, which is sequences of rows or has three dimensions";

/// The rows of a batch, sequence by sequence.
struct RowBatch {
    offsets: Vec<usize>,
    width: usize,
    n_taps: usize,
}

impl RowBatch {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (x, filter) = (run.input("X")?, run.input("Filter")?);
        let &[n_taps, width] = filter.dims() else { return Err(run.shapes(RULE, "X", "Filter")) };
        let offsets = match *x.dims() {
            [_, columns] if columns == width => ragged::only_offsets(run, OP, "X")?.to_vec(),
            [n, n_steps, columns] if columns == width && x.lod().is_empty() => {
                (0..=n).map(|sample| sample * n_steps).collect()
            }
            _ => return Err(run.shapes(RULE, "X", "Filter")),
        };
        Ok(Self { offsets, width, n_taps })
    }

    /// Calls with the places of each product: in Out, in X and in Filter.
    fn each(&self, mut call: impl FnMut(Tap)) {
        for pair in self.offsets.windows(2) {
            for t in pair[0]..pair[1] {
                for tap in 0..self.n_taps.min(pair[1] - t) {
                    let (out, x) = (t * self.width, (t + tap) * self.width);
                    call(Tap { out, x, filter: tap * self.width });
                }
            }
        }
    }
}

/// Where rows that are multiplied begin.
#[derive(Clone, Copy)]
struct Tap {
    out: usize,
    x: usize,
    filter: usize,
}

impl Op for RowConv {
    traits!(Rows("X"), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, filter) = (infer.input("X")?, infer.input("Filter")?);
        if filter.dims.len() != 2 || !(2..=3).contains(&x.dims.len()) {
            return Err(infer.shapes(RULE, "X", "Filter"));
        }
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("Out", "X", |run, x, out| {
            let batch = RowBatch::of(run)?;
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, filter) = (x.data::<T>()?, run.data::<T>("Filter")?);
                let out = out.resize_zeroed::<T>(x.shape());
                batch.each(|at| {
                    let products = data[at.x..].iter().zip(&filter[at.filter..]);
                    let out = out[at.out..at.out + batch.width].iter_mut();
                    out.zip(products).for_each(|(sum, (&x, &f))| *sum += x * f);
                });
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Filter"]).inputs(&["X", "Filter"]))
    }
}

impl Kernel for RowConvGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_filter) = (run.take("X@GRAD"), run.take("Filter@GRAD"));
        let batch = RowBatch::of(run)?;
        super::dims::run_same(run, "X", "Out@GRAD")?;
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let d_x = d_x.resize_zeroed::<T>(x.shape());
            backward(run, &batch, d_x, &mut d_filter)
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Filter@GRAD", d_filter);
        Ok(())
    }
}

fn backward<T: Float>(
    run: &Run<'_>,
    batch: &RowBatch,
    d_x: &mut [T],
    d_filter: &mut Tensor,
) -> Result<()> {
    let (x, filter) = (run.data::<T>("X")?, run.data::<T>("Filter")?);
    let d_out = run.data::<T>("Out@GRAD")?;
    let d_filter = d_filter.resize_zeroed::<T>(Shape::from([batch.n_taps, batch.width]));
    batch.each(|at| {
        for column in 0..batch.width {
            let d = d_out[at.out + column];
            d_x[at.x + column] += d * filter[at.filter + column];
            d_filter[at.filter + column] += d * x[at.x + column];
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, seq, some, t};

    #[test]
    fn looks_ahead_inside_of_sequences() {
        let filter = t(&[2, 1], &[1.0, 10.0]);
        let (x, y) = ([1.0, 2.0, 3.0, 4.0], [21.0, 2.0, 43.0, 4.0]);
        let check = || check("row_conv").input("Filter", filter.clone());
        check().input("X", seq(t(&[4, 1], &x), &[2, 2])).gives("Out", seq(t(&[4, 1], &y), &[2, 2]));
        check().input("X", t(&[2, 2, 1], &x)).gives("Out", t(&[2, 2, 1], &y));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for x in [seq(some(&[5, 2]), &[2, 3]), some(&[2, 3, 2])] {
            let check = check("row_conv").input("X", x).input("Filter", some(&[2, 2]));
            check.output("Out").grad(&["X", "Filter"]);
        }
    }

    #[test]
    fn refuses_widths_that_differ() {
        let check = check("row_conv").input("X", some(&[1, 2, 2])).input("Filter", some(&[2, 3]));
        let error = check.output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
