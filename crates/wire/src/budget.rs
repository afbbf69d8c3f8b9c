//! How much of what peers send, and are sent, a server holds at the same time.
//!
//! Everything that stays for a while is counted: frames that have begun, requests that wait for their turn or for a
//! round, gradients of a round, answers that a peer does not take. A peer that holds more than its share is
//! refused when all together hold too much; one that holds less never is. So all together hold at most twice
//! what they may.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that anything that is held costs, however small it is.
pub const THING_BYTES: u64 = 128;

/// The memory that all peers of a server may hold together. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    n_bytes_max: u64,
    n_bytes: AtomicU64,
    n_accounts: AtomicU64,
}

/// The memory that a peer holds. Clones share it.
#[derive(Clone, Debug)]
pub struct Account(Arc<AccountState>);

#[derive(Debug)]
struct AccountState {
    budget: Budget,
    n_bytes: AtomicU64,
}

/// Something that is held, until it is dropped.
#[derive(Debug, Default)]
pub struct Held {
    /// None: not counted.
    account: Option<Account>,
    n_bytes: u64,
}

/// A peer holds more than its share, and all peers together too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overfull {
    /// Bytes that the peer holds.
    pub n_bytes: u64,
    /// Bytes that all peers may hold together.
    pub n_bytes_max: u64,
}

impl Budget {
    /// For at most this many bytes.
    pub fn new(n_bytes_max: u64) -> Self {
        let (n_bytes, n_accounts) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(BudgetState { n_bytes_max, n_bytes, n_accounts }))
    }

    /// For another peer.
    pub fn account(&self) -> Account {
        self.0.n_accounts.fetch_add(1, Ordering::Relaxed);
        Account(Arc::new(AccountState { budget: self.clone(), n_bytes: AtomicU64::new(0) }))
    }

    /// Bytes that all peers hold now.
    #[cfg(test)]
    pub(crate) fn n_bytes(&self) -> u64 {
        self.0.n_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for AccountState {
    fn drop(&mut self) {
        self.budget.0.n_accounts.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Account {
    /// Counts nothing yet.
    pub fn nothing(&self) -> Held {
        Held { account: Some(self.clone()), n_bytes: 0 }
    }

    /// Counts something.
    pub fn hold(&self, n_bytes: u64) -> Result<Held, Overfull> {
        let mut held = self.nothing();
        held.set(n_bytes).map(|()| held)
    }

    fn add(&self, n_bytes: u64) -> Result<(), Overfull> {
        let AccountState { budget: Budget(all), n_bytes: own } = &*self.0;
        let own = own.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        let together = all.n_bytes.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        let share = all.n_bytes_max / all.n_accounts.load(Ordering::Relaxed).max(1);
        if together > all.n_bytes_max && own > share {
            Err(Overfull { n_bytes: own, n_bytes_max: all.n_bytes_max })
        } else {
            Ok(())
        }
    }

    fn subtract(&self, n_bytes: u64) {
        self.0.n_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
        self.0.budget.0.n_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
    }
}

impl Held {
    /// Sets the size to `n_bytes`. The new size counts even if it is over the limit; the holder then drops it.
    pub fn set(&mut self, n_bytes: u64) -> Result<(), Overfull> {
        let before = std::mem::replace(&mut self.n_bytes, n_bytes);
        let Some(account) = &self.account else { return Ok(()) };
        match n_bytes.checked_sub(before) {
            Some(0) => Ok(()),
            Some(more) => account.add(more),
            None => {
                account.subtract(before - n_bytes);
                Ok(())
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Less is never too much.
        let _ = self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_more_than_its_share_is_refused_when_all_hold_too_much() {
        let budget = Budget::new(100);
        let (one, other) = (budget.account(), budget.account());
        let mut large = one.hold(90).unwrap();
        let small = other.hold(40).unwrap();
        assert_eq!(budget.n_bytes(), 130, "a holder below its share is never refused");
        assert_eq!(large.set(91), Err(Overfull { n_bytes: 91, n_bytes_max: 100 }));
        drop(large);
        assert_eq!(budget.n_bytes(), 40);
        let large = other.hold(60).unwrap();
        assert!(other.hold(1).is_err() && one.hold(50).is_ok());
        drop((small, large));
        assert_eq!(budget.n_bytes(), 0);
        drop(other);
        assert!(one.hold(101).is_err(), "alone it has everything, and no more");
        assert_eq!(budget.n_bytes(), 0);
    }
}
