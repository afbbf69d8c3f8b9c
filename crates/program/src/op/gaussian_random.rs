//! `gaussian_random`: Out = normal numbers of `mean` and `std`, in the shape and type of the
//! attributes.
//!
//! `gaussian_random_batch_size_like` takes one size of the shape from `Input`;
//! `truncated_gaussian_random` keeps within two deviations of the mean. A `seed` of 0 asks the host
//! for another one each time.

use tensor::{DType, Shape, rng};

use super::sizes;
use super::uniform_random::{ON_TOUCH, no_rows, random, skipped, stream};
use super::{Infer, Op, Run, for_float, no_gradient, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct TruncatedGaussianRandom;

random! { GaussianRandom, GaussianRandomBatchSizeLike [] = draw }

impl Op for TruncatedGaussianRandom {
    traits!(Never; draws_stream);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let dims = infer.attrs().ints("shape")?;
        infer.set_output("Out", Meta::dense(sizes::dtype(infer.attrs())?, &dims))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        if run.attrs().bool(ON_TOUCH, false)? {
            return no_rows(run);
        }
        let shape = sizes::shape(run)?;
        let (mean, std) = moments(run)?;
        let actual = sizes::dtype(run.attrs())?;
        if actual != DType::F32 {
            return Err(Error::DType { var: "Out".to_string(), expected: "float32", actual });
        }
        let mut stream = stream(run)?;
        stream.skip(skipped(run)?);
        let mut out = run.take("Out");
        rng::truncated_gaussian(&mut stream, mean, std, out.try_resize::<f32>(shape)?);
        run.put("Out", out);
        Ok(())
    }
}

/// Numbers dropped at a time, an even number: they come in pairs.
const SKIP_BY: usize = 4096;

fn moments(run: &Run<'_>) -> Result<(f32, f32)> {
    Ok((run.attrs().float("mean", 0.0)?, run.attrs().float("std", 1.0)?))
}

fn draw(run: &mut Run<'_>, shape: Shape) -> Result<()> {
    let (mean, std) = moments(run)?;
    let mut stream = stream(run)?;
    let mut skipped = skipped(run)?;
    let mut out = run.take("Out");
    for_float!(sizes::dtype(run.attrs())?, "Out", T => {
        let (mean, std) = (T::from(mean), T::from(std));
        // How many draws a number takes is not known before: they are drawn and dropped.
        let mut dropped = vec![mean; SKIP_BY];
        while skipped >= 2 {
            let n = skipped.min(SKIP_BY as u64) & !1;
            rng::gaussian::<T>(&mut stream, mean, std, &mut dropped[..n as usize]);
            skipped -= n;
        }
        let out = out.try_resize::<T>(shape)?;
        if skipped == 1 && !out.is_empty() {
            // The first number here is the second of its pair.
            let mut pair = [mean; 2];
            rng::gaussian::<T>(&mut stream, mean, std, &mut pair);
            out[0] = pair[1];
            rng::gaussian::<T>(&mut stream, mean, std, &mut out[1..]);
        } else {
            rng::gaussian::<T>(&mut stream, mean, std, out);
        }
        Ok(())
    })?;
    run.put("Out", out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, t};
    use tensor::Tensor;

    #[test]
    fn draws_fluids_numbers() {
        let expected = [0.044_566_51_f32, 0.011_534_226, -0.124_327_22, 0.018_255_472];
        check("gaussian_random")
            .attr("shape", vec![4i64])
            .attr("seed", 1)
            .attr("std", 0.05f32)
            .gives("Out", Tensor::new([4], &expected).unwrap());
        let expected = [-1.965_449_2f32, 0.374_442_64, -1.085_068_6, -0.653_810_8];
        check("truncated_gaussian_random")
            .attr("shape", vec![2, 2])
            .attr("seed", 90)
            .gives("Out", Tensor::new([2, 2], &expected).unwrap());
    }

    #[test]
    fn enters_the_stream_anywhere() {
        let all = [0.044_566_51_f32, 0.011_534_226, -0.124_327_22, 0.018_255_472];
        for (at, kind) in [(1, "gaussian_random"), (2, "gaussian_random"), (3, "gaussian_random")] {
            check(kind)
                .attr("shape", vec![4 - at as i64])
                .attr("seed", 1)
                .attr("std", 0.05f32)
                .attr("stream_offset", at as i64)
                .gives("Out", Tensor::new([4 - at], &all[at..]).unwrap());
        }
        check("truncated_gaussian_random")
            .attr("shape", vec![1, 2])
            .attr("seed", 90)
            .attr("stream_offset", 2i64)
            .gives("Out", Tensor::new([1, 2], &[-1.085_068_6f32, -0.653_810_8]).unwrap());
    }

    #[test]
    fn takes_its_batch_size_from_a_variable() {
        let expected = [0.593_634_25f32, 1.032_404_1, 0.150_439_22, 0.879_659];
        check("gaussian_random_batch_size_like")
            .input("Input", t(&[2, 3], &[0.0; 6]))
            .attr("shape", vec![-1, 2])
            .attr("seed", 3)
            .gives("Out", Tensor::new([2, 2], &expected).unwrap());
    }

    #[test]
    fn refuses_a_type_it_has_no_numbers_of() {
        for kind in ["gaussian_random", "truncated_gaussian_random"] {
            let random = check(kind).attr("shape", vec![1i64]).attr("dtype", 3);
            let error = random.output("Out").fails();
            assert!(matches!(error.root(), Error::DType { .. }), "{error}");
        }
    }
}
