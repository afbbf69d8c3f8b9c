//! Optimizers: gradients of a loss, clipped, regularized, and the ops that apply them.
//!
//! A kind of optimizer is a file of [`op::optimize`](crate::op::optimize); [`Optimizer`] does what they
//! have in common.

mod again;
mod average;
pub mod clip;
mod minimize;
mod regularizer;

pub use again::{UpdatedTwice, updated_twice};
pub use average::{Lookahead, MovingAverage};
pub use clip::{ClipReach, clip_gradients, clips_in_vain, set_gradient_clip};
pub use minimize::Optimizer;

pub use crate::layers::LearningRate;
pub use crate::op::optimize::*;

use crate::error::Result;
use crate::op;

/// All optimizers, their options as usual, in the order of their ops' names.
pub fn all() -> impl Iterator<Item = Box<dyn OptimizerKind>> {
    op::names().filter_map(|name| by_name(name).ok())
}

/// The optimizer that updates with this op, its options as usual.
pub fn by_name(op: &str) -> Result<Box<dyn OptimizerKind>> {
    op::find(op)?.optimizer().ok_or_else(|| op::unknown(op))
}

#[cfg(test)]
mod tests;
