//! Whether this process is watched, and whether it does what it is there for.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Whether anybody wants to know: otherwise no clock is read.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// From now on this process measures.
pub fn set_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// Whether this process does what it is there for.
pub fn is_ready() -> bool {
    IS_READY.load(Ordering::Relaxed)
}

/// From now on it does: a server listens, a trainer runs its first program.
pub fn set_ready() {
    if !is_ready() {
        IS_READY.store(true, Ordering::Relaxed);
    }
}
