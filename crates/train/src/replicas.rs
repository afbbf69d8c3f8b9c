//! Variables of which each device of a trainer has its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use base::EvenIfPoisoned;
use tensor::Value;

/// The variables of which each device has its own: those of all devices but the first.
#[derive(Clone, Debug, Default)]
pub struct Replicas(Arc<Mutex<BTreeMap<String, Vec<Value>>>>);

impl Replicas {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Value>>> {
        self.0.lock().even_if_poisoned()
    }

    /// Whether nobody else has them.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Whether both are the same variables.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
