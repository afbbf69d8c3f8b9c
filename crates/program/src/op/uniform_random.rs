//! `uniform_random`: Out = numbers in [min, max), in the shape and type of the attributes.
//!
//! `uniform_random_batch_size_like` takes one size of the shape from `Input`. A `seed` of 0 asks the
//! host for another one each time; `stream_offset` numbers are left out first. `diag_num` numbers,
//! `diag_step + 1` apart, become `diag_val`.

use tensor::{Shape, Tensor, rng};

use super::sizes::{self, bad_attr};
use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::attr::Attrs;
use crate::error::Result;
use crate::var::Meta;

/// `Op, OpBatchSizeLike [types of Input] = draw;` two ops that fill Out with `draw(run, shape)`.
macro_rules! random {
    ($op:ident, $like:ident $dtypes:tt = $draw:path) => {
        pub(super) struct $op;
        pub(super) struct $like;

        impl Op for $op {
            traits!(Never; draws_stream);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                let dims = sizes::dims(infer)?;
                infer.set_output("Out", Meta::dense(sizes::dtype(infer.attrs())?, &dims))
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                if run.attrs().bool(ON_TOUCH, false)? {
                    return no_rows(run);
                }
                let shape = sizes::shape(run)?;
                $draw(run, shape)
            }

            no_gradient!();
        }

        impl Op for $like {
            traits!(Never, "Input": $dtypes);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                let meta = sizes::batch_size_like(infer)?;
                infer.set_output("Out", meta)
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                let shape = sizes::shape_of_batch_size_like(run)?;
                $draw(run, shape)
            }

            no_gradient!();
        }
    };
}

pub(super) use random;

random! { UniformRandom, UniformRandomBatchSizeLike [F32, F64] = draw }

/// Attribute of ops that start tables of servers: their rows are made at the first request.
pub(super) const ON_TOUCH: &str = "on_touch";

/// No row exists yet: the table is seen without rows.
pub(super) fn no_rows(run: &mut Run<'_>) -> Result<()> {
    let mut dims = run.attrs().ints("shape")?;
    if let Some(n_rows) = dims.first_mut() {
        *n_rows = 0;
    }
    let shape = Shape::from_dims(&dims)?;
    let mut out = run.take("Out");
    out.resize::<f32>(shape);
    run.put("Out", out);
    Ok(())
}

/// Numbers of the stream that belong to others: a server that holds the rows of a variable from
/// some element on begins there (`stream_offset`).
pub(super) fn skipped(run: &Run<'_>) -> Result<u64> {
    let offset = run.attrs().int("stream_offset", 0)?;
    u64::try_from(offset).map_err(|_| bad_attr("stream_offset", "0 or more", offset))
}

/// The beginning of the stream that attribute `seed` names.
pub(super) fn stream(run: &mut Run<'_>) -> Result<rng::Rng> {
    let seed = match run.attrs().int("seed", 0)? {
        0 => run.host().fresh_seed(),
        seed => seed as u32,
    };
    Ok(rng::Rng::new(seed))
}

fn draw(run: &mut Run<'_>, shape: Shape) -> Result<()> {
    let attrs = run.attrs();
    let (low, high) = (attrs.float("min", -1.0)?, attrs.float("max", 1.0)?);
    // A NaN is refused too.
    if low.partial_cmp(&high).is_none_or(|order| order.is_gt()) {
        return Err(bad_attr("max", &format!("at least `min`, {low}"), high));
    }
    let mut stream = stream(run)?;
    let mut out = run.take("Out");
    let skipped = skipped(run)?;
    for_float!(sizes::dtype(attrs)?, "Out", T => {
        stream.skip(skipped.wrapping_mul(<T as rng::Real>::N_DRAWS));
        rng::uniform::<T>(&mut stream, low.into(), high.into(), out.try_resize::<T>(shape)?);
        Ok(())
    })?;
    set_diagonal(attrs, &mut out)?;
    run.put("Out", out);
    Ok(())
}

fn set_diagonal(attrs: &Attrs, out: &mut Tensor) -> Result<()> {
    let (n, step) = (attrs.int("diag_num", 0)?, attrs.int("diag_step", 0)?);
    if n <= 0 {
        return Ok(());
    }
    let last = usize::try_from((n - 1).saturating_mul(step + 1)).unwrap_or(usize::MAX);
    if last >= out.len() {
        return Err(bad_attr("diag_num", &format!("within {} elements", out.len()), n));
    }
    for_float!(out.dtype(), "Out", T => {
        let value = T::from(attrs.float("diag_val", 1.0)?);
        let diagonal = out.data_mut::<T>()?.iter_mut().step_by(step as usize + 1);
        diagonal.take(n as usize).for_each(|x| *x = value);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, t};
    use tensor::Tensor;

    fn random() -> crate::op::check::Check {
        check("uniform_random").attr("shape", vec![2i64, 2]).attr("seed", 90)
    }

    #[test]
    fn draws_fluids_numbers() {
        let expected = [-0.497_977_f32, 0.152_920_42, -0.378_265_53, -0.254_985_06];
        random()
            .attr("min", -0.5f32)
            .attr("max", 0.5f32)
            .gives("Out", Tensor::new([2, 2], &expected).unwrap());
    }

    #[test]
    fn enters_the_stream_anywhere() {
        let rest = [-0.378_265_53_f32, -0.254_985_06];
        check("uniform_random")
            .attr("shape", vec![1i64, 2])
            .attr("seed", 90)
            .attr("stream_offset", 2i64)
            .attr("min", -0.5f32)
            .attr("max", 0.5f32)
            .gives("Out", Tensor::new([1, 2], &rest).unwrap());
    }

    #[test]
    fn takes_its_batch_size_from_a_variable() {
        check("uniform_random_batch_size_like")
            .input("Input", t(&[2, 3], &[0.0; 6]))
            .attr("shape", vec![-1, 1])
            .attr("seed", 1)
            .gives("Out", Tensor::new([2, 1], &[-0.999_955_06f32, -0.829_935_1]).unwrap());
    }

    #[test]
    fn sets_a_diagonal() {
        let diagonal = random().attr("diag_num", 2).attr("diag_step", 2).attr("min", 0.0f32);
        diagonal
            .gives("Out", Tensor::new([2, 2], &[1.0f32, 0.652_920_4, 0.121_734_48, 1.0]).unwrap());
    }

    #[test]
    fn refuses_senseless_attributes() {
        for bad in [
            random().attr("max", -2.0f32),
            random().attr("dtype", 3),
            random().attr("shape", vec![-1i64]),
            random().attr("diag_num", 3).attr("diag_step", 2),
        ] {
            let error = bad.output("Out").fails();
            let known = matches!(
                error.root(),
                Error::BadAttr { .. } | Error::DType { .. } | Error::Tensor(_)
            );
            assert!(known, "{error}");
        }
    }
}
