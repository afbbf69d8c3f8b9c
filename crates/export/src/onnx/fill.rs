//! Values that do not depend on the numbers of a batch, and other types of the same numbers.

use program::Attr;
use tensor::{DType, Shape, Tensor};

use super::convert::{CUT, Convert, int};
use super::proto::type_code;
use crate::error::Result;

fn dtype_attr(c: &Convert<'_>, attr: &str) -> Result<DType> {
    Ok(DType::from_code(c.op.attrs.int(attr, DType::F32.code().into())?)?)
}

pub(super) fn cast(c: &mut Convert<'_>) -> Result<()> {
    let to = dtype_attr(c, "out_dtype")?;
    let x = c.input("X")?;
    c.out("Out", "Cast", &[&x], int("to", type_code(to)))
}

fn filled(c: &mut Convert<'_>, value: f64, shape: &str) -> Result<()> {
    let dtype = c.out_meta("Out")?.dtype;
    let number = c.graph.scalar(dtype, value);
    c.out("Out", "Expand", &[&number, shape], Vec::new())
}

fn value_attr(c: &Convert<'_>) -> Result<f64> {
    match c.op.attrs.str("str_value", "")? {
        "" => Ok(f64::from(c.op.attrs.float("value", 0.0)?)),
        text => text.parse().map_err(|_| c.refuse(format!("its value is `{text}`"), CUT)),
    }
}

pub(super) fn fill_constant(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["ShapeTensor", "ShapeTensorList", "ValueTensor"])?;
    let shape = c.op.attrs.ints("shape")?;
    let value = value_attr(c)?;
    let shape = c.graph.ints(&shape);
    filled(c, value, &shape)
}

pub(super) fn fill_like(c: &mut Convert<'_>) -> Result<()> {
    let value = f64::from(c.op.attrs.float("value", 0.0)?);
    let x = c.input("X")?;
    let shape = c.node("Shape", &[&x], Vec::new());
    filled(c, value, &shape)
}

/// A shape in which one size is that of the input.
pub(super) fn fill_constant_batch_size_like(c: &mut Convert<'_>) -> Result<()> {
    let attrs = &c.op.attrs;
    let shape = attrs.ints("shape")?;
    let from = attrs.int("input_dim_idx", 0)?;
    let to = attrs.int("output_dim_idx", 0)?;
    let Some(after) = shape.get(to as usize + 1..) else {
        return Err(c.refuse("its output has no such dimension", CUT));
    };
    let value = value_attr(c)?;
    let input = c.input("Input")?;
    let sizes = c.node("Shape", &[&input], Vec::new());
    let place = c.graph.ints(&[from]);
    let size = c.node("Gather", &[&sizes, &place], int("axis", 0));
    let mut parts = Vec::new();
    for (sizes, is_batch) in [(&shape[..to as usize], false), (&[], true), (after, false)] {
        // Not all readers accept a constant without numbers.
        match (is_batch, sizes.is_empty()) {
            (true, _) => parts.push(size.clone()),
            (false, true) => {}
            (false, false) => parts.push(c.graph.ints(sizes)),
        }
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let shape = c.node("Concat", &parts, int("axis", 0));
    filled(c, value, &shape)
}

pub(super) fn assign_value(c: &mut Convert<'_>) -> Result<()> {
    let attrs = &c.op.attrs;
    let shape = Shape::from_dims(&attrs.ints("shape")?)?;
    let value = match dtype_attr(c, "dtype")? {
        DType::F32 => Tensor::new(shape, attrs.floats("fp32_values")?)?,
        DType::I64 => Tensor::new(shape, &attrs.ints("int64_values")?)?,
        DType::I32 => {
            let numbers = attrs.ints("int32_values")?;
            let numbers: Vec<i32> = numbers.iter().map(|&number| number as i32).collect();
            Tensor::new(shape, &numbers)?
        }
        other => {
            let is_bool = matches!(attrs.get("bool_values"), Some(Attr::Bools(_)));
            let kind = if is_bool { "bool" } else { other.name() };
            return Err(c.refuse(format!("its numbers are {kind}"), CUT));
        }
    };
    let value = c.graph.constant("values", value);
    c.out("Out", "Identity", &[&value], Vec::new())
}

pub(super) fn shape(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("Input")?;
    let sizes = c.node("Shape", &[&x], Vec::new());
    c.out("Out", "Cast", &[&sizes], int("to", type_code(DType::I32)))
}
