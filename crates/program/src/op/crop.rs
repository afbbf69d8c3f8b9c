//! `crop`: Out = the box of X of size `shape` (or of Y's size) that begins at `offsets`.
//!
//! `crop_tensor`: the same; a size of -1 is all that is behind the offset. Tensors may say both. Gradient:
//! dOut in the box, zeros around it.

use tensor::Shape;

use super::moves::{Moves, moves};
use super::sizes::{self, bad_attr};
use super::{Infer, Run};
use crate::error::Result;

moves! { Crop, CropGrad: "X" -> "Out", reads ["X", "Y", "Offsets"];
    traits(Never, "X": [F32]); infer_crop; plan_crop
}

moves! { CropTensor, CropTensorGrad: "X" -> "Out",
    reads ["X", "Shape", "ShapeTensor", "Offsets", "OffsetsTensor"];
    traits(Never, "X": [F32, F64, I32, I64]); infer_crop_tensor; plan_crop_tensor
}

const EACH: &str = "one for each dimension of X";

fn infer_crop(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    let dims = match infer.opt_input("Y")? {
        Some(like) => like.dims,
        None => infer.attrs().ints("shape")?,
    };
    if dims.len() != x.dims.len() {
        return Err(bad_attr("shape", EACH, dims));
    }
    infer.set_output("Out", x.with_dims(dims).with_lod_level(0))
}

fn infer_crop_tensor(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input("X")?;
    let rank = x.dims.len();
    let attrs = infer.attrs();
    let has = |port| !infer.op().input_names(port).is_empty();
    let (shape, offsets) = (attrs.ints("shape")?, attrs.ints("offsets")?);
    let mut dims = vec![-1; rank];
    if !has("Shape") {
        if shape.len() != rank {
            return Err(bad_attr("shape", EACH, shape));
        }
        let are_offsets_known = !has("Offsets") && !has("OffsetsTensor") && offsets.len() == rank;
        for (axis, dim) in dims.iter_mut().enumerate() {
            let behind = are_offsets_known && x.dims[axis] >= 0;
            *dim = match shape[axis] {
                0 if has("ShapeTensor") => -1,
                size @ 1.. => size,
                -1 if behind => x.dims[axis] - offsets[axis],
                -1 => -1,
                other => return Err(bad_attr("shape", "positive, or -1", other)),
            };
        }
    }
    infer.set_output("Out", x.with_dims(dims).with_lod_level(0))
}

struct CropPlan {
    x: Shape,
    out: Shape,
    offsets: Vec<usize>,
}

impl Moves for CropPlan {
    fn shape(&self) -> Shape {
        self.out
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let axes = at.iter().zip(&self.offsets).enumerate();
        Some(axes.fold(0, |place, (axis, (&i, &from))| place * self.x.dim(axis) + from + i))
    }
}

impl CropPlan {
    /// A box that lies inside of `x`; -1 stands for all that is behind an offset.
    fn new(x: Shape, dims: &[i64], offsets: &[i64]) -> Result<Self> {
        if dims.len() != x.rank() {
            return Err(bad_attr("shape", EACH, dims));
        }
        if offsets.len() != x.rank() {
            return Err(bad_attr("offsets", EACH, offsets));
        }
        let mut plan = Self { x, out: x, offsets: Vec::with_capacity(x.rank()) };
        for (axis, (&dim, &offset)) in dims.iter().zip(offsets).enumerate() {
            let size = x.dim(axis) as i64;
            let dim = if dim == -1 { size.saturating_sub(offset) } else { dim };
            if offset < 0 || dim < 0 || offset.saturating_add(dim) > size {
                let expected = format!("within dimension {axis} of size {size}");
                return Err(bad_attr("offsets", &expected, [offset, dim]));
            }
            plan.out = plan.out.with_dim(axis, dim as usize);
            plan.offsets.push(offset as usize);
        }
        Ok(plan)
    }
}

/// The integers of the first of these ports that is used, else of the attribute.
fn said(run: &Run<'_>, ports: &[&str], attr: &str) -> Result<Vec<i64>> {
    for port in ports {
        if let Some(said) = sizes::integers_at(run, port)? {
            return Ok(said);
        }
    }
    run.attrs().ints(attr)
}

fn plan_crop(run: &Run<'_>) -> Result<CropPlan> {
    let x = run.input("X")?.shape();
    let dims = match run.n_inputs("Y") {
        0 => run.attrs().ints("shape")?,
        _ => run.input("Y")?.shape().to_i64(),
    };
    CropPlan::new(x, &dims, &said(run, &["Offsets"], "offsets")?)
}

fn plan_crop_tensor(run: &Run<'_>) -> Result<CropPlan> {
    let dims = said(run, &["ShapeTensor", "Shape"], "shape")?;
    let offsets = said(run, &["OffsetsTensor", "Offsets"], "offsets")?;
    CropPlan::new(run.input("X")?.shape(), &dims, &offsets)
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, some, t};

    fn crop(kind: &str, shape: &[i32], offsets: &[i32]) -> Check {
        let data: Vec<f64> = (0..12).map(f64::from).collect();
        let op = check(kind).input("X", t(&[3, 4], &data));
        op.attr("shape", shape.to_vec()).attr("offsets", offsets.to_vec())
    }

    #[test]
    fn cuts_a_box_out() {
        let out = || t(&[2, 2], &[5.0, 6.0, 9.0, 10.0]);
        crop("crop", &[2, 2], &[1, 1]).gives("Out", out());
        crop("crop_tensor", &[-1, 2], &[1, 1]).gives("Out", out());
        crop("crop", &[], &[1, 1]).input("Y", some(&[2, 2])).gives("Out", out());
    }

    #[test]
    fn tensors_may_say_where() {
        let op = crop("crop_tensor", &[], &[]).input("Shape", ids(&[2], &[2, 2]));
        op.input("Offsets", ids(&[2], &[1, 1])).gives("Out", t(&[2, 2], &[5.0, 6.0, 9.0, 10.0]));
        let op = crop("crop", &[1, 1], &[]).input("Offsets", ids(&[2], &[2, 3]));
        op.gives("Out", t(&[1, 1], &[11.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        crop("crop", &[2, 3], &[1, 0]).output("Out").grad(&["X"]);
        crop("crop_tensor", &[2, -1], &[0, 2]).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_boxes_outside() {
        for bad in [
            crop("crop", &[3, 2], &[1, 1]),
            crop("crop_tensor", &[3, 2], &[1, 1]),
            crop("crop_tensor", &[2, 2], &[-1, 1]),
            crop("crop_tensor", &[0, 2], &[0, 1]),
            crop("crop", &[2], &[1]),
        ] {
            let error = bad.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
