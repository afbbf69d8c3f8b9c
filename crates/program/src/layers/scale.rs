//! `scale` and other layers that change numbers but not their arrangement: `cast`, `clip`,
//! `clip_by_norm`, `increment`.

use tensor::DType;

use super::append::one_op;
use super::sizes::Amount;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

layers! { scales;
    /// `act(scale x + bias)`, or `act(scale (x + bias))`; `scale` is a number or a Variable.
    fn scale(x: Input; Scale<'a> {
        scale: Factor = [Amount::Is(1.0), "1.0"], bias: f32 = 0.0, bias_after_scale: Flag = true,
        act: Name = None, name: Name = None,
    }) -> Var { |b|
        let op = one_op(b, "scale", name).input("X", x);
        let op = match scale {
            Amount::Is(scale) => op.attr("scale", scale),
            Amount::In(var) => op.input("ScaleTensor", &var).attr("scale", 1.0f32),
        };
        let op = op.attr("bias", bias).attr("bias_after_scale", bias_after_scale);
        op.out_activated("Out", act)
    }

    /// `x` in another element type.
    fn cast(x: Input, dtype: Dtype) -> Var { |b|
        if !CAST_TO.contains(&dtype) {
            let (op, var) = ("cast".to_string(), "dtype".to_string());
            return Err(Error::LayerDType { op, var, allowed: CAST_TO, actual: dtype });
        }
        let from = b.meta(x)?.dtype;
        let op = one_op(b, "cast", None).with(|_, _, _| Ok(cast_op(x, from, dtype)))?;
        op.out_of("Out", dtype)
    }

    /// `x`, but not below `min` and not above `max`. A name is that of the result.
    fn clip(x: Floats, min: f32, max: f32; name: Name = None) -> Var { |b|
        append_named(b, x, OpDesc::new("clip").attr("min", min).attr("max", max), name)
    }

    /// `x`, shrunk to the L2 norm `max_norm` if it is longer. A name is that of the result.
    fn clip_by_norm(x: Floats, max_norm: f32; name: Name = None) -> Var { |b|
        append_named(b, x, OpDesc::new("clip_by_norm").attr("max_norm", max_norm), name)
    }

    /// `x + value` for a counter `x` of one element, by default in its own place.
    fn increment(x: Input; Increment { value: f32 = 1.0, in_place: Flag = true }) -> Var { |b|
        let op = one_op(b, "increment", None).input("X", x).attr("step", value);
        op.out_into("Out", in_place.then_some(x))
    }
}

/// What Fluid's layer turns numbers into.
const CAST_TO: &[DType] = &[
    DType::Bool,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::I8,
    DType::I32,
    DType::I64,
    DType::U8,
];

/// The op that casts `x`, its output missing.
pub(super) fn cast_op(x: &Var, from: DType, to: DType) -> OpDesc {
    let op = OpDesc::new("cast").input("X", x);
    op.attr("in_dtype", from.code()).attr("out_dtype", to.code())
}

fn append_named(b: &mut Builder<'_>, x: &Var, op: OpDesc, name: Option<&str>) -> Result<Var> {
    let kind = op.kind.clone();
    one_op(b, &kind, name).with(|_, _, _| Ok(op))?.input("X", x).out_named("Out", name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_types_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let options = Scale { scale: Amount::Is(2.0), act: Some("relu"), ..Scale::default() };
        assert_eq!(scale(&mut b, &x, options).unwrap().name(), "scale_0.tmp_1");
        let whole = cast(&mut b, &x, DType::I64).unwrap();
        assert_eq!(whole.name(), "cast_0.tmp_0");
        assert_eq!(b.meta(&whole).unwrap().dtype, DType::I64);
        assert_eq!(clip(&mut b, &x, -1.0, 1.0, None).unwrap().name(), "clip_0.tmp_0");
        assert_eq!(clip_by_norm(&mut b, &x, 1.0, Some("short")).unwrap().name(), "short");
        assert_eq!(b.meta(&Var::from("short")).unwrap().dims, [-1, 3]);
    }

    #[test]
    fn counts_in_place_or_beside() {
        let mut net = Net::default();
        let mut b = net.builder();
        let data = Data { append_batch_size: false, ..Data::default() };
        let x = layers::data(&mut b, "x", &[1], data).unwrap();
        assert_eq!(increment(&mut b, &x, Increment::default()).unwrap(), x);
        let beside = Increment { in_place: false, value: 2.0 };
        assert_eq!(increment(&mut b, &x, beside).unwrap().name(), "increment_1.tmp_0");
    }

    #[test]
    fn takes_the_factor_from_a_variable() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        scale(&mut b, &x, Scale { scale: Amount::In(x.clone()), ..Scale::default() }).unwrap();
        assert_eq!(net.main.block(0).ops[0].input_names("ScaleTensor"), ["x"]);
    }
}
