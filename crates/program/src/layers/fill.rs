//! Variables of known numbers: `fill_constant`, `zeros`, `assign`, `range`, `shape` and the like.

use tensor::{DType, Tensor};

use super::append::{append, append_stopped};
use super::sizes::Sizes;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::param::Initializer;
use crate::var::{Meta, VarDesc};

/// A value with its text, which holds it in full.
pub(super) fn with_value(op: OpDesc, dtype: DType, value: f64) -> OpDesc {
    let text = if dtype.is_float() || dtype == DType::F16 {
        format!("{value:?}")
    } else {
        (value as i64).to_string()
    };
    op.attr("value", value as f32).attr("str_value", text)
}

/// Options of [`fill_constant`]; defaults as in `fluid.layers.fill_constant`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct FillConstant<'a> {
    pub force_cpu: bool,
    /// A variable that holds the value when the program runs.
    pub value_in: Option<&'a Var>,
    /// Write here instead of into a variable of its own.
    pub out: Option<&'a Var>,
}

/// What Fluid's layer fills tensors of.
const FILLED: &[DType] = &[DType::Bool, DType::F16, DType::F32, DType::F64, DType::I32, DType::I64];

/// One value in a shape.
pub fn fill_constant(
    b: &mut Builder<'_>,
    shape: impl Into<Sizes>,
    dtype: DType,
    value: f64,
    options: FillConstant<'_>,
) -> Result<Var> {
    if !FILLED.contains(&dtype) {
        let (op, var) = ("fill_constant".to_string(), "dtype".to_string());
        return Err(Error::LayerDType { op, var, allowed: FILLED, actual: dtype });
    }
    let shape = shape.into();
    let layer = b.layer_name("fill_constant", None);
    let op = OpDesc::new("fill_constant")
        .attr("shape", shape.known())
        .attr("dtype", dtype.code())
        .attr("force_cpu", options.force_cpu);
    let op = match options.value_in {
        Some(var) => op.input("ValueTensor", var).attr("value", 0.0f32).attr("str_value", ""),
        None => with_value(op, dtype, value),
    };
    let op = shape.on(b, &layer, op, ("ShapeTensor", "ShapeTensorList"))?;
    let Some(out) = options.out else {
        return append_stopped(b, ("fill_constant", Some(&layer)), dtype, op);
    };
    b.op(op.output("Out", out))?;
    stop_gradient(b, out);
    Ok(out.clone())
}

fn stop_gradient(b: &mut Builder<'_>, var: &Var) {
    let block = b.main.owner_of(b.main.current_block(), var.name());
    if let Some(desc) = block.and_then(|block| b.main.block_mut(block).var_mut(var.name())) {
        desc.stop_gradient = true;
    }
}

/// Zeros in a shape.
pub fn zeros(
    b: &mut Builder<'_>,
    shape: impl Into<Sizes>,
    dtype: DType,
    force_cpu: bool,
) -> Result<Var> {
    fill_constant(b, shape, dtype, 0.0, FillConstant { force_cpu, ..FillConstant::default() })
}

/// Ones in a shape.
pub fn ones(
    b: &mut Builder<'_>,
    shape: impl Into<Sizes>,
    dtype: DType,
    force_cpu: bool,
) -> Result<Var> {
    fill_constant(b, shape, dtype, 1.0, FillConstant { force_cpu, ..FillConstant::default() })
}

/// A shape with one size taken from another variable.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct BatchSizeLike<'a> {
    pub input: &'a Var,
    pub shape: &'a [i32],
    /// Fluid's default is 0.
    pub input_dim_idx: i32,
    /// Fluid's default is 0.
    pub output_dim_idx: i32,
}

impl BatchSizeLike<'_> {
    /// An op of this kind in this shape.
    pub(super) fn op(&self, kind: &str, dtype: DType) -> OpDesc {
        OpDesc::new(kind)
            .input("Input", self.input)
            .attr("shape", self.shape.to_vec())
            .attr("dtype", dtype.code())
            .attr("input_dim_idx", self.input_dim_idx)
            .attr("output_dim_idx", self.output_dim_idx)
    }
}

/// One value in a shape, one size of which is another variable's.
pub fn fill_constant_batch_size_like(
    b: &mut Builder<'_>,
    like: BatchSizeLike<'_>,
    dtype: DType,
    value: f64,
    force_cpu: bool,
) -> Result<Var> {
    let kind = "fill_constant_batch_size_like";
    let op = with_value(like.op(kind, dtype), dtype, value).attr("force_cpu", force_cpu);
    append_stopped(b, (kind, None), dtype, op)
}

/// Zeros like another variable.
pub fn zeros_like(b: &mut Builder<'_>, x: &Var, out: Option<&Var>) -> Result<Var> {
    let op = OpDesc::new("fill_zeros_like").input("X", x);
    like(b, ("zeros_like", true), x, (op, out))
}

/// Ones like another variable.
pub fn ones_like(b: &mut Builder<'_>, x: &Var, out: Option<&Var>) -> Result<Var> {
    let op = OpDesc::new("fill_any_like").input("X", x).attr("value", 1.0f32).attr("dtype", -1);
    like(b, ("ones_like", false), x, (op, out))
}

fn like(
    b: &mut Builder<'_>,
    (kind, stopped): (&str, bool),
    x: &Var,
    (op, out): (OpDesc, Option<&Var>),
) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    match out {
        None if stopped => append_stopped(b, (kind, None), dtype, op),
        None => append(b, (kind, None), dtype, op),
        Some(out) => {
            b.layer_name(kind, None);
            b.op(op.output("Out", out))?;
            Ok(out.clone())
        }
    }
}

/// A copy of a variable, in a variable of its own or in `output`.
pub fn assign(b: &mut Builder<'_>, input: &Var, output: Option<&Var>) -> Result<Var> {
    like(b, ("assign", false), input, (OpDesc::new("assign").input("X", input), output))
}

/// A variable with the numbers of a tensor, which the program then carries.
pub fn assign_value(b: &mut Builder<'_>, value: &Tensor, output: Option<&Var>) -> Result<Var> {
    let layer = b.layer_name("assign", None);
    let out = match output {
        Some(out) => out.clone(),
        None => b.temp(&layer, value.dtype()),
    };
    let desc = VarDesc::new(out.name(), Meta::dense(value.dtype(), &value.shape().to_i64()));
    b.op(super::init::op(&Initializer::Array(value.clone()), &desc, 0)?)?;
    Ok(out)
}

/// start, start + step, … before end.
pub fn range(
    b: &mut Builder<'_>,
    (start, end, step): (&Var, &Var, &Var),
    dtype: DType,
) -> Result<Var> {
    let op = OpDesc::new("range").input("Start", start).input("End", end).input("Step", step);
    append_stopped(b, ("range", None), dtype, op)
}

/// The sizes of a variable, int32.
pub fn shape(b: &mut Builder<'_>, input: &Var) -> Result<Var> {
    append(b, ("shape", None), DType::I32, OpDesc::new("shape").input("Input", input))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn constants_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let c = fill_constant(&mut b, &[2, 3], DType::F32, 3.0, FillConstant::default()).unwrap();
        assert_eq!(c.name(), "fill_constant_0.tmp_0");
        assert!(b.desc(&c).unwrap().stop_gradient);
        let z = zeros(&mut b, &[2], DType::I64, false).unwrap();
        assert_eq!(z.name(), "fill_constant_1.tmp_0");
        let into = FillConstant { out: Some(&z), ..FillConstant::default() };
        assert_eq!(fill_constant(&mut b, &[2], DType::I64, 7.0, into).unwrap(), z);
        let ops = &b.main.block(0).ops;
        let text = |at: usize| ops[at].attrs.str("str_value", "").unwrap();
        assert_eq!((text(0), text(1), text(2)), ("3.0", "0", "7"));
    }

    #[test]
    fn likenesses_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[6], Data::default()).unwrap();
        let is = |b: &Builder<'_>, var: &Var, name: &str, dims: &[i64]| {
            assert_eq!((var.name(), &*b.meta(var).unwrap().dims), (name, dims));
        };
        let y = zeros_like(&mut b, &x, None).unwrap();
        assert!(b.desc(&y).unwrap().stop_gradient);
        is(&b, &y, "zeros_like_0.tmp_0", &[-1, 6]);
        let y = ones_like(&mut b, &x, None).unwrap();
        is(&b, &y, "ones_like_0.tmp_0", &[-1, 6]);
        let like = BatchSizeLike { input: &x, shape: &[1, 3], input_dim_idx: 0, output_dim_idx: 0 };
        let y = fill_constant_batch_size_like(&mut b, like, DType::I64, 7.0, false).unwrap();
        is(&b, &y, "fill_constant_batch_size_like_0.tmp_0", &[-1, 3]);
        let y = assign(&mut b, &x, None).unwrap();
        is(&b, &y, "assign_0.tmp_0", &[-1, 6]);
        let y = shape(&mut b, &x).unwrap();
        is(&b, &y, "shape_0.tmp_0", &[2]);
        let y = range(&mut b, (&x, &x, &x), DType::F32).unwrap();
        is(&b, &y, "range_0.tmp_0", &[-1]);
    }

    #[test]
    fn a_program_carries_integers_as_integers() {
        let mut net = Net::default();
        let mut b = net.builder();
        let value = Tensor::new([2], &[1i64 << 40, -3]).unwrap();
        let y = assign_value(&mut b, &value, None).unwrap();
        assert_eq!(b.meta(&y).unwrap(), Meta::dense(DType::I64, &[2]));
        let op = &b.main.block(0).ops[0];
        assert_eq!(op.attrs.ints("int64_values").unwrap(), [1 << 40, -3]);
    }
}
