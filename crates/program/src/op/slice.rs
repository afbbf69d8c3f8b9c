//! `slice`: Out = the part of Input from `starts` to `ends` along `axes`.
//!
//! Negative places count from the end; places beyond the end mean the end. The dimensions in
//! `decrease_axis`, of size 1 by then, are dropped. Gradient: dOut in its place, zeros elsewhere.

use tensor::{Shape, Tensor};

use super::sizes::{self, bad_attr};
use super::strips::{BoxDim, for_each_run};
use super::{Grad, Infer, Keep, Kernel, Op, Run, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Slice;
pub(super) struct SliceGrad;

/// The range to take of an axis.
struct SliceRange {
    axis: usize,
    start: i64,
    end: i64,
}

/// The four ports by which a program may compute where to cut.
const COMPUTED: [&str; 4] = ["StartsTensor", "StartsTensorList", "EndsTensor", "EndsTensorList"];

impl Op for Slice {
    traits!(When(|op| op.axes_are_inner("Input", "axes") && op.only_rows("Input")));

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let input = infer.input("Input")?;
        let attrs = infer.attrs();
        let mut dims = input.dims.clone();
        let computed = COMPUTED.iter().any(|port| !infer.op().input_names(port).is_empty());
        if computed {
            for axis in attrs.ints("axes")? {
                dims[sizes::axis("axes", axis, input.dims.len())?] = -1;
            }
        } else {
            for range in cuts(attrs, None, None, dims.len())? {
                let dim = &mut dims[range.axis];
                if *dim >= 0 {
                    *dim = place(*dim, &range)?.len as i64;
                }
            }
        }
        let dropped = dropped(attrs, dims.len())?;
        let kept = dims.iter().enumerate().filter(|(axis, _)| !dropped.contains(axis));
        let mut kept: Vec<i64> = kept.map(|(_, &dim)| dim).collect();
        if kept.is_empty() {
            kept.push(1);
        }
        infer.set_output("Out", input.with_dims(kept))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let input = run.input("Input")?;
        let region = region(run, input.shape())?;
        let dropped = dropped(run.attrs(), region.len())?;
        let kept = region.iter().enumerate().filter(|(axis, _)| !dropped.contains(axis));
        let dims: Vec<usize> = kept.map(|(_, dim)| dim.len).collect();
        if let Some(axis) = dropped.iter().find(|&&axis| region[axis].len != 1) {
            return Err(bad_attr("decrease_axis", "dimensions that are cut to 1", axis));
        }
        let shape = if dims.is_empty() { Shape::from([1]) } else { Shape::new(&dims) };
        out.resize_as(input.dtype(), shape);
        let (size, to) = (input.dtype().size(), out.bytes_mut());
        for_each_run(&region, |from, at, n| {
            let from = &input.bytes()[from * size..(from + n) * size];
            to[at * size..(at + n) * size].copy_from_slice(from);
        });
        if run.attrs().ints("axes")?.first().is_some_and(|&axis| axis != 0) {
            out.set_lod(input.lod().clone());
        }
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let used = |port: &&str| !grad.op().input_names(port).is_empty();
        let inputs: Vec<&str> =
            std::iter::once("Input").chain(COMPUTED.into_iter().filter(|p| used(p))).collect();
        grad.emit_usual(Keep {
            inputs: &inputs,
            out_grads: &["Out"],
            in_grads: &["Input"],
            ..Keep::default()
        })
    }
}

/// Axes with their ends, from the attributes unless tensors say other places.
fn cuts(
    attrs: &Attrs,
    starts: Option<Vec<i64>>,
    ends: Option<Vec<i64>>,
    rank: usize,
) -> Result<Vec<SliceRange>> {
    let axes = attrs.ints("axes")?;
    let starts = starts.map_or_else(|| attrs.ints("starts"), Ok)?;
    let ends = ends.map_or_else(|| attrs.ints("ends"), Ok)?;
    if starts.len() != axes.len() || ends.len() != axes.len() {
        return Err(bad_attr("starts", "one start and one end for each axis", starts));
    }
    let dropped = dropped(attrs, rank)?;
    let mut cuts = Vec::new();
    for ((&axis, &start), &end) in axes.iter().zip(&starts).zip(&ends) {
        let axis = sizes::axis("axes", axis, rank)?;
        // One place, the last: for `x[-1]` the end is -1 + 1 = 0.
        let last = start == -1 && end == 0 && dropped.contains(&axis);
        cuts.push(SliceRange { axis, start, end: if last { i64::MAX } else { end } });
    }
    Ok(cuts)
}

/// Where a range is in a dimension of this size.
fn place(dim: i64, range: &SliceRange) -> Result<BoxDim> {
    let SliceRange { start, end, .. } = *range;
    let from_front = |at: i64| if at < 0 { at.saturating_add(dim) } else { at }.clamp(0, dim);
    let (first, last) = (from_front(start), from_front(end));
    if first >= last {
        let expected = format!("after the start, {start}, in a dimension of {dim}");
        return Err(bad_attr("ends", &expected, end));
    }
    Ok(BoxDim { size: dim as usize, start: first as usize, len: (last - first) as usize })
}

fn dropped(attrs: &Attrs, rank: usize) -> Result<Vec<usize>> {
    let axes = attrs.ints("decrease_axis")?;
    axes.iter().map(|&axis| sizes::axis("decrease_axis", axis, rank)).collect()
}

/// The box that is cut out of a tensor of this shape.
fn region(run: &Run<'_>, shape: Shape) -> Result<Vec<BoxDim>> {
    let said = |one, list| match sizes::integers_at(run, one)? {
        Some(places) => Ok(Some(places)),
        None => sizes::integers_at(run, list),
    };
    let (starts, ends) = (said(COMPUTED[0], COMPUTED[1])?, said(COMPUTED[2], COMPUTED[3])?);
    let whole = |&size: &usize| BoxDim { size, start: 0, len: size };
    let mut region: Vec<_> = shape.dims().iter().map(whole).collect();
    for range in cuts(run.attrs(), starts, ends, shape.rank())? {
        region[range.axis] = place(shape.dim(range.axis) as i64, &range)?;
    }
    Ok(region)
}

impl Kernel for SliceGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x: Tensor = run.take("Input@GRAD");
        let (input, d_out) = (run.input("Input")?, run.input("Out@GRAD")?);
        let region = region(run, input.shape())?;
        if region.iter().map(|dim| dim.len).product::<usize>() != d_out.len() {
            return Err(run.shapes("the gradient must fill the cut", "Out@GRAD", "Input"));
        }
        d_x.resize_as(d_out.dtype(), input.shape());
        d_x.bytes_mut().fill(0);
        let (size, to) = (d_out.dtype().size(), d_x.bytes_mut());
        for_each_run(&region, |at, from, n| {
            let from = &d_out.bytes()[from * size..(from + n) * size];
            to[at * size..(at + n) * size].copy_from_slice(from);
        });
        d_x.set_lod(input.lod().clone());
        run.put("Input@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, t};

    fn slice(axes: &[i32], starts: &[i32], ends: &[i32]) -> Check {
        let x = t(&[3, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let op = check("slice").input("Input", x).attr("axes", axes.to_vec());
        op.attr("starts", starts.to_vec()).attr("ends", ends.to_vec())
    }

    #[test]
    fn cuts_from_either_end() {
        slice(&[0, 1], &[1, 0], &[3, -1]).gives("Out", t(&[2, 2], &[4.0, 5.0, 7.0, 8.0]));
        slice(&[1], &[-1], &[100]).gives("Out", t(&[3, 1], &[3.0, 6.0, 9.0]));
        slice(&[0], &[-100], &[1]).gives("Out", t(&[1, 3], &[1.0, 2.0, 3.0]));
    }

    #[test]
    fn drops_dimensions() {
        let row = || slice(&[0], &[1], &[2]).attr("decrease_axis", vec![0]);
        row().gives("Out", t(&[3], &[4.0, 5.0, 6.0]));
        slice(&[0, 1], &[1, 1], &[2, 2])
            .attr("decrease_axis", vec![0, 1])
            .gives("Out", t(&[1], &[5.0]));
        row().output("Out").grad(&["Input"]);
    }

    #[test]
    fn tensors_may_say_where() {
        let op = slice(&[0], &[0], &[1]).input("StartsTensor", ids(&[1], &[1]));
        op.input("EndsTensor", ids(&[1], &[2])).gives("Out", t(&[1, 3], &[4.0, 5.0, 6.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        slice(&[0, 1], &[1, 0], &[3, -1]).output("Out").grad(&["Input"]);
    }

    #[test]
    fn refuses_empty_cuts_and_missing_axes() {
        for bad in [
            slice(&[0], &[1], &[1]),
            slice(&[2], &[0], &[1]),
            slice(&[0], &[0, 1], &[1]),
            slice(&[0], &[0], &[2]).attr("decrease_axis", vec![0]),
        ] {
            let error = bad.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
