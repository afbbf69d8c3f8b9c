//! Whether a process that died is started again, and when. A function of past events, without a
//! clock of its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Only starts of the last ten minutes count.
pub(super) const WINDOW: Duration = Duration::from_secs(600);
/// A process that lived for less has not done anything.
const QUICK: Duration = Duration::from_secs(5);
/// So often in a row a process may fail at once by its own fault; more starts would not help.
const N_QUICK_MAX: u32 = 3;
/// The wait before the second start that follows a quick death; it doubles from death to death.
const WAIT: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The reaction of a job to the death of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    /// How often a process is started again within [`WINDOW`].
    pub(crate) max_restarts: usize,
    /// How long processes may take to end when they are asked to, if not as usual.
    pub(crate) grace: Option<Duration>,
    /// A server that is asked to end writes a snapshot before it does.
    pub(crate) has_snapshots: bool,
    /// Processes resume from the state of those of another launcher.
    pub(crate) resumes: bool,
}

/// How a process died.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    pub(super) at: Instant,
    pub(super) lived: Duration,
    /// It was killed from outside: that is not its fault.
    pub(super) is_from_outside: bool,
}

/// The decision.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is started again, as the `number`-th of the starts that are allowed, after a while.
    Again { number: usize, wait: Duration },
    /// It is not, because that does not help.
    Never(Reason),
}

/// Why a process is not started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Processes are not started again in this job.
    NotWanted,
    /// So often it was, within [`WINDOW`].
    TooOften(usize),
    /// It failed at once, so often in a row.
    AtOnce(u32),
}

/// The starts of one process.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    recent: VecDeque<Instant>,
    /// Deaths at once, in a row.
    n_quick: u32,
    /// Those by its own fault.
    n_failed_at_once: u32,
}

impl Restarts {
    pub(super) fn after(&mut self, death: Death, max: usize) -> Next {
        if max == 0 {
            return Next::Never(Reason::NotWanted);
        }
        while self.recent.front().is_some_and(|&at| death.at.duration_since(at) > WINDOW) {
            self.recent.pop_front();
        }
        let is_quick = death.lived < QUICK;
        self.n_quick = if is_quick { self.n_quick + 1 } else { 0 };
        let is_own_fault = is_quick && !death.is_from_outside;
        self.n_failed_at_once = if is_own_fault { self.n_failed_at_once + 1 } else { 0 };
        if self.recent.len() >= max {
            return Next::Never(Reason::TooOften(max));
        }
        if self.n_failed_at_once > N_QUICK_MAX {
            return Next::Never(Reason::AtOnce(self.n_failed_at_once));
        }
        self.recent.push_back(death.at);
        let wait = match self.n_quick {
            0 | 1 => Duration::ZERO,
            n => WAIT.saturating_mul(1 << (n - 2).min(16)).min(WAIT_MAX),
        };
        Next::Again { number: self.recent.len(), wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(50);

    fn death(start: Instant, at: u64, lived: Duration, is_from_outside: bool) -> Death {
        Death { at: start + Duration::from_secs(at), lived, is_from_outside }
    }

    fn number(next: Next) -> usize {
        match next {
            Next::Again { number, .. } => number,
            Next::Never(reason) => panic!("{reason:?}"),
        }
    }

    #[test]
    fn a_window_allows_so_many_starts() {
        let (mut restarts, start) = (Restarts::default(), Instant::now());
        for at in 1..=3 {
            assert_eq!(number(restarts.after(death(start, at * 60, LONG, false), 3)), at as usize);
        }
        let often = restarts.after(death(start, 400, LONG, false), 3);
        assert_eq!(often, Next::Never(Reason::TooOften(3)));
        // The first two are forgotten.
        assert_eq!(number(restarts.after(death(start, 725, LONG, false), 3)), 2);
        let never = Restarts::default().after(death(start, 1, LONG, false), 0);
        assert_eq!(never, Next::Never(Reason::NotWanted));
    }

    #[test]
    fn one_that_fails_at_once_is_given_up() {
        let (mut restarts, start) = (Restarts::default(), Instant::now());
        let mut waits = Vec::new();
        for at in 0..3 {
            match restarts.after(death(start, at, SHORT, false), 100) {
                Next::Again { wait, .. } => waits.push(wait.as_millis()),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(waits, [0, 100, 200]);
        let never = restarts.after(death(start, 3, SHORT, false), 100);
        assert_eq!(never, Next::Never(Reason::AtOnce(4)));
    }

    #[test]
    fn one_that_others_kill_is_not() {
        let (mut restarts, start) = (Restarts::default(), Instant::now());
        let mut last = Duration::ZERO;
        for at in 0..50 {
            match restarts.after(death(start, at, SHORT, true), 100) {
                Next::Again { wait, .. } => last = wait,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(last, WAIT_MAX, "with longer and longer waits");
        match restarts.after(death(start, 60, LONG, true), 100) {
            Next::Again { wait, .. } => assert_eq!(wait, Duration::ZERO),
            other => panic!("{other:?}"),
        }
    }
}
