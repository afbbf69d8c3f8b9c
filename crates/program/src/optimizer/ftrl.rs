//! Follow the regularized leader.

use super::{Kind, State};
use crate::attr::Attr;

/// `FtrlOptimizer`. Unlike Fluid 1.8, which hands l1 to the op twice, l2 is l2 here.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Ftrl {
    pub l1: f32,
    pub l2: f32,
    pub lr_power: f32,
}

impl Default for Ftrl {
    fn default() -> Self {
        Self { l1: 0.0, l2: 0.0, lr_power: -0.5 }
    }
}

impl Kind for Ftrl {
    fn op(&self) -> &'static str {
        "ftrl"
    }

    fn states(&self) -> Vec<State> {
        vec![
            State::per_weight("squared", "SquaredAccumulator", "SquaredAccumOut"),
            State::per_weight("linear", "LinearAccumulator", "LinearAccumOut"),
        ]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        vec![("l1", self.l1.into()), ("l2", self.l2.into()), ("lr_power", self.lr_power.into())]
    }
}
