//! Where a peer finds tensors without having them sent.

use std::sync::Arc;

use tensor::{LENT_BYTES_MIN, Memory, MemoryPlace, Tensor};

use super::region::{Account, Region};

/// Where tensors for a peer go, and what it reads of them.
#[derive(Clone, Debug)]
pub struct Lender {
    pub(super) region: Region,
    pub(super) account: Arc<Account>,
}

/// Bytes of a region, as messages say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionPlace {
    /// The slot that holds them.
    pub(crate) slot: u32,
    /// Where they begin, counted from the start of the region.
    pub(crate) offset: u64,
}

/// Tensors of these sizes are copied to where the receiver reads. Longer ones that are not there
/// already are rare (differences of GEO), and both sides would hold that memory forever.
pub const COPIED_BYTES: std::ops::Range<usize> = LENT_BYTES_MIN..(1 << 20);

impl Lender {
    /// Lends a tensor that is in the region or is copied there; nothing if it has to be sent.
    pub(crate) fn lend(&self, tensor: &Tensor) -> Option<RegionPlace> {
        let place = match tensor.lender().map(Memory::place) {
            Some(MemoryPlace { region, slot, offset }) if region == self.region.id() => {
                RegionPlace { slot, offset }
            }
            _ if !COPIED_BYTES.contains(&tensor.bytes().len()) => return None,
            _ => {
                let mut slot = self.region.take(tensor.bytes().len())?;
                let place = slot.fill(tensor.bytes());
                // Counted before the slot is dropped: nothing else can take it in between.
                self.account.lend(place.slot);
                return Some(place);
            }
        };
        self.account.lend(place.slot);
        Some(place)
    }

    /// Lends the bytes of a tensor from `start` on, if it is in the region.
    pub(crate) fn lend_from(&self, tensor: &Tensor, start: usize) -> Option<RegionPlace> {
        let place = tensor.lender().map(Memory::place);
        let MemoryPlace { slot, offset, .. } =
            place.filter(|place| place.region == self.region.id())?;
        self.account.lend(slot);
        Some(RegionPlace { slot, offset: offset + start as u64 })
    }
}
