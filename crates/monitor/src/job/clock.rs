//! The time of day, for files that others read. Nothing is measured with it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the beginning of 1970.
pub(super) fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
