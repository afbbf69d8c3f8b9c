//! Arithmetic on variables of one number, as Fluid's operators on variables append it.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::layers::append::append;
use crate::layers::{self, FillConstant};

/// `x * scale + bias`.
pub(super) fn scale(b: &mut Builder<'_>, x: &Var, scale: f64, bias: f64) -> Result<Var> {
    let out = b.unnamed(DType::F32);
    let op = OpDesc::new("scale").input("X", x).output("Out", &out);
    let op = op.attr("scale", scale as f32).attr("bias", bias as f32);
    b.op(op.attr("bias_after_scale", true))?;
    Ok(out)
}

/// A number as an operand: `tmp_0`.
pub(super) fn number(b: &mut Builder<'_>, value: f64) -> Result<Var> {
    let out = b.unnamed(DType::F32);
    let op = OpDesc::new("fill_constant")
        .output("Out", &out)
        .attr("shape", vec![1i64])
        .attr("dtype", DType::F32.code())
        .attr("value", value as f32)
        .attr("force_cpu", false);
    b.op(op)?;
    let block = b.main.current_block();
    if let Some(desc) = b.main.block_mut(block).var_mut(out.name()) {
        desc.stop_gradient = true;
    }
    Ok(out)
}

/// A number as a layer makes it: `fill_constant_0.tmp_0`.
pub(super) fn constant(b: &mut Builder<'_>, value: f64) -> Result<Var> {
    layers::fill_constant(b, &[1], DType::F32, value, FillConstant::default())
}

/// An operator between two variables: `tmp_0`.
pub(super) fn binary(b: &mut Builder<'_>, kind: &str, x: &Var, y: &Var) -> Result<Var> {
    let out = b.unnamed(DType::F32);
    let op = OpDesc::new(kind).input("X", x).input("Y", y).output("Out", &out);
    b.op(op.attr("axis", -1))?;
    Ok(out)
}

/// `x < y` or `x == y`: `tmp_0`.
pub(super) fn compare(b: &mut Builder<'_>, kind: &str, x: &Var, y: &Var) -> Result<Var> {
    let out = b.unnamed(DType::Bool);
    b.op(OpDesc::new(kind).input("X", x).input("Y", y).output("Out", &out).attr("axis", -1))?;
    Ok(out)
}

/// A layer of one input: `floor_0.tmp_0`.
pub(super) fn unary(b: &mut Builder<'_>, kind: &str, x: &Var) -> Result<Var> {
    append(b, kind, None, DType::F32, OpDesc::new(kind).input("X", x))
}

/// Copies a value into a variable that exists already.
pub(super) fn assign(b: &mut Builder<'_>, from: &Var, to: &Var) -> Result<()> {
    layers::assign(b, from, Some(to)).map(|_| ())
}
