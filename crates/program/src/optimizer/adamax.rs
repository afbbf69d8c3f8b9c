//! Adamax. A `scale` op per parameter multiplies the power of beta1.

use super::{Kind, State};
use crate::attr::Attr;

/// `AdamaxOptimizer`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Adamax {
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
}

impl Default for Adamax {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

const BETA1_POW: &str = "beta1_pow_acc";

impl Kind for Adamax {
    fn op(&self) -> &'static str {
        "adamax"
    }

    fn states(&self) -> Vec<State> {
        vec![
            State::per_weight("moment", "Moment", "MomentOut"),
            State::per_weight("inf_norm", "InfNorm", "InfNormOut"),
            State::scalar(BETA1_POW, "Beta1Pow", self.beta1),
        ]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        vec![
            ("beta1", self.beta1.into()),
            ("beta2", self.beta2.into()),
            ("epsilon", self.epsilon.into()),
        ]
    }

    fn scaled_after(&self) -> Option<(&'static str, f32)> {
        Some((BETA1_POW, self.beta1))
    }
}
