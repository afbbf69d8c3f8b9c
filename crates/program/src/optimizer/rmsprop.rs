//! RMSProp, plain and centered.

use super::{Kind, State};
use crate::attr::Attr;

/// `RMSPropOptimizer`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct RmsProp {
    pub rho: f32,
    pub epsilon: f32,
    pub momentum: f32,
    pub centered: bool,
}

impl Default for RmsProp {
    fn default() -> Self {
        Self { rho: 0.95, epsilon: 1e-6, momentum: 0.0, centered: false }
    }
}

impl Kind for RmsProp {
    fn op(&self) -> &'static str {
        "rmsprop"
    }

    fn states(&self) -> Vec<State> {
        vec![
            State::per_weight("momentum", "Moment", "MomentOut"),
            State::per_weight("mean_square", "MeanSquare", "MeanSquareOut"),
            State::per_weight("mean_grad", "MeanGrad", "MeanGradOut"),
        ]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        vec![
            ("decay", self.rho.into()),
            ("epsilon", self.epsilon.into()),
            ("momentum", self.momentum.into()),
            ("centered", self.centered.into()),
        ]
    }
}
