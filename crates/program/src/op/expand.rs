//! `expand`: Out = X repeated `expand_times` along each dimension.
//!
//! `expand_as` repeats X until it has the shape of `target_tensor`. Gradient: the sum over all
//! repeats.

use tensor::{RANK_MAX, Shape};

use super::sizes::{self, bad_attr};
use super::strips::advance;
use super::sum::add_to;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::error::Result;

pub(super) struct Expand;
pub(super) struct ExpandGrad;
pub(super) struct ExpandAs;
pub(super) struct ExpandAsGrad;

const RULE: &str = "each size of the target must be a multiple of X's";

impl Op for Expand {
    traits!(Never, "X": [F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let times = infer.attrs().ints("expand_times")?;
        let tensors = ["ExpandTimes", "expand_times_tensor"];
        let computed = tensors.iter().any(|port| !infer.op().input_names(port).is_empty());
        if !computed && times.len() != x.dims.len() {
            return Err(bad_attr("expand_times", "one number for each dimension of X", times));
        }
        let size = |(at, &dim): (usize, &i64)| match times.get(at) {
            Some(&times) if dim >= 0 && times > 0 && !computed => dim * times,
            _ => -1,
        };
        let dims = x.dims.iter().enumerate().map(size).collect();
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let out = expanded(run)?;
        repeat(run, out)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let inputs = ["X", "ExpandTimes", "expand_times_tensor"];
        let n_used = if grad.op().inputs.len() > 1 { inputs.len() } else { 1 };
        grad.emit_usual(Keep {
            inputs: &inputs[..n_used],
            out_grads: &["Out"],
            in_grads: &["X"],
            ..Keep::default()
        })
    }
}

/// The shape of X times `expand_times`, which tensors may hold too.
fn expanded(run: &Run<'_>) -> Result<Shape> {
    let x = run.input("X")?.shape();
    let tensors = sizes::integers_at(run, "ExpandTimes")?;
    let tensors = tensors.or(sizes::integers_at(run, "expand_times_tensor")?);
    let times = tensors.map_or_else(|| run.attrs().ints("expand_times"), Ok)?;
    if times.len() != x.rank() || times.iter().any(|&times| times < 1) {
        return Err(bad_attr("expand_times", "a number above 0 for each dimension of X", times));
    }
    let dims: Vec<i64> = x
        .dims()
        .iter()
        .zip(&times)
        .map(|(&dim, &times)| times.saturating_mul(dim as i64))
        .collect();
    Ok(Shape::from_dims(&dims)?)
}

impl Op for ExpandAs {
    traits!(Never, "X": [F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, target) = (infer.input("X")?, infer.input("target_tensor")?);
        if x.dims.len() != target.dims.len() {
            return Err(infer.shapes(RULE, "X", "target_tensor"));
        }
        infer.set_output("Out", x.with_dims(target.dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let out = run.input("target_tensor")?.shape();
        repeat(run, out)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X", "target_tensor"]))
    }
}

fn repeat(run: &mut Run<'_>, shape: Shape) -> Result<()> {
    let mut out = run.take("Out");
    let x = run.input("X")?;
    if !is_multiple(shape, x.shape()) {
        return Err(run.shapes(RULE, "X", "target_tensor"));
    }
    for_number!(x.dtype(), run.input_name("X"), T => {
        let (data, out) = (x.data::<T>()?, out.try_resize::<T>(shape)?);
        for_each_row(shape, x.shape(), |to, from, width| {
            for part in out[to.clone()].chunks_exact_mut(width) {
                part.copy_from_slice(&data[from..from + width]);
            }
        });
        Ok(())
    })?;
    out.set_lod(x.lod().clone());
    run.put("Out", out);
    Ok(())
}

fn is_multiple(large: Shape, small: Shape) -> bool {
    let divides = |(&large, &small): (&usize, &usize)| small > 0 && large % small == 0;
    let same = large == small;
    same || (large.rank() == small.rank() && large.dims().iter().zip(small.dims()).all(divides))
}

/// Calls `f(range of a row of the large shape, start of the row it repeats, that row's width)`.
fn for_each_row(
    large: Shape,
    small: Shape,
    mut f: impl FnMut(std::ops::Range<usize>, usize, usize),
) {
    let Some((&large_width, outer)) = large.dims().split_last() else { return };
    if large.n_elements() == 0 {
        return;
    }
    let width = small.last();
    let mut at = [0; RANK_MAX];
    for row in 0..large.n_elements() / large_width {
        let dims = small.dims().iter().zip(&at[..outer.len()]);
        let from = dims.fold(0, |row, (&dim, &i)| row * dim + i % dim);
        f(row * large_width..(row + 1) * large_width, from * width, width);
        advance(&mut at[..outer.len()], |axis| outer[axis]);
    }
}

impl Kernel for ExpandGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        sum_repeats(run)
    }
}

impl Kernel for ExpandAsGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        sum_repeats(run)
    }
}

fn sum_repeats(run: &mut Run<'_>) -> Result<()> {
    let mut d_x = run.take("X@GRAD");
    let (x, d_out) = (run.input("X")?, run.input("Out@GRAD")?);
    if !is_multiple(d_out.shape(), x.shape()) {
        return Err(run.shapes(RULE, "X", "Out@GRAD"));
    }
    for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
        let (d_out_data, d_x) = (d_out.data::<T>()?, d_x.resize_zeroed::<T>(x.shape()));
        for_each_row(d_out.shape(), x.shape(), |from, to, width| {
            for part in d_out_data[from.clone()].chunks_exact(width) {
                add_to(&mut d_x[to..to + width], part);
            }
        });
        Ok(())
    })?;
    d_x.set_lod(x.lod().clone());
    run.put("X@GRAD", d_x);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, t};

    #[test]
    fn repeats_along_each_dimension() {
        let expected = [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0];
        let twice = [expected, expected].concat();
        let x = || t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        check("expand")
            .input("X", x())
            .attr("expand_times", vec![2, 2])
            .gives("Out", t(&[4, 4], &twice));
        check("expand_as")
            .input("X", x())
            .input("target_tensor", t(&[4, 4], &[0.0; 16]))
            .gives("Out", t(&[4, 4], &twice));
        let none = check("expand").input("X", t(&[0, 2], &[])).attr("expand_times", vec![2, 1]);
        none.gives("Out", t(&[0, 2], &[]));
    }

    #[test]
    fn tensors_may_say_how_often() {
        check("expand")
            .input("X", ids(&[1, 2], &[5, 6]))
            .input("ExpandTimes", ids(&[2], &[2, 1]))
            .gives("Out", ids(&[2, 2], &[5, 6, 5, 6]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let x = || t(&[1, 2, 1], &[1.0, 2.0]);
        let times = check("expand").input("X", x()).attr("expand_times", vec![3, 2, 2]);
        times.output("Out").grad(&["X"]);
        let target = t(&[3, 4, 2], &[0.0; 24]);
        check("expand_as")
            .input("X", x())
            .input("target_tensor", target)
            .output("Out")
            .grad(&["X"]);
    }

    #[test]
    fn refuses_what_does_not_repeat() {
        let x = || t(&[2], &[1.0, 2.0]);
        for times in [vec![0], vec![1, 1], vec![-1]] {
            let op = check("expand").input("X", x()).attr("expand_times", times);
            let error = op.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
        let target = t(&[3], &[0.0; 3]);
        let error = check("expand_as").input("X", x()).input("target_tensor", target).output("Out");
        assert!(matches!(error.fails().root(), Error::Shapes { .. }));
    }
}
