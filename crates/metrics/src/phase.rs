//! Work that takes a while, and how far it is: loading, shuffling, training, saving.
//!
//! The working thread counts, without locks and without a clock; a view looks as often as it likes. Nothing is
//! counted before a front end sets a view ([`show_phases`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;

use crate::words::{count, percent, time};

/// Before this share is done, the time for the rest is not known.
const SHARE_MIN: f64 = 0.005;

/// Shows phases.
pub trait PhaseView: Send + Sync {
    /// A phase begins.
    fn begins(&self, phase: &Arc<PhaseState>);

    /// It has come to its end.
    fn ends(&self, phase: &Arc<PhaseState>);
}

static VIEW: OnceLock<Box<dyn PhaseView>> = OnceLock::new();

/// Sets the view of phases that begin from now on, unless there is one already; returns whether it was set.
pub fn show_phases(view: Box<dyn PhaseView>) -> bool {
    VIEW.set(view).is_ok()
}

/// Work that takes a while, until this is dropped.
#[derive(Debug, Default)]
pub struct Phase(Option<Arc<PhaseState>>);

impl Phase {
    /// Begins a phase; `unit` is the unit of its counts: `samples`, `rows`.
    pub fn begin(name: &str, unit: &'static str) -> Self {
        let Some(view) = VIEW.get() else { return Self(None) };
        let state = Arc::new(PhaseState::new(name, unit));
        view.begins(&state);
        Self(Some(state))
    }

    /// How much there is to do.
    pub fn set_total(&self, total: u64) {
        self.with(|state| state.total.store(total, Ordering::Relaxed));
    }

    /// The share that is done, from 0 to 1, if it is known better than by the counts. 0: not known.
    pub fn set_share(&self, share: f64) {
        self.with(|state| state.share.store(share.to_bits(), Ordering::Relaxed));
    }

    /// How long the rest takes, in seconds, if that is known better than by the time since the phase began: another
    /// process has done a part of it. 0: not known.
    pub fn set_left(&self, seconds: f64) {
        self.with(|state| {
            state.left.store(seconds.to_bits(), Ordering::Relaxed);
            state.is_left_set.store(true, Ordering::Relaxed);
        });
    }

    /// So much more is done.
    pub fn add(&self, n: u64) {
        self.with(|state| _ = state.amount.fetch_add(n, Ordering::Relaxed));
    }

    /// So much is done.
    pub fn set(&self, n: u64) {
        self.with(|state| state.amount.store(n, Ordering::Relaxed));
    }

    /// Numbers to show beside it: the loss, the AUC.
    pub fn set_numbers(&self, numbers: impl FnOnce() -> Vec<PhaseNumber>) {
        self.with(|state| *state.numbers.lock().even_if_poisoned() = numbers());
    }

    /// All that is shown beside its name, instead of the counts.
    pub fn set_words(&self, words: String) {
        self.with(|state| *state.own_words.lock().even_if_poisoned() = Some(words));
    }

    /// Whether a view shows it.
    pub fn is_seen(&self) -> bool {
        self.0.is_some()
    }

    fn with(&self, act: impl FnOnce(&PhaseState)) {
        if let Some(state) = &self.0 {
            act(state);
        }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        if let (Some(state), Some(view)) = (&self.0, VIEW.get()) {
            view.ends(state);
        }
    }
}

/// A number that is shown beside a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseNumber {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// How far a phase is.
#[derive(Debug)]
pub struct PhaseState {
    /// Its name: `loading`, `training`.
    pub name: String,
    /// The unit of its counts.
    pub unit: &'static str,
    /// When it began.
    pub start: Instant,
    amount: AtomicU64,
    total: AtomicU64,
    share: AtomicU64,
    left: AtomicU64,
    is_left_set: AtomicBool,
    numbers: Mutex<Vec<PhaseNumber>>,
    own_words: Mutex<Option<String>>,
}

impl PhaseState {
    fn new(name: &str, unit: &'static str) -> Self {
        Self {
            name: name.to_string(),
            unit,
            start: Instant::now(),
            amount: AtomicU64::new(0),
            total: AtomicU64::new(0),
            share: AtomicU64::new(0),
            left: AtomicU64::new(0),
            is_left_set: AtomicBool::new(false),
            numbers: Mutex::default(),
            own_words: Mutex::default(),
        }
    }

    /// The share that is done, from 0 to 1, if that is known.
    pub fn share(&self) -> Option<f64> {
        let share = f64::from_bits(self.share.load(Ordering::Relaxed));
        let total = self.total.load(Ordering::Relaxed);
        let counted = self.amount.load(Ordering::Relaxed) as f64 / total.max(1) as f64;
        let known = if total > 0 { counted.max(share) } else { share };
        (total > 0 || share > 0.0).then_some(known.clamp(0.0, 1.0))
    }

    /// How long the rest takes, if that is known.
    fn left(&self, share: f64, seconds: f64) -> Option<f64> {
        let told = f64::from_bits(self.left.load(Ordering::Relaxed));
        if self.is_left_set.load(Ordering::Relaxed) {
            (told > 0.0).then_some(told)
        } else {
            (SHARE_MIN..1.0).contains(&share).then(|| seconds * (1.0 - share) / share)
        }
    }

    /// Where it is after so much time: `25 %, 1200 samples, 400 samples/s, 9 s left, loss 0.51`.
    pub fn words(&self, elapsed: Duration) -> String {
        if let Some(words) = &*self.own_words.lock().even_if_poisoned() {
            return words.clone();
        }
        let (amount, seconds) = (self.amount.load(Ordering::Relaxed), elapsed.as_secs_f64());
        let (share, mut parts) = (self.share(), Vec::new());
        parts.extend(share.map(percent));
        if amount > 0 {
            parts.push(format!("{} {}", count(amount as f64), self.unit));
            parts.push(format!(
                "{} {}/s",
                count((amount as f64 / seconds.max(1e-9)).round()),
                self.unit
            ));
        }
        if let Some(left) = share.and_then(|share| self.left(share, seconds)) {
            parts.push(format!("{} left", time(left)));
        }
        let numbers = self.numbers.lock().even_if_poisoned();
        parts.extend(numbers.iter().map(|one| format!("{} {}", one.name, count(one.value))));
        parts.join(", ")
    }

    /// The result after so much time: `1200 samples in 3 s, 400 samples/s, loss 0.51`.
    pub fn result(&self, elapsed: Duration) -> String {
        let (amount, seconds) = (self.amount.load(Ordering::Relaxed), elapsed.as_secs_f64());
        let mut parts = match amount {
            0 => vec![time(seconds)],
            _ => vec![
                format!("{} {} in {}", count(amount as f64), self.unit, time(seconds)),
                format!("{} {}/s", count((amount as f64 / seconds.max(1e-9)).round()), self.unit),
            ],
        };
        let numbers = self.numbers.lock().even_if_poisoned();
        parts.extend(numbers.iter().map(|one| format!("{} {}", one.name, count(one.value))));
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_told_in_words() {
        let state = Arc::new(PhaseState::new("training", "samples"));
        let phase = Phase(Some(state.clone()));
        let after = |seconds| state.words(Duration::from_secs(seconds));
        assert_eq!((state.share(), after(3)), (None, String::new()));
        phase.add(1000);
        phase.add(200);
        assert_eq!(after(3), "1200 samples, 400 samples/s");
        phase.set_total(4800);
        assert_eq!(after(3), "25 %, 1200 samples, 400 samples/s, 9 s left");
        phase.set_share(0.5);
        phase.set_numbers(|| vec![PhaseNumber { name: "loss".to_string(), value: 0.51234 }]);
        assert_eq!(after(3), "50 %, 1200 samples, 400 samples/s, 3 s left, loss 0.5123");
        phase.set_left(60.0);
        assert_eq!(after(3), "50 %, 1200 samples, 400 samples/s, 1 min 0 s left, loss 0.5123");
        phase.set_left(0.0);
        phase.set(4800);
        assert_eq!(after(12), "100 %, 4800 samples, 400 samples/s, loss 0.5123");
        let result = state.result(Duration::from_secs(12));
        assert_eq!(result, "4800 samples in 12 s, 400 samples/s, loss 0.5123");
    }

    #[test]
    fn nobody_counts_for_nobody() {
        let phase = Phase::begin("loading", "samples");
        phase.add(1);
        phase.set_numbers(|| panic!("nobody wants to know"));
        assert!(!phase.is_seen());
    }
}
