//! `pad`: Out = X with `paddings` (before, after per dimension) of `pad_value` around it.
//!
//! Gradient: the part of dOut where X lies.

use tensor::{Number, Shape};

use super::sizes::bad_attr;
use super::strips::{BoxDim, for_each_run};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, for_number, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Pad;
pub(super) struct PadGrad;

/// How much goes before and after a dimension.
struct DimPadding {
    before: usize,
    after: usize,
}

fn paddings(attrs: &Attrs, rank: usize) -> Result<Vec<DimPadding>> {
    let paddings = attrs.ints("paddings")?;
    let sane = |&padding: &i64| (0..1 << 40).contains(&padding);
    if paddings.len() != rank * 2 || !paddings.iter().all(sane) {
        return Err(bad_attr(
            "paddings",
            &format!("two sizes for each of {rank} dimensions"),
            paddings,
        ));
    }
    let padding = |pair: &[i64]| DimPadding { before: pair[0] as usize, after: pair[1] as usize };
    Ok(paddings.chunks_exact(2).map(padding).collect())
}

impl Op for Pad {
    traits!(Never, "X": [F16, F32, F64, I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let paddings = paddings(infer.attrs(), x.dims.len())?;
        let padded = |dim: i64, padding: &DimPadding| match dim {
            ..0 => -1,
            dim => dim + (padding.before + padding.after) as i64,
        };
        let dims = x.dims.iter().zip(&paddings).map(|(&dim, it)| padded(dim, it)).collect();
        infer.set_output("Out", x.with_dims(dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let value = run.attrs().float("pad_value", 0.0)?;
        let mut out = run.take("Out");
        let x = run.input("X")?;
        let paddings = paddings(run.attrs(), x.shape().rank())?;
        let sizes = x.dims().iter().zip(&paddings);
        let region: Vec<_> = sizes
            .map(|(&len, &DimPadding { before, after })| BoxDim {
                size: len + before + after,
                start: before,
                len,
            })
            .collect();
        let dims: Vec<i64> = region.iter().map(|dim| dim.size as i64).collect();
        let shape = Shape::from_dims(&dims)?;
        for_number!(x.dtype(), run.input_name("X"), T => {
            let (x, out) = (x.data::<T>()?, out.try_resize::<T>(shape)?);
            out.fill(T::of(f64::from(value)));
            for_each_run(&region, |to, from, n| out[to..to + n].copy_from_slice(&x[from..from + n]));
            Ok(())
        })?;
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]))
    }
}

impl Kernel for PadGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut d_x = run.take("X@GRAD");
        let d_out = run.input("Out@GRAD")?;
        let paddings = paddings(run.attrs(), d_out.shape().rank())?;
        let mut region = Vec::new();
        for (&size, &DimPadding { before, after }) in d_out.dims().iter().zip(&paddings) {
            let inside = size.checked_sub(before + after);
            let rule = "the gradient must be larger than its padding";
            let len = inside.ok_or_else(|| run.shape(rule, "Out@GRAD"))?;
            region.push(BoxDim { size, start: before, len });
        }
        let shape = Shape::new(&region.iter().map(|dim| dim.len).collect::<Vec<_>>());
        for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
            let (d_out, d_x) = (d_out.data::<T>()?, d_x.resize::<T>(shape));
            for_each_run(&region, |from, to, n| {
                d_x[to..to + n].copy_from_slice(&d_out[from..from + n]);
            });
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, t};

    fn pad(paddings: &[i32]) -> Check {
        let op = check("pad").input("X", t(&[1, 2], &[1.0, 2.0]));
        op.attr("paddings", paddings.to_vec()).attr("pad_value", 9.0f32)
    }

    #[test]
    fn surrounds_with_a_value() {
        pad(&[0, 1, 2, 0]).gives("Out", t(&[2, 4], &[9.0, 9.0, 1.0, 2.0, 9.0, 9.0, 9.0, 9.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        pad(&[0, 1, 2, 0]).output("Out").grad(&["X"]);
    }

    #[test]
    fn refuses_too_few_or_negative_paddings() {
        for paddings in [&[1, 1][..], &[0, 0, -1, 0]] {
            let error = pad(paddings).output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
