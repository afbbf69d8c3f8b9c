//! Momentum, plain and Nesterov's.

use super::{Kind, State};
use crate::attr::Attr;

/// `MomentumOptimizer`; Fluid has no default for `momentum`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Momentum {
    pub momentum: f32,
    pub use_nesterov: bool,
}

impl Kind for Momentum {
    fn op(&self) -> &'static str {
        "momentum"
    }

    fn states(&self) -> Vec<State> {
        vec![State::per_weight("velocity", "Velocity", "VelocityOut")]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        vec![("mu", self.momentum.into()), ("use_nesterov", self.use_nesterov.into())]
    }
}
