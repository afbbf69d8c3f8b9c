//! Notes that this process was asked to end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

pub(crate) use signal_hook::consts::SIGTERM;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL};
use signal_hook::{SigId, flag, low_level};

use crate::error::{Error, Result};

/// The exit code of a process that SIGTERM ended, in order, before it was through: as if it did not know
/// the signal. Schedulers must not take it for one that has done its work.
pub const ENDED_EARLY: i32 = 128 + SIGTERM;

/// The exit code of a launcher whose job was asked to end, has not finished, and resumes with the same command
/// (EX_TEMPFAIL of `sysexits.h`).
pub const UNFINISHED: i32 = 75;

/// How often a wait looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Signals that ask this process to end (SIGHUP, SIGINT, SIGTERM) and that arrived during the life of
/// this value.
pub struct Signals {
    last: Arc<AtomicUsize>,
    ids: Vec<SigId>,
}

impl Signals {
    /// From now on such signals are noted; handlers that were there before are called as well.
    pub fn watch() -> Result<Self> {
        let mut signals = Self { last: Arc::default(), ids: Vec::new() };
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            let number = signal.unsigned_abs() as usize;
            let id = flag::register_usize(signal, signals.last.clone(), number);
            signals.ids.push(id.map_err(Error::Signals)?);
        }
        Ok(signals)
    }

    /// Waits until one comes.
    pub fn wait(&self) {
        while self.get().is_none() {
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The last one that came.
    pub(crate) fn get(&self) -> Option<i32> {
        let signal = self.last.load(Ordering::Relaxed) as i32;
        (signal != 0).then_some(signal)
    }

    /// The last one that came, once: from now on [`Signals::get`] waits for the next.
    pub(crate) fn take(&self) -> Option<i32> {
        let signal = self.last.swap(0, Ordering::Relaxed) as i32;
        (signal != 0).then_some(signal)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Whether SIGTERM came since the first call. A second SIGTERM ends the process at once. If the
/// signal cannot be watched, it ends the process as usual.
pub fn wants_end() -> bool {
    static CAME: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let came = CAME.get_or_init(|| {
        let came = Arc::<AtomicBool>::default();
        let second = flag::register_conditional_default(SIGTERM, came.clone());
        let _ = second.and_then(|_| flag::register(SIGTERM, came.clone()));
        came
    });
    came.load(Ordering::Relaxed)
}

/// A signal as people know it.
pub(crate) fn name_of(signal: i32) -> String {
    let names = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
    ];
    let known = names.iter().find(|(number, _)| *number == signal);
    known
        .map_or_else(|| format!("signal {signal}"), |(_, name)| format!("signal {signal} ({name})"))
}

/// Whether a signal is one that others send; the rest are a process's own mistakes.
pub(crate) fn is_from_outside(signal: i32) -> bool {
    [SIGHUP, SIGINT, SIGKILL, SIGTERM].contains(&signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        assert_eq!(name_of(9), "signal 9 (SIGKILL)");
        assert_eq!(name_of(35), "signal 35");
        assert!(is_from_outside(15) && !is_from_outside(11));
    }
}
