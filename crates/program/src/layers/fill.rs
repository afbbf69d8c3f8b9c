//! Variables of known numbers: `fill_constant`, `zeros`, `range`, `eye`, `assign`, `shape` and the like.

use tensor::{DType, Tensor};

use super::append::one_op;
use super::sizes::{Amount, SizePorts};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::param::Initializer;
use crate::var::{Meta, VarDesc};

layers! { fills;
    /// One value in a shape.
    fn fill_constant(shape: Dims, dtype: Dtype, value: Value; FillConstant<'a> {
        force_cpu: bool = false, out: MaybeInput = None,
    }) -> Var { |b|
        if !FILLED.contains(&dtype) {
            let (op, var) = ("fill_constant".to_string(), "dtype".to_string());
            return Err(Error::LayerDType { op, var, allowed: FILLED, actual: dtype });
        }
        let shape = shape.into();
        let op = one_op(b, "fill_constant", None).attr("shape", shape.known());
        let op = op.attr("dtype", dtype.code()).attr("force_cpu", force_cpu);
        let op = op.with(|b, layer, op| {
            let op = match value.into() {
                Amount::In(var) => {
                    op.input("ValueTensor", &var).attr("value", 0.0f32).attr("str_value", "")
                }
                Amount::Is(value) => with_value(op, dtype, value),
            };
            shape.on(b, layer, op, SizePorts { whole: "ShapeTensor", list: "ShapeTensorList" })
        })?;
        let Some(out) = out else { return op.out_stopped("Out", dtype) };
        op.out_into("Out", Some(out))?;
        stop_gradient(b, out);
        Ok(out.clone())
    }

    /// Zeros in a shape.
    fn zeros(shape: Dims, dtype: Dtype; force_cpu: bool = false) -> Var { |b|
        fill_constant(b, shape, dtype, 0.0, FillConstant { force_cpu, out: None })
    }

    /// Ones in a shape.
    fn ones(shape: Dims, dtype: Dtype; force_cpu: bool = false) -> Var { |b|
        fill_constant(b, shape, dtype, 1.0, FillConstant { force_cpu, out: None })
    }

    /// One value in a shape, one size of which is another variable's.
    fn fill_constant_batch_size_like(input: Input, shape: Ints, dtype: Dtype, value: Number;
    FillBatchSizeLike {
        input_dim_idx: i32 = 0, output_dim_idx: i32 = 0, force_cpu: bool = false,
    }) -> Var { |b, kind|
        let like = BatchSizeLike { input, shape, input_dim_idx, output_dim_idx };
        let op = one_op(b, kind, None).with(|_, _, op| {
            Ok(with_value(like.on(op, dtype), dtype, value).attr("force_cpu", force_cpu))
        })?;
        op.out_stopped("Out", dtype)
    }

    /// Zeros like another variable.
    fn zeros_like(x: Input; out: MaybeInput = None) -> Var { |b|
        let dtype = b.meta(x)?.dtype;
        let op = one_op(b, "zeros_like", None).of("fill_zeros_like").input("X", x);
        if out.is_some() { op.out_into("Out", out) } else { op.out_stopped("Out", dtype) }
    }

    /// Ones like another variable.
    fn ones_like(x: Input; out: MaybeInput = None) -> Var { |b|
        let op = one_op(b, "ones_like", None).of("fill_any_like").input("X", x);
        op.attr("value", 1.0f32).attr("dtype", -1).out_into("Out", out)
    }

    /// start, start + step, … before end.
    fn range(start: Value, end: Value, step: Value, dtype: Dtype) -> Var { |b|
        let (start, end) = (held(b, dtype, start)?, held(b, dtype, end)?);
        let step = held(b, dtype, step)?;
        let op = one_op(b, "range", None).input("Start", &start).input("End", &end);
        op.input("Step", &step).out_stopped("Out", dtype)
    }

    /// start, start + step, … before end; float32 unless said.
    fn arange(start: Value, end: Value; Arange<'a> {
        step: Number = [1.0, "1"], dtype: MaybeDtype = None, name: Name = None,
    }) -> Var { |b|
        let _ = name; // Fluid gives it to nothing.
        range(b, start, end, step, dtype.unwrap_or(DType::F32))
    }

    /// One value in a shape, float32 unless said.
    fn full(shape: Dims, fill_value: Value; Full<'a> {
        out: MaybeInput = None, dtype: MaybeDtype = None, device: Name = None,
        stop_gradient: Flag = true, name: Name = None,
    }) -> Var { |b, kind|
        let _ = stop_gradient; // Fluid's fill_constant stops gradients, whatever is said here.
        super::random::check_device(kind, device)?;
        let dtype = dtype.unwrap_or(DType::F32);
        let made = match out {
            Some(out) => out.clone(),
            None => {
                let layer = b.layer_name(kind, name);
                b.temp(&layer, dtype)
            }
        };
        fill_constant(b, shape, dtype, fill_value, FillConstant { out: Some(&made), ..FillConstant::default() })
    }

    /// One value in the shape of another variable, of its type unless said.
    fn full_like(input: Input, fill_value: Number; FullLike<'a> {
        out: MaybeInput = None, dtype: MaybeDtype = None, device: Name = None,
        stop_gradient: Flag = true, name: Name = None,
    }) -> Var { |b, kind|
        super::random::check_device(kind, device)?;
        let dtype = dtype.unwrap_or(b.meta(input)?.dtype);
        let op = one_op(b, kind, name).of("fill_any_like").input("X", input);
        let op = op.attr("value", fill_value as f32).attr("dtype", dtype.code());
        let out = op.out_of_into("Out", dtype, out)?;
        set_stop_gradient(b, &out, stop_gradient);
        Ok(out)
    }

    /// How many numbers a variable has, int64.
    fn size(input: Input) -> Var { |b|
        one_op(b, "size", None).input("Input", input).out_of("Out", DType::I64)
    }

    /// How many dimensions a variable has, int32, shape [1]; Fluid's has no dimension, which tensors here must have.
    fn rank(input: Input) -> Var { |b|
        let rank = b.meta(input)?.dims.len() as i32;
        assign_value(b, &Tensor::new([1], &[rank])?, None)
    }

    /// `num` numbers at equal distances, from `start` to `stop`.
    fn linspace(start: Value, stop: Value, num: Value, dtype: Dtype) -> Var { |b|
        let (start, stop) = (held(b, dtype, start)?, held(b, dtype, stop)?);
        let num = held(b, DType::I32, num)?;
        let op = one_op(b, "linspace", None).input("Start", &start).input("Stop", &stop);
        op.input("Num", &num).out_of("Out", dtype)
    }

    /// Ones on the diagonal of a matrix of zeros; a `batch_shape` of such matrices.
    fn eye(num_rows: i64; Eye<'a> {
        num_columns: MaybeI64 = None, batch_shape: MaybeKnown = None,
        dtype: MaybeDtype = [None, "'float32'"],
    }) -> Var { |b|
        let dtype = dtype.unwrap_or(DType::F32);
        let op = one_op(b, "eye", None).attr("num_rows", num_rows).attr("dtype", dtype.code());
        let op = op.attr("num_columns", num_columns.unwrap_or(num_rows));
        let mut out = op.out_stopped("Out", dtype)?;
        for &size in batch_shape.unwrap_or(&[]).iter().rev() {
            let copies = vec![out; usize::try_from(size).unwrap_or(0)];
            out = super::stack(b, &copies, 0)?;
        }
        Ok(out)
    }

    /// The sizes of the input, int32.
    fn shape(input: Input) -> Var { |b|
        one_op(b, "shape", None).input("Input", input).out_of("Out", DType::I32)
    }
}

/// What Fluid's layer fills tensors of.
const FILLED: &[DType] = &[DType::Bool, DType::F16, DType::F32, DType::F64, DType::I32, DType::I64];

/// A value with its text, which holds it in full.
pub(super) fn with_value(op: OpDesc, dtype: DType, value: f64) -> OpDesc {
    let text = if dtype.is_float() || dtype == DType::F16 {
        format!("{value:?}")
    } else {
        (value as i64).to_string()
    };
    op.attr("value", value as f32).attr("str_value", text)
}

/// Lets no gradient pass a variable, whichever block it is of.
pub(super) fn stop_gradient(b: &mut Builder<'_>, var: &Var) {
    set_stop_gradient(b, var, true);
}

/// Says whether gradients pass a variable, whichever block it is of.
pub(super) fn set_stop_gradient(b: &mut Builder<'_>, var: &Var, stop: bool) {
    let block = b.main.owner_of(b.main.current_block(), var.name());
    if let Some(desc) = block.and_then(|block| b.main.block_mut(block).var_mut(var.name())) {
        desc.stop_gradient = stop;
    }
}

/// A shape with one size taken from another variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSizeLike<'a> {
    pub(super) input: &'a Var,
    pub(super) shape: &'a [i32],
    pub(super) input_dim_idx: i32,
    pub(super) output_dim_idx: i32,
}

impl BatchSizeLike<'_> {
    /// An op in this shape.
    pub(super) fn on(&self, op: OpDesc, dtype: DType) -> OpDesc {
        op.input("Input", self.input)
            .attr("shape", self.shape.to_vec())
            .attr("dtype", dtype.code())
            .attr("input_dim_idx", self.input_dim_idx)
            .attr("output_dim_idx", self.output_dim_idx)
    }
}

/// A copy of a variable, in a variable of its own or in `output`.
pub fn assign(b: &mut Builder<'_>, input: &Var, output: Option<&Var>) -> Result<Var> {
    one_op(b, "assign", None).input("X", input).out_into("Out", output)
}

/// A variable with the numbers of a tensor, which the program then carries.
pub fn assign_value(b: &mut Builder<'_>, value: &Tensor, output: Option<&Var>) -> Result<Var> {
    let layer = b.layer_name("assign", None);
    let out = match output {
        Some(out) => out.clone(),
        None => b.temp(&layer, value.dtype()),
    };
    let desc = VarDesc::new(out.name(), Meta::dense(value.dtype(), &value.shape().to_i64()));
    b.op(crate::init::op(&Initializer::Array(value.clone()), &desc, 0)?)?;
    Ok(out)
}

/// A variable that holds a number.
fn held(b: &mut Builder<'_>, dtype: DType, value: impl Into<Amount<f64>>) -> Result<Var> {
    match value.into() {
        Amount::In(var) => Ok(var),
        Amount::Is(value) => fill_constant(b, &[1], dtype, value, FillConstant::default()),
    }
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
        let usual = FillBatchSizeLike::default();
        let y = fill_constant_batch_size_like(&mut b, &x, &[1, 3], DType::I64, 7.0, usual).unwrap();
        is(&b, &y, "fill_constant_batch_size_like_0.tmp_0", &[-1, 3]);
        let y = assign(&mut b, &x, None).unwrap();
        is(&b, &y, "assign_0.tmp_0", &[-1, 6]);
        let y = shape(&mut b, &x).unwrap();
        is(&b, &y, "shape_0.tmp_0", &[2]);
        let y = range(&mut b, &x, &x, &x, DType::F32).unwrap();
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

    #[test]
    fn rows_of_numbers_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let y = linspace(&mut b, 0.0, 10.0, 5.0, DType::F32).unwrap();
        assert_eq!((y.name(), b.meta(&y).unwrap().dims), ("linspace_0.tmp_0", vec![-1]));
        let y = eye(&mut b, 3, Eye::default()).unwrap();
        assert_eq!((y.name(), b.meta(&y).unwrap().dims), ("eye_0.tmp_0", vec![3, 3]));
        let stacked = Eye { num_columns: Some(4), batch_shape: Some(&[2]), ..Eye::default() };
        let y = eye(&mut b, 3, stacked).unwrap();
        assert_eq!((y.name(), b.meta(&y).unwrap().dims), ("stack_0.tmp_0", vec![2, 3, 4]));
        let kinds: Vec<&str> = b.main.block(0).ops.iter().map(|op| &*op.kind).collect();
        let constants = ["fill_constant"; 3];
        assert_eq!(kinds, [&constants[..], &["linspace", "eye", "eye", "stack"]].concat());
    }
}
