//! Adagrad that forgets.

use super::{Kind, State};
use crate::attr::Attr;

/// `DecayedAdagradOptimizer`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct DecayedAdagrad {
    pub decay: f32,
    pub epsilon: f32,
}

impl Default for DecayedAdagrad {
    fn default() -> Self {
        Self { decay: 0.95, epsilon: 1e-6 }
    }
}

impl Kind for DecayedAdagrad {
    fn op(&self) -> &'static str {
        "decayed_adagrad"
    }

    fn states(&self) -> Vec<State> {
        vec![State::per_weight("moment", "Moment", "MomentOut")]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        vec![("decay", self.decay.into()), ("epsilon", self.epsilon.into())]
    }
}
