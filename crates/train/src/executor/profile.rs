//! Time per op, on request.

use std::collections::BTreeMap;
use std::time::Duration;

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
}

/// Times collected so far.
#[derive(Clone, Debug, Default)]
pub struct Profile(BTreeMap<(usize, usize, String), (u64, Duration)>);

impl Profile {
    pub(super) fn add(&mut self, block: usize, index: usize, op: &str, time: Duration) {
        let entry = self.0.entry((block, index, op.to_string())).or_default();
        entry.0 += 1;
        entry.1 += time;
    }

    pub(super) fn into_times(self) -> Vec<OpTime> {
        let time = |((block, index, op), (calls, total))| OpTime { block, index, op, calls, total };
        let mut times: Vec<OpTime> = self.0.into_iter().map(time).collect();
        times.sort_by_key(|time| std::cmp::Reverse(time.total));
        times
    }
}
