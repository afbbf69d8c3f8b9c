//! The same numbers under another shape.
//!
//! `reshape2`: `shape`, where 0 copies a size of X and one -1 stands for what is left over.
//! `squeeze2`: without the dimensions of 1 at `axes` (all of them if there are none).
//! `unsqueeze2`: with dimensions of 1 put in at `axes`, one after another.
//! `flatten2`: a matrix, the first `axis` dimensions are its rows.
//! `flatten_contiguous_range`: the dimensions from `start_axis` to `stop_axis` become one.
//!
//! XShape carries X's shape (behind a 0) to the gradient, which is dOut in X's shape again. The old
//! names without the 2 write no XShape; their gradients read X.

use tensor::Shape;

use super::sizes::{self, bad_attr};
use super::strips::{copy_as, insert};
use super::{Grad, Infer, Keep, Kernel, Op, OpOnRows, Run, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};
use crate::var::Meta;

macro_rules! reshaping {
    ($($Op:ident $dtypes:tt $Grad:ident $kind:ident $keep:ident;)*) => {$(
        pub(super) struct $Op;
        pub(super) struct $Grad;

        impl Op for $Op {
            traits!(When(ReshapeKind::$kind.samples_stay()), "X": $dtypes);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                infer_shape(infer, ReshapeKind::$kind)
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                reshape(run, ReshapeKind::$kind)
            }

            fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
                grad.emit_usual($keep)
            }
        }

        impl Kernel for $Grad {
            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                reshape_back(run)
            }
        }
    )*};
}

reshaping! {
    Flatten [] FlattenGrad Flatten KEEP_X;
    Flatten2 [F32, F64, I8, I32, I64] Flatten2Grad Flatten KEEP_X_SHAPE;
    FlattenRange [F32, F64, I8, I32, I64] FlattenRangeGrad FlattenRange KEEP_X_SHAPE;
    Reshape [] ReshapeGrad Reshape KEEP_X;
    Reshape2 [F16, F32, F64, I32, I64] Reshape2Grad Reshape KEEP_X_SHAPE;
    Squeeze [] SqueezeGrad Squeeze KEEP_X;
    Squeeze2 [F16, F32, F64, I8, I32, I64] Squeeze2Grad Squeeze KEEP_X_SHAPE;
    Unsqueeze [] UnsqueezeGrad Unsqueeze KEEP_X;
    Unsqueeze2 [] Unsqueeze2Grad Unsqueeze KEEP_X_SHAPE;
}

pub(super) const KEEP_X: Keep<'static> = Keep::grads(&["Out"], &["X"]).inputs(&["X"]);
pub(super) const KEEP_X_SHAPE: Keep<'static> = Keep::grads(&["Out"], &["X"]).outputs(&["XShape"]);

#[derive(Clone, Copy)]
enum ReshapeKind {
    Reshape,
    Squeeze,
    Unsqueeze,
    Flatten,
    FlattenRange,
}

impl ReshapeKind {
    /// The sizes of Out, -1 where they are not known.
    fn dims(self, x: &[i64], said: &[i64], attrs: &Attrs) -> Result<Vec<i64>> {
        match self {
            ReshapeKind::Reshape => reshaped(x, said),
            ReshapeKind::Squeeze => squeezed(x, said),
            ReshapeKind::Unsqueeze => unsqueezed(x, said),
            ReshapeKind::Flatten => {
                let axis = attrs.int("axis", 1)?;
                if axis < 0 || axis as usize > x.len() {
                    return Err(bad_attr("axis", "within the rank of X", axis));
                }
                let (rows, columns) = x.split_at(axis as usize);
                Ok(vec![product(rows), product(columns)])
            }
            ReshapeKind::FlattenRange => {
                let start = sizes::axis("start_axis", attrs.int("start_axis", 1)?, x.len())?;
                let stop = sizes::axis("stop_axis", attrs.int("stop_axis", 1)?, x.len())?;
                if stop < start {
                    return Err(bad_attr("stop_axis", "not before `start_axis`", stop));
                }
                let joined = [product(&x[start..=stop])];
                Ok([&x[..start], &joined, &x[stop + 1..]].concat())
            }
        }
    }

    /// Tells whether the dimension of the samples is left alone.
    fn samples_stay(self) -> fn(&OpOnRows<'_>) -> bool {
        match self {
            ReshapeKind::Reshape => |op| first_size_stays(op) && op.only_rows("X"),
            ReshapeKind::Squeeze | ReshapeKind::Unsqueeze => {
                |op| op.axes_are_inner("X", "axes") && op.only_rows("X")
            }
            ReshapeKind::Flatten => {
                |op| op.attrs().int("axis", 1).is_ok_and(|axis| axis == 1) && op.only_rows("X")
            }
            ReshapeKind::FlattenRange => {
                |op| op.attrs().int("start_axis", 1).is_ok_and(|axis| axis > 0) && op.only_rows("X")
            }
        }
    }

    fn attr(self) -> &'static str {
        if matches!(self, ReshapeKind::Reshape) { "shape" } else { "axes" }
    }
}

/// Whether the first size of the shape is that of X.
fn first_size_stays(op: &OpOnRows<'_>) -> bool {
    let Ok(shape) = op.attrs().ints("shape") else { return false };
    let Some(dims) = op.dims("X") else { return false };
    let size = |dims: &[i64]| {
        let is_known = dims.iter().all(|&dim| dim > 0);
        is_known.then(|| dims.iter().product::<i64>())
    };
    match shape.split_first() {
        Some((0, _)) => true,
        Some((-1, rest)) => {
            size(rest).is_some() && size(rest) == size(dims.get(1..).unwrap_or_default())
        }
        _ => false,
    }
}

/// The product of sizes, -1 if one of them is not known.
fn product(dims: &[i64]) -> i64 {
    if dims.iter().any(|&dim| dim < 0) { -1 } else { crate::var::n_elements(dims) }
}

fn reshaped(x: &[i64], shape: &[i64]) -> Result<Vec<i64>> {
    let bad = || bad_attr("shape", &format!("sizes for as many numbers as {x:?}"), shape);
    let unknown = shape.iter().filter(|&&dim| dim < 0).count();
    if shape.is_empty() || unknown > 1 || shape.iter().any(|&dim| dim < -1) {
        return Err(bad());
    }
    let mut dims = Vec::new();
    for (at, &dim) in shape.iter().enumerate() {
        dims.push(if dim == 0 { *x.get(at).ok_or_else(bad)? } else { dim });
    }
    let total = product(x);
    let left = shape.iter().position(|&dim| dim < 0);
    if let Some(at) = left {
        dims[at] = 1;
        let known = product(&dims);
        let fits = total < 0 || known < 0 || (known > 0 && total % known == 0) || total == 0;
        dims[at] = if !fits {
            return Err(bad());
        } else if total < 0 || known < 0 {
            -1
        } else {
            total.checked_div(known).unwrap_or(0)
        };
    } else if total >= 0 && product(&dims) >= 0 && product(&dims) != total {
        return Err(bad());
    }
    Ok(dims)
}

/// A shape with its zeros filled in.
fn copied(x: &[i64], shape: &[i64]) -> Vec<i64> {
    let copy = |(at, &dim)| if dim == 0 { x.get(at).copied().unwrap_or(-1) } else { dim };
    shape.iter().enumerate().map(copy).collect()
}

fn squeezed(x: &[i64], axes: &[i64]) -> Result<Vec<i64>> {
    let mut drop = vec![axes.is_empty(); x.len()];
    for &axis in axes {
        let at = sizes::axis("axes", axis, x.len())?;
        if x[at] >= 0 && x[at] != 1 {
            return Err(bad_attr("axes", &format!("dimensions of 1 in {x:?}"), axes));
        }
        drop[at] = true;
    }
    let kept = x.iter().zip(drop).filter(|&(&dim, drop)| !(drop && (dim == 1 || !axes.is_empty())));
    Ok(kept.map(|(&dim, _)| dim).collect())
}

fn unsqueezed(x: &[i64], axes: &[i64]) -> Result<Vec<i64>> {
    let mut dims = x.to_vec();
    for &axis in axes {
        let at = sizes::axis("axes", axis, dims.len() + 1)?;
        dims.insert(at, 1);
    }
    Ok(dims)
}

fn infer_shape(infer: &mut Infer<'_>, kind: ReshapeKind) -> Result<()> {
    let x = infer.input("X")?;
    let said = infer.attrs().ints(kind.attr())?;
    let tensors = sizes::n_integers_at(infer, "ShapeTensor")?;
    let dims = match tensors.or(sizes::n_integers_at(infer, "Shape")?) {
        Some(rank) if said.len() != rank => vec![-1; rank],
        // -1 also stands for what a tensor will say, so there may be several.
        Some(_) if tensors.is_some() => copied(&x.dims, &said),
        _ => kind.dims(&x.dims, &said, infer.attrs())?,
    };
    infer.set_output("XShape", x_shape(&x))?;
    infer.set_output("Out", x.with_dims(dims))
}

/// XShape's description.
pub(super) fn x_shape(x: &Meta) -> Meta {
    x.with_dims([&[0], &*x.dims].concat())
}

fn reshape(run: &mut Run<'_>, kind: ReshapeKind) -> Result<()> {
    let mut said = None;
    for port in ["ShapeTensor", "Shape", "AxesTensorList", "AxesTensor"] {
        said = said.or(sizes::integers_at(run, port)?);
    }
    let said = said.map_or_else(|| run.attrs().ints(kind.attr()), Ok)?;
    let mut out = run.take("Out");
    let x = run.input("X")?;
    let mut dims = kind.dims(&x.shape().to_i64(), &said, run.attrs())?;
    if dims.is_empty() {
        dims.push(1);
    }
    let shape = Shape::from_dims(&dims)?;
    if shape.n_elements() != x.len() {
        let expected = format!("a shape for {} numbers", x.len());
        return Err(bad_attr(kind.attr(), &expected, said));
    }
    copy_as(x, shape, &mut out);
    if x.shape().dim(0) == shape.dim(0) {
        out.set_lod(x.lod().clone());
    }
    put_x_shape(run)?;
    run.put("Out", out);
    Ok(())
}

/// Writes X's shape to XShape, if anyone wants it.
pub(super) fn put_x_shape(run: &mut Run<'_>) -> Result<()> {
    if run.wants("XShape") {
        let mut x_shape = run.take("XShape");
        let x = run.input("X")?;
        x_shape.resize_as(x.dtype(), insert(x.shape(), 0, 0)?);
        x_shape.set_lod(x.lod().clone());
        run.put("XShape", x_shape);
    }
    Ok(())
}

/// The shape a gradient has to have: X's, read from X or from XShape.
pub(super) fn shape_of_x(run: &Run<'_>) -> Result<Shape> {
    if run.n_inputs("XShape") == 0 {
        return Ok(run.input("X")?.shape());
    }
    match run.input("XShape")?.dims() {
        [0, dims @ ..] if !dims.is_empty() => Ok(Shape::new(dims)),
        _ => Err(run.shape("XShape holds a shape behind a 0", "XShape")),
    }
}

fn reshape_back(run: &mut Run<'_>) -> Result<()> {
    let mut d_x = run.take("X@GRAD");
    let (d_out, shape) = (run.input("Out@GRAD")?, shape_of_x(run)?);
    if d_out.len() != shape.n_elements() {
        let (expected, actual) = (shape.n_elements(), d_out.len());
        let source = Error::from(tensor::Error::Length { shape, expected, actual });
        return Err(run.in_var("Out@GRAD", source));
    }
    copy_as(d_out, shape, &mut d_x);
    let lod = run.opt_input("XShape").or(run.opt_input("X")).map(|x| x.lod().clone());
    d_x.set_lod(lod.unwrap_or_default());
    run.put("X@GRAD", d_x);
    Ok(())
}

#[cfg(test)]
mod tests;
