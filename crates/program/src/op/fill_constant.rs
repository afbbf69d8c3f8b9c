//! `fill_constant`: Out = value, in the shape and type of the attributes.

use tensor::{Bool, DType, Number, Shape, Tensor};

use super::sizes::{self, bad_attr};
use super::uniform_random::{ON_TOUCH, no_rows};
use super::{Infer, Op, Run, for_number, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::Result;
use crate::var::Meta;

pub(super) struct FillConstant;

impl Op for FillConstant {
    traits!(Constant);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let dims = sizes::dims(infer)?;
        infer.set_output("Out", Meta::dense(sizes::dtype(infer.attrs())?, &dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        if run.attrs().bool(ON_TOUCH, false)? {
            return no_rows(run);
        }
        let shape = sizes::shape(run)?;
        let value = match run.n_inputs("ValueTensor") {
            0 => value(run.attrs())?,
            _ => run.scalar("ValueTensor")?,
        };
        let mut out = run.take("Out");
        fill(&mut out, sizes::dtype(run.attrs())?, shape, value)?;
        run.put("Out", out);
        Ok(())
    }

    no_gradient!();
}

/// The value to fill with: `str_value` holds it in full if it is not empty.
pub(super) fn value(attrs: &Attrs) -> Result<f64> {
    match attrs.str("str_value", "")? {
        "" => Ok(f64::from(attrs.float("value", 0.0)?)),
        text => text.parse().map_err(|_| bad_attr("str_value", "a number", text)),
    }
}

/// Makes `out` a tensor of one value.
pub(super) fn fill(out: &mut Tensor, dtype: DType, shape: Shape, value: f64) -> Result<()> {
    if dtype == DType::Bool {
        out.try_resize::<Bool>(shape)?.fill(Bool::from(value != 0.0));
        return Ok(());
    }
    for_number!(dtype, "Out", T => {
        out.try_resize::<T>(shape)?.fill(T::of(value));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids};

    #[test]
    fn a_number_without_dimensions_has_one() {
        let check = check("fill_constant").attr("dtype", 3).attr("value", 2.0f32);
        check.gives("Out", ids(&[1], &[2]));
    }

    #[test]
    fn fills_a_shape() {
        check("fill_constant")
            .attr("shape", vec![2i64, 2])
            .attr("dtype", 3)
            .attr("value", 7.0f32)
            .gives("Out", ids(&[2, 2], &[7, 7, 7, 7]));
    }

    #[test]
    fn reads_a_number_that_a_float_cannot_hold() {
        let large = || check("fill_constant").attr("shape", vec![1i64]).attr("dtype", 3);
        large().attr("str_value", "123456789012").gives("Out", ids(&[1], &[123_456_789_012]));
        let error = large().attr("str_value", "many").output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }

    #[test]
    fn takes_its_shape_from_a_tensor() {
        check("fill_constant")
            .input("ShapeTensor", ids(&[2], &[1, 3]))
            .attr("dtype", 3)
            .attr("value", 2.0f32)
            .gives("Out", ids(&[1, 3], &[2, 2, 2]));
    }
}
