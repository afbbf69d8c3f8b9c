//! Memory that the connections of a server and its store share.

use std::sync::{Arc, Mutex, MutexGuard};

use base::EvenIfPoisoned;
use tensor::{Pool, Tensor, Value};

use wire::SharedMemory;

/// Tensors kept for gradients to come, and their bytes.
const KEPT_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 32 << 20;

/// Memory of a server. Clones share it.
#[derive(Clone, Debug)]
pub struct ServerMemory {
    shared: SharedMemory,
    pool: Arc<Mutex<Pool>>,
}

impl Default for ServerMemory {
    fn default() -> Self {
        let pool = Pool::new(KEPT_MAX, KEPT_BYTES_MAX);
        Self { shared: SharedMemory::default(), pool: Arc::new(Mutex::new(pool)) }
    }
}

impl ServerMemory {
    /// Memory for values that are asked for: trainers of this machine read them there.
    pub fn shared(&self) -> &SharedMemory {
        &self.shared
    }

    /// Keeps the memory of a gradient that was applied for those to come.
    pub fn recycle(&self, value: Value) {
        match value {
            Value::Tensor(tensor) => self.keep(tensor),
            Value::Rows(rows) => self.keep(rows.value),
            _ => {}
        }
    }

    fn keep(&self, tensor: Tensor) {
        self.pool().keep(tensor);
    }

    /// Memory for gradients that come.
    pub fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().even_if_poisoned()
    }
}
