//! Where the time of a process goes.
//!
//! A thread that trains is inside a step ([`Stepping`]) or outside of it. Inside, it computes unless it
//! waits for another process ([`WaitingStep`]). Threads with other work (heartbeats, senders) are not
//! counted. A server is [`Busy`] while at least one of its threads works.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;

use crate::flags::{is_on, set_stepped};
use crate::number::{NumberKind, NumberSource, Sample, Seconds};

thread_local! {
    static IS_STEPPING: Cell<bool> = const { Cell::new(false) };
    /// Nanoseconds that this thread waited inside of steps.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// A step of a thread that trains, until it is dropped.
#[derive(Debug)]
pub struct Stepping {
    computing: &'static Seconds,
    start: Instant,
    waited: u64,
}

impl Stepping {
    /// Begins a step; `None` if the counters are off, or if this thread is inside of one.
    pub fn begin(computing: &'static Seconds) -> Option<Self> {
        if !is_on() || IS_STEPPING.replace(true) {
            return None;
        }
        set_stepped();
        Some(Self { computing, start: Instant::now(), waited: WAITED.get() })
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        IS_STEPPING.set(false);
        let waited = Duration::from_nanos(WAITED.get().saturating_sub(self.waited));
        self.computing.add(self.start.elapsed().saturating_sub(waited));
    }
}

/// The time that steps wait for another process, until it is dropped.
#[derive(Debug)]
pub struct WaitingStep<'a> {
    seconds: &'a Seconds,
    start: Instant,
}

impl<'a> WaitingStep<'a> {
    /// Begins to wait; none outside of a step.
    pub fn begin(seconds: &'a Seconds) -> Option<Self> {
        IS_STEPPING.get().then(|| Self { seconds, start: Instant::now() })
    }
}

impl Drop for WaitingStep<'_> {
    fn drop(&mut self) {
        let waited = self.start.elapsed();
        self.seconds.add(waited);
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        WAITED.set(WAITED.get().saturating_add(nanos));
    }
}

/// Time by name: how long each of several processes was waited for. A caller looks a name up once and
/// keeps the result.
#[derive(Debug)]
pub struct Labelled {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    all: Mutex<Vec<(String, Arc<Seconds>)>>,
}

/// Names that are told apart; the time of others is added to the last one.
const NAMES_MAX: usize = 256;

impl Labelled {
    /// Without any names yet.
    pub const fn new(name: &'static str, label: &'static str, help: &'static str) -> Self {
        Self { name, help, label, all: Mutex::new(Vec::new()) }
    }

    /// The time of this one.
    pub fn of(&self, who: &str) -> Arc<Seconds> {
        let mut all = self.all.lock().even_if_poisoned();
        if let Some((_, seconds)) = all.iter().find(|(known, _)| known == who) {
            return seconds.clone();
        }
        if all.len() >= NAMES_MAX
            && let Some((_, last)) = all.last()
        {
            return last.clone();
        }
        let seconds = Arc::new(Seconds::new());
        all.push((who.to_string(), seconds.clone()));
        seconds
    }
}

impl NumberSource for Labelled {
    fn samples(&self) -> Vec<Sample> {
        let Self { name, help, label, .. } = *self;
        let all = self.all.lock().even_if_poisoned();
        let sample = |(who, seconds): &(String, Arc<Seconds>)| {
            let (label, value) = (Some((label, who.clone())), seconds.value());
            Sample { name, help, kind: NumberKind::Counter, label, value }
        };
        all.iter().map(sample).collect()
    }
}

/// How long at least one thread worked. The time of several threads counts once.
#[derive(Debug, Default)]
pub struct Busy {
    n_active: AtomicU32,
    /// Nanoseconds since the first use, when the first thread began.
    since: AtomicU64,
    nanos: AtomicU64,
    begun: OnceLock<Instant>,
}

/// One thread that works, until it is dropped.
#[derive(Debug)]
pub struct BusyThread<'a> {
    busy: &'a Busy,
    own: &'a Seconds,
    start: Instant,
}

impl Busy {
    /// No thread works yet.
    pub const fn new() -> Self {
        Self {
            n_active: AtomicU32::new(0),
            since: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
            begun: OnceLock::new(),
        }
    }

    fn now(&self) -> u64 {
        let begun = self.begun.get_or_init(Instant::now);
        u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Begins work of a kind; `None` if the counters are off.
    pub fn begin<'a>(&'a self, own: &'a Seconds) -> Option<BusyThread<'a>> {
        if !is_on() {
            return None;
        }
        // Another thread may end at the same time. The time between two instructions may be lost or
        // counted twice.
        if self.n_active.fetch_add(1, Ordering::AcqRel) == 0 {
            self.since.store(self.now(), Ordering::Release);
        }
        Some(BusyThread { busy: self, own, start: Instant::now() })
    }

    /// Its value, in seconds, with the unfinished work.
    pub fn value(&self) -> f64 {
        let ended = self.nanos.load(Ordering::Relaxed);
        let open = match self.n_active.load(Ordering::Acquire) {
            0 => 0,
            _ => self.now().saturating_sub(self.since.load(Ordering::Acquire)),
        };
        (ended + open) as f64 / 1e9
    }
}

impl Drop for BusyThread<'_> {
    fn drop(&mut self) {
        self.own.add(self.start.elapsed());
        let since = self.busy.since.load(Ordering::Acquire);
        if self.busy.n_active.fetch_sub(1, Ordering::AcqRel) == 1 {
            let nanos = self.busy.now().saturating_sub(since);
            self.busy.nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::set_on;

    static COMPUTING: Seconds = Seconds::new();

    /// Works until the clock has moved by this.
    fn spend(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn waiting_is_not_computing() {
        set_on();
        let waits = Labelled::new("waiting", "server", "");
        let server = waits.of("a:1");
        assert!(WaitingStep::begin(&server).is_none(), "outside of a step nobody waits");
        let step = Stepping::begin(&COMPUTING);
        assert!(step.is_some() && Stepping::begin(&COMPUTING).is_none(), "a step is counted once");
        let time = Duration::from_millis(20);
        {
            let _waiting = WaitingStep::begin(&server);
            spend(time);
        }
        spend(time);
        drop(step);
        let waited = waits.samples()[0].value;
        assert!(waited >= 0.02 && COMPUTING.value() >= 0.02, "{waited} {}", COMPUTING.value());
        assert!(Stepping::begin(&COMPUTING).is_some());
    }

    #[test]
    fn two_threads_are_busy_once() {
        set_on();
        let (busy, own) = (Busy::new(), Seconds::new());
        let first = busy.begin(&own);
        {
            let _second = busy.begin(&own);
            spend(Duration::from_millis(10));
        }
        let while_open = busy.value();
        assert!(while_open >= 0.01, "{while_open}");
        drop(first);
        let ended = busy.value();
        assert!(ended >= while_open && own.value() >= 0.02, "{ended} {}", own.value());
        assert!(own.value() > ended, "the work of two threads is more than the time of one");
        assert_eq!(busy.value(), ended, "nobody works");
    }

    #[test]
    fn names_have_a_limit() {
        let waits = Labelled::new("waiting", "server", "");
        (0..2 * NAMES_MAX).for_each(|at| waits.of(&at.to_string()).add(Duration::from_secs(1)));
        let samples = waits.samples();
        assert_eq!(samples.len(), NAMES_MAX);
        assert_eq!(samples.iter().map(|sample| sample.value).sum::<f64>(), 512.0);
    }
}
