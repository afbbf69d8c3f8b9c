//! Optimizers: gradients of a loss, clipped, regularized, and the ops that apply them.
//!
//! One file per kind of optimizer: its options with Fluid's defaults, its op and its state.
//! [`Optimizer`] does what they have in common.

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod again;
mod average;
pub mod clip;
mod decayed_adagrad;
mod ftrl;
mod lamb;
mod lars_momentum;
mod minimize;
mod momentum;
mod regularizer;
mod rmsprop;
mod sgd;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adamax::Adamax;
pub use again::{UpdatedTwice, updated_twice};
pub use average::{Lookahead, MovingAverage};
pub use clip::{clip_gradients, set_gradient_clip};
pub use decayed_adagrad::DecayedAdagrad;
pub use ftrl::Ftrl;
pub use lamb::Lamb;
pub use lars_momentum::LarsMomentum;
pub use minimize::{LearningRate, Optimizer};
pub use momentum::Momentum;
pub use rmsprop::RmsProp;
pub use sgd::Sgd;

use std::fmt;

use crate::attr::Attr;

/// What one kind of optimizer adds to a program for each parameter.
pub trait Kind: fmt::Debug + Send + Sync {
    /// The op that changes the parameter.
    fn op(&self) -> &'static str;

    /// The variables it keeps beside each parameter, in the order they are created.
    fn states(&self) -> Vec<State> {
        Vec::new()
    }

    /// The op's attributes.
    fn attrs(&self, param: &str) -> Vec<(&'static str, Attr)>;

    /// Whether the op reads a learning rate.
    fn has_learning_rate(&self) -> bool {
        true
    }

    /// A state that a `scale` op multiplies after all parameters have changed: its name, a factor.
    fn scaled_after(&self) -> Option<(&'static str, f32)> {
        None
    }
}

/// A variable that an optimizer keeps beside a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Part of its name: `<param>_<name>_0`.
    pub name: &'static str,
    /// The port it is read at.
    pub input: &'static str,
    /// The port it is written at, if the op changes it.
    pub output: Option<&'static str>,
    /// What it starts with.
    pub fill: f32,
    /// One number for the parameter instead of one for each weight.
    pub is_scalar: bool,
}

impl State {
    /// State for each weight, starting at 0.
    fn per_weight(name: &'static str, input: &'static str, output: &'static str) -> Self {
        Self { name, input, output: Some(output), fill: 0.0, is_scalar: false }
    }

    /// One number that starts at `fill`; the op only reads it.
    fn scalar(name: &'static str, input: &'static str, fill: f32) -> Self {
        Self { name, input, output: None, fill, is_scalar: true }
    }
}

#[cfg(test)]
mod tests;
