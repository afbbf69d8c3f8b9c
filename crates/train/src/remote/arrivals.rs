//! Parameters that came in the background, until a step uses them.

use std::sync::{Arc, Mutex, MutexGuard};

use base::EvenIfPoisoned;
use tensor::Tensor;

use super::in_flight::Seen;

/// Parameters that came and were not used yet, and memory for those to come.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    /// The names of the parameters, in order.
    names: Arc<[String]>,
    held: Arc<Mutex<Arrived>>,
    /// Held while parameters are put to use: those that came later are used later.
    turn: Arc<Mutex<()>>,
}

impl Arrivals {
    pub(super) fn new(names: Arc<[String]>) -> Self {
        Self { names, held: Arc::default(), turn: Arc::default() }
    }

    fn held(&self) -> MutexGuard<'_, Arrived> {
        self.held.lock().even_if_poisoned()
    }

    /// Gives what came since the last call to `put`, and takes back what it took the place of; what
    /// is used from then on contains so much. The caller holds nothing that another one waits for.
    pub(super) fn empty(&self, put: impl FnOnce(&[String], Vec<Tensor>) -> Vec<Tensor>) -> Seen {
        let turn = self.turn.lock().even_if_poisoned();
        let (arrived, seen) = {
            let mut held = self.held();
            held.used = held.seen;
            (std::mem::take(&mut held.arrived), held.seen)
        };
        if !arrived.is_empty() {
            let old = put(&self.names, arrived);
            self.held().keep(old);
        }
        drop(turn);
        seen
    }

    /// Parameters have come that contain so much; those that were not used are old.
    pub(super) fn put(&self, params: Vec<Tensor>, seen: Seen) {
        let mut held = self.held();
        held.seen = seen;
        let unused = std::mem::replace(&mut held.arrived, params);
        held.keep(unused);
    }

    /// Steps contained in the parameters that were put to use last.
    pub(super) fn used(&self) -> Seen {
        self.held().used
    }

    /// Memory of old parameters.
    pub(super) fn spare(&self) -> Vec<Tensor> {
        self.held().old.pop().unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Arrived {
    arrived: Vec<Tensor>,
    /// Steps contained in the parameters that came last.
    seen: Seen,
    /// Steps contained in the parameters that were put to use last.
    used: Seen,
    old: Vec<Vec<Tensor>>,
}

/// Sets of parameters whose memory is kept: one may be under way while another comes back.
const OLD_MAX: usize = 2;

impl Arrived {
    fn keep(&mut self, old: Vec<Tensor>) {
        if !old.is_empty() && self.old.len() < OLD_MAX {
            self.old.push(old);
        }
    }
}
