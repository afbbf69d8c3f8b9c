//! Stochastic gradient descent.

use super::Kind;
use crate::attr::Attr;

/// `SGDOptimizer`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sgd;

impl Kind for Sgd {
    fn op(&self) -> &'static str {
        "sgd"
    }

    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        Vec::new()
    }
}
