//! Patience: requests that failed are repeated, for a while and with pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The first pause, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often a pause looks whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why one try failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreFailure {
    /// It may work a moment later.
    Passing(String),
    /// It will fail the same way again.
    Lasting(String),
    /// There is no such file.
    Missing(String),
}

impl StoreFailure {
    pub(crate) fn passing(what: &dyn std::fmt::Display) -> Self {
        StoreFailure::Passing(what.to_string())
    }

    /// The error of a file; `offset` is where it should have been read.
    pub(super) fn lasting(self, file: &str) -> Error {
        let file = file.to_string();
        match self {
            StoreFailure::Passing(what) | StoreFailure::Lasting(what) => {
                Error::StoreRefused { file, what }
            }
            StoreFailure::Missing(what) => Error::NotInStore { file, what },
        }
    }
}

/// The tries of one thing, since it last worked.
pub(super) struct Tries {
    file: String,
    patience: Duration,
    stop: Arc<AtomicBool>,
    since: Option<Instant>,
    n: u32,
}

impl Tries {
    pub(super) fn new(file: &str, patience: Duration, stop: Arc<AtomicBool>) -> Self {
        Self { file: file.to_string(), patience, stop, since: None, n: 0 }
    }

    /// It works again.
    pub(super) fn worked(&mut self) {
        (self.since, self.n) = (None, 0);
    }

    /// A try failed: returns after a pause if there should be another.
    pub(super) fn failed(&mut self, offset: u64, failure: StoreFailure) -> Result<()> {
        let StoreFailure::Passing(what) = failure else { return Err(failure.lasting(&self.file)) };
        let since = *self.since.get_or_insert_with(Instant::now);
        self.n += 1;
        let pause = (PAUSE * 2_u32.saturating_pow(self.n - 1)).min(PAUSE_MAX);
        let until = Instant::now() + pause;
        // Give up at once if the pause would end after the limit.
        if until > since + self.patience {
            let (file, n_tries) = (self.file.clone(), self.n);
            return Err(Error::Unreachable {
                file,
                offset,
                n_tries,
                patience: self.patience,
                what,
            });
        }
        while Instant::now() < until {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            thread::sleep(LOOK_EVERY.min(pause));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(patience: Duration) -> Tries {
        Tries::new("s3://b/k", patience, Arc::default())
    }

    #[test]
    fn patience_ends_with_the_last_reason() {
        let mut tries = tries(Duration::from_millis(250));
        tries.failed(7, StoreFailure::passing(&"one")).unwrap();
        let error = tries.failed(7, StoreFailure::passing(&"two")).unwrap_err();
        let Error::Unreachable { offset, n_tries, what, .. } = &error else { panic!("{error}") };
        assert_eq!((*offset, *n_tries, what.as_str()), (7, 2, "two"));
        tries.worked();
        tries.failed(7, StoreFailure::passing(&"three")).unwrap();
    }

    #[test]
    fn what_cannot_work_is_not_tried_again() {
        let error =
            tries(Duration::MAX).failed(0, StoreFailure::Lasting("403".into())).unwrap_err();
        assert!(matches!(error, Error::StoreRefused { .. }), "{error}");
        let error =
            tries(Duration::MAX).failed(0, StoreFailure::Missing("404".into())).unwrap_err();
        assert!(matches!(error, Error::NotInStore { .. }), "{error}");
    }

    #[test]
    fn a_pause_can_be_stopped() {
        let stop = Arc::new(AtomicBool::new(true));
        let mut tries = Tries::new("f", Duration::from_secs(60), stop);
        assert!(matches!(tries.failed(0, StoreFailure::passing(&"x")), Err(Error::Stopped)));
    }
}
