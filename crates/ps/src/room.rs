//! Memory for what is sent, where peers of this machine can read it.

use std::sync::{Arc, OnceLock};

use tensor::{DType, Shape, Tensor};

use crate::region::Region;

/// A process's memory for tensors that go to others. Whoever has a copy of it has the same.
///
/// It exists once a peer of this machine was met; until then, and where there are none, there is no
/// room, and tensors lie in memory of the usual kind.
#[derive(Clone, Debug, Default)]
pub struct Room(Arc<OnceLock<Option<Region>>>);

/// Shorter tensors travel with their message: that costs less than giving memory back and forth.
pub(crate) const LENT_BYTES_MIN: usize = 4096;

impl Room {
    /// A tensor of `n_bytes`, if there is room and it is worth it.
    pub fn tensor(&self, n_bytes: usize) -> Option<Tensor> {
        let region = self.0.get()?.as_ref().filter(|_| n_bytes >= LENT_BYTES_MIN)?;
        let slot = region.take(n_bytes)?;
        Tensor::lent(DType::U8, Shape::from([n_bytes]), Box::new(slot)).ok()
    }

    /// The region, made if there is none; nothing on a system without such files.
    pub(crate) fn region(&self) -> Option<&Region> {
        self.0.get_or_init(|| Region::new().ok()).as_ref()
    }
}
