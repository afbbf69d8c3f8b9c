//! How much memory requests and answers take, all together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A request or answer that takes more than this part of all is large.
const LARGE_PART: usize = 64;
/// Large requests and answers leave this part to small ones.
const SMALL_PART: usize = 8;

/// The memory that requests and answers may take.
#[derive(Debug)]
pub(super) struct Budget {
    n_max: usize,
    n_held: AtomicUsize,
}

/// Why there is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMemory {
    /// Others have it.
    Full,
    /// It is more than there is for all.
    TooLarge,
}

impl Budget {
    pub(super) fn new(n_max: usize) -> Arc<Self> {
        Arc::new(Self { n_max, n_held: AtomicUsize::new(0) })
    }

    /// Bytes that are held now.
    pub(super) fn n_held(&self) -> usize {
        self.n_held.load(Ordering::Relaxed)
    }

    /// Bytes that one request can have.
    pub(super) fn n_large(&self) -> usize {
        self.n_max - self.n_max / SMALL_PART
    }

    /// Nothing yet, of a new request.
    pub(super) fn hold(self: &Arc<Self>) -> Held {
        Held { budget: self.clone(), n_bytes: 0 }
    }
}

/// The memory of one request and its answer, until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    budget: Arc<Budget>,
    n_bytes: usize,
}

impl Held {
    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Holds more.
    pub(super) fn take(&mut self, n_bytes: usize) -> Result<(), NoMemory> {
        if n_bytes == 0 {
            return Ok(());
        }
        let budget = &self.budget;
        let own = self.n_bytes.saturating_add(n_bytes);
        let is_large = own > budget.n_max / LARGE_PART;
        let room = if is_large { budget.n_large() } else { budget.n_max };
        if own > room {
            return Err(NoMemory::TooLarge);
        }
        let more = |held: usize| held.checked_add(n_bytes).filter(|&held| held <= room);
        let taken = budget.n_held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.map_err(|_| NoMemory::Full)?;
        self.n_bytes = own;
        Ok(())
    }

    /// Holds no more than this.
    pub(super) fn shrink_to(&mut self, n_bytes: usize) {
        let n_free = self.n_bytes.saturating_sub(n_bytes);
        self.budget.n_held.fetch_sub(n_free, Ordering::Relaxed);
        self.n_bytes -= n_free;
    }

    /// Adds a value whose memory is counted.
    pub(super) fn push<T>(&mut self, values: &mut Vec<T>, value: T) -> Result<(), NoMemory> {
        if values.len() == values.capacity() {
            let (old, more) = (values.capacity(), values.capacity().max(16));
            // Both are there while the values move.
            self.take((old + more).saturating_mul(size_of::<T>()))?;
            values.reserve_exact(more);
            self.shrink_to(self.n_bytes - old * size_of::<T>());
        }
        values.push(value);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_requests_leave_room_for_small_ones() {
        let budget = Budget::new(6400);
        let (mut large, mut small) = (budget.hold(), budget.hold());
        assert_eq!(large.take(5601), Err(NoMemory::TooLarge));
        large.take(5600).unwrap();
        assert_eq!(budget.hold().take(101), Err(NoMemory::Full));
        small.take(100).unwrap();
        assert_eq!((budget.n_held(), small.take(1)), (5700, Err(NoMemory::Full)));
        large.shrink_to(1000);
        small.take(1).unwrap();
        drop(large);
        assert_eq!(budget.n_held(), 101);
        drop(small);
        assert_eq!(budget.n_held(), 0);
    }

    #[test]
    fn lists_count_what_they_allocate() {
        let budget = Budget::new(1 << 20);
        let (mut held, mut values) = (budget.hold(), Vec::new());
        for value in 0..1000u64 {
            held.push(&mut values, value).unwrap();
            assert_eq!(held.n_bytes(), values.capacity() * 8);
        }
        let pushed = (0..1 << 20).try_for_each(|value| held.push(&mut values, value));
        assert!(pushed.is_err() && values.capacity() * 8 <= 1 << 20);
    }
}
