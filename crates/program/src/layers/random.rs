//! Random numbers: `uniform_random`, `gaussian_random`, `randint`, `shuffle_batch`.

use tensor::DType;

use super::append::one_op;
use super::fill::{BatchSizeLike, set_stop_gradient};
use super::sizes::{Amount, Size, SizePorts, Sizes};
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

    /// Integers in [low, high), or in [0, low) where `high` is None.
    fn randint(low: i32; Randint<'a> {
        high: MaybeI32 = None, shape: MaybeDims = None, out: MaybeInput = None,
        dtype: MaybeDtype = None, device: Name = None, stop_gradient: Flag = false, seed: i32 = 0,
        name: Name = None,
    }) -> Var { |b, kind|
        check_device(kind, device)?;
        let dtype = whole(kind, dtype)?;
        let (low, high) = high.map_or((0, low), |high| (low, high));
        if low >= high {
            let (argument, rule) = ("high", "must be above low");
            let actual = format!("{low} and {high}");
            return Err(Error::BadArgument { layer: "randint", argument, rule, actual });
        }
        let shape = shape.unwrap_or_else(|| Sizes::from(&[1]));
        check_sizes("randint", &shape)?;
        let op = one_op(b, kind, name).attr("shape", shape.known()).attr("low", low);
        let op = op.attr("high", high).attr("dtype", dtype.code()).attr("seed", seed);
        let ports = SizePorts { whole: "ShapeTensor", list: "ShapeTensorList" };
        let op = op.with(|b, layer, op| shape.on(b, layer, op, ports))?;
        let out = named_or(op, out, dtype, name)?;
        set_stop_gradient(b, &out, stop_gradient);
        Ok(out)
    }

    /// Normal numbers of mean 0 and deviation 1.
    fn randn(shape: Known; Randn<'a> {
        out: MaybeInput = None, dtype: MaybeDtype = None, device: Name = None,
        stop_gradient: Flag = true, name: Name = None,
    }) -> Var { |b, kind|
        check_device(kind, device)?;
        let dtype = drawn(kind, dtype)?;
        check_sizes("randn", &Sizes::from(shape))?;
        let op = one_op(b, kind, name).of("gaussian_random").attr("shape", shape.to_vec());
        let op = op.attr("mean", 0.0f32).attr("std", 1.0f32).attr("seed", 0);
        let out = op.attr("dtype", dtype.code()).out_of_into("Out", dtype, out)?;
        set_stop_gradient(b, &out, stop_gradient);
        Ok(out)
    }

    /// 0, 1, … n - 1 in a random order.
    fn randperm(n: i32; Randperm<'a> {
        out: MaybeInput = None, dtype: MaybeDtype = [None, "'int64'"], device: Name = None,
        stop_gradient: Flag = true, seed: i32 = 0,
    }) -> Var { |b, kind|
        if n < 1 {
            let (argument, rule) = ("n", "must be positive");
            return Err(Error::BadArgument { layer: "randperm", argument, rule, actual: n.to_string() });
        }
        check_device(kind, device)?;
        let dtype = whole(kind, dtype)?;
        let op = one_op(b, kind, None).attr("n", n).attr("dtype", dtype.code());
        let out = op.attr("seed", seed).out_of_into("Out", dtype, out)?;
        if stop_gradient {
            set_stop_gradient(b, &out, true);
        }
        Ok(out)
    }

    /// Of each instance a part of this shape, at a random place of its own. `seed` is a number, or a Variable
    /// that holds it and gets the next one.
    fn random_crop(x: Input, shape: Ints; seed: MaybeSeed = None) -> Var { |b, kind|
        let layer = b.layer_name(kind, None);
        let out = b.temp(&layer, b.meta(x)?.dtype);
        let op = OpDesc::new(kind).input("X", x).output("Out", &out).attr("shape", shape.to_vec());
        let (state, op) = match seed {
            Some(Amount::In(var)) => (var, op),
            Some(Amount::Is(seed)) => {
                let seed = seed as i32;
                (seed_var(b, "random_crop_seed")?, op.attr("startup_seed", seed))
            }
            None => {
                let state = seed_var(b, "random_crop_seed")?;
                let seed = tensor::mix(state.name().bytes().map(u64::from).sum()) % 65536;
                (state, op.attr("startup_seed", seed as i32))
            }
        };
        b.op(op.input("Seed", &state).output("SeedOut", &state))?;
        Ok(out)
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

/// A variable that holds the state of a random op from run to run.
fn seed_var(b: &mut Builder<'_>, key: &str) -> Result<Var> {
    let state = b.names.generate(key);
    let desc = VarDesc::new(&state, Meta::dense(DType::I64, &[1])).persistable();
    b.main.block_mut(0).create_var(desc)?;
    Ok(Var::from(state))
}

/// Appends an op that writes into `out`, else into a variable of this name, else into a new one.
fn named_or(
    op: super::append::OneOp<'_, '_>,
    out: Option<&Var>,
    dtype: DType,
    name: Option<&str>,
) -> Result<Var> {
    match (out, name) {
        (None, Some(name)) => op.out_of_named("Out", dtype, name),
        _ => op.out_of_into("Out", dtype, out),
    }
}

/// The device that an op may be bound to; programs run on processors, whatever it is, as Fluid's without cards.
pub(super) fn check_device(layer: &'static str, device: Option<&str>) -> Result<()> {
    match device {
        None | Some("cpu" | "gpu") => Ok(()),
        Some(other) => {
            let (argument, rule) = ("device", "must be None, 'cpu' or 'gpu'");
            Err(Error::BadArgument { layer, argument, rule, actual: other.to_string() })
        }
    }
}

/// Sizes that somebody wrote down must be positive, and there must be one.
fn check_sizes(layer: &'static str, shape: &Sizes) -> Result<()> {
    let Sizes::List(sizes) = shape else { return Ok(()) };
    let is_bad = |size: &Size| matches!(size, Size::Is(..=0));
    if !sizes.is_empty() && !sizes.iter().any(is_bad) {
        return Ok(());
    }
    let (argument, rule) =
        ("shape", "Each dimension size given in shape must be positive, and there must be one");
    Err(Error::BadSizes { layer, argument, rule, actual: shape.known() })
}

/// Types of whole numbers that random layers draw.
fn whole(layer: &str, dtype: Option<DType>) -> Result<DType> {
    let (allowed, actual) = (&[DType::I32, DType::I64], dtype.unwrap_or(DType::I64));
    if allowed.contains(&actual) {
        return Ok(actual);
    }
    Err(Error::LayerDType { op: layer.to_string(), var: "dtype".to_string(), allowed, actual })
}

/// What random layers draw.
fn drawn(layer: &str, dtype: Option<DType>) -> Result<DType> {
    let (allowed, actual) = (&[DType::F32, DType::F64], dtype.unwrap_or(DType::F32));
    if allowed.contains(&actual) {
        return Ok(actual);
    }
    Err(Error::LayerDType { op: layer.to_string(), var: "dtype".to_string(), allowed, actual })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_cannot_be_drawn() {
        let mut net = Net::default();
        let mut b = net.builder();
        let error =
            randint(&mut b, 5, Randint { high: Some(5), ..Randint::default() }).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "high", .. }), "{error}");
        let error = randn(&mut b, &[0], Randn::default()).unwrap_err();
        assert!(matches!(error, Error::BadSizes { .. }), "{error}");
        let error = randn(&mut b, &[1], Randn { device: Some("tpu"), ..Randn::default() });
        assert!(matches!(error, Err(Error::BadArgument { argument: "device", .. })));
        let error = randperm(&mut b, 0, Randperm::default()).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "n", .. }), "{error}");
    }
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
        let shape = || Some(super::Sizes::from(&[6]));
        let options = Randint { high: Some(10), shape: shape(), ..Randint::default() };
        let y = randint(&mut b, 0, options).unwrap();
        is(&b, y, "randint_0.tmp_0", &[6]);
        let options = Randint { name: Some("dice"), shape: shape(), ..Randint::default() };
        let y = randint(&mut b, 6, options).unwrap();
        is(&b, y, "dice", &[6]);
        let y = randn(&mut b, &[2, 3], Randn::default()).unwrap();
        assert!(b.desc(&y).unwrap().stop_gradient);
        is(&b, y, "randn_0.tmp_0", &[2, 3]);
        let y = randperm(&mut b, 4, Randperm::default()).unwrap();
        is(&b, y, "randperm_0.tmp_0", &[4]);
        let y = random_crop(&mut b, &x, &[2], None).unwrap();
        is(&b, y, "random_crop_0.tmp_0", &[-1, 2]);
        let y = shuffle_batch(&mut b, &x, Some(5)).unwrap();
        is(&b, y, "shuffle_batch_0.tmp_0", &[-1, 6]);
    }
}
