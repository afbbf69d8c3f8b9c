//! Functions of one number, and softmax.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::convert::{CUT, Convert, int};
use super::proto::NodeField;
use crate::error::Result;

fn float_attr(c: &Convert<'_>, name: &str, default: f32) -> Result<f64> {
    Ok(f64::from(c.op.attrs.float(name, default)?))
}

pub(super) fn square(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("X")?;
    c.out("Out", "Mul", &[&x, &x], Vec::new())
}

pub(super) fn rsqrt(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("X")?;
    let root = c.node("Sqrt", &[&x], Vec::new());
    c.out("Out", "Reciprocal", &[&root], Vec::new())
}

fn clipped(c: &mut Convert<'_>, min: f64, max: f64) -> Result<()> {
    let x = c.input("X")?;
    let (min, max) = (c.number("X", min)?, c.number("X", max)?);
    c.out("Out", "Clip", &[&x, &min, &max], Vec::new())
}

pub(super) fn clip(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["Min", "Max"])?;
    clipped(c, float_attr(c, "min", 0.0)?, float_attr(c, "max", 0.0)?)
}

pub(super) fn brelu(c: &mut Convert<'_>) -> Result<()> {
    clipped(c, float_attr(c, "t_min", 0.0)?, float_attr(c, "t_max", 24.0)?)
}

pub(super) fn relu6(c: &mut Convert<'_>) -> Result<()> {
    clipped(c, 0.0, float_attr(c, "threshold", 6.0)?)
}

pub(super) fn leaky_relu(c: &mut Convert<'_>) -> Result<()> {
    let (x, alpha) = (c.input("X")?, c.op.attrs.float("alpha", 0.02)?);
    c.out("Out", "LeakyRelu", &[&x], vec![("alpha", NodeField::Float(alpha))])
}

pub(super) fn elu(c: &mut Convert<'_>) -> Result<()> {
    let (x, alpha) = (c.input("X")?, c.op.attrs.float("alpha", 1.0)?);
    c.out("Out", "Elu", &[&x], vec![("alpha", NodeField::Float(alpha))])
}

pub(super) fn hard_sigmoid(c: &mut Convert<'_>) -> Result<()> {
    let (slope, offset) = (c.op.attrs.float("slope", 0.2)?, c.op.attrs.float("offset", 0.5)?);
    let x = c.input("X")?;
    let fields = vec![("alpha", NodeField::Float(slope)), ("beta", NodeField::Float(offset))];
    c.out("Out", "HardSigmoid", &[&x], fields)
}

/// X clip(X + offset, 0, threshold) / scale.
pub(super) fn hard_swish(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("X")?;
    let offset = c.number("X", float_attr(c, "offset", 3.0)?)?;
    let (zero, top) = (c.number("X", 0.0)?, c.number("X", float_attr(c, "threshold", 6.0)?)?);
    let scale = c.number("X", float_attr(c, "scale", 6.0)?)?;
    let moved = c.node("Add", &[&x, &offset], Vec::new());
    let cut = c.node("Clip", &[&moved, &zero, &top], Vec::new());
    let product = c.node("Mul", &[&x, &cut], Vec::new());
    c.out("Out", "Div", &[&product, &scale], Vec::new())
}

/// X sigmoid(beta X).
pub(super) fn swish(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("X")?;
    let beta = c.number("X", float_attr(c, "beta", 1.0)?)?;
    let scaled = c.node("Mul", &[&x, &beta], Vec::new());
    let gate = c.node("Sigmoid", &[&scaled], Vec::new());
    c.out("Out", "Mul", &[&x, &gate], Vec::new())
}

/// scale_b tanh(scale_a X).
pub(super) fn stanh(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("X")?;
    let inner = c.number("X", float_attr(c, "scale_a", 0.67)?)?;
    let outer = c.number("X", float_attr(c, "scale_b", 1.7159)?)?;
    let scaled = c.node("Mul", &[&x, &inner], Vec::new());
    let tanh = c.node("Tanh", &[&scaled], Vec::new());
    c.out("Out", "Mul", &[&tanh, &outer], Vec::new())
}

/// -softplus(-X).
pub(super) fn logsigmoid(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("X")?;
    let negated = c.node("Neg", &[&x], Vec::new());
    let soft = c.node("Softplus", &[&negated], Vec::new());
    c.out("Out", "Neg", &[&soft], Vec::new())
}

/// X / 2 (1 + erf(X / sqrt(2))), or the same with tanh.
pub(super) fn gelu(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("X")?;
    let (half, one) = (c.number("X", 0.5)?, c.number("X", 1.0)?);
    let inner = if c.op.attrs.bool("approximate", false)? {
        let scale = c.number("X", FRAC_2_SQRT_PI * FRAC_1_SQRT_2)?;
        let (cubic, three) = (c.number("X", 0.044715)?, c.number("X", 3.0)?);
        let power = c.node("Pow", &[&x, &three], Vec::new());
        let power = c.node("Mul", &[&power, &cubic], Vec::new());
        let sum = c.node("Add", &[&x, &power], Vec::new());
        let scaled = c.node("Mul", &[&sum, &scale], Vec::new());
        c.node("Tanh", &[&scaled], Vec::new())
    } else {
        let root = c.number("X", FRAC_1_SQRT_2)?;
        let scaled = c.node("Mul", &[&x, &root], Vec::new());
        c.node("Erf", &[&scaled], Vec::new())
    };
    let gate = c.node("Add", &[&inner, &one], Vec::new());
    let product = c.node("Mul", &[&x, &gate], Vec::new());
    c.out("Out", "Mul", &[&product, &half], Vec::new())
}

pub(super) fn softmax(c: &mut Convert<'_>) -> Result<()> {
    let axis = c.axis("axis", -1, c.rank("X")?)?;
    let x = c.input("X")?;
    c.out("Out", "Softmax", &[&x], int("axis", axis))
}

pub(super) fn prelu(c: &mut Convert<'_>) -> Result<()> {
    let dims = c.meta("X")?.dims;
    let (x, alpha) = (c.input("X")?, c.input("Alpha")?);
    let slope = match c.op.attrs.str("mode", "all")? {
        "all" => c.reshaped(&alpha, &[1]),
        "channel" if dims.len() >= 2 => {
            let mut shape = vec![1; dims.len() - 1];
            shape[0] = -1;
            c.reshaped(&alpha, &shape)
        }
        "element" if dims.len() >= 2 && dims[1..].iter().all(|&dim| dim > 0) => {
            c.reshaped(&alpha, &dims[1..])
        }
        mode => return Err(c.refuse(format!("its mode is {mode}"), CUT)),
    };
    c.out("Out", "PRelu", &[&x, &slope], Vec::new())
}
