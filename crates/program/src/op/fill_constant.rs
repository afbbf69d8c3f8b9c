//! `fill_constant`: Out = value, in the shape and type of the attributes.

use tensor::{Bool, DType, Number, Shape, Tensor};

use super::{Infer, Op, Run, for_number};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct FillConstant;

impl Op for FillConstant {
    fn name(&self) -> &'static str {
        "fill_constant"
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let dtype = DType::from_code(infer.attrs().int("dtype", 5)?)?;
        let dims = infer.attrs().ints("shape")?;
        infer.set_output("Out", Meta::dense(dtype, &dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let dtype = DType::from_code(attrs.int("dtype", 5)?)?;
        let shape = Shape::from_dims(&attrs.ints("shape")?)?;
        let mut out = run.take("Out");
        fill(&mut out, dtype, shape, f64::from(attrs.float("value", 0.0)?))?;
        run.put("Out", out);
        Ok(())
    }
}

/// Makes `out` a tensor of one value.
pub(super) fn fill(out: &mut Tensor, dtype: DType, shape: Shape, value: f64) -> Result<()> {
    if dtype == DType::Bool {
        out.resize::<Bool>(shape).fill(Bool::from(value != 0.0));
        return Ok(());
    }
    for_number!(dtype, "Out", T => {
        out.resize::<T>(shape).fill(T::of(value));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::op::check::{check, ids};

    #[test]
    fn fills_a_shape() {
        check("fill_constant")
            .attr("shape", vec![2i64, 2])
            .attr("dtype", 3)
            .attr("value", 7.0f32)
            .gives("Out", ids(&[2, 2], &[7, 7, 7, 7]));
    }
}
