//! `sampling_id`: Out = for each row of probabilities, the first place at which their sum exceeds a number drawn from
//! [`min`, `max`); the last place if none does.

use tensor::{Shape, rng};

use super::sizes::bad_attr;
use super::uniform_random::stream;
use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct SamplingId;

const RULE: &str = "probabilities are a matrix with a column or more";

impl Op for SamplingId {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let [n_rows, _] = x.dims[..] else { return Err(infer.shape(RULE, "X")) };
        infer.set_output("Out", Meta::dense(tensor::DType::I64, &[n_rows]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (low, high) = (run.attrs().float("min", 0.0)?, run.attrs().float("max", 1.0)?);
        if low.partial_cmp(&high).is_none_or(|order| order.is_gt()) {
            return Err(bad_attr("max", &format!("at least `min`, {low}"), high));
        }
        let mut stream = stream(run)?;
        run.make("Out", |run, out| {
            let x = run.input("X")?;
            let (n_rows, width) = match *x.dims() {
                [n_rows, width] if width > 0 => (n_rows, width),
                _ => return Err(run.shape(RULE, "X")),
            };
            let out = out.resize::<i64>(Shape::from([n_rows]));
            for_float!(x.dtype(), run.input_name("X"), T => {
                for (out, row) in out.iter_mut().zip(x.data::<T>()?.chunks_exact(width)) {
                    let mut left = [T::default()];
                    rng::uniform(&mut stream, T::from(low), T::from(high), &mut left);
                    let exceeds = |&p: &T| {
                        left[0] -= p;
                        left[0] < 0.0
                    };
                    *out = row.iter().position(exceeds).unwrap_or(width - 1) as i64;
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
    use crate::op::check::{check, ids, t};

    #[test]
    fn draws_certain_places_and_the_last() {
        check("sampling_id")
            .input("X", t(&[3, 3], &[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            .attr("seed", 3)
            .gives("Out", ids(&[3], &[1, 0, 2]));
    }

    #[test]
    fn refuses_a_vector_and_an_empty_range() {
        let error = check("sampling_id").input("X", t(&[2], &[0.5, 0.5])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        let check = check("sampling_id").input("X", t(&[1, 1], &[1.0])).attr("min", 2.0f32);
        let error = check.output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
