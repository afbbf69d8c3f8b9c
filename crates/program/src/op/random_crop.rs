//! `random_crop`: Out = of each instance a part of size `shape`, at a random place of its own.
//!
//! The places follow from Seed (`startup_seed` while Seed is empty), and SeedOut is the next seed. Fluid has no
//! gradient of it.

use tensor::rng::Rng;
use tensor::{DType, Shape};

use super::strips::{BoxDim, for_each_run};
use super::{Infer, Op, Run, no_gradient, traits};
use crate::error::Result;
use crate::var::Meta;

pub(super) struct RandomCrop;

const RULE: &str = "an instance must be as large as the part that is cut out of it";

/// The modulus of the engine.
const MODULUS: u64 = 2_147_483_647;

/// The sizes of the result; none if `shape` does not fit into the last dimensions.
fn cropped(dims: &[i64], shape: &[i64]) -> Option<Vec<i64>> {
    let n_outer = dims.len().checked_sub(shape.len())?;
    let fits = |(&dim, &size): (&i64, &i64)| size > 0 && (dim < 0 || size <= dim);
    let fits = !shape.is_empty() && dims[n_outer..].iter().zip(shape).all(fits);
    fits.then(|| [&dims[..n_outer], shape].concat())
}

impl Op for RandomCrop {
    traits!(Never, "X": [F32, F64, U8, I16, I32]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let dims = cropped(&x.dims, &infer.attrs().ints("shape")?);
        let dims = dims.ok_or_else(|| infer.shape(RULE, "X"))?;
        infer.set_output("Out", x.with_dims(dims))?;
        infer.set_output("SeedOut", Meta::dense(DType::I64, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let seed = match run.opt_input("Seed").filter(|seed| !seed.is_empty()) {
            Some(_) => run.data::<i64>("Seed")?[0],
            None => run.attrs().int("startup_seed", 0)?,
        };
        let seed = (seed as u64 % MODULUS) as u32;
        let (mut out, mut next) = (run.take("Out"), run.take("SeedOut"));
        let x = run.input("X")?;
        let shape = run.attrs().ints("shape")?;
        let dims = cropped(&x.shape().to_i64(), &shape).ok_or_else(|| run.shape(RULE, "X"))?;
        let n_outer = dims.len() - shape.len();
        out.try_resize_as(x.dtype(), Shape::from_dims(&dims)?)?;
        let n_instances: usize = x.dims()[..n_outer].iter().product();
        let size = x.dtype().size();
        let (n_from, n_to) =
            (x.bytes().len() / n_instances.max(1), out.bytes_mut().len() / n_instances.max(1));
        for i in 0..n_instances {
            let mut rng = Rng::at(seed, (i * shape.len()) as u64);
            let region: Vec<BoxDim> = x.dims()[n_outer..]
                .iter()
                .zip(&shape)
                .map(|(&size, &len)| {
                    let start = rng.between(0, size as i64 - len) as usize;
                    BoxDim { size, start, len: len as usize }
                })
                .collect();
            let (from, to) = (&x.bytes()[i * n_from..], &mut out.bytes_mut()[i * n_to..]);
            for_each_run(&region, |source, at, n| {
                to[at * size..][..n * size].copy_from_slice(&from[source * size..][..n * size]);
            });
        }
        let mut rng = Rng::at(seed, (n_instances * shape.len()) as u64);
        next.resize::<i64>(Shape::from([1]))[0] = i64::from(rng.draw());
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        run.put("SeedOut", next);
        Ok(())
    }

    no_gradient!();
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{check, ids, some, t};

    /// What Fluid 1.8.5 gives.
    #[test]
    fn cuts_where_fluid_cuts() {
        let data: Vec<f64> = (0..12).map(f64::from).collect();
        let op = check("random_crop").input("X", t(&[3, 4], &data)).attr("shape", vec![2]);
        let op = op.input("Seed", Tensor::new([0], &[0i64; 0]).unwrap()).attr("startup_seed", 3);
        op.gives("Out", t(&[3, 2], &[0.0, 1.0, 4.0, 5.0, 10.0, 11.0]));
    }

    #[test]
    fn refuses_parts_that_are_too_large() {
        let op = check("random_crop").input("X", some(&[3, 4])).input("Seed", ids(&[1], &[1]));
        let error = op.attr("shape", vec![5]).output("Out").output("SeedOut").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
