//! Momentum with a learning rate per layer (LARS).

use super::{Kind, State};
use crate::attr::Attr;

/// `LarsMomentumOptimizer`; Fluid has no default for `momentum`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct LarsMomentum {
    pub momentum: f32,
    pub lars_coeff: f32,
    pub lars_weight_decay: f32,
}

impl LarsMomentum {
    /// Fluid's defaults for the rest.
    pub fn new(momentum: f32) -> Self {
        Self { momentum, lars_coeff: 0.001, lars_weight_decay: 0.0005 }
    }
}

impl Kind for LarsMomentum {
    fn op(&self) -> &'static str {
        "lars_momentum"
    }

    fn states(&self) -> Vec<State> {
        vec![State::per_weight("velocity", "Velocity", "VelocityOut")]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        vec![
            ("mu", self.momentum.into()),
            ("lars_coeff", self.lars_coeff.into()),
            ("lars_weight_decay", self.lars_weight_decay.into()),
        ]
    }
}
