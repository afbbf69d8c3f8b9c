//! Learning-rate schedules.

use program::layers::{self, Decay, PolynomialDecay};
use program::optimizer::LearningRate;
use pyo3::prelude::*;

use super::sizes::Number;
use crate::framework::context::layer;
use crate::framework::variable::{Input, PyVariable};

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(exponential_decay, m)?)?;
    m.add_function(wrap_pyfunction!(natural_exp_decay, m)?)?;
    m.add_function(wrap_pyfunction!(inverse_time_decay, m)?)?;
    m.add_function(wrap_pyfunction!(polynomial_decay, m)?)?;
    m.add_function(wrap_pyfunction!(piecewise_decay, m)?)?;
    m.add_function(wrap_pyfunction!(noam_decay, m)?)?;
    m.add_function(wrap_pyfunction!(cosine_decay, m)?)?;
    m.add_function(wrap_pyfunction!(linear_lr_warmup, m)?)
}

/// Schedules that decay by a rate every so many steps.
macro_rules! decays {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (learning_rate, decay_steps, decay_rate, staircase=false))]
        fn $name(
            py: Python<'_>,
            learning_rate: f64,
            decay_steps: f64,
            decay_rate: f64,
            staircase: bool,
        ) -> PyResult<PyVariable> {
            let decay = Decay { learning_rate, decay_steps, decay_rate, staircase };
            layer(py, |b| layers::$name(b, decay))
        }
    )*};
}

decays! {
    /// `learning_rate * decay_rate ^ (step / decay_steps)`.
    exponential_decay;
    /// `learning_rate * exp(-decay_rate * step / decay_steps)`.
    natural_exp_decay;
    /// `learning_rate / (1 + decay_rate * step / decay_steps)`.
    inverse_time_decay;
}

/// `(learning_rate - end) * (1 - step / decay_steps) ^ power + end`.
#[pyfunction]
#[pyo3(signature = (learning_rate, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=false))]
fn polynomial_decay(
    py: Python<'_>,
    learning_rate: f64,
    decay_steps: f64,
    end_learning_rate: f64,
    power: f64,
    cycle: bool,
) -> PyResult<PyVariable> {
    let decay = PolynomialDecay { learning_rate, decay_steps, end_learning_rate, power, cycle };
    layer(py, |b| layers::polynomial_decay(b, decay))
}

/// The first of `values` whose boundary lies beyond the step, else the last.
#[pyfunction]
fn piecewise_decay(py: Python<'_>, boundaries: Vec<f64>, values: Vec<f64>) -> PyResult<PyVariable> {
    layer(py, |b| layers::piecewise_decay(b, &boundaries, &values))
}

/// `learning_rate * d_model ^ -0.5 * min(step ^ -0.5, step * warmup_steps ^ -1.5)`.
#[pyfunction]
#[pyo3(signature = (d_model, warmup_steps, learning_rate=1.0))]
fn noam_decay(
    py: Python<'_>,
    d_model: f64,
    warmup_steps: f64,
    learning_rate: f64,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::noam_decay(b, d_model, warmup_steps, learning_rate))
}

/// `learning_rate * (cos(epoch * pi / epochs) + 1) / 2`.
#[pyfunction]
fn cosine_decay(
    py: Python<'_>,
    learning_rate: f64,
    step_each_epoch: f64,
    epochs: f64,
) -> PyResult<PyVariable> {
    layer(py, |b| layers::cosine_decay(b, learning_rate, step_each_epoch, epochs))
}

/// From `start_lr` in a line towards `end_lr` for `warmup_steps`, then `learning_rate`.
#[pyfunction]
fn linear_lr_warmup(
    py: Python<'_>,
    learning_rate: &Bound<'_, PyAny>,
    warmup_steps: f64,
    start_lr: f64,
    end_lr: f64,
) -> PyResult<PyVariable> {
    let rate = if learning_rate.is_instance_of::<PyVariable>() {
        LearningRate::Var(learning_rate.extract::<Input>()?.0)
    } else {
        LearningRate::Value(learning_rate.extract::<Number>()?.0 as f32)
    };
    layer(py, |b| layers::linear_lr_warmup(b, rate, warmup_steps, start_lr, end_lr))
}
