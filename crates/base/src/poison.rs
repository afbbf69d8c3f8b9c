//! Locks after a panic.
//!
//! A thread that panics while it holds a lock poisons the lock. The panic itself is reported as a bug.
//! Other threads continue with the contents of the lock, so that they can report their own errors and
//! stop in good order. Every lock of the workspace is taken in this way; a test checks it.

use std::sync::{LockResult, PoisonError};

/// Takes a lock, also after a thread panicked while it held it: `mutex.lock().even_if_poisoned()`.
/// Works for `read`, `write` and the waits of a condition variable, too.
pub trait EvenIfPoisoned {
    /// Gives access to the contents of the lock.
    type Guard;

    /// The guard, whether or not the lock is poisoned.
    fn even_if_poisoned(self) -> Self::Guard;
}

impl<G> EvenIfPoisoned for LockResult<G> {
    type Guard = G;

    fn even_if_poisoned(self) -> G {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_panic_does_not_spoil_what_the_lock_holds() {
        let held = Arc::new(Mutex::new(1));
        let other = held.clone();
        let panics = std::thread::spawn(move || {
            let mut held = other.lock().even_if_poisoned();
            *held = 2;
            panic!("while it holds the lock");
        });
        assert!(panics.join().is_err() && held.is_poisoned());
        assert_eq!(*held.lock().even_if_poisoned(), 2);
    }
}
