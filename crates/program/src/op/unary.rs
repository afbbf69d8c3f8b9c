//! Ops on one number at a time: Out = f(X), and dX from dOut and either X or Out.
//!
//! The table at the bottom holds the formulas. Each is compiled for `f32` and `f64`, and the
//! gradient reads what Fluid's reads (X or Out), so that programs of either are the same.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::map::{apply, apply_2, map, map_grad};
use super::sign::sign;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

/// Which variable of the forward op a gradient op reads.
#[derive(Clone, Copy)]
pub(super) enum Reads {
    X,
    Out,
    Nothing,
}

impl Reads {
    /// The port a gradient kernel gets numbers from, beside the gradient of Out.
    pub(super) fn port(self) -> &'static str {
        match self {
            Reads::X => "X",
            Reads::Out => "Out",
            Reads::Nothing => "Out@GRAD",
        }
    }

    fn emit(self, grad: &mut Grad<'_>) -> Result<()> {
        let (inputs, outputs): (&[&str], &[&str]) = match self {
            Reads::X => (&["X"], &[]),
            Reads::Out => (&[], &["Out"]),
            Reads::Nothing => (&[], &[]),
        };
        grad.emit_usual(Keep { inputs, outputs, out_grads: &["Out"], in_grads: &["X"] })
    }
}

/// An attribute in the type that is computed in; `T` is the caller's.
macro_rules! in_width {
    (float $value:ident $T:ident) => {
        $value as $T
    };
    (bool $value:ident $T:ident) => {
        $value
    };
}

/// `Op, OpGrad [types] [attribute: kind = default, ...], |x| value, Reads |x or out, d| gradient;`
///
/// The types are those that a layer takes; there are none if it takes all.
macro_rules! unary {
    ($(
        $op:ident, $grad:ident [$($dtype:ident),*] [$($param:ident: $kind:ident = $default:expr),*],
        |$x:ident| $value:expr,
        $reads:ident |$known:ident, $d:ident| $slope:expr;
    )*) => {$(
        pub(super) struct $op;
        pub(super) struct $grad;

        impl Op for $op {
            traits!(Rows("X"), "X": [$($dtype),*]);

            fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
                let x = infer.input("X")?;
                infer.set_output("Out", x)
            }

            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                $(let $param = run.attrs().$kind(stringify!($param), $default)?;)*
                map(run, |run, x, out| for_float!(x.dtype(), run.input_name("X"), T => {
                    $(let $param = in_width!($kind $param T);)*
                    apply(x.data::<T>()?, out.resize::<T>(x.shape()), |$x: T| $value);
                    Ok(())
                }))
            }

            fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
                Reads::$reads.emit(grad)
            }
        }

        impl Kernel for $grad {
            fn run(&self, run: &mut Run<'_>) -> Result<()> {
                $(let $param = run.attrs().$kind(stringify!($param), $default)?;)*
                let port = Reads::$reads.port();
                map_grad(run, port, |known, d_out, d_x| for_float!(known.dtype(), port, T => {
                    // Not every derivative needs every attribute.
                    $(let $param = in_width!($kind $param T); let _ = $param;)*
                    let (d_out, d_x) = (d_out.data::<T>()?, d_x.resize::<T>(known.shape()));
                    apply_2(known.data::<T>()?, d_out, d_x, |$known: T, $d: T| $slope);
                    Ok(())
                }))
            }
        }
    )*};
}

/// `d` where a condition holds, else 0: a product would make 0 times infinity.
fn pass<T: tensor::Float>(condition: bool, d: T) -> T {
    if condition { d } else { T::zero() }
}

/// The error function.
fn erf<T: tensor::Float>(x: T) -> T {
    T::of(libm::erf(x.f64()))
}

fn erf_slope<T: tensor::Float>(x: T) -> T {
    T::of(FRAC_2_SQRT_PI * (-x.f64() * x.f64()).exp())
}

/// The chance that a normal variable stays below `x`.
fn normal_below<T: tensor::Float>(x: T) -> T {
    T::of(0.5 * (1.0 + libm::erf(x.f64() * FRAC_1_SQRT_2)))
}

/// The density of a normal variable at `x`.
fn normal_at<T: tensor::Float>(x: T) -> T {
    let x = x.f64();
    T::of(0.5 * FRAC_1_SQRT_2 * FRAC_2_SQRT_PI * (-0.5 * x * x).exp())
}

/// log(1 + e^x), approximated beyond a threshold above 0.
fn near_softplus<T: tensor::Float>(x: T, threshold: T) -> T {
    if threshold > T::zero() && x > threshold {
        x
    } else if threshold > T::zero() && x < -threshold {
        x.exp()
    } else {
        x.exp().ln_1p()
    }
}

/// The argument of the `tanh` that stands in for the error function, and its derivative.
fn gelu_inner<T: tensor::Float>(x: T) -> (T, T) {
    let (scale, cubic) = (T::of(FRAC_2_SQRT_PI * FRAC_1_SQRT_2), T::of(0.044715));
    let inner = scale * (x + cubic * x * x * x);
    (inner, scale * (T::one() + T::of(3.0) * cubic * x * x))
}

unary! {
    Abs, AbsGrad [F16, F32, F64] [],
        |x| x.abs(),
        X |x, d| d * sign(x);
    Acos, AcosGrad [F16, F32, F64] [],
        |x| x.acos(),
        X |x, d| -d / (1.0 - x * x).sqrt();
    Asin, AsinGrad [F16, F32, F64] [],
        |x| x.asin(),
        X |x, d| d / (1.0 - x * x).sqrt();
    Atan, AtanGrad [F16, F32, F64] [],
        |x| x.atan(),
        X |x, d| d / (1.0 + x * x);
    Brelu, BreluGrad [F16, F32, F64] [t_min: float = 0.0, t_max: float = 24.0],
        |x| x.max(t_min).min(t_max),
        X |x, d| pass(t_min < x && x < t_max, d);
    Ceil, CeilGrad [F16, F32, F64] [],
        |x| x.ceil(),
        Nothing |_d_out, _d| 0.0;
    Cos, CosGrad [F16, F32, F64] [],
        |x| x.cos(),
        X |x, d| -d * x.sin();
    Elu, EluGrad [F16, F32, F64] [alpha: float = 1.0],
        |x| if x > 0.0 { x } else { alpha * (x.exp() - 1.0) },
        X |x, d| if x > 0.0 { d } else { d * alpha * x.exp() };
    Erf, ErfGrad [] [],
        |x| erf(x),
        X |x, d| d * erf_slope(x);
    Exp, ExpGrad [F16, F32, F64] [],
        |x| x.exp(),
        Out |out, d| d * out;
    Floor, FloorGrad [F16, F32, F64] [],
        |x| x.floor(),
        Nothing |_d_out, _d| 0.0;
    Gelu, GeluGrad [F16, F32, F64] [approximate: bool = false],
        |x| if approximate {
            0.5 * x * (1.0 + gelu_inner(x).0.tanh())
        } else {
            x * normal_below(x)
        },
        X |x, d| if approximate {
            let (inner, slope) = gelu_inner(x);
            let tanh = inner.tanh();
            d * 0.5 * (1.0 + tanh + x * (1.0 - tanh * tanh) * slope)
        } else {
            d * (normal_below(x) + x * normal_at(x))
        };
    HardShrink, HardShrinkGrad [F16, F32, F64] [threshold: float = 0.5],
        |x| pass(x < -threshold || x > threshold, x),
        X |x, d| pass(x < -threshold || x > threshold, d);
    HardSigmoid, HardSigmoidGrad [F16, F32, F64] [slope: float = 0.2, offset: float = 0.5],
        |x| (slope * x + offset).clamp(0.0, 1.0),
        Out |out, d| pass(0.0 < out && out < 1.0, d * slope);
    // Above the threshold the slope is 1, as in Fluid, also where threshold and scale differ.
    HardSwish, HardSwishGrad [F16, F32, F64]
        [threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0],
        |x| x * (x + offset).max(0.0).min(threshold) / scale,
        X |x, d| if x + offset < threshold {
            pass(x + offset > 0.0, d * (2.0 * x + offset) / scale)
        } else {
            d
        };
    LeakyRelu, LeakyReluGrad [F16, F32, F64] [alpha: float = 0.02],
        |x| x.max(alpha * x),
        Out |out, d| if out > 0.0 { d } else { alpha * d };
    Log, LogGrad [F32, F64] [],
        |x| x.ln(),
        X |x, d| d / x;
    Log1p, Log1pGrad [F32, F64] [],
        |x| x.ln_1p(),
        X |x, d| d / (1.0 + x);
    Logsigmoid, LogsigmoidGrad [F16, F32, F64] [],
        |x| x.min(0.0) - (-x.abs()).exp().ln_1p(),
        X |x, d| d / (1.0 + x.exp());
    Mish, MishGrad [F32, F64] [threshold: float = 20.0],
        |x| x * near_softplus(x, threshold).tanh(),
        X |x, d| {
            let softplus = near_softplus(x, threshold);
            let tanh = softplus.tanh();
            d * (tanh - x * (1.0 - tanh * tanh) * (-softplus).exp_m1())
        };
    Reciprocal, ReciprocalGrad [F16, F32, F64] [],
        |x| 1.0 / x,
        Out |out, d| -d * out * out;
    Relu, ReluGrad [F16, F32, F64] [],
        |x| x.max(0.0),
        Out |out, d| pass(out > 0.0, d);
    Relu6, Relu6Grad [F16, F32, F64] [threshold: float = 6.0],
        |x| x.max(0.0).min(threshold),
        Out |out, d| pass(0.0 < out && out < threshold, d);
    Round, RoundGrad [F16, F32, F64] [],
        |x| x.round(),
        Nothing |_d_out, _d| 0.0;
    Rsqrt, RsqrtGrad [F16, F32, F64] [],
        |x| 1.0 / x.sqrt(),
        Out |out, d| -0.5 * d * out * out * out;
    Selu, SeluGrad [F32, F64] [scale: float = 1.050_701, alpha: float = 1.673_263_2],
        |x| if x > 0.0 { scale * x } else { scale * (alpha * x.exp() - alpha) },
        Out |out, d| if out > 0.0 { scale * d } else { d * (out + scale * alpha) };
    Sigmoid, SigmoidGrad [F16, F32, F64] [],
        |x| 1.0 / (1.0 + (-x).exp()),
        Out |out, d| d * out * (1.0 - out);
    Sin, SinGrad [F16, F32, F64] [],
        |x| x.sin(),
        X |x, d| d * x.cos();
    // The input is bounded, the derivative is cut by the bounded output, as in Fluid.
    SoftRelu, SoftReluGrad [F16, F32, F64] [threshold: float = 40.0],
        |x| (1.0 + x.max(-threshold).min(threshold).exp()).ln(),
        Out |out, d| pass(-threshold < out && out < threshold, d * (1.0 - (-out).exp()));
    Softplus, SoftplusGrad [F16, F32, F64] [],
        |x| x.max(0.0) + (-x.abs()).exp().ln_1p(),
        X |x, d| d / (1.0 + (-x).exp());
    Softshrink, SoftshrinkGrad [F16, F32, F64] [lambda: float = 0.5],
        |x| if x > lambda { x - lambda } else { pass(x < -lambda, x + lambda) },
        X |x, d| pass(x < -lambda || x > lambda, d);
    Softsign, SoftsignGrad [F16, F32, F64] [],
        |x| x / (1.0 + x.abs()),
        X |x, d| d / ((1.0 + x.abs()) * (1.0 + x.abs()));
    Sqrt, SqrtGrad [F16, F32, F64] [],
        |x| x.sqrt(),
        Out |out, d| 0.5 * d / out;
    Square, SquareGrad [F16, F32, F64] [],
        |x| x * x,
        X |x, d| 2.0 * d * x;
    Stanh, StanhGrad [F16, F32, F64] [scale_a: float = 0.67, scale_b: float = 1.7159],
        |x| scale_b * (scale_a * x).tanh(),
        X |x, d| {
            let tanh = (scale_a * x).tanh();
            d * scale_a * scale_b * (1.0 - tanh * tanh)
        };
    Swish, SwishGrad [F16, F32, F64] [beta: float = 1.0],
        |x| x / (1.0 + (-beta * x).exp()),
        X |x, d| {
            let sigmoid = 1.0 / (1.0 + (-beta * x).exp());
            d * (sigmoid + beta * x * sigmoid * (1.0 - sigmoid))
        };
    Tanh, TanhGrad [F16, F32, F64] [],
        |x| x.tanh(),
        Out |out, d| d * (1.0 - out * out);
    TanhShrink, TanhShrinkGrad [F16, F32, F64] [],
        |x| x - x.tanh(),
        X |x, d| d * x.tanh() * x.tanh();
    ThresholdedRelu, ThresholdedReluGrad [F16, F32, F64] [threshold: float = 1.0],
        |x| pass(x > threshold, x),
        X |x, d| pass(x > threshold, d);
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{E, FRAC_PI_3, FRAC_PI_4, FRAC_PI_6, LN_2};

    use tensor::{Rows, Value};

    use crate::attr::Attr;
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, t};

    const X: [f64; 5] = [-2.0, -0.4, 0.3, 1.0, 7.0];

    /// Values at [`X`] (first four digits or more), as the real Fluid computed or by hand.
    const VALUES: &[(&str, [f64; 5])] = &[
        ("abs", [2.0, 0.4, 0.3, 1.0, 7.0]),
        ("atan", [-1.107149, -0.380506, 0.291457, FRAC_PI_4, 1.428899]),
        ("brelu", [0.0, 0.0, 0.3, 1.0, 7.0]),
        ("ceil", [-2.0, 0.0, 1.0, 1.0, 7.0]),
        ("cos", [-0.416147, 0.921061, 0.955336, 0.540302, 0.753902]),
        ("elu", [-0.864665, -0.329680, 0.3, 1.0, 7.0]),
        ("exp", [0.135335, 0.670320, 1.349859, E, 1096.633158]),
        ("floor", [-2.0, -1.0, 0.0, 1.0, 7.0]),
        ("gelu", [-0.045500, -0.137831, 0.185373, 0.841345, 7.0]),
        ("hard_shrink", [-2.0, 0.0, 0.0, 1.0, 7.0]),
        ("hard_sigmoid", [0.1, 0.42, 0.56, 0.7, 1.0]),
        ("hard_swish", [-0.333333, -0.173333, 0.165, 0.666667, 7.0]),
        ("leaky_relu", [-0.04, -0.008, 0.3, 1.0, 7.0]),
        ("logsigmoid", [-2.126928, -0.913015, -0.554355, -0.313262, -0.000911]),
        ("reciprocal", [-0.5, -2.5, 3.333333, 1.0, 0.142857]),
        ("relu", [0.0, 0.0, 0.3, 1.0, 7.0]),
        ("relu6", [0.0, 0.0, 0.3, 1.0, 6.0]),
        ("round", [-2.0, 0.0, 0.0, 1.0, 7.0]),
        ("sigmoid", [0.119203, 0.401312, 0.574443, 0.731059, 0.999089]),
        ("sin", [-0.909297, -0.389418, 0.295520, 0.841471, 0.656987]),
        ("soft_relu", [0.126928, 0.513015, 0.854355, 1.313262, 7.000911]),
        ("softplus", [0.126928, 0.513015, 0.854355, 1.313262, 7.000911]),
        ("softshrink", [-1.5, 0.0, 0.0, 0.5, 6.5]),
        ("softsign", [-0.666667, -0.285714, 0.230769, 0.5, 0.875]),
        ("square", [4.0, 0.16, 0.09, 1.0, 49.0]),
        ("stanh", [-1.495702, -0.449159, 0.340325, 1.003767, 1.715611]),
        ("swish", [-0.238406, -0.160525, 0.172333, 0.731059, 6.993623]),
        ("tanh", [-0.964028, -0.379949, 0.291313, 0.761594, 0.999998]),
        ("tanh_shrink", [-1.035972, -0.020051, 0.008687, 0.238406, 6.000002]),
        ("thresholded_relu", [0.0, 0.0, 0.0, 0.0, 7.0]),
    ];

    #[test]
    fn values_follow_fluid() {
        for (name, out) in VALUES {
            let x = seq(t(&[5], &X), &[2, 3]);
            check(name).input("X", x).within(2e-6).gives("Out", seq(t(&[5], out), &[2, 3]));
        }
        let part = |name, x: &[f64], out: &[f64]| {
            check(name).input("X", t(&[2], x)).gives("Out", t(&[2], out));
        };
        part("log", &[1.0, 2.0], &[0.0, LN_2]);
        part("sqrt", &[4.0, 0.25], &[2.0, 0.5]);
        part("rsqrt", &[4.0, 0.25], &[0.5, 2.0]);
        part("asin", &[0.3, 0.5], &[0.3046927, FRAC_PI_6]);
        part("acos", &[0.3, 0.5], &[1.2661037, FRAC_PI_3]);
        part("round", &[2.5, -0.5], &[3.0, -1.0]);
    }

    fn with(name: &str, attrs: &[(&str, f32)]) -> Check {
        attrs.iter().fold(check(name), |op, &(attr, value)| op.attr(attr, value))
    }

    #[test]
    fn attributes_change_the_curve() {
        let is = |op: Check, out: &[f64]| {
            op.input("X", t(&[2], &[-2.0, 2.0])).within(1e-6).gives("Out", t(&[2], out));
        };
        is(with("brelu", &[("t_min", -1.0), ("t_max", 1.5)]), &[-1.0, 1.5]);
        is(with("elu", &[("alpha", 2.0)]), &[-1.7293294, 2.0]);
        is(with("hard_shrink", &[("threshold", 2.0)]), &[0.0, 0.0]);
        is(with("hard_sigmoid", &[("slope", 0.25), ("offset", 0.25)]), &[0.0, 0.75]);
        is(with("hard_swish", &[("threshold", 4.0)]), &[-1.0 / 3.0, 4.0 / 3.0]);
        is(with("leaky_relu", &[("alpha", 0.5)]), &[-1.0, 2.0]);
        is(with("relu6", &[("threshold", 1.0)]), &[0.0, 1.0]);
        is(with("soft_relu", &[("threshold", 1.0)]), &[0.3132617, 1.3132617]);
        is(with("softshrink", &[("lambda", 1.5)]), &[-0.5, 0.5]);
        is(with("stanh", &[("scale_a", 1.0), ("scale_b", 1.0)]), &[-0.9640276, 0.9640276]);
        is(with("swish", &[("beta", 2.0)]), &[-0.0359724, 1.9640276]);
        is(with("thresholded_relu", &[("threshold", 2.0)]), &[0.0, 0.0]);
        is(check("gelu").attr("approximate", true), &[-0.0454023, 1.9545977]);
    }

    #[test]
    fn gradients_match_finite_differences() {
        for (name, _) in VALUES {
            // Stays away from corners and jumps.
            let x = t(&[6], &[-2.2, -0.6, -0.35, 0.3, 1.2, 6.7]);
            check(name).input("X", x).output("Out").grad(&["X"]);
        }
        for name in ["log", "sqrt", "rsqrt", "asin", "acos"] {
            check(name).input("X", t(&[2], &[0.3, 0.8])).output("Out").grad(&["X"]);
        }
        let x = || t(&[3], &[-1.7, 0.4, 1.3]);
        check("gelu").attr("approximate", true).input("X", x()).output("Out").grad(&["X"]);
        with("swish", &[("beta", 2.0)]).input("X", x()).output("Out").grad(&["X"]);
    }

    #[test]
    fn corners_have_fluids_gradient() {
        let grad = |name: &str, port, known: f64| {
            let op = check(&format!("{name}_grad")).input(port, t(&[1], &[known]));
            let d_x = op.input("Out@GRAD", t(&[1], &[3.0])).output("X@GRAD").run("X@GRAD");
            d_x.tensor().expect("written").get_f64(0)
        };
        assert_eq!(grad("relu", "Out", 0.0), 0.0);
        assert_eq!(grad("relu6", "Out", 6.0), 0.0);
        assert_eq!(grad("abs", "X", 0.0), 0.0);
        assert_eq!(grad("elu", "X", 0.0), 3.0);
        assert_eq!(grad("softshrink", "X", 0.5), 0.0);
        assert_eq!(grad("hard_sigmoid", "Out", 1.0), 0.0);
    }

    #[test]
    fn rows_keep_their_ids() {
        let rows = Rows { ids: vec![3, 1, 3], height: 5, value: t(&[3, 1], &[1.0, 2.0, 3.0]) };
        let op = check("square").input("X", rows.clone()).output("Out");
        let expected = Rows { value: t(&[3, 1], &[1.0, 4.0, 9.0]), ..rows };
        assert_eq!(op.run("Out"), Value::Rows(expected));
    }

    #[test]
    fn refuse_other_types_shapes_and_attributes() {
        let error = check("tanh").input("X", ids(&[1], &[1])).output("Out").fails();
        assert!(matches!(error.root(), Error::DType { .. }), "{error}");
        let op = check("elu").attr("alpha", Attr::Str("much".into()));
        let error = op.input("X", t(&[1], &[1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let op = check("relu_grad").input("Out", t(&[1], &[1.0]));
        let error = op.input("Out@GRAD", t(&[2], &[1.0, 1.0])).output("X@GRAD").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
