//! Locks that a thread takes in one order. So no two threads wait for each other.

use std::cell::Cell;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};
use std::thread::LocalKey;

use crate::EvenIfPoisoned;

/// The locks of one part of the program, in the order in which a thread takes them: one that holds a lock takes only locks
/// below it. Builds with debug assertions check it at every lock.
pub trait LockRank: Copy + Debug {
    /// The place in the order, below 16.
    fn place(self) -> u8;

    /// The places of the locks that this thread holds, one bit each. A `thread_local!` of its own for each order.
    fn held() -> &'static LocalKey<Cell<u16>>;
}

/// A lock with a place in an order.
#[derive(Debug)]
pub struct OrderedLock<R, T> {
    rank: R,
    value: Mutex<T>,
}

impl<R: LockRank, T> OrderedLock<R, T> {
    /// A lock that nobody holds.
    pub fn new(rank: R, value: T) -> Self {
        Self { rank, value: Mutex::new(value) }
    }

    /// Waits for the lock.
    ///
    /// # Panics
    ///
    /// With debug assertions, if this thread holds a lock that comes later, or this one.
    pub fn lock(&self) -> OrderedLockGuard<'_, R, T> {
        let held = HeldRank::new(self.rank);
        OrderedLockGuard { guard: self.value.lock().even_if_poisoned(), _held: held }
    }
}

/// Gives the lock back when it is dropped.
#[derive(Debug)]
pub struct OrderedLockGuard<'a, R: LockRank, T> {
    guard: MutexGuard<'a, T>,
    _held: HeldRank<R>,
}

impl<R: LockRank, T> Deref for OrderedLockGuard<'_, R, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<R: LockRank, T> DerefMut for OrderedLockGuard<'_, R, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A lock that this thread holds or waits for. Without debug assertions nothing is noted.
#[derive(Debug)]
struct HeldRank<R: LockRank>(R);

impl<R: LockRank> HeldRank<R> {
    fn new(rank: R) -> Self {
        if cfg!(debug_assertions) {
            let held = R::held().get();
            assert!(
                held >> rank.place() == 0,
                "{rank:?} is locked by a thread that holds locks behind it: {held:#b}"
            );
            R::held().set(held | 1 << rank.place());
        }
        Self(rank)
    }
}

impl<R: LockRank> Drop for HeldRank<R> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            let held = R::held().get();
            R::held().set(held & !(1 << self.0.place()));
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum TestRank {
        Timeline,
        Links,
    }

    thread_local! {
        static HELD: Cell<u16> = const { Cell::new(0) };
    }

    impl LockRank for TestRank {
        fn place(self) -> u8 {
            self as u8
        }

        fn held() -> &'static LocalKey<Cell<u16>> {
            &HELD
        }
    }

    #[test]
    fn locks_are_taken_in_one_order() {
        let timeline = OrderedLock::new(TestRank::Timeline, 1);
        let links = OrderedLock::new(TestRank::Links, 2);
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
