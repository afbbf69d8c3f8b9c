//! Python's signal handlers while the core is at work.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::EvenIfPoisoned;
use pyo3::prelude::*;

/// How often a run looks for Ctrl-C.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// The exception of a signal handler.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// Lets Python's signal handlers run; whether one of them raised.
pub(crate) fn signalled(raised: &Raised) -> bool {
    let Err(error) = Python::attach(|py| py.check_signals()) else { return false };
    *raised.lock().even_if_poisoned() = Some(error);
    true
}

/// Takes what a signal handler raised, if one did.
pub(crate) fn taken(raised: &Raised) -> Option<PyErr> {
    raised.lock().even_if_poisoned().take()
}
