//! `scale` and other layers that change numbers but not their arrangement: `cast`, `clip`,
//! `clip_by_norm`, `increment`.

use tensor::DType;

use super::{activate, append};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::var::{Meta, VarDesc};

/// Options of [`scale`]; defaults as in `fluid.layers.scale`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Scale<'a> {
    pub scale: f32,
    /// A variable in the place of the number `scale`.
    pub scale_var: Option<&'a Var>,
    pub bias: f32,
    pub bias_after_scale: bool,
    pub act: Option<&'a str>,
    pub name: Option<&'a str>,
}

impl Default for Scale<'_> {
    fn default() -> Self {
        Self {
            scale: 1.0,
            scale_var: None,
            bias: 0.0,
            bias_after_scale: true,
            act: None,
            name: None,
        }
    }
}

impl Scale<'_> {
    /// The op, with nothing going in or out yet.
    pub(super) fn op(&self) -> OpDesc {
        let mut op = OpDesc::new("scale");
        if let Some(var) = self.scale_var {
            op = op.input("ScaleTensor", var);
        }
        op.attr("scale", self.scale)
            .attr("bias", self.bias)
            .attr("bias_after_scale", self.bias_after_scale)
    }
}

/// `act(scale x + bias)`.
pub fn scale(b: &mut Builder<'_>, x: &Var, options: Scale<'_>) -> Result<Var> {
    let layer = b.layer_name("scale", options.name);
    let out = append(b, &layer, x, options.op())?;
    activate(b, &layer, out, options.act)
}

/// `x` in another element type.
pub fn cast(b: &mut Builder<'_>, x: &Var, dtype: DType) -> Result<Var> {
    if !CAST_TO.contains(&dtype) {
        let (op, var) = ("cast".to_string(), "dtype".to_string());
        return Err(Error::LayerDType { op, var, allowed: CAST_TO, actual: dtype });
    }
    let layer = b.layer_name("cast", None);
    let from = b.meta(x)?.dtype;
    let out = b.temp(&layer, dtype);
    b.op(cast_op(x, from, dtype).output("Out", &out))?;
    Ok(out)
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

/// `x`, but not below `min` and not above `max`. A name is that of the result.
pub fn clip(
    b: &mut Builder<'_>,
    x: &Var,
    (min, max): (f32, f32),
    name: Option<&str>,
) -> Result<Var> {
    let op = OpDesc::new("clip").attr("min", min).attr("max", max);
    append_named(b, x, op, name)
}

/// `x`, shrunk to the L2 norm `max_norm` if it is longer. A name is that of the result.
pub fn clip_by_norm(
    b: &mut Builder<'_>,
    x: &Var,
    max_norm: f32,
    name: Option<&str>,
) -> Result<Var> {
    append_named(b, x, OpDesc::new("clip_by_norm").attr("max_norm", max_norm), name)
}

fn append_named(b: &mut Builder<'_>, x: &Var, op: OpDesc, name: Option<&str>) -> Result<Var> {
    let Some(name) = name else {
        let layer = b.layer_name(&op.kind, None);
        return append(b, &layer, x, op);
    };
    let meta = Meta { dtype: b.meta(x)?.dtype, ..Meta::default() };
    let block = b.main.current_block();
    b.main.block_mut(block).put_var(VarDesc::new(name, meta));
    b.op(op.input("X", x).output("Out", name))?;
    Ok(Var::from(name))
}

/// Options of [`increment`]; defaults as in `fluid.layers.increment`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Increment {
    pub value: f32,
    pub in_place: bool,
}

impl Default for Increment {
    fn default() -> Self {
        Self { value: 1.0, in_place: true }
    }
}

/// `x + value` for a counter `x` of one element, by default in its own place.
pub fn increment(b: &mut Builder<'_>, x: &Var, options: Increment) -> Result<Var> {
    let layer = b.layer_name("increment", None);
    let op = OpDesc::new("increment").attr("step", options.value);
    if !options.in_place {
        return append(b, &layer, x, op);
    }
    b.op(op.input("X", x).output("Out", x))?;
    Ok(x.clone())
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
        let options = Scale { scale: 2.0, act: Some("relu"), ..Scale::default() };
        assert_eq!(scale(&mut b, &x, options).unwrap().name(), "scale_0.tmp_1");
        let whole = cast(&mut b, &x, DType::I64).unwrap();
        assert_eq!(whole.name(), "cast_0.tmp_0");
        assert_eq!(b.meta(&whole).unwrap().dtype, DType::I64);
        assert_eq!(clip(&mut b, &x, (-1.0, 1.0), None).unwrap().name(), "clip_0.tmp_0");
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
        scale(&mut b, &x, Scale { scale_var: Some(&x), ..Scale::default() }).unwrap();
        assert_eq!(net.main.block(0).ops[0].input_names("ScaleTensor"), ["x"]);
    }
}
