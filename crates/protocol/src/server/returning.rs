//! Trainers that were through at the cut that a server began from.
//!
//! If the whole job was started again, they come once more: their scripts repeat themselves, and need servers for that. So a
//! server that has not seen them end itself waits for them a little before it ends.

use std::collections::BTreeMap;

use wire::{Millis, TrainerId};

use super::cut_state::Gone;

/// For so long trainers that were through are waited for: one may not have heard of the end, or may be started
/// again as well.
pub(super) const THROUGH_MS: u64 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Returning {
    /// Those that have not come yet, and how they ended.
    trainers: BTreeMap<TrainerId, Gone>,
    /// Since when only they are missing.
    since: Option<Millis>,
}

impl Returning {
    pub(super) fn new(trainers: impl Iterator<Item = (TrainerId, Gone)>) -> Self {
        Self { trainers: trainers.collect(), since: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trainers.is_empty()
    }

    /// One has come.
    pub(super) fn came(&mut self, trainer: TrainerId) {
        self.trainers.remove(&trainer);
        self.since = None;
    }

    /// Tells whether all other trainers are gone (`is_idle`). Trainers that do not return in time are given up; a trainer that
    /// left in the middle is awaited as long as one that died.
    pub(super) fn check(&mut self, now: Millis, is_idle: bool, recover_ms: u64) {
        if !is_idle {
            self.since = None;
            return;
        }
        let waited = now.since(*self.since.get_or_insert(now));
        let has_left = self.trainers.values().any(|gone| *gone == Gone::Left);
        let limit = if has_left { recover_ms } else { THROUGH_MS.min(recover_ms) };
        if waited >= limit {
            self.trainers.clear();
        }
    }
}
