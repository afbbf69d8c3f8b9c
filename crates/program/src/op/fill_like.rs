//! Constants in the shape of another variable.
//!
//! `fill_any_like`: Out = value everywhere, shaped like X, of X's type unless `dtype` says another.
//! `fill_zeros_like`: Out = 0 everywhere, like X in all.
//! `fill_constant_batch_size_like`: Out = value in shape `shape`, one size of it taken from `Input`
//! (the number of sequences if `Input` has any and its first size is asked for).

use tensor::{DType, Tensor};

use super::fill_constant::{self, fill};
use super::sizes;
use super::{Infer, Op, Run, no_gradient, traits};
use crate::error::Result;

pub(super) struct FillAnyLike;
pub(super) struct FillZerosLike;
pub(super) struct FillConstantBatchSizeLike;

impl Op for FillAnyLike {
    traits!(Never, "X": [F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let dtype = dtype_like(infer.attrs().int("dtype", -1)?, x.dtype)?;
        infer.set_output("Out", x.with_dtype(dtype))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let value = f64::from(run.attrs().float("value", 0.0)?);
        let mut out = run.take("Out");
        let x = run.input("X")?;
        let dtype = dtype_like(run.attrs().int("dtype", -1)?, x.dtype())?;
        check_range(dtype, value)?;
        fill_like(&mut out, x, dtype, value)?;
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

/// Refuses what Fluid refuses: a number that the type cannot hold, compared as float32.
fn check_range(dtype: DType, value: f64) -> Result<()> {
    let most = match dtype {
        DType::I32 => i32::MAX as f32,
        DType::I64 => i64::MAX as f32,
        _ => f32::MAX,
    };
    if value.abs() <= f64::from(most) {
        return Ok(());
    }
    let range = format!("a number that {} can hold", dtype.name());
    Err(sizes::bad_attr("value", &range, value))
}

fn dtype_like(code: i64, x: DType) -> Result<DType> {
    if code < 0 { Ok(x) } else { Ok(DType::from_code(code)?) }
}

fn fill_like(out: &mut Tensor, x: &Tensor, dtype: DType, value: f64) -> Result<()> {
    fill(out, dtype, x.shape(), value)?;
    out.set_lod(x.lod().clone());
    Ok(())
}

impl Op for FillZerosLike {
    traits!(Never, "X": [F32, F64, I32, I64, Bool]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let mut out = run.take("Out");
        let x = run.input("X")?;
        fill_like(&mut out, x, x.dtype(), 0.0)?;
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

impl Op for FillConstantBatchSizeLike {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let meta = sizes::batch_size_like(infer)?;
        infer.set_output("Out", meta)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let mut shape = sizes::shape_of_batch_size_like(run)?;
        if let (Some(offsets), 0) =
            (run.input("Input")?.lod().last(), attrs.int("input_dim_idx", 0)?)
        {
            let to = sizes::axis("output_dim_idx", attrs.int("output_dim_idx", 0)?, shape.rank())?;
            shape = shape.with_dim(to, offsets.len().saturating_sub(1));
        }
        let mut out = run.take("Out");
        fill(&mut out, sizes::dtype(attrs)?, shape, fill_constant::value(attrs)?)?;
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, seq, t};

    #[test]
    fn fills_the_shape_of_another() {
        let x = || seq(t(&[2, 1], &[5.0, 6.0]), &[1, 1]);
        let ones = seq(t(&[2, 1], &[1.0, 1.0]), &[1, 1]);
        check("fill_any_like").input("X", x()).attr("value", 1.0f32).gives("Out", ones);
        let zeros = seq(t(&[2, 1], &[0.0, 0.0]), &[1, 1]);
        check("fill_zeros_like").input("X", x()).gives("Out", zeros);
    }

    #[test]
    fn changes_the_type_when_told() {
        check("fill_any_like")
            .input("X", t(&[2], &[5.0, 6.0]))
            .attr("value", 3.0f32)
            .attr("dtype", 3)
            .gives("Out", ids(&[2], &[3, 3]));
    }

    /// The behaviour of Fluid 1.8.5: refuses, except for the one float32 just above the largest
    /// integer.
    #[test]
    fn refuses_what_the_type_cannot_hold() {
        let fill = |dtype: i32, value: f32| {
            check("fill_any_like")
                .input("X", t(&[1], &[5.0]))
                .attr("value", value)
                .attr("dtype", dtype)
        };
        for (dtype, value) in [(2, 1e10), (2, -1e10), (3, 1e19), (5, f32::INFINITY)] {
            let error = fill(dtype, value).output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
            let error = fill(dtype, f32::NAN).output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
        fill(3, 1e10).gives("Out", ids(&[1], &[10_000_000_000]));
        let edge = fill(2, 2_147_483_648.0).output("Out").run("Out");
        assert_eq!(edge.tensor().unwrap().data::<i32>().unwrap(), [i32::MIN]);
    }

    #[test]
    fn counts_rows_or_sequences() {
        let fill = |x| {
            check("fill_constant_batch_size_like")
                .input("Input", x)
                .attr("shape", vec![7, 2])
                .attr("dtype", 3)
                .attr("value", 4.0f32)
        };
        fill(t(&[3, 1], &[0.0; 3])).gives("Out", ids(&[3, 2], &[4; 6]));
        let error = fill(t(&[3, 1], &[0.0; 3])).attr("output_dim_idx", 5).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
