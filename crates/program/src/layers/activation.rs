//! Activations and other functions of one number at a time: one op each.

use super::append;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// Layers without attributes: `name(builder, x, name of the layer or None)`.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(b: &mut Builder<'_>, x: &Var, name: Option<&str>) -> Result<Var> {
            let layer = b.layer_name(stringify!($name), name);
            append(b, &layer, x, OpDesc::new(stringify!($name)))
        }
    )*};
}

plain! {
    /// |x|.
    abs;
    /// The angle whose cosine is x.
    acos;
    /// The angle whose sine is x.
    asin;
    /// The angle whose tangent is x.
    atan;
    /// The next whole number above.
    ceil;
    /// The cosine.
    cos;
    /// e^x.
    exp;
    /// The next whole number below.
    floor;
    /// The natural logarithm.
    log;
    /// log(1 / (1 + e^-x)).
    logsigmoid;
    /// 1 / x.
    reciprocal;
    /// max(x, 0).
    relu;
    /// The nearest whole number, halves away from zero.
    round;
    /// 1 / sqrt(x).
    rsqrt;
    /// 1 / (1 + e^-x).
    sigmoid;
    /// -1, 0 or 1.
    sign;
    /// The sine.
    sin;
    /// log(1 + e^x).
    softplus;
    /// x / (1 + |x|).
    softsign;
    /// The square root.
    sqrt;
    /// x².
    square;
    /// The hyperbolic tangent.
    tanh;
    /// x - tanh(x).
    tanh_shrink;
}

/// Layers with attributes: `name(builder, x, Options)`, and the options with Fluid's defaults.
macro_rules! with_options {
    ($(
        $(#[$doc:meta])*
        $name:ident, $options:ident { $($attr:ident as $op_attr:literal: $t:ty = $default:expr),* };
    )*) => {$(
        #[doc = concat!("Options of [`", stringify!($name), "`]; defaults as in Fluid.")]
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)] // The names are Fluid's.
        pub struct $options<'a> {
            $(pub $attr: $t,)*
            pub name: Option<&'a str>,
        }

        impl Default for $options<'_> {
            fn default() -> Self {
                Self { $($attr: $default,)* name: None }
            }
        }

        $(#[$doc])*
        pub fn $name(b: &mut Builder<'_>, x: &Var, options: $options<'_>) -> Result<Var> {
            let layer = b.layer_name(stringify!($name), options.name);
            let op = OpDesc::new(stringify!($name))$(.attr($op_attr, options.$attr))*;
            append(b, &layer, x, op)
        }
    )*};
}

with_options! {
    /// x, but not below `t_min` and not above `t_max`.
    brelu, Brelu { t_min as "t_min": f32 = 0.0, t_max as "t_max": f32 = 24.0 };
    /// x above 0, else alpha (e^x - 1).
    elu, Elu { alpha as "alpha": f32 = 1.0 };
    /// x times the chance that a normal variable stays below x, or its approximation by tanh.
    gelu, Gelu { approximate as "approximate": bool = false };
    /// x where |x| > threshold, else 0.
    hard_shrink, HardShrink { threshold as "threshold": f32 = 0.5 };
    /// slope x + offset, between 0 and 1.
    hard_sigmoid, HardSigmoid { slope as "slope": f32 = 0.2, offset as "offset": f32 = 0.5 };
    /// x min(max(x + offset, 0), threshold) / scale.
    hard_swish, HardSwish {
        threshold as "threshold": f32 = 6.0, scale as "scale": f32 = 6.0,
        offset as "offset": f32 = 3.0
    };
    /// max(x, alpha x).
    leaky_relu, LeakyRelu { alpha as "alpha": f32 = 0.02 };
    /// x, but not below 0 and not above `threshold`.
    relu6, Relu6 { threshold as "threshold": f32 = 6.0 };
    /// log(1 + e^x), with x between -threshold and threshold.
    soft_relu, SoftRelu { threshold as "threshold": f32 = 40.0 };
    /// x moved by alpha towards 0, but not beyond it.
    softshrink, Softshrink { alpha as "lambda": f32 = 0.5 };
    /// scale_b tanh(scale_a x).
    stanh, Stanh { scale_a as "scale_a": f32 = 0.67, scale_b as "scale_b": f32 = 1.7159 };
    /// x / (1 + e^(-beta x)).
    swish, Swish { beta as "beta": f32 = 1.0 };
    /// x above `threshold`, else 0.
    thresholded_relu, ThresholdedRelu { threshold as "threshold": f32 = 1.0 };
}

/// Options of [`pow`]; defaults as in Fluid.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Pow<'a> {
    pub factor: f32,
    /// A variable in the place of the number `factor`.
    pub factor_var: Option<&'a Var>,
    pub name: Option<&'a str>,
}

impl Default for Pow<'_> {
    fn default() -> Self {
        Self { factor: 1.0, factor_var: None, name: None }
    }
}

/// x^factor.
pub fn pow(b: &mut Builder<'_>, x: &Var, options: Pow<'_>) -> Result<Var> {
    let layer = b.layer_name("pow", options.name);
    let op = match options.factor_var {
        Some(factor) => OpDesc::new("pow").input("FactorTensor", factor),
        None => OpDesc::new("pow").attr("factor", options.factor),
    };
    append(b, &layer, x, op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_attributes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let y = sigmoid(&mut b, &x, None).unwrap();
        assert_eq!(y.name(), "sigmoid_0.tmp_0");
        let y = softshrink(&mut b, &y, Softshrink { name: Some("s"), alpha: 0.25 }).unwrap();
        assert_eq!(y.name(), "s.tmp_0");
        assert_eq!(b.meta(&y).unwrap().dims, [-1, 3]);
        let op = &net.main.block(0).ops[1];
        assert_eq!(op.attrs.float("lambda", 0.0).unwrap(), 0.25);
    }

    #[test]
    fn every_layer_has_its_op() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let plain = [
            abs,
            acos,
            asin,
            atan,
            ceil,
            cos,
            exp,
            floor,
            log,
            logsigmoid,
            reciprocal,
            relu,
            round,
            rsqrt,
            sigmoid,
            sign,
            sin,
            softplus,
            softsign,
            sqrt,
            square,
            tanh,
            tanh_shrink,
        ];
        for layer in plain {
            layer(&mut b, &x, None).unwrap();
        }
        brelu(&mut b, &x, Brelu::default()).unwrap();
        elu(&mut b, &x, Elu::default()).unwrap();
        gelu(&mut b, &x, Gelu::default()).unwrap();
        hard_shrink(&mut b, &x, HardShrink::default()).unwrap();
        hard_sigmoid(&mut b, &x, HardSigmoid::default()).unwrap();
        hard_swish(&mut b, &x, HardSwish::default()).unwrap();
        leaky_relu(&mut b, &x, LeakyRelu::default()).unwrap();
        pow(&mut b, &x, Pow::default()).unwrap();
        relu6(&mut b, &x, Relu6::default()).unwrap();
        soft_relu(&mut b, &x, SoftRelu::default()).unwrap();
        stanh(&mut b, &x, Stanh::default()).unwrap();
        swish(&mut b, &x, Swish::default()).unwrap();
        thresholded_relu(&mut b, &x, ThresholdedRelu::default()).unwrap();
    }
}
