//! Adam.

use super::{Kind, State};
use crate::attr::Attr;

/// `AdamOptimizer`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Adam {
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    /// Rows that a sparse gradient does not list stay as they are.
    pub lazy_mode: bool,
    /// With sparse gradients, multiplies the powers of the betas after the step as the paper does,
    /// not before it as Fluid 1.8 does.
    pub powers_after_step: bool,
}

impl Default for Adam {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, lazy_mode: false, powers_after_step: false }
    }
}

/// Below this many rows Fluid does not use threads; kept for readers of the program.
const MULTITHREAD_ROWS_MIN: i64 = 1000;

impl Kind for Adam {
    fn op(&self) -> &'static str {
        "adam"
    }

    fn states(&self) -> Vec<State> {
        let power = |name, input, output, fill| State {
            output: Some(output),
            ..State::scalar(name, input, fill)
        };
        vec![
            State::per_weight("moment1", "Moment1", "Moment1Out"),
            State::per_weight("moment2", "Moment2", "Moment2Out"),
            power("beta1_pow_acc", "Beta1Pow", "Beta1PowOut", self.beta1),
            power("beta2_pow_acc", "Beta2Pow", "Beta2PowOut", self.beta2),
        ]
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        let mut attrs = vec![
            ("beta1", self.beta1.into()),
            ("beta2", self.beta2.into()),
            ("epsilon", self.epsilon.into()),
            ("lazy_mode", self.lazy_mode.into()),
            ("min_row_size_to_use_multithread", MULTITHREAD_ROWS_MIN.into()),
        ];
        // An attribute Fluid does not know is only written when it is asked for.
        if self.powers_after_step {
            attrs.push(("powers_after_step", true.into()));
        }
        attrs
    }
}
