//! Activations and other functions of one number at a time.

use program::layers;
use pyo3::prelude::*;

use super::arguments::{Amount, Floats, truth};
use crate::context::layer;
use crate::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add_plain(m)?;
    add_with_options(m)?;
    m.add_function(wrap_pyfunction!(gelu, m)?)?;
    m.add_function(wrap_pyfunction!(hard_shrink, m)?)?;
    m.add_function(wrap_pyfunction!(pow, m)?)?;
    m.add_function(wrap_pyfunction!(sign, m)?)?;
    m.add_function(wrap_pyfunction!(softshrink, m)?)?;
    m.add_function(wrap_pyfunction!(thresholded_relu, m)?)
}

/// `name(x, name=None)`.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident($x:ident);)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (x, name=None))]
            fn $name(py: Python<'_>, x: $x, name: Option<&str>) -> PyResult<PyVariable> {
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
    abs(Input);
    /// The angle whose cosine is x.
    acos(Floats);
    /// The angle whose sine is x.
    asin(Floats);
    /// The angle whose tangent is x.
    atan(Floats);
    /// The next whole number above.
    ceil(Floats);
    /// The cosine.
    cos(Floats);
    /// e to the power of x.
    exp(Input);
    /// The next whole number below.
    floor(Floats);
    /// The natural logarithm.
    log(Floats);
    /// log(1 / (1 + e^-x)).
    logsigmoid(Floats);
    /// 1 / x.
    reciprocal(Floats);
    /// max(x, 0).
    relu(Floats);
    /// The nearest whole number, halves away from zero.
    round(Floats);
    /// 1 / sqrt(x).
    rsqrt(Floats);
    /// 1 / (1 + e^-x).
    sigmoid(Floats);
    /// The sine.
    sin(Floats);
    /// log(1 + e^x).
    softplus(Floats);
    /// x / (1 + |x|).
    softsign(Floats);
    /// The square root.
    sqrt(Floats);
    /// The square, x * x.
    square(Input);
    /// The hyperbolic tangent.
    tanh(Floats);
    /// x - tanh(x).
    tanh_shrink(Floats);
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
                x: Floats,
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
fn hard_shrink(py: Python<'_>, x: Floats, threshold: Option<f32>) -> PyResult<PyVariable> {
    let options = layers::HardShrink::default();
    let threshold = threshold.unwrap_or(options.threshold);
    layer(py, |b| layers::hard_shrink(b, &x.0, layers::HardShrink { threshold, ..options }))
}

/// x to the power of `factor`, a number or a Variable.
#[pyfunction]
#[pyo3(
    signature = (x, factor=Amount::Is(1.0), name=None),
    text_signature = "(x, factor=1.0, name=None)"
)]
fn pow(py: Python<'_>, x: Input, factor: Amount<f32>, name: Option<&str>) -> PyResult<PyVariable> {
    let options = layers::Pow { name, ..layers::Pow::default() };
    let options = match &factor {
        Amount::Is(factor) => layers::Pow { factor: *factor, ..options },
        Amount::In(var) => layers::Pow { factor_var: Some(&var.0), ..options },
    };
    layer(py, |b| layers::pow(b, &x.0, options))
}

/// -1, 0 or 1.
#[pyfunction]
fn sign(py: Python<'_>, x: Floats) -> PyResult<PyVariable> {
    layer(py, |b| layers::sign(b, &x.0, None))
}

/// x moved by alpha (0.5 if None) towards 0, but not beyond it.
#[pyfunction]
#[pyo3(signature = (x, alpha=None))]
fn softshrink(py: Python<'_>, x: Floats, alpha: Option<f32>) -> PyResult<PyVariable> {
    let options = layers::Softshrink::default();
    let alpha = alpha.unwrap_or(options.alpha);
    layer(py, |b| layers::softshrink(b, &x.0, layers::Softshrink { alpha, ..options }))
}

/// x above `threshold` (1.0 if None), else 0.
#[pyfunction]
#[pyo3(signature = (x, threshold=None))]
fn thresholded_relu(py: Python<'_>, x: Floats, threshold: Option<f32>) -> PyResult<PyVariable> {
    let options = layers::ThresholdedRelu::default();
    let threshold = threshold.unwrap_or(options.threshold);
    let options = layers::ThresholdedRelu { threshold, ..options };
    layer(py, |b| layers::thresholded_relu(b, &x.0, options))
}
