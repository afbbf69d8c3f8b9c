//! Counters that all threads of a pass share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Progress;

/// Counters that all threads share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    n_batches: AtomicU64,
    n_samples: AtomicU64,
    waited_micros: AtomicU64,
    pub(super) wants_watch: AtomicBool,
    /// Somebody sees how far it is.
    pub(super) is_shown: AtomicBool,
    /// No thread starts another batch.
    pub(super) stops: AtomicBool,
    /// The last batch of the first thread that the observer was called with. It is not called twice for one.
    pub(super) n_told: AtomicU64,
}

impl Shared {
    /// Begins to count there.
    pub(super) fn begin(&self, n_batches: u64, n_samples: u64, waited: Duration) {
        self.n_batches.store(n_batches, Ordering::Relaxed);
        self.n_samples.store(n_samples, Ordering::Relaxed);
        self.waited_micros.store(waited.as_micros() as u64, Ordering::Relaxed);
        self.stops.store(false, Ordering::Relaxed);
    }

    /// One more batch, for which data was waited so long.
    pub(super) fn add(&self, n_samples: u64, waited: Duration) {
        self.n_batches.fetch_add(1, Ordering::Relaxed);
        self.n_samples.fetch_add(n_samples, Ordering::Relaxed);
        self.waited_micros.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
    }

    pub(super) fn waited(&self) -> Duration {
        Duration::from_micros(self.waited_micros.load(Ordering::Relaxed))
    }

    pub(super) fn progress(&self, elapsed: Duration) -> Progress {
        Progress {
            n_batches: self.n_batches.load(Ordering::Relaxed),
            n_samples: self.n_samples.load(Ordering::Relaxed),
            elapsed,
            waited: self.waited(),
        }
    }
}
