//! Random numbers: `uniform_random`, `gaussian_random`, `randint`, `shuffle_batch`.

use tensor::DType;

use super::append::one_op;
use super::fill::BatchSizeLike;
use super::sizes::SizePorts;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::var::{Meta, VarDesc};

layers! { randoms;
    /// Numbers in [min, max).
    fn uniform_random(shape: Dims; UniformRandom {
        dtype: MaybeDtype = [None, "'float32'"], min: f32 = (-1.0), max: f32 = 1.0, seed: i32 = 0,
    }) -> Var { |b, kind|
        let (shape, dtype) = (shape.into(), drawn(kind, dtype)?);
        let op = one_op(b, kind, None).attr("shape", shape.known()).attr("dtype", dtype.code());
        let op = op.attr("min", min).attr("max", max).attr("seed", seed);
        let ports = SizePorts { whole: "ShapeTensor", list: "ShapeTensorList" };
        op.with(|b, layer, op| shape.on(b, layer, op, ports))?.out_of("Out", dtype)
    }

    /// Numbers in [min, max) in a shape one size of which is another variable's.
    fn uniform_random_batch_size_like(input: Input, shape: Ints; UniformRandomBatchSizeLike {
        dtype: MaybeDtype = [None, "'float32'"], input_dim_idx: i32 = 0, output_dim_idx: i32 = 0,
        min: f32 = (-1.0), max: f32 = 1.0, seed: i32 = 0,
    }) -> Var { |b, kind|
        let dtype = drawn(kind, dtype)?;
        let like = BatchSizeLike { input, shape, input_dim_idx, output_dim_idx };
        let op = one_op(b, kind, None).with(|_, _, op| Ok(like.on(op, dtype)))?;
        op.attr("min", min).attr("max", max).attr("seed", seed).out_of("Out", dtype)
    }

    /// Normal numbers.
    fn gaussian_random(shape: Dims; GaussianRandom {
        mean: f32 = 0.0, std: f32 = 1.0, seed: i32 = 0, dtype: MaybeDtype = [None, "'float32'"],
    }) -> Var { |b, kind|
        let (shape, dtype) = (shape.into(), drawn(kind, dtype)?);
        let op = one_op(b, kind, None).attr("shape", shape.known()).attr("dtype", dtype.code());
        let op = op.attr("mean", mean).attr("std", std).attr("seed", seed);
        let ports = SizePorts { whole: "ShapeTensor", list: "ShapeTensorList" };
        op.with(|b, layer, op| shape.on(b, layer, op, ports))?.out_of("Out", dtype)
    }

    /// Normal numbers in a shape one size of which is another variable's.
    fn gaussian_random_batch_size_like(input: Input, shape: Ints; GaussianRandomBatchSizeLike {
        input_dim_idx: i32 = 0, output_dim_idx: i32 = 0, mean: f32 = 0.0, std: f32 = 1.0,
        seed: i32 = 0, dtype: MaybeDtype = [None, "'float32'"],
    }) -> Var { |b, kind|
        let dtype = drawn(kind, dtype)?;
        let like = BatchSizeLike { input, shape, input_dim_idx, output_dim_idx };
        let op = one_op(b, kind, None).with(|_, _, op| Ok(like.on(op, dtype)))?;
        op.attr("mean", mean).attr("std", std).attr("seed", seed).out_of("Out", dtype)
    }

    /// The rows in a random order, another one each time.
    fn shuffle_batch(x: Input; seed: MaybeI32 = None) -> Var { |b, kind|
        let layer = b.layer_name(kind, None);
        let (out, order) = (b.temp(&layer, b.meta(x)?.dtype), b.temp(&layer, DType::I64));
        let state = b.names.generate("shuffle_batch_seed");
        let desc = VarDesc::new(&state, Meta::dense(DType::I64, &[1])).persistable();
        b.main.block_mut(0).create_var(desc)?;
        b.op(OpDesc::new(kind)
            .input("X", x)
            .input("Seed", &state)
            .output("Out", &out)
            .output("ShuffleIdx", &order)
            .output("SeedOut", &state)
            .attr("startup_seed", seed.unwrap_or(0)))?;
        Ok(out)
    }
}

/// What random layers draw.
fn drawn(layer: &str, dtype: Option<DType>) -> Result<DType> {
    let (allowed, actual) = (&[DType::F32, DType::F64], dtype.unwrap_or(DType::F32));
    if allowed.contains(&actual) {
        return Ok(actual);
    }
    Err(Error::LayerDType { op: layer.to_string(), var: "dtype".to_string(), allowed, actual })
}

/// Options of [`randint`]; defaults as in `fluid.layers.randint`.
#[derive(Clone, Copy, Debug)]
pub struct Randint<'a> {
    /// Element type.
    pub dtype: DType,
    /// Where the random stream starts; 0 takes that of the program.
    pub seed: i32,
    /// Start of the names of its variables; a new one is made if `None`.
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
    low: i32,
    high: i32,
    shape: &[i64],
    options: Randint<'_>,
) -> Result<Var> {
    let op = OpDesc::new("randint")
        .attr("shape", shape.to_vec())
        .attr("low", low)
        .attr("high", high)
        .attr("dtype", options.dtype.code())
        .attr("seed", options.seed);
    one_op(b, "randint", options.name).with(|_, _, _| Ok(op))?.out_of("Out", options.dtype)
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
        let usual = UniformRandomBatchSizeLike::default();
        let y = uniform_random_batch_size_like(&mut b, &x, &[-1, 2], usual).unwrap();
        is(&b, y, "uniform_random_batch_size_like_0.tmp_0", &[-1, 2]);
        let usual = GaussianRandomBatchSizeLike::default();
        let y = gaussian_random_batch_size_like(&mut b, &x, &[-1, 2], usual).unwrap();
        is(&b, y, "gaussian_random_batch_size_like_0.tmp_0", &[-1, 2]);
        let y = randint(&mut b, 0, 10, &[6], Randint::default()).unwrap();
        is(&b, y, "randint_0.tmp_0", &[6]);
        let y = shuffle_batch(&mut b, &x, Some(5)).unwrap();
        is(&b, y, "shuffle_batch_0.tmp_0", &[-1, 6]);
    }
}
