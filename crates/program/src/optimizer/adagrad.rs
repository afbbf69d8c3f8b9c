//! Adagrad.

use super::{Kind, State};
use crate::attr::Attr;

/// `AdagradOptimizer`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Adagrad {
    pub epsilon: f32,
    pub initial_accumulator_value: f32,
}

impl Default for Adagrad {
    fn default() -> Self {
        Self { epsilon: 1e-6, initial_accumulator_value: 0.0 }
    }
}

impl Kind for Adagrad {
    fn op(&self) -> &'static str {
        "adagrad"
    }

    fn states(&self) -> Vec<State> {
        let moment = State::per_weight("moment", "Moment", "MomentOut");
        vec![State { fill: self.initial_accumulator_value, ..moment }]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        vec![("epsilon", self.epsilon.into())]
    }
}
