//! `expand`: Out = X repeated `expand_times` along each dimension.
//!
//! `expand_as` repeats X until it has the shape of `target_tensor`. Version 2 has `tile`, whose X and
//! `repeat_times` get ones in front until they are equally long, and `expand_v2`, which repeats
//! dimensions of 1 until X has the shape `shape` (-1 keeps a size). Gradient: the sum over all repeats.

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
pub(super) struct Tile;
pub(super) struct TileGrad;
pub(super) struct ExpandV2;
pub(super) struct ExpandV2Grad;

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

impl Op for Tile {
    traits!(Never, "X": [F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let times = infer.attrs().ints("repeat_times")?;
        let tensors = sizes::n_integers_at(infer, "repeat_times_tensor")?;
        let dims = match tensors.or(sizes::n_integers_at(infer, "RepeatTimes")?) {
            Some(rank) => vec![-1; rank.max(x.dims.len())],
            None => tiled(&x.dims, &times)?,
        };
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let tensors = sizes::integers_at(run, "RepeatTimes")?;
        let tensors = tensors.or(sizes::integers_at(run, "repeat_times_tensor")?);
        let times = tensors.map_or_else(|| run.attrs().ints("repeat_times"), Ok)?;
        let dims = tiled(&run.input("X")?.shape().to_i64(), &times)?;
        repeat(run, Shape::from_dims(&dims)?)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
    }
}

/// The sizes of X repeated so often; -1 where X's is not known.
fn tiled(x: &[i64], times: &[i64]) -> Result<Vec<i64>> {
    let rank = x.len().max(times.len());
    if rank > RANK_MAX || times.is_empty() || times.iter().any(|&times| times < 1) {
        return Err(bad_attr("repeat_times", "numbers above 0, one for each dimension", times));
    }
    let at =
        |sizes: &[i64], at: usize| (at + sizes.len()).checked_sub(rank).map_or(1, |at| sizes[at]);
    let size = |place| match at(x, place) {
        -1 => -1,
        dim => dim.saturating_mul(at(times, place)),
    };
    Ok((0..rank).map(size).collect())
}

impl Op for ExpandV2 {
    traits!(Never, "X": [F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let shape = infer.attrs().ints("shape")?;
        let tensors = sizes::n_integers_at(infer, "expand_shapes_tensor")?;
        let dims = match tensors.or(sizes::n_integers_at(infer, "Shape")?) {
            Some(rank) if shape.len() != rank => vec![-1; rank],
            Some(_) => shape,
            None => broadcast(&x.dims, &shape)?,
        };
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let tensors = sizes::integers_at(run, "Shape")?;
        let tensors = tensors.or(sizes::integers_at(run, "expand_shapes_tensor")?);
        let shape = tensors.map_or_else(|| run.attrs().ints("shape"), Ok)?;
        let dims = broadcast(&run.input("X")?.shape().to_i64(), &shape)?;
        repeat(run, Shape::from_dims(&dims)?)
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]))
    }
}

/// The sizes that X has after its dimensions of 1 were repeated.
fn broadcast(x: &[i64], shape: &[i64]) -> Result<Vec<i64>> {
    let bad = || bad_attr("shape", &format!("sizes that {x:?} can be repeated to"), shape);
    let Some(n_new) = shape.len().checked_sub(x.len()) else { return Err(bad()) };
    if shape.len() > RANK_MAX {
        return Err(bad());
    }
    let size = |(at, &wanted): (usize, &i64)| match at.checked_sub(n_new).map(|at| x[at]) {
        Some(own) if wanted == -1 => Ok(own),
        Some(own) if own == wanted || own == 1 || own == -1 => Ok(wanted),
        None if wanted >= 0 => Ok(wanted),
        _ => Err(bad()),
    };
    shape.iter().enumerate().map(size).collect()
}

fn repeat(run: &mut Run<'_>, shape: Shape) -> Result<()> {
    let mut out = run.take("Out");
    let x = run.input("X")?;
    let small = padded(x.shape(), shape.rank());
    if !is_multiple(shape, small) {
        return Err(run.shapes(RULE, "X", "target_tensor"));
    }
    for_number!(x.dtype(), run.input_name("X"), T => {
        let (data, out) = (x.data::<T>()?, out.try_resize::<T>(shape)?);
        for_each_row(shape, small, |to, from, width| {
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

/// A shape with ones in front until it has this many dimensions.
fn padded(x: Shape, rank: usize) -> Shape {
    if x.rank() >= rank {
        return x;
    }
    let mut dims = [1; RANK_MAX];
    dims[rank - x.rank()..rank].copy_from_slice(x.dims());
    Shape::new(&dims[..rank])
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

impl Kernel for TileGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        sum_repeats(run)
    }
}

impl Kernel for ExpandV2Grad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        sum_repeats(run)
    }
}

fn sum_repeats(run: &mut Run<'_>) -> Result<()> {
    let mut d_x = run.take("X@GRAD");
    let (x, d_out) = (run.input("X")?, run.input("Out@GRAD")?);
    let small = padded(x.shape(), d_out.shape().rank());
    if !is_multiple(d_out.shape(), small) {
        return Err(run.shapes(RULE, "X", "Out@GRAD"));
    }
    for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
        let (d_out_data, d_x) = (d_out.data::<T>()?, d_x.resize_zeroed::<T>(x.shape()));
        for_each_row(d_out.shape(), small, |from, to, width| {
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
    fn version_2_puts_ones_in_front() {
        let x = || t(&[2], &[1.0, 2.0]);
        let tile = |times| check("tile").input("X", x()).attr("repeat_times", times);
        tile(vec![2, 1]).gives("Out", t(&[2, 2], &[1.0, 2.0, 1.0, 2.0]));
        tile(vec![2]).gives("Out", t(&[4], &[1.0, 2.0, 1.0, 2.0]));
        let column = t(&[2, 1], &[1.0, 2.0]);
        let expand = check("expand_v2").input("X", column).attr("shape", vec![2, -1, 2]);
        expand.gives("Out", t(&[2, 2, 2], &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]));
        let shape = check("expand_v2").input("X", x()).input("Shape", ids(&[2], &[2, 2]));
        shape.gives("Out", t(&[2, 2], &[1.0, 2.0, 1.0, 2.0]));
    }

    #[test]
    fn gradient_of_version_2_matches_finite_differences() {
        let x = || t(&[2, 1], &[1.0, 2.0]);
        let tile = check("tile").input("X", x()).attr("repeat_times", vec![2, 1, 3]);
        tile.output("Out").grad(&["X"]);
        let expand = check("expand_v2").input("X", x()).attr("shape", vec![3, 2, 4]);
        expand.output("Out").grad(&["X"]);
    }

    #[test]
    fn version_2_refuses_what_does_not_repeat() {
        let x = || t(&[2], &[1.0, 2.0]);
        for shape in [vec![4], vec![-1, 3], vec![-1, 2], vec![]] {
            let error = check("expand_v2").input("X", x()).attr("shape", shape).output("Out");
            assert!(matches!(error.fails().root(), Error::BadAttr { .. }));
        }
        let error = check("tile").input("X", x()).attr("repeat_times", vec![0]).output("Out");
        assert!(matches!(error.fails().root(), Error::BadAttr { .. }));
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
