//! Memory for what is sent, where peers of this machine can read it.

use std::sync::{Arc, OnceLock};

use tensor::{DType, LENT_BYTES_MIN, Shape, Tensor};

use super::region::Region;

/// Memory of a process for tensors that are sent to others. Clones share it.
///
/// It exists once a peer of this machine was met. Until then tensors are in usual memory.
#[derive(Clone, Debug, Default)]
pub struct SharedMemory(Arc<OnceLock<Option<Region>>>);

impl SharedMemory {
    /// A tensor of `n_bytes`; None if shared memory is missing or full, or the tensor is too short to be worth it.
    pub fn tensor(&self, n_bytes: usize) -> Option<Tensor> {
        let region = self.0.get()?.as_ref().filter(|_| n_bytes >= LENT_BYTES_MIN)?;
        let slot = region.take(n_bytes)?;
        Tensor::lent(DType::U8, Shape::from([n_bytes]), Box::new(slot)).ok()
    }

    /// The region, made if there is none; nothing on a system without such files.
    pub(super) fn region(&self) -> Option<&Region> {
        self.0.get_or_init(|| Region::new().ok()).as_ref()
    }
}
