//! Whether this process is watched, and whether it is ready.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);
static IS_SERVING: AtomicBool = AtomicBool::new(false);
static HAS_STEPPED: AtomicBool = AtomicBool::new(false);

/// Whether numbers are wanted: otherwise no clock is read.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// From now on this process measures.
pub fn set_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// Whether a server of this process listens, with everything that it has loaded.
pub fn is_serving() -> bool {
    IS_SERVING.load(Ordering::Relaxed)
}

/// From now on it does.
pub fn set_serving() {
    IS_SERVING.store(true, Ordering::Relaxed);
}

/// Whether this process has run a program of a trainer.
pub fn has_stepped() -> bool {
    HAS_STEPPED.load(Ordering::Relaxed)
}

/// From now on it has.
pub(crate) fn set_stepped() {
    if !has_stepped() {
        HAS_STEPPED.store(true, Ordering::Relaxed);
    }
}
