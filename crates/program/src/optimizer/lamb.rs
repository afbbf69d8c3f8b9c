//! LAMB.

use super::{Kind, State};
use crate::attr::Attr;

/// `LambOptimizer`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Lamb {
    pub lamb_weight_decay: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    /// Parameters that do not decay: those for which `exclude_from_weight_decay_fn` says so.
    pub exclude_from_weight_decay: Vec<String>,
}

impl Default for Lamb {
    fn default() -> Self {
        Self {
            lamb_weight_decay: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-6,
            exclude_from_weight_decay: Vec::new(),
        }
    }
}

impl Kind for Lamb {
    fn op(&self) -> &'static str {
        "lamb"
    }

    fn states(&self) -> Vec<State> {
        vec![
            State::per_weight("moment1", "Moment1", "Moment1Out"),
            State::per_weight("moment2", "Moment2", "Moment2Out"),
            State::scalar("beta1_pow_acc", "Beta1Pow", self.beta1),
            State::scalar("beta2_pow_acc", "Beta2Pow", self.beta2),
        ]
    }

    fn attrs(&self, param: &str) -> Vec<(&'static str, Attr)> {
        let excluded = self.exclude_from_weight_decay.iter().any(|name| name == param);
        let decay = if excluded { 0.0 } else { self.lamb_weight_decay };
        vec![
            ("beta1", self.beta1.into()),
            ("beta2", self.beta2.into()),
            ("epsilon", self.epsilon.into()),
            ("weight_decay", decay.into()),
        ]
    }
}
