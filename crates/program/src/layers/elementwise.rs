//! `elementwise_add` and its like: two variables, place by place.

use super::append::one_op;
use crate::builder::{Builder, Var};
use crate::error::Result;

layers! { elementwise_layers;
    /// `act(x + y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end.
    fn elementwise_add
    /// `act(x / y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end.
    fn elementwise_div
    /// `act` of the integer quotient; the dimensions of `y` begin at `axis` of `x`.
    fn elementwise_floordiv
    /// `act` of the greater one; the dimensions of `y` begin at `axis` of `x`.
    fn elementwise_max
    /// `act` of the smaller one; the dimensions of `y` begin at `axis` of `x`.
    fn elementwise_min
    /// `act` of the remainder; the dimensions of `y` begin at `axis` of `x`.
    fn elementwise_mod
    /// `act(x * y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end.
    fn elementwise_mul
    /// `act` of x to the power of y; the dimensions of `y` begin at `axis` of `x`.
    fn elementwise_pow
    /// `act(x - y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end.
    fn elementwise_sub
    (x: Input, y: Input; Elementwise<'a> {
        axis: i32 = (-1), act: Name = None, name: Name = None,
    }) -> Var { |b, kind|
        one_op(b, kind, name).input("X", x).input("Y", y).attr("axis", axis).out_activated("Out", act)
    }
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
        let cost = layers::square_error_cost(&mut b, &sum, &y).unwrap();
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
