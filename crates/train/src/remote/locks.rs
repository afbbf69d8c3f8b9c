//! The order in which a thread takes the locks of a trainer.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;

/// The locks of a trainer, in the order in which a thread takes them: one that holds a lock takes only locks below it.
/// So no two threads wait for each other. Builds with debug assertions check it at every lock.
///
/// Not listed are locks that are taken last and given back at once: the turn of an event, and what the sender in the
/// background counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Rank {
    /// The script's events: held while the state for a cut is put together.
    Timeline,
    /// The memory of an exchange between steps: held during an exchange of differences.
    Exchange,
    /// Messages under way to and from servers: held while messages are sent and answers are awaited.
    Traffic,
    /// Held while servers are joined.
    Joining,
    /// Where servers went.
    Moves,
    /// The connections that there are.
    Links,
    /// The trainers of a job without servers.
    Group,
    /// Cuts that this trainer took part in.
    Cuts,
    /// How far passes are.
    Passes,
    /// The process's description of itself.
    Settings,
}

/// A lock with a place in the order.
#[derive(Debug)]
pub(super) struct Ordered<T> {
    rank: Rank,
    value: Mutex<T>,
}

impl<T> Ordered<T> {
    pub(super) fn new(rank: Rank, value: T) -> Self {
        Self { rank, value: Mutex::new(value) }
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> OrderedGuard<'_, T> {
        let held = HeldRank::new(self.rank);
        OrderedGuard { guard: self.value.lock().even_if_poisoned(), _held: held }
    }
}

/// Gives the lock back when it is dropped.
#[derive(Debug)]
pub(super) struct OrderedGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    _held: HeldRank,
}

impl<T> Deref for OrderedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for OrderedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A lock that this thread holds or waits for. Without debug assertions it is nothing.
#[derive(Debug)]
struct HeldRank {
    #[cfg(debug_assertions)]
    rank: Rank,
}

#[cfg(debug_assertions)]
thread_local! {
    /// The ranks that this thread holds, one bit each.
    static HELD: std::cell::Cell<u16> = const { std::cell::Cell::new(0) };
}

impl HeldRank {
    #[cfg(debug_assertions)]
    fn new(rank: Rank) -> Self {
        let held = HELD.get();
        assert!(
            held >> rank as u8 == 0,
            "{rank:?} is locked by a thread that holds locks behind it: {held:#b}"
        );
        HELD.set(held | 1 << rank as u8);
        Self { rank }
    }

    #[cfg(not(debug_assertions))]
    fn new(_: Rank) -> Self {
        Self {}
    }
}

#[cfg(debug_assertions)]
impl Drop for HeldRank {
    fn drop(&mut self) {
        HELD.set(HELD.get() & !(1 << self.rank as u8));
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn locks_are_taken_in_one_order() {
        let timeline = Ordered::new(Rank::Timeline, 1);
        let links = Ordered::new(Rank::Links, 2);
        {
            let outer = timeline.lock();
            assert_eq!(*outer + *links.lock(), 3);
        }
        let wrong = catch_unwind(|| {
            let _inner = links.lock();
            *timeline.lock()
        });
        assert!(wrong.is_err(), "the other order may wait for ever");
        let twice = catch_unwind(|| {
            let _first = links.lock();
            *links.lock()
        });
        assert!(twice.is_err(), "a thread waits for itself");
        assert_eq!(*links.lock(), 2, "nothing is held any more");
        assert_eq!(*timeline.lock(), 1);
    }
}
