//! Rounds (sync, SSP): a step closes its part of a round on all servers, and receives what the round led to.

use std::sync::Arc;

use super::{Direct, Exchange};

/// Exchanges in step with the program: all of it straight.
pub(in crate::remote) struct Rounds {
    direct: Arc<Direct>,
}

impl Rounds {
    pub(super) fn new(direct: Arc<Direct>) -> Self {
        Self { direct }
    }
}

impl Exchange for Rounds {
    fn direct(&self) -> Option<&Direct> {
        Some(&self.direct)
    }
}
