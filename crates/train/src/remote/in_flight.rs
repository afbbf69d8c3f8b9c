//! Steps whose gradients are in flight, and how old parameters get because of that.
//!
//! A step is in flight from the moment its gradients are handed over until every server has applied
//! them and the new parameters have arrived. As many steps may be in flight as gradients may queue
//! up. A thread with one more waits. So parameters are never older than that, even if a server is
//! slow.
//!
//! Fewer are better: before a step, the trainer waits for steps in flight, as long as that costs
//! next to nothing ([`InFlight::catch_up`]).

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use base::EvenIfPoisoned;
use metrics::WaitingStep;
use net::lines;
use wire::message::Stats;

use super::TrainerJob;
use crate::counters::{SENDING, TRAINER};
use crate::error::Result;

/// The trainer waits for steps under way during at most this part of a step's time: training gets slower by no more, and less
/// where there are more processes than cores.
const PATIENCE_PART: u32 = 8;
/// If that was too short so many times in a row, it is left out the next time, then three times, …
const LATE_MIN: u32 = 3;
/// … until it is tried at every 32nd step only.
const LATE_MAX: u32 = LATE_MIN + 4;

/// How much of a trainer's own work a value contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    /// Steps.
    pub(super) steps: u64,
    /// Updates they were sent as; several steps may be merged into one.
    pub(super) updates: u64,
}

/// The inputs of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StepInputs {
    /// Steps contained in its parameters.
    pub(super) params: Seen,
    /// Steps contained in the rows of tables on servers.
    pub(super) rows: Option<Seen>,
}

impl StepInputs {
    /// Rows that contain this were read, too.
    pub(super) fn read_rows(&mut self, seen: Seen) {
        self.rows = Some(self.rows.map_or(seen, |rows| rows.min(seen)));
    }
}

/// How many of its trainer's own steps were missing in the parameters of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staleness {
    /// Steps counted.
    pub n_steps: u64,
    /// Missing in parameters: the sum over all steps.
    pub sum: u64,
    /// Missing in parameters: the most.
    pub max: u64,
    /// Missing in rows of tables: the most.
    pub rows_max: u64,
}

impl Staleness {
    /// Missing in the parameters of a step, on average.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.n_steps.max(1) as f64
    }

    /// Says how old parameters were in a pass, here and on servers.
    pub(crate) fn say(&self, job: &TrainerJob) -> Result<()> {
        let all = job.stats()?;
        let of_all = |field: fn(&Stats) -> u64| all.iter().map(field);
        let n_updates: u64 = of_all(|stats| stats.updates).sum();
        let sum: u64 = of_all(|stats| stats.staleness_sum).sum();
        let max = of_all(|stats| stats.staleness_max).max().unwrap_or(0);
        let mean = sum as f64 / n_updates.max(1) as f64;
        let own = lines::Ages { mean: self.mean(), max: self.max };
        let servers = lines::Ages { mean, max };
        (job.links().log())(&lines::staleness(self.n_steps, own, self.rows_max, servers));
        Ok(())
    }

    fn count(&mut self, n_before: u64, read: &StepInputs) {
        let missing = |seen: Seen| n_before.saturating_sub(seen.steps);
        self.n_steps += 1;
        self.sum += missing(read.params);
        TRAINER.aged_steps.add(1);
        TRAINER.staleness_sum.add(missing(read.params));
        self.max = self.max.max(missing(read.params));
        self.rows_max = self.rows_max.max(read.rows.map_or(0, missing));
    }
}

#[derive(Debug)]
pub(super) struct InFlight {
    max: u64,
    counts: Mutex<StepCounts>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct StepCounts {
    handed_over: u64,
    written: Seen,
    served: u64,
    is_over: bool,
    staleness: Staleness,
    /// How long steps take, without waiting.
    step_time: Duration,
    /// Times in a row that catching up took too long, and times that it is not tried for that.
    n_late: u32,
    n_skipped: u32,
}

impl InFlight {
    /// At most `max` steps, and at least one.
    pub(super) fn new(max: usize) -> Self {
        Self { max: max.max(1) as u64, counts: Mutex::default(), moved: Condvar::new() }
    }

    fn counts(&self) -> MutexGuard<'_, StepCounts> {
        self.counts.lock().even_if_poisoned()
    }

    /// Waits while `is_early`; nobody waits any more when the sender has ended.
    fn wait(&self, is_early: impl Fn(&StepCounts) -> bool) -> MutexGuard<'_, StepCounts> {
        let is_early = |counts: &mut StepCounts| !counts.is_over && is_early(counts);
        let mut counts = self.counts();
        if !is_early(&mut counts) {
            return counts;
        }
        let _waiting = WaitingStep::begin(&SENDING);
        self.moved.wait_while(counts, is_early).even_if_poisoned()
    }

    /// Before a step: waits until all that is under way is there, but only for a part of the time that
    /// a step takes; where that is too short time and again, it is tried less and less often.
    pub(super) fn catch_up(&self) {
        let mut counts = self.counts();
        let all = counts.handed_over;
        if counts.served >= all {
            return;
        }
        if counts.n_skipped > 0 {
            counts.n_skipped -= 1;
            return;
        }
        let patience = counts.step_time / PATIENCE_PART;
        let _waiting = WaitingStep::begin(&SENDING);
        let is_early = |counts: &mut StepCounts| !counts.is_over && counts.served < all;
        let waited = self.moved.wait_timeout_while(counts, patience, is_early);
        let (mut counts, late) = waited.even_if_poisoned();
        if late.timed_out() {
            counts.n_late = (counts.n_late + 1).min(LATE_MAX);
            counts.n_skipped = (1 << (counts.n_late + 1).saturating_sub(LATE_MIN)) - 1;
        } else {
            counts.n_late = 0
        }
    }

    /// A step took so long.
    pub(super) fn time(&self, step: Duration) {
        let mut counts = self.counts();
        counts.step_time = match counts.step_time {
            Duration::ZERO => step,
            usual => usual * 7 / 8 + step / 8,
        };
    }

    /// One more step, when there is room for it; `false` if the sender has ended.
    pub(super) fn enter(&self, read: &StepInputs) -> bool {
        let mut counts = self.wait(|counts| counts.handed_over - counts.served >= self.max);
        let n_before = counts.handed_over;
        counts.staleness.count(n_before, read);
        counts.handed_over += 1;
        !counts.is_over
    }

    /// This many steps are in flight to all servers, as one update. A question that is asked now is
    /// answered after it.
    pub(super) fn write(&self, n_steps: u64) {
        let mut counts = self.counts();
        counts.written.steps += n_steps;
        counts.written.updates += 1;
        drop(counts);
        self.moved.notify_all();
    }

    /// So many steps are served, and what they led to is there.
    pub(super) fn serve(&self, n_steps: u64) {
        self.counts().served += n_steps;
        self.moved.notify_all();
    }

    /// Steps contained in answers to requests from now on.
    pub(super) fn written(&self) -> Seen {
        self.counts().written
    }

    /// Waits until everything that was handed over is written. Returns what answers to later questions
    /// contain.
    pub(super) fn wait_written(&self) -> Seen {
        let all = self.counts().handed_over;
        self.wait(|counts| counts.written.steps < all).written
    }

    /// The sender has ended: nobody waits for it.
    pub(super) fn end(&self) {
        self.counts().is_over = true;
        self.moved.notify_all();
    }

    /// The counts since the last call.
    pub(super) fn take_staleness(&self) -> Staleness {
        std::mem::take(&mut self.counts().staleness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn params(params: Seen) -> StepInputs {
        StepInputs { params, rows: None }
    }

    /// Nothing is waited for that is there, or that takes too long; the rest is.
    #[test]
    fn what_comes_soon_is_waited_for() {
        let way = Arc::new(InFlight::new(1));
        way.catch_up();
        assert!(way.enter(&StepInputs::default()));
        // No step was timed yet: the patience is zero, and no server answers.
        (0..LATE_MAX).for_each(|_| way.catch_up());
        assert!(way.counts().n_skipped > 0, "it was too late too often");
        way.write(1);
        way.serve(1);
        way.counts().n_skipped = 0;
        way.counts().n_late = 0;
        way.time(Duration::from_secs(600));
        assert!(way.enter(&params(way.written())));
        let sender = {
            let way = way.clone();
            std::thread::spawn(move || {
                way.write(1);
                way.serve(1);
            })
        };
        way.catch_up();
        sender.join().unwrap();
        let counts = way.counts();
        assert_eq!((counts.served, counts.n_late), (2, 0));
    }

    #[test]
    fn rows_are_counted_for_themselves() {
        let way = InFlight::new(9);
        let mut read = StepInputs::default();
        (0..5).for_each(|_| assert!(way.enter(&read)));
        way.write(5);
        read.params = way.written();
        read.read_rows(Seen { steps: 4, updates: 4 });
        read.read_rows(Seen { steps: 3, updates: 3 });
        way.take_staleness();
        assert!(way.enter(&read));
        assert_eq!(way.take_staleness(), Staleness { n_steps: 1, sum: 0, max: 0, rows_max: 2 });
    }

    #[test]
    fn who_has_one_more_waits() {
        let (way, n_entered) = (Arc::new(InFlight::new(2)), Arc::new(AtomicU64::new(0)));
        let trainer = {
            let (way, n_entered) = (way.clone(), n_entered.clone());
            std::thread::spawn(move || {
                while way.enter(&params(way.written())) {
                    n_entered.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        for served in 0..100 {
            // One update of one step each time, when a step is there.
            while n_entered.load(Ordering::SeqCst) <= served {
                std::thread::yield_now();
            }
            assert!(n_entered.load(Ordering::SeqCst) <= served + 2, "more than two under way");
            way.write(1);
            way.serve(1);
        }
        way.end();
        trainer.join().unwrap();
        let staleness = way.take_staleness();
        assert!(staleness.max <= 2, "{staleness:?}");
        assert_eq!(way.take_staleness(), Staleness::default(), "counted once");
    }

    #[test]
    fn merged_steps_are_one_update() {
        let way = InFlight::new(3);
        let start = StepInputs::default();
        assert!(way.enter(&start) && way.enter(&start) && way.enter(&start));
        way.write(3);
        assert_eq!(way.wait_written(), Seen { steps: 3, updates: 1 });
        way.serve(3);
        assert!(way.enter(&params(way.written())));
        let staleness = way.take_staleness();
        assert_eq!(staleness, Staleness { n_steps: 4, sum: 1 + 2, max: 2, rows_max: 0 });
        assert_eq!(staleness.mean(), 0.75);
        way.end();
        assert!(!way.enter(&start), "nobody would send it");
        assert_eq!(way.wait_written().steps, 3, "nor wait");
    }
}
