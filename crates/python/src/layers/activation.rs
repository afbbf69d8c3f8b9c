//! Activations and other functions of one number at a time.

use program::layers;
use pyo3::prelude::*;

use super::arguments::truth;
use crate::context::layer;
use crate::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add_plain(m)?;
    add_with_options(m)?;
    m.add_function(wrap_pyfunction!(gelu, m)?)?;
    m.add_function(wrap_pyfunction!(hard_shrink, m)?)?;
    m.add_function(wrap_pyfunction!(sign, m)?)?;
    m.add_function(wrap_pyfunction!(softshrink, m)?)?;
    m.add_function(wrap_pyfunction!(thresholded_relu, m)?)
}

/// `name(x, name=None)`.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x, name=None))]
            fn $name(py: Python<'_>, x: Input, name: Option<&str>) -> PyResult<PyVariable> {
                layer(py, |b| layers::$name(b, &x.0, name))
            }
        )*

        fn add_plain(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}

plain! {
    /// The distance from 0: |x|.
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
    /// e to the power of x.
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
    /// The sine.
    sin;
    /// log(1 + e^x).
    softplus;
    /// x / (1 + |x|).
    softsign;
    /// The square root.
    sqrt;
    /// The square, x * x.
    square;
    /// The hyperbolic tangent.
    tanh;
    /// x - tanh(x).
    tanh_shrink;
}

/// `name(x, options, name=None)`.
macro_rules! with_options {
    ($($(#[$doc:meta])* $name:ident, $options:ident { $($attr:ident = $default:tt),* };)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x, $($attr=$default,)* name=None))]
            fn $name(
                py: Python<'_>,
                x: Input,
                $($attr: f32,)*
                name: Option<&str>,
            ) -> PyResult<PyVariable> {
                layer(py, |b| layers::$name(b, &x.0, layers::$options { $($attr,)* name }))
            }
        )*

        fn add_with_options(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}

with_options! {
    /// x, but not below `t_min` and not above `t_max`.
    brelu, Brelu { t_min = 0.0, t_max = 24.0 };
    /// x above 0, else alpha (e^x - 1).
    elu, Elu { alpha = 1.0 };
    /// slope x + offset, between 0 and 1.
    hard_sigmoid, HardSigmoid { slope = 0.2, offset = 0.5 };
    /// x min(max(x + offset, 0), threshold) / scale.
    hard_swish, HardSwish { threshold = 6.0, scale = 6.0, offset = 3.0 };
    /// max(x, alpha x).
    leaky_relu, LeakyRelu { alpha = 0.02 };
    /// x to the power of `factor`.
    pow, Pow { factor = 1.0 };
    /// x, but not below 0 and not above `threshold`.
    relu6, Relu6 { threshold = 6.0 };
    /// log(1 + e^x), with x between -threshold and threshold.
    soft_relu, SoftRelu { threshold = 40.0 };
    /// scale_b tanh(scale_a x).
    stanh, Stanh { scale_a = 0.67, scale_b = 1.7159 };
    /// x / (1 + e^(-beta x)).
    swish, Swish { beta = 1.0 };
}

/// x times the chance that a normal variable stays below x, or its approximation by tanh.
#[pyfunction]
#[pyo3(signature = (x, approximate=false))]
fn gelu(
    py: Python<'_>,
    x: Input,
    #[pyo3(from_py_with = truth)] approximate: bool,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::gelu(b, &x.0, layers::Gelu { approximate, name: None }))
}

/// x where |x| > threshold (0.5 if None), else 0.
#[pyfunction]
#[pyo3(signature = (x, threshold=None))]
fn hard_shrink(py: Python<'_>, x: Input, threshold: Option<f32>) -> PyResult<PyVariable> {
    let options = layers::HardShrink::default();
    let threshold = threshold.unwrap_or(options.threshold);
    layer(py, |b| layers::hard_shrink(b, &x.0, layers::HardShrink { threshold, ..options }))
}

/// -1, 0 or 1.
#[pyfunction]
fn sign(py: Python<'_>, x: Input) -> PyResult<PyVariable> {
    layer(py, |b| layers::sign(b, &x.0, None))
}

/// x moved by alpha (0.5 if None) towards 0, but not beyond it.
#[pyfunction]
#[pyo3(signature = (x, alpha=None))]
fn softshrink(py: Python<'_>, x: Input, alpha: Option<f32>) -> PyResult<PyVariable> {
    let options = layers::Softshrink::default();
    let alpha = alpha.unwrap_or(options.alpha);
    layer(py, |b| layers::softshrink(b, &x.0, layers::Softshrink { alpha, ..options }))
}

/// x above `threshold` (1.0 if None), else 0.
#[pyfunction]
#[pyo3(signature = (x, threshold=None))]
fn thresholded_relu(py: Python<'_>, x: Input, threshold: Option<f32>) -> PyResult<PyVariable> {
    let options = layers::ThresholdedRelu::default();
    let threshold = threshold.unwrap_or(options.threshold);
    let options = layers::ThresholdedRelu { threshold, ..options };
    layer(py, |b| layers::thresholded_relu(b, &x.0, options))
}
