//! `sequence_conv`: Out = C Filter, where row t of C is the steps t + contextStart …
//! t + contextStart + contextLength - 1 of X side by side, zeros beyond the ends of the sequence.

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Shape};

use super::ragged::{self, Ragged};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct SequenceConv;
pub(super) struct SequenceConvGrad;

const OP: &str = "SequenceConvOp";
const RULE: &str = "Filter must have contextLength x (width of X) rows";

/// Which steps around a step take part.
#[derive(Clone, Copy)]
struct Context {
    start: i64,
    length: usize,
}

/// The steps of a context that a sequence has.
struct StepsInside {
    /// Where they begin in a row of C, in steps.
    column: usize,
    /// The first of them in the sequence.
    from: usize,
    n: usize,
}

impl Context {
    fn of(attrs: &Attrs) -> Result<Self> {
        let bad = |attr: &str, expected: &str, actual: String| Error::BadAttr {
            attr: attr.to_string(),
            expected: expected.to_string(),
            actual,
        };
        let (stride, length) = (attrs.int("contextStride", 1)?, attrs.int("contextLength", 0)?);
        if stride != 1 {
            return Err(bad("contextStride", "1", stride.to_string()));
        }
        if attrs.bool("paddingTrainable", false)? {
            return Err(bad("paddingTrainable", "false", "true".to_string()));
        }
        let length = usize::try_from(length).ok().filter(|&length| length > 0);
        let length = length.ok_or_else(|| {
            bad("contextLength", "positive", format!("{:?}", attrs.get("contextLength")))
        })?;
        Ok(Self { start: attrs.int("contextStart", 0)?, length })
    }

    /// The steps inside of the sequence for step `t` of `n`.
    fn inside(self, t: usize, n: usize) -> StepsInside {
        let first = self.start.saturating_add(t as i64);
        let begin = first.clamp(0, n as i64);
        let end = first.saturating_add(self.length as i64).clamp(begin, n as i64);
        StepsInside {
            column: begin.saturating_sub(first).clamp(0, self.length as i64) as usize,
            from: begin as usize,
            n: (end - begin) as usize,
        }
    }
}

impl Op for SequenceConv {
    traits!(Rows("X"), "X": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, filter) = (infer.input("X")?, infer.input("Filter")?);
        let context = Context::of(infer.attrs())?;
        let ([n_rows, width], [n_weights, n_filters]) = (&x.dims[..], &filter.dims[..]) else {
            return Err(infer.shapes("X and Filter must be matrices", "X", "Filter"));
        };
        if *width >= 0
            && *n_weights >= 0
            && (context.length as i64).saturating_mul(*width) != *n_weights
        {
            return Err(infer.shapes(RULE, "X", "Filter"));
        }
        infer.set_output("Out", x.with_dims(vec![*n_rows, *n_filters]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let context = Context::of(run.attrs())?;
        let (mut out, mut columns) = (run.take("Out"), run.spare().tensor());
        let sizes = SequenceConvSizes::of(run, context)?;
        let (x, offsets) = (run.input("X")?, ragged::only_offsets(run, OP, "X")?);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let columns = columns.try_resize::<T>(sizes.columns())?;
            gather(context, Ragged::new(x, offsets)?, columns);
            let columns = Matrix::new(columns, sizes.n_rows, sizes.n_weights);
            let filter = Matrix::new(run.data::<T>("Filter")?, sizes.n_weights, sizes.n_filters);
            gemm(1.0, columns, filter, 0.0, out.try_resize::<T>(sizes.out())?);
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        run.spare().keep(columns);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X", "Filter"]).inputs(&["X", "Filter"]))
    }
}

/// Sizes of the matrices of one run.
struct SequenceConvSizes {
    n_rows: usize,
    n_weights: usize,
    n_filters: usize,
}

impl SequenceConvSizes {
    fn of(run: &Run<'_>, context: Context) -> Result<Self> {
        let (x, filter) = (run.input("X")?, run.input("Filter")?);
        let (&[n_rows, width], &[n_weights, n_filters]) = (x.dims(), filter.dims()) else {
            return Err(run.shapes("X and Filter must be matrices", "X", "Filter"));
        };
        if context.length.checked_mul(width) != Some(n_weights) {
            return Err(run.shapes(RULE, "X", "Filter"));
        }
        Ok(Self { n_rows, n_weights, n_filters })
    }

    fn columns(&self) -> Shape {
        Shape::from([self.n_rows, self.n_weights])
    }

    fn out(&self) -> Shape {
        Shape::from([self.n_rows, self.n_filters])
    }
}

/// Fills C.
fn gather<T: Float>(context: Context, x: Ragged<'_, T>, columns: &mut [T]) {
    let (width, size) = (x.width(), context.length * x.width());
    columns.fill(T::zero());
    for (k, sequence) in x.iter().enumerate() {
        let (start, end) = (x.offsets()[k], x.offsets()[k + 1]);
        for t in 0..end - start {
            let StepsInside { column, from, n } = context.inside(t, end - start);
            let target = (start + t) * size + column * width;
            columns[target..target + n * width]
                .copy_from_slice(&sequence[from * width..(from + n) * width]);
        }
    }
}

/// dFilter = Cᵀ dOut; dX gathers what dC = dOut Filterᵀ holds of each step.
impl Kernel for SequenceConvGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let context = Context::of(run.attrs())?;
        let (mut d_x, mut d_filter) = (run.take("X@GRAD"), run.take("Filter@GRAD"));
        let mut columns = run.spare().tensor();
        let sizes = SequenceConvSizes::of(run, context)?;
        let SequenceConvSizes { n_rows, n_weights, n_filters } = sizes;
        let (x, offsets) = (run.input("X")?, ragged::only_offsets(run, OP, "X")?);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let columns = columns.try_resize::<T>(sizes.columns())?;
            let d_out = ragged::data_of_len::<T>(run, "Out@GRAD", n_rows * n_filters)?;
            let d_out = Matrix::new(d_out, n_rows, n_filters);
            let filter = run.data::<T>("Filter")?;
            if run.wants("Filter@GRAD") {
                gather(context, Ragged::new(x, offsets)?, columns);
                let d_filter = d_filter.resize::<T>(Shape::from([n_weights, n_filters]));
                gemm(1.0, Matrix::new(columns, n_rows, n_weights).t(), d_out, 0.0, d_filter);
            }
            if run.wants("X@GRAD") {
                gemm(1.0, d_out, Matrix::new(filter, n_weights, n_filters).t(), 0.0, columns);
                scatter(context, offsets, columns, d_x.resize_zeroed::<T>(x.shape()));
            }
            Ok(())
        })?;
        d_x.set_lod(x.lod().clone());
        run.put("X@GRAD", d_x);
        run.put("Filter@GRAD", d_filter);
        run.spare().keep(columns);
        Ok(())
    }
}

/// Adds every part of dC to the step it came from.
fn scatter<T: Float>(context: Context, offsets: &[usize], columns: &[T], d_x: &mut [T]) {
    let n_rows = offsets[offsets.len() - 1];
    let width = d_x.len() / n_rows.max(1);
    let size = context.length * width;
    for pair in offsets.windows(2) {
        for t in 0..pair[1] - pair[0] {
            let StepsInside { column, from, n } = context.inside(t, pair[1] - pair[0]);
            let source = (pair[0] + t) * size + column * width;
            let target = &mut d_x[(pair[0] + from) * width..][..n * width];
            let source = &columns[source..source + n * width];
            target.iter_mut().zip(source).for_each(|(sum, &d)| *sum += d);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, seq, t};

    fn counted(dims: &[usize]) -> tensor::Tensor {
        let n = dims.iter().product::<usize>();
        t(dims, &(1..=n).map(|i| i as f64).collect::<Vec<_>>())
    }

    fn conv(start: i32, length: usize, n_filters: usize) -> Check {
        let data = [1.0, 2.0, 9.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        check("sequence_conv")
            .input("X", seq(t(&[5, 2], &data), &[2, 0, 3]))
            .input("Filter", counted(&[length * 2, n_filters]))
            .attr("contextStart", start)
            .attr("contextLength", length as i32)
            .attr("contextStride", 1)
    }

    #[test]
    fn sees_neighbours_within_the_sequence() {
        // Fluid 1.8.5 gives the same for this op, these inputs and attributes.
        let out = [144.0, 160.0, 80.0, 96.0, 218.0, 244.0, 305.0, 350.0, 146.0, 180.0];
        conv(-1, 3, 2).gives("Out", seq(t(&[5, 2], &out), &[2, 0, 3]));
        let ahead = seq(t(&[5, 1], &[17.0, 0.0, 90.0, 29.0, 0.0]), &[2, 0, 3]);
        conv(1, 2, 1).gives("Out", ahead);
        conv(-4, 2, 1).gives("Out", seq(t(&[5, 1], &[0.0; 5]), &[2, 0, 3]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        for (start, length) in [(-1, 3), (1, 2), (-4, 2), (0, 1)] {
            conv(start, length, 2).output("Out").grad(&["X", "Filter"]);
        }
    }

    #[test]
    fn refuses_strides_sizes_and_nested_sequences() {
        let error = conv(0, 2, 1).attr("contextStride", 2).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = conv(0, 2, 1).attr("contextLength", 3).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        let error = conv(0, 2, 1).attr("contextLength", 0).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let mut nested = counted(&[3, 1]);
        nested.set_lod(tensor::Lod::from_recursive_lengths(&[vec![2], vec![1, 2]]));
        let error = check("sequence_conv").input("X", nested).input("Filter", counted(&[1, 1]));
        let error = error.attr("contextLength", 1).output("Out").fails();
        assert!(matches!(error.root(), Error::LodLevels { .. }), "{error}");
    }
}
