//! Random numbers: `uniform_random`, `gaussian_random`, `randint`, `shuffle_batch`.

use tensor::DType;

use super::append::append;
use super::fill::BatchSizeLike;
use super::sizes::Sizes;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::var::{Meta, VarDesc};

/// Options of [`uniform_random`]; defaults as in `fluid.layers.uniform_random`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct UniformRandom {
    pub dtype: DType,
    pub min: f32,
    pub max: f32,
    pub seed: i32,
}

impl Default for UniformRandom {
    fn default() -> Self {
        Self { dtype: DType::F32, min: -1.0, max: 1.0, seed: 0 }
    }
}

impl UniformRandom {
    fn on(self, op: OpDesc) -> OpDesc {
        op.attr("min", self.min).attr("max", self.max).attr("seed", self.seed)
    }
}

/// Numbers in [min, max).
pub fn uniform_random(
    b: &mut Builder<'_>,
    shape: impl Into<Sizes>,
    options: UniformRandom,
) -> Result<Var> {
    let shape = shape.into();
    let layer = b.layer_name("uniform_random", None);
    let op = OpDesc::new("uniform_random").attr("shape", shape.known());
    let op = options.on(op.attr("dtype", options.dtype.code()));
    let op = shape.on(b, &layer, op, ("ShapeTensor", "ShapeTensorList"))?;
    append(b, ("uniform_random", Some(&layer)), options.dtype, op)
}

/// The same in a shape one size of which is another variable's.
pub fn uniform_random_batch_size_like(
    b: &mut Builder<'_>,
    like: BatchSizeLike<'_>,
    options: UniformRandom,
) -> Result<Var> {
    let kind = "uniform_random_batch_size_like";
    append(b, (kind, None), options.dtype, options.on(like.op(kind, options.dtype)))
}

/// Options of [`gaussian_random`]; defaults as in `fluid.layers.gaussian_random`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct GaussianRandom {
    pub mean: f32,
    pub std: f32,
    pub seed: i32,
    pub dtype: DType,
}

impl Default for GaussianRandom {
    fn default() -> Self {
        Self { mean: 0.0, std: 1.0, seed: 0, dtype: DType::F32 }
    }
}

impl GaussianRandom {
    fn on(self, op: OpDesc) -> OpDesc {
        op.attr("mean", self.mean).attr("std", self.std).attr("seed", self.seed)
    }
}

/// Normal numbers.
pub fn gaussian_random(
    b: &mut Builder<'_>,
    shape: impl Into<Sizes>,
    options: GaussianRandom,
) -> Result<Var> {
    let shape = shape.into();
    let layer = b.layer_name("gaussian_random", None);
    let op = OpDesc::new("gaussian_random").attr("shape", shape.known());
    let op = options.on(op.attr("dtype", options.dtype.code()));
    let op = shape.on(b, &layer, op, ("ShapeTensor", "ShapeTensorList"))?;
    append(b, ("gaussian_random", Some(&layer)), options.dtype, op)
}

/// The same in a shape one size of which is another variable's.
pub fn gaussian_random_batch_size_like(
    b: &mut Builder<'_>,
    like: BatchSizeLike<'_>,
    options: GaussianRandom,
) -> Result<Var> {
    let kind = "gaussian_random_batch_size_like";
    append(b, (kind, None), options.dtype, options.on(like.op(kind, options.dtype)))
}

/// Options of [`randint`]; defaults as in `fluid.layers.randint`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Randint<'a> {
    pub dtype: DType,
    pub seed: i32,
    pub name: Option<&'a str>,
}

impl Default for Randint<'_> {
    fn default() -> Self {
        Self { dtype: DType::I64, seed: 0, name: None }
    }
}

/// Integers in [low, high).
pub fn randint(
    b: &mut Builder<'_>,
    (low, high): (i32, i32),
    shape: &[i64],
    options: Randint<'_>,
) -> Result<Var> {
    let op = OpDesc::new("randint")
        .attr("shape", shape.to_vec())
        .attr("low", low)
        .attr("high", high)
        .attr("dtype", options.dtype.code())
        .attr("seed", options.seed);
    append(b, ("randint", options.name), options.dtype, op)
}

/// The rows of `x` in another order each time (`fluid.contrib.layers.shuffle_batch`).
pub fn shuffle_batch(b: &mut Builder<'_>, x: &Var, startup_seed: i32) -> Result<Var> {
    let layer = b.layer_name("shuffle_batch", None);
    let (out, order) = (b.temp(&layer, b.meta(x)?.dtype), b.temp(&layer, DType::I64));
    let seed = b.names.generate("shuffle_batch_seed");
    let desc = VarDesc::new(&seed, Meta::dense(DType::I64, &[1])).persistable();
    b.main.block_mut(0).create_var(desc)?;
    b.op(OpDesc::new("shuffle_batch")
        .input("X", x)
        .input("Seed", &seed)
        .output("Out", &out)
        .output("ShuffleIdx", &order)
        .output("SeedOut", &seed)
        .attr("startup_seed", startup_seed))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[6], Data::default()).unwrap();
        let is = |b: &Builder<'_>, var: Var, name: &str, dims: &[i64]| {
            assert_eq!((var.name(), &*b.meta(&var).unwrap().dims), (name, dims));
        };
        let y = uniform_random(&mut b, &[2, 3], UniformRandom::default()).unwrap();
        is(&b, y, "uniform_random_0.tmp_0", &[2, 3]);
        let y = gaussian_random(&mut b, &[2, 3], GaussianRandom::default()).unwrap();
        is(&b, y, "gaussian_random_0.tmp_0", &[2, 3]);
        let like =
            BatchSizeLike { input: &x, shape: &[-1, 2], input_dim_idx: 0, output_dim_idx: 0 };
        let y = uniform_random_batch_size_like(&mut b, like, UniformRandom::default()).unwrap();
        is(&b, y, "uniform_random_batch_size_like_0.tmp_0", &[-1, 2]);
        let y = gaussian_random_batch_size_like(&mut b, like, GaussianRandom::default()).unwrap();
        is(&b, y, "gaussian_random_batch_size_like_0.tmp_0", &[-1, 2]);
        let y = randint(&mut b, (0, 10), &[6], Randint::default()).unwrap();
        is(&b, y, "randint_0.tmp_0", &[6]);
        let y = shuffle_batch(&mut b, &x, 5).unwrap();
        is(&b, y, "shuffle_batch_0.tmp_0", &[-1, 6]);
    }
}
