//! Activations and other functions of one number at a time: one op each.

use super::Amount;
use super::append::one_op;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

layers! { activations;
    /// The distance from 0: |x|.
    fn abs
    /// e to the power of x.
    fn exp
    /// The square, x * x.
    fn square
    (x: Input; name: Name = None) -> Var { |b, kind| one_op(b, kind, name).input("X", x).out("Out") }

    /// The angle whose cosine is x.
    fn acos
    /// The angle whose sine is x.
    fn asin
    /// The angle whose tangent is x.
    fn atan
    /// The next whole number above.
    fn ceil
    /// The cosine.
    fn cos
    /// The next whole number below.
    fn floor
    /// The natural logarithm.
    fn log
    /// log(1 / (1 + e^-x)).
    fn logsigmoid
    /// 1 / x.
    fn reciprocal
    /// max(x, 0).
    fn relu
    /// The nearest whole number, halves away from zero.
    fn round
    /// 1 / sqrt(x).
    fn rsqrt
    /// 1 / (1 + e^-x).
    fn sigmoid
    /// The sine.
    fn sin
    /// log(1 + e^x).
    fn softplus
    /// x / (1 + |x|).
    fn softsign
    /// The square root.
    fn sqrt
    /// The hyperbolic tangent.
    fn tanh
    /// x - tanh(x).
    fn tanh_shrink
    (x: Floats; name: Name = None) -> Var { |b, kind| one_op(b, kind, name).input("X", x).out("Out") }

    /// The error function.
    fn erf(x: Floats) -> Var { |b| one_op(b, "erf", None).input("X", x).out("Out") }

    /// -1, 0 or 1.
    fn sign(x: Floats) -> Var { |b| one_op(b, "sign", None).input("X", x).out("Out") }

    /// x, but not below `t_min` and not above `t_max`.
    fn brelu(x: Floats; Brelu<'a> { t_min: f32 = 0.0, t_max: f32 = 24.0, name: Name = None }) -> Var { |b|
        one_op(b, "brelu", name).input("X", x).attr("t_min", t_min).attr("t_max", t_max).out("Out")
    }

    /// x above 0, else alpha (e^x - 1).
    fn elu(x: Floats; Elu<'a> { alpha: f32 = 1.0, name: Name = None }) -> Var { |b|
        one_op(b, "elu", name).input("X", x).attr("alpha", alpha).out("Out")
    }

    /// x times the chance that a normal variable stays below x, or its approximation by tanh.
    fn gelu(x: Input; approximate: Flag = false) -> Var { |b|
        one_op(b, "gelu", None).input("X", x).attr("approximate", approximate).out("Out")
    }

    /// x where |x| > threshold (0.5 if None), else 0.
    fn hard_shrink(x: Floats; threshold: MaybeF32 = None) -> Var { |b|
        let op = one_op(b, "hard_shrink", None).input("X", x);
        op.attr("threshold", threshold.unwrap_or(0.5)).out("Out")
    }

    /// slope x + offset, between 0 and 1.
    fn hard_sigmoid(x: Floats; HardSigmoid<'a> {
        slope: f32 = 0.2, offset: f32 = 0.5, name: Name = None,
    }) -> Var { |b|
        let op = one_op(b, "hard_sigmoid", name).input("X", x);
        op.attr("slope", slope).attr("offset", offset).out("Out")
    }

    /// x min(max(x + offset, 0), threshold) / scale.
    fn hard_swish(x: Floats; HardSwish<'a> {
        threshold: f32 = 6.0, scale: f32 = 6.0, offset: f32 = 3.0, name: Name = None,
    }) -> Var { |b|
        let op = one_op(b, "hard_swish", name).input("X", x);
        op.attr("threshold", threshold).attr("scale", scale).attr("offset", offset).out("Out")
    }

    /// max(x, alpha x).
    fn leaky_relu(x: Floats; LeakyRelu<'a> { alpha: f32 = 0.02, name: Name = None }) -> Var { |b|
        one_op(b, "leaky_relu", name).input("X", x).attr("alpha", alpha).out("Out")
    }

    /// log(1 + x), written into `out` if it is given.
    fn log1p(x: Floats; out: MaybeInput = None, name: Name = None) -> Var { |b|
        one_op(b, "log1p", name).input("X", x).out_into("Out", out)
    }

    /// The largest of each `groups` channels that lie together; channels are dimension 1, or 3 (or -1).
    fn maxout(x: Floats, groups: i32; Maxout<'a> { name: Name = None, axis: i32 = 1 }) -> Var { |b|
        if ![1, -1, 3].contains(&axis) {
            let (layer, argument) = ("maxout", "axis");
            let rule = "must be 1 for NCHW, -1 or 3 for NHWC";
            return Err(Error::BadArgument { layer, argument, rule, actual: axis.to_string() });
        }
        let axis = if axis == -1 { 3 } else { axis };
        let op = one_op(b, "maxout", name).input("X", x).attr("groups", groups);
        op.attr("axis", axis).out("Out")
    }

    /// x tanh(log(1 + e^x)); beyond `threshold` the logarithm is approximated.
    fn mish(x: Floats; Mish<'a> { threshold: f32 = [20.0, "20"], name: Name = None }) -> Var { |b|
        if threshold <= 0.0 {
            let (layer, argument) = ("mish", "threshold");
            let rule = "threshold of mish should be greater than 0";
            let actual = vec![threshold as i64];
            return Err(Error::BadSizes { layer, argument, rule, actual });
        }
        one_op(b, "mish", name).input("X", x).attr("threshold", threshold).out("Out")
    }

    /// `scale` x above 0, else `scale` `alpha` (e^x - 1); the constants of the paper where they are None.
    fn selu(x: Floats; Selu<'a> {
        scale: MaybeF32 = None, alpha: MaybeF32 = None, name: Name = None,
    }) -> Var { |b|
        let mut op = one_op(b, "selu", name).input("X", x);
        for (attr, value) in [("scale", scale), ("alpha", alpha)] {
            if let Some(value) = value {
                op = op.attr(attr, value);
            }
        }
        op.out("Out")
    }

    /// x to the power of `factor`, a number or a Variable.
    fn pow(x: Input; Pow<'a> {
        factor: Factor = [Amount::Is(1.0), "1.0"], name: Name = None,
    }) -> Var { |b|
        let op = one_op(b, "pow", name).input("X", x);
        match factor {
            Amount::Is(factor) => op.attr("factor", factor),
            Amount::In(var) => op.input("FactorTensor", &var),
        }
        .out("Out")
    }

    /// x, but not below 0 and not above `threshold`.
    fn relu6(x: Floats; Relu6<'a> { threshold: f32 = 6.0, name: Name = None }) -> Var { |b|
        one_op(b, "relu6", name).input("X", x).attr("threshold", threshold).out("Out")
    }

    /// log(1 + e^x), with x between -threshold and threshold.
    fn soft_relu(x: Floats; SoftRelu<'a> { threshold: f32 = 40.0, name: Name = None }) -> Var { |b|
        one_op(b, "soft_relu", name).input("X", x).attr("threshold", threshold).out("Out")
    }

    /// x moved by alpha (0.5 if None) towards 0, but not beyond it.
    fn softshrink(x: Floats; alpha: MaybeF32 = None) -> Var { |b|
        one_op(b, "softshrink", None).input("X", x).attr("lambda", alpha.unwrap_or(0.5)).out("Out")
    }

    /// scale_b tanh(scale_a x).
    fn stanh(x: Floats; Stanh<'a> {
        scale_a: f32 = 0.67, scale_b: f32 = 1.7159, name: Name = None,
    }) -> Var { |b|
        let op = one_op(b, "stanh", name).input("X", x);
        op.attr("scale_a", scale_a).attr("scale_b", scale_b).out("Out")
    }

    /// x / (1 + e^(-beta x)).
    fn swish(x: Floats; Swish<'a> { beta: f32 = 1.0, name: Name = None }) -> Var { |b|
        one_op(b, "swish", name).input("X", x).attr("beta", beta).out("Out")
    }

    /// x above `threshold` (1.0 if None), else 0.
    fn thresholded_relu(x: Floats; threshold: MaybeF32 = None) -> Var { |b|
        let op = one_op(b, "thresholded_relu", None).input("X", x);
        op.attr("threshold", threshold.unwrap_or(1.0)).out("Out")
    }
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
        let y = softshrink(&mut b, &y, Some(0.25)).unwrap();
        assert_eq!(y.name(), "softshrink_0.tmp_0");
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
        sign(&mut b, &x).unwrap();
        erf(&mut b, &x).unwrap();
        brelu(&mut b, &x, Brelu::default()).unwrap();
        elu(&mut b, &x, Elu::default()).unwrap();
        gelu(&mut b, &x, false).unwrap();
        hard_shrink(&mut b, &x, None).unwrap();
        hard_sigmoid(&mut b, &x, HardSigmoid::default()).unwrap();
        hard_swish(&mut b, &x, HardSwish::default()).unwrap();
        leaky_relu(&mut b, &x, LeakyRelu::default()).unwrap();
        pow(&mut b, &x, Pow::default()).unwrap();
        relu6(&mut b, &x, Relu6::default()).unwrap();
        soft_relu(&mut b, &x, SoftRelu::default()).unwrap();
        stanh(&mut b, &x, Stanh::default()).unwrap();
        swish(&mut b, &x, Swish::default()).unwrap();
        thresholded_relu(&mut b, &x, None).unwrap();
    }
}
