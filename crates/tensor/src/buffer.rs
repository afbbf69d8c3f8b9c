//! Memory of a tensor: bytes on a cache line, kept when a tensor shrinks so that a steady-state
//! step allocates nothing.

use crate::no_memory::{give_up, room_or_give_up};

/// The unit of allocations. The system's allocator moves memory of this alignment to a larger place
/// by mapping its pages anew; of a larger alignment it would copy it, and hold both for a while.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16))]
struct Unit([u8; UNIT_BYTES]);

const UNIT_BYTES: usize = 16;
const LINE_BYTES: usize = 64;
/// Units that may have to be left out before the first line.
const SLACK: usize = LINE_BYTES / UNIT_BYTES - 1;

/// Shorter tensors are not worth lending: to copy them costs less than to give memory back and forth.
pub const LENT_BYTES_MIN: usize = 4096;

/// Memory of another owner, such as pages that processes share.
///
/// It is aligned for the elements of its tensor; any bytes must do as numbers.
pub trait Memory: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes to write; nothing if they may only be read.
    fn bytes_mut(&mut self) -> Option<&mut [u8]>;
    /// Where it lies, for code that passes it on.
    fn place(&self) -> MemoryPlace;
}

/// The address range of memory of another owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlace {
    /// The region.
    pub region: u64,
    /// The part of the region.
    pub slot: u32,
    /// Bytes from the start of the region.
    pub offset: u64,
}

/// Growable bytes, aligned for any element type and for vector loads.
#[derive(Default)]
pub struct Buffer {
    units: Vec<Unit>,
    /// Units before the first line.
    start: usize,
    /// Used instead of `units`, if it is there.
    lent: Option<Box<dyn Memory>>,
    n_bytes: usize,
}

/// How many units before the first line.
fn slack(first: *const Unit) -> usize {
    (first as usize).wrapping_neg() % LINE_BYTES / UNIT_BYTES
}

/// Units of a buffer of so many bytes, wherever it begins.
fn units_for(n_bytes: usize) -> usize {
    n_bytes.div_ceil(UNIT_BYTES) + SLACK
}

impl Buffer {
    /// All of this memory. It is left for memory of our own when it is too small or only to be read.
    pub fn lent(memory: Box<dyn Memory>) -> Self {
        let n_bytes = memory.bytes().len();
        Self { lent: Some(memory), n_bytes, ..Self::default() }
    }

    /// The first `n_bytes` of it, which must be there.
    pub(crate) fn shortened(self, n_bytes: usize) -> Self {
        Self { n_bytes: n_bytes.min(self.n_bytes), ..self }
    }

    /// The owner of the memory that holds the bytes, if it is lent.
    pub fn lender(&self) -> Option<&dyn Memory> {
        self.lent.as_deref()
    }

    /// Makes the buffer `n_bytes` long. Old bytes stay as they are, new memory is zero.
    pub fn resize(&mut self, n_bytes: usize) {
        if let Some(memory) = &mut self.lent {
            if memory.bytes_mut().is_some_and(|bytes| bytes.len() >= n_bytes) {
                self.n_bytes = n_bytes;
                return;
            }
            self.lent = None;
        }
        let n_units = units_for(n_bytes);
        if n_bytes > 0 && n_units > self.units.len() {
            if n_units > self.units.capacity() {
                // A fresh zeroed block costs no copy: the old contents need not survive.
                self.units =
                    bytemuck::try_zeroed_vec(n_units).unwrap_or_else(|()| give_up(n_bytes));
                self.start = slack(self.units.as_ptr());
            } else {
                self.units.resize(n_units, Unit([0; UNIT_BYTES]));
            }
        }
        self.n_bytes = n_bytes;
    }

    /// Makes the buffer `n_bytes` long or longer and keeps its contents. The memory it grows by is
    /// zero; more is reserved than needed, so that growing step by step costs little. Memory that is
    /// reserved and not used costs addresses only.
    pub fn grow(&mut self, n_bytes: usize) {
        self.own();
        let n_units = units_for(n_bytes);
        if n_units > self.units.len() {
            let n_more = n_units - self.units.len();
            room_or_give_up(&mut self.units, n_more);
            self.units.resize(n_units, Unit([0; UNIT_BYTES]));
            self.align();
        }
        self.n_bytes = self.n_bytes.max(n_bytes);
    }

    /// Makes sure that the buffer can grow to `n_bytes` without asking for memory; false if there is none.
    pub fn reserve(&mut self, n_bytes: usize) -> bool {
        self.own();
        let n_more = units_for(n_bytes).saturating_sub(self.units.len());
        let is_reserved = self.units.try_reserve(n_more).is_ok();
        if !self.units.is_empty() {
            self.align();
        }
        is_reserved
    }

    /// Moves the contents to the beginning of a line of the cache, after the memory has moved.
    fn align(&mut self) {
        let start = slack(self.units.as_ptr());
        if start != self.start {
            let used = self.start..self.start + self.n_bytes.div_ceil(UNIT_BYTES);
            self.units.copy_within(used, start);
            let end = start + self.n_bytes.div_ceil(UNIT_BYTES);
            self.units[end..].fill(Unit([0; UNIT_BYTES]));
            self.start = start;
        }
    }

    /// The first bytes only; keeps memory.
    pub fn truncate(&mut self, n_bytes: usize) {
        self.n_bytes = self.n_bytes.min(n_bytes);
    }

    /// Copies lent bytes to memory of our own.
    fn own(&mut self) {
        let Some(memory) = self.lent.take() else { return };
        self.resize(self.n_bytes);
        let n_bytes = self.n_bytes;
        self.bytes_mut().copy_from_slice(&memory.bytes()[..n_bytes]);
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.lent {
            Some(memory) => &memory.bytes()[..self.n_bytes],
            None => &bytemuck::cast_slice(&self.units)[self.start * UNIT_BYTES..][..self.n_bytes],
        }
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.lent.as_mut().is_some_and(|memory| memory.bytes_mut().is_none()) {
            self.own();
        }
        let bytes = match &mut self.lent {
            Some(memory) => memory.bytes_mut().unwrap_or_default(),
            None => &mut bytemuck::cast_slice_mut(&mut self.units)[self.start * UNIT_BYTES..],
        };
        &mut bytes[..self.n_bytes]
    }

    /// Whether the bytes can be written where they are.
    pub fn may_write(&mut self) -> bool {
        self.lent.as_mut().is_none_or(|memory| memory.bytes_mut().is_some())
    }

    /// Bytes of memory held, used or not.
    pub fn capacity(&self) -> usize {
        self.lent.as_ref().map_or(self.units.capacity() * UNIT_BYTES, |lent| lent.bytes().len())
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        if self.lent.is_some() {
            let mut copy = Self::default();
            copy.clone_from(self);
            return copy;
        }
        // Straight from the old bytes: memory that is about to be written need not be zeroed.
        let used = &self.units[self.start..][..self.n_bytes.div_ceil(UNIT_BYTES)];
        if used.is_empty() {
            return Self::default();
        }
        let mut units = Vec::new();
        if units.try_reserve_exact(used.len() + SLACK).is_err() {
            give_up(self.n_bytes);
        }
        let start = slack(units.as_ptr());
        units.resize(start, Unit([0; UNIT_BYTES]));
        units.extend_from_slice(used);
        units.resize(used.len() + SLACK, Unit([0; UNIT_BYTES]));
        Self { units, start, lent: None, n_bytes: self.n_bytes }
    }

    fn clone_from(&mut self, source: &Self) {
        self.resize(source.n_bytes);
        self.bytes_mut().copy_from_slice(source.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_memory_when_it_shrinks() {
        let mut buffer = Buffer::default();
        buffer.resize(1000);
        let capacity = buffer.capacity();
        buffer.resize(10);
        buffer.resize(1000);
        assert_eq!(buffer.capacity(), capacity);
        assert_eq!(buffer.bytes().len(), 1000);
    }

    #[test]
    fn growing_keeps_what_is_there() {
        let mut buffer = Buffer::default();
        buffer.resize(70);
        buffer.bytes_mut().fill(7);
        buffer.grow(200);
        assert!(buffer.bytes()[..70].iter().all(|&byte| byte == 7));
        assert!(buffer.bytes()[128..].iter().all(|&byte| byte == 0));
        buffer.grow(10);
        assert_eq!(buffer.bytes().len(), 200);
    }

    #[test]
    fn bytes_begin_on_a_line_wherever_memory_is() {
        let mut all = Vec::new();
        for n_bytes in (1..6000).step_by(37) {
            let mut buffer = Buffer::default();
            buffer.resize(n_bytes);
            let last = n_bytes - 1;
            buffer.bytes_mut()[last] = 9;
            buffer.grow(n_bytes + 5000);
            assert_eq!(buffer.bytes()[last], 9);
            assert!(buffer.bytes()[n_bytes..].iter().all(|&byte| byte == 0));
            let copy = buffer.clone();
            assert_eq!(copy.bytes(), buffer.bytes());
            all.extend([buffer, copy]);
        }
        assert!(
            all.iter().all(|buffer| (buffer.bytes().as_ptr() as usize).is_multiple_of(LINE_BYTES))
        );
    }

    #[test]
    fn fresh_memory_is_zero() {
        let mut buffer = Buffer::default();
        buffer.resize(130);
        assert!(buffer.bytes().iter().all(|&byte| byte == 0));
    }

    /// Four lines of another owner.
    struct Foreign {
        units: Vec<Unit>,
        may_write: bool,
    }

    impl Memory for Foreign {
        fn bytes(&self) -> &[u8] {
            bytemuck::cast_slice(&self.units)
        }

        fn bytes_mut(&mut self) -> Option<&mut [u8]> {
            self.may_write.then(|| bytemuck::cast_slice_mut(&mut self.units))
        }

        fn place(&self) -> MemoryPlace {
            MemoryPlace { region: 1, slot: 2, offset: 3 }
        }
    }

    fn lent(may_write: bool) -> Buffer {
        Buffer::lent(Box::new(Foreign { units: vec![Unit([7; UNIT_BYTES]); 16], may_write }))
    }

    #[test]
    fn lent_memory_is_written_only_where_it_may_be() {
        let mut mine = lent(true);
        mine.resize(100);
        mine.bytes_mut().fill(1);
        assert_eq!(
            mine.lender().map(Memory::place),
            Some(MemoryPlace { region: 1, slot: 2, offset: 3 })
        );
        let mut theirs = lent(false);
        assert!(theirs.lender().is_some());
        theirs.bytes_mut()[0] = 1;
        assert!(theirs.lender().is_none(), "it was copied");
        assert_eq!(theirs.bytes()[..3], [1, 7, 7]);
        assert_eq!(theirs.bytes().len(), 256);
    }

    #[test]
    fn lent_memory_is_left_when_it_is_too_small() {
        let mut buffer = lent(true);
        buffer.grow(1000);
        assert_eq!((buffer.bytes()[255], buffer.bytes()[256]), (7, 0));
        let mut buffer = lent(true);
        buffer.resize(257);
        assert!(buffer.lender().is_none());
        assert_eq!(lent(false).clone().bytes(), lent(true).bytes());
    }
}
