//! Adadelta. Its op reads no learning rate.

use super::{Kind, State};
use crate::attr::Attr;

/// `AdadeltaOptimizer`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Adadelta {
    pub epsilon: f32,
    pub rho: f32,
}

impl Default for Adadelta {
    fn default() -> Self {
        Self { epsilon: 1e-6, rho: 0.95 }
    }
}

impl Kind for Adadelta {
    fn op(&self) -> &'static str {
        "adadelta"
    }

    fn states(&self) -> Vec<State> {
        // The underscores in front are part of the names on disk.
        vec![
            State::per_weight("_avg_squared_grad", "AvgSquaredGrad", "AvgSquaredGradOut"),
            State::per_weight("_avg_squared_update", "AvgSquaredUpdate", "AvgSquaredUpdateOut"),
        ]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        vec![("epsilon", self.epsilon.into()), ("rho", self.rho.into())]
    }

    fn has_learning_rate(&self) -> bool {
        false
    }
}
