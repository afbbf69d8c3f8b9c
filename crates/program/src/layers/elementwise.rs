//! `elementwise_add` and its like: two variables, place by place.

use super::activate;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Options of the elementwise layers; defaults as in Fluid.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Elementwise<'a> {
    /// Where the dimensions of the shorter shape begin in the longer one; -1 for the right end.
    pub axis: i32,
    pub act: Option<&'a str>,
    pub name: Option<&'a str>,
}

impl Default for Elementwise<'_> {
    fn default() -> Self {
        Self { axis: -1, act: None, name: None }
    }
}

macro_rules! elementwise {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(b: &mut Builder<'_>, x: &Var, y: &Var, options: Elementwise<'_>) -> Result<Var> {
            elementwise(b, stringify!($name), (x, y), options)
        }
    )*};
}

elementwise! {
    /// `act(x + y)`.
    elementwise_add;
    /// `act(x / y)`.
    elementwise_div;
    /// `act` of the integer quotient.
    elementwise_floordiv;
    /// `act` of the greater one.
    elementwise_max;
    /// `act` of the smaller one.
    elementwise_min;
    /// `act` of the remainder.
    elementwise_mod;
    /// `act(x * y)`.
    elementwise_mul;
    /// `act(x ^ y)`.
    elementwise_pow;
    /// `act(x - y)`.
    elementwise_sub;
}

fn elementwise(
    b: &mut Builder<'_>,
    kind: &str,
    (x, y): (&Var, &Var),
    options: Elementwise<'_>,
) -> Result<Var> {
    let layer = b.layer_name(kind, options.name);
    let out = b.temp(&layer, b.meta(x)?.dtype);
    let op = OpDesc::new(kind).input("X", x).input("Y", y).output("Out", &out);
    b.op(op.attr("axis", options.axis))?;
    activate(b, &layer, out, options.act)
}

/// `(input - label)²`, place by place.
pub fn square_error_cost(b: &mut Builder<'_>, input: &Var, label: &Var) -> Result<Var> {
    let layer = b.layer_name("square_error_cost", None);
    let difference = b.temp(&layer, b.meta(input)?.dtype);
    let op = OpDesc::new("elementwise_sub").input("X", input).input("Y", label);
    b.op(op.output("Out", &difference).attr("axis", -1))?;
    activate(b, &layer, difference, Some("square"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let y = layers::data(&mut b, "y", &[3], Data::default()).unwrap();
        let options = Elementwise { act: Some("sigmoid"), ..Elementwise::default() };
        let sum = elementwise_add(&mut b, &x, &y, options).unwrap();
        assert_eq!(sum.name(), "elementwise_add_0.tmp_1");
        let cost = square_error_cost(&mut b, &sum, &y).unwrap();
        assert_eq!(cost.name(), "square_error_cost_0.tmp_1");
        let kinds: Vec<_> = net.main.block(0).ops.iter().map(|op| &*op.kind).collect();
        assert_eq!(kinds, ["elementwise_add", "sigmoid", "elementwise_sub", "square"]);
    }

    #[test]
    fn every_layer_has_its_op() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        for layer in [
            elementwise_add,
            elementwise_div,
            elementwise_floordiv,
            elementwise_max,
            elementwise_min,
            elementwise_mod,
            elementwise_mul,
            elementwise_pow,
            elementwise_sub,
        ] {
            layer(&mut b, &x, &x, Elementwise::default()).unwrap();
        }
    }
}
