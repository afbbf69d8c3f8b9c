//! What operators between variables and numbers mean: `x + y`, `2 - x`, `x < 1`, `-x`.
//!
//! Results are named `tmp_N`. A number in `+ - * /` becomes one `scale` op; elsewhere it becomes a
//! constant of shape [1], or of X's shape where X comes second.

use tensor::DType;

use super::compare::stop_gradient;
use super::scale::cast_op;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::var::{Meta, VarDesc};

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `**`
    Pow,
    /// `%`
    Mod,
    /// `//`
    FloorDiv,
    /// `<`
    LessThan,
    /// `<=`
    LessEqual,
    /// `>`
    GreaterThan,
    /// `>=`
    GreaterEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

impl Operator {
    fn op(self) -> &'static str {
        match self {
            Operator::Add => "elementwise_add",
            Operator::Sub => "elementwise_sub",
            Operator::Mul => "elementwise_mul",
            Operator::Div => "elementwise_div",
            Operator::Pow => "elementwise_pow",
            Operator::Mod => "elementwise_mod",
            Operator::FloorDiv => "elementwise_floordiv",
            Operator::LessThan => "less_than",
            Operator::LessEqual => "less_equal",
            Operator::GreaterThan => "greater_than",
            Operator::GreaterEqual => "greater_equal",
            Operator::Equal => "equal",
            Operator::NotEqual => "not_equal",
        }
    }
}

/// One side of an operator.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// A variable.
    Var(&'a Var),
    /// A plain number.
    Number(f64),
}

impl<'a> From<&'a Var> for Operand<'a> {
    fn from(var: &'a Var) -> Self {
        Operand::Var(var)
    }
}

impl From<f64> for Operand<'_> {
    fn from(number: f64) -> Self {
        Operand::Number(number)
    }
}

/// `left operator right`, at least one of which is a variable.
pub fn binary<'a>(
    b: &mut Builder<'_>,
    left: impl Into<Operand<'a>>,
    operator: Operator,
    right: impl Into<Operand<'a>>,
) -> Result<Var> {
    match (left.into(), right.into()) {
        (Operand::Var(x), Operand::Var(y)) => between(b, x, operator, y),
        (Operand::Var(x), Operand::Number(number)) => {
            if let Some(options) = as_scale(b.meta(x)?.dtype, operator, number) {
                return scaled(b, x, number, options);
            }
            let constant = constant(b, &Meta::dense(b.meta(x)?.dtype, &[1]), number)?;
            between(b, x, operator, &constant)
        }
        (Operand::Number(number), Operand::Var(x)) => {
            if let Some(options) = as_scale_from(number, operator) {
                return scaled(b, x, number, options);
            }
            let constant = constant_like(b, x, number)?;
            between(b, &constant, operator, x)
        }
        (Operand::Number(left), Operand::Number(_)) => Err(Error::BadArgument {
            layer: "math",
            argument: "left",
            rule: "one operand must be a variable",
            actual: left.to_string(),
        }),
    }
}

/// `-x`.
pub fn negate(b: &mut Builder<'_>, x: &Var) -> Result<Var> {
    scaled(b, x, -1.0, LinearOp { scale: -1.0, bias: 0.0 })
}

/// What a `scale` op computes: `scale x + bias`.
struct LinearOp {
    scale: f32,
    bias: f32,
}

/// `x operator number` as one `scale` op, where it is one.
fn as_scale(dtype: DType, operator: Operator, number: f64) -> Option<LinearOp> {
    let same = LinearOp { scale: 1.0, bias: 0.0 };
    match operator {
        Operator::Add => Some(LinearOp { bias: number as f32, ..same }),
        Operator::Sub => Some(LinearOp { bias: -number as f32, ..same }),
        Operator::Mul => Some(LinearOp { scale: number as f32, ..same }),
        Operator::Div if dtype.is_float() => {
            Some(LinearOp { scale: (1.0 / number) as f32, ..same })
        }
        _ => None,
    }
}

/// `number operator x` as one `scale` op, where it is one.
fn as_scale_from(number: f64, operator: Operator) -> Option<LinearOp> {
    let same = LinearOp { scale: 1.0, bias: 0.0 };
    match operator {
        Operator::Add => Some(LinearOp { bias: number as f32, ..same }),
        Operator::Sub => Some(LinearOp { scale: -1.0, bias: number as f32 }),
        Operator::Mul => Some(LinearOp { scale: number as f32, ..same }),
        _ => None,
    }
}

fn scaled(b: &mut Builder<'_>, x: &Var, number: f64, line: LinearOp) -> Result<Var> {
    let dtype = b.meta(x)?.dtype;
    if !dtype.is_float() && number.fract() != 0.0 {
        return Err(Error::BadArgument {
            layer: "math",
            argument: "number",
            rule: "an integer variable takes whole numbers",
            actual: number.to_string(),
        });
    }
    let out = fresh(b, dtype);
    b.op(OpDesc::new("scale")
        .input("X", x)
        .output("Out", &out)
        .attr("scale", line.scale)
        .attr("bias", line.bias)
        .attr("bias_after_scale", true))?;
    Ok(out)
}

/// The op between two variables; `y` is cast to the type of `x` first.
fn between(b: &mut Builder<'_>, x: &Var, operator: Operator, y: &Var) -> Result<Var> {
    let (x_meta, mut y_meta) = (b.meta(x)?, b.meta(y)?);
    let mut y = y.clone();
    if x_meta.dtype != y_meta.dtype {
        let same = fresh(b, x_meta.dtype);
        b.op(cast_op(&y, y_meta.dtype, x_meta.dtype).output("Out", &same))?;
        (y, y_meta) = (same.clone(), b.meta(&same)?);
    }
    let axis = if y_meta.dims.first() == Some(&-1) { 0 } else { -1 };
    let out = fresh(b, x_meta.dtype);
    let op = OpDesc::new(operator.op()).input("X", x).input("Y", &y).output("Out", &out);
    b.op(op.attr("axis", axis))?;
    Ok(out)
}

/// A constant in the shape of `like`, whose unknown size is read when it runs.
fn constant_like(b: &mut Builder<'_>, like: &Var, value: f64) -> Result<Var> {
    let meta = b.meta(like)?;
    let Some(batch) = meta.dims.iter().position(|&dim| dim < 0) else {
        return constant(b, &meta, value);
    };
    let out = fresh(b, meta.dtype);
    stop_gradient(b, &out);
    // Further unknown sizes are left to broadcasting.
    let size = |(axis, &dim): (usize, &i64)| match dim {
        _ if axis == batch => -1,
        dim if dim < 0 => 1,
        dim => dim as i32,
    };
    let shape: Vec<i32> = meta.dims.iter().enumerate().map(size).collect();
    b.op(OpDesc::new("fill_constant_batch_size_like")
        .input("Input", like)
        .output("Out", &out)
        .attr("shape", shape)
        .attr("value", value as f32)
        .attr("dtype", meta.dtype.code())
        .attr("input_dim_idx", batch as i32)
        .attr("output_dim_idx", batch as i32)
        .attr("force_cpu", false))?;
    Ok(out)
}

fn constant(b: &mut Builder<'_>, meta: &Meta, value: f64) -> Result<Var> {
    let out = fresh(b, meta.dtype);
    stop_gradient(b, &out);
    b.op(OpDesc::new("fill_constant")
        .output("Out", &out)
        .attr("shape", meta.dims.clone())
        .attr("value", value as f32)
        .attr("dtype", meta.dtype.code())
        .attr("force_cpu", false))?;
    Ok(out)
}

/// A variable `tmp_N`.
fn fresh(b: &mut Builder<'_>, dtype: DType) -> Var {
    let name = b.names.generate("tmp");
    let block = b.main.current_block();
    let meta = Meta { dtype, ..Meta::default() };
    b.main.block_mut(block).put_var(VarDesc::new(&name, meta));
    Var::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    /// A net with inputs `x` [-1, 3] and `n` [-1, 3] of integers.
    fn net() -> (Net, Var, Var) {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let whole = Data { dtype: DType::I64, ..Data::default() };
        let n = layers::data(&mut b, "n", &[3], whole).unwrap();
        (net, x, n)
    }

    #[track_caller]
    fn is_scale(net: &Net, scale: f32, bias: f32) {
        let op = net.main.block(0).ops.last().unwrap();
        assert_eq!(op.kind, "scale");
        let attr = |name| op.attrs.float(name, f32::NAN).unwrap();
        assert_eq!((attr("scale"), attr("bias")), (scale, bias));
    }

    #[test]
    fn a_number_beside_a_variable_becomes_one_scale() {
        let (mut net, x, _) = net();
        let right = [
            (Operator::Add, 1.0, 2.0),
            (Operator::Sub, 1.0, -2.0),
            (Operator::Mul, 2.0, 0.0),
            (Operator::Div, 0.5, 0.0),
        ];
        for (count, (operator, scale, bias)) in right.into_iter().enumerate() {
            let out = binary(&mut net.builder(), &x, operator, 2.0).unwrap();
            assert_eq!(out.name(), format!("tmp_{count}"));
            is_scale(&net, scale, bias);
        }
        for (operator, scale, bias) in
            [(Operator::Add, 1.0, 2.0), (Operator::Sub, -1.0, 2.0), (Operator::Mul, 2.0, 0.0)]
        {
            binary(&mut net.builder(), 2.0, operator, &x).unwrap();
            is_scale(&net, scale, bias);
        }
        negate(&mut net.builder(), &x).unwrap();
        is_scale(&net, -1.0, 0.0);
    }

    fn kinds(net: &Net) -> Vec<&str> {
        net.main.block(0).ops.iter().map(|op| op.kind.as_str()).collect()
    }

    #[test]
    fn other_operators_take_a_constant() {
        let (mut net, x, n) = net();
        let mut b = net.builder();
        assert_eq!(binary(&mut b, &x, Operator::Pow, 2.0).unwrap().name(), "tmp_1");
        assert_eq!(binary(&mut b, &n, Operator::Div, 2.0).unwrap().name(), "tmp_3");
        let less = binary(&mut b, &x, Operator::LessThan, 1.0).unwrap();
        assert_eq!(b.meta(&less).unwrap(), Meta::dense(DType::Bool, &[-1, 3]));
        let expected = ["elementwise_pow", "elementwise_div", "less_than"];
        assert_eq!(kinds(&net), expected.map(|op| ["fill_constant", op]).concat());
    }

    #[test]
    fn a_number_before_a_variable_takes_its_shape() {
        let mut net = Net::default();
        let mut b = net.builder();
        let data = Data { append_batch_size: false, ..Data::default() };
        let x = layers::data(&mut b, "x", &[4, 3], data).unwrap();
        binary(&mut b, 2.0, Operator::Div, &x).unwrap();
        assert_eq!(net.main.block(0).ops[0].attrs.ints("shape").unwrap(), [4, 3]);
    }

    #[test]
    fn the_second_variable_is_cast_to_the_first() {
        let (mut net, x, n) = net();
        assert_eq!(binary(&mut net.builder(), &x, Operator::Add, &n).unwrap().name(), "tmp_1");
        assert_eq!(kinds(&net), ["cast", "elementwise_add"]);
        let op = &net.main.block(0).ops[1];
        assert_eq!(
            (op.input_names("Y")[0].as_str(), op.attrs.int("axis", 9).unwrap()),
            ("tmp_0", 0)
        );
    }

    #[test]
    fn refuses_fractions_for_integers_and_two_numbers() {
        let (mut net, _, n) = net();
        let error = binary(&mut net.builder(), &n, Operator::Add, 2.5).unwrap_err();
        assert!(matches!(error, Error::BadArgument { .. }), "{error}");
        let error = binary(&mut net.builder(), 1.0, Operator::Add, 2.5).unwrap_err();
        assert!(matches!(error, Error::BadArgument { .. }), "{error}");
    }
}
