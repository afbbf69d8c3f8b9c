//! `randint`: Out = integers in [low, high), in the shape and type of the attributes.

use tensor::Number;

use super::sizes::{self, bad_attr};
use super::uniform_random::stream;
use super::{Infer, Op, Run, for_int, no_gradient, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct Randint;

impl Op for Randint {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let dims = sizes::dims(infer)?;
        let dtype = tensor::DType::from_code(infer.attrs().int("dtype", 3)?)?;
        infer.set_output("Out", Meta::dense(dtype, &dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let shape = sizes::shape(run)?;
        let attrs = run.attrs();
        let (low, high) = (attrs.int("low", 0)?, attrs.int("high", 0)?);
        // The engine gives fewer than 2³¹ - 2 different numbers.
        if low >= high || high.saturating_sub(low) > (1 << 31) - 3 {
            return Err(bad_attr("high", &format!("above `low`, {low}"), high));
        }
        let mut stream = stream(run)?;
        let dtype = tensor::DType::from_code(attrs.int("dtype", 3)?)?;
        run.make("Out", |_, out| {
            for_int!(dtype, "Out", T => {
                for value in out.try_resize::<T>(shape)? {
                    *value = T::of(stream.between(low, high - 1) as f64);
                }
                Ok(())
            })
        })
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids};

    #[test]
    fn draws_fluids_numbers() {
        check("randint")
            .attr("shape", vec![6i64])
            .attr("high", 10)
            .attr("seed", 7)
            .gives("Out", ids(&[6], &[0, 5, 2, 2, 7, 3]));
    }

    #[test]
    fn refuses_an_empty_range() {
        let error = check("randint").attr("shape", vec![1i64]).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
