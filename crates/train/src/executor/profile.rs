//! Time per op, on request.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often an op of a program ran and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpTime {
    /// The block it is in.
    pub block: usize,
    /// Its place in the block.
    pub index: usize,
    /// The type of the op.
    pub op: String,
    /// How often it ran.
    pub calls: u64,
    /// How long all runs took.
    pub total: Duration,
    /// How long the shortest run took.
    pub min: Duration,
    /// How long the longest run took.
    pub max: Duration,
}

/// One run of an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpRun {
    /// The type of the op.
    pub op: String,
    /// When it began.
    pub start: Instant,
    /// How long it took.
    pub time: Duration,
}

/// Runs that are kept one by one; later ones count in the sums alone.
const RUNS_MAX: usize = 100_000;

/// Times collected so far.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    times: BTreeMap<(usize, usize), OpTime>,
    runs: Vec<OpRun>,
}

impl Profile {
    pub(super) fn add(&mut self, block: usize, index: usize, run: OpRun) {
        let time = run.time;
        let entry = self.times.entry((block, index)).or_insert_with(|| OpTime {
            block,
            index,
            op: run.op.clone(),
            calls: 0,
            total: Duration::ZERO,
            min: time,
            max: time,
        });
        entry.calls += 1;
        entry.total += time;
        entry.min = entry.min.min(time);
        entry.max = entry.max.max(time);
        if self.runs.len() < RUNS_MAX {
            self.runs.push(run);
        }
    }

    /// The first runs, in order; they are forgotten here.
    pub(super) fn take_runs(&mut self) -> Vec<OpRun> {
        std::mem::take(&mut self.runs)
    }

    pub(super) fn into_times(self) -> Vec<OpTime> {
        let mut times: Vec<OpTime> = self.times.into_values().collect();
        times.sort_by_key(|time| std::cmp::Reverse(time.total));
        times
    }
}
