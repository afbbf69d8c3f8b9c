//! Rows that somebody changed and others have not seen (GEO): one bit for each row and trainer.

use std::collections::BTreeMap;

use ps::TrainerId;

use crate::row_set::RowSet;

#[derive(Debug)]
pub(super) struct Changes {
    n_trainers: u32,
    /// By trainer and table.
    unseen: BTreeMap<TrainerId, BTreeMap<String, RowSet>>,
}

impl Changes {
    pub(super) fn new(n_trainers: u32) -> Self {
        Self { n_trainers, unseen: BTreeMap::new() }
    }

    /// Notes that all trainers but the one who changed these rows have not seen them. That one knows:
    /// it added the same difference to what it had.
    pub(super) fn note(&mut self, by: TrainerId, table: &str, rows: &[i64]) {
        for trainer in (0..self.n_trainers).map(TrainerId).filter(|&trainer| trainer != by) {
            let tables = self.unseen.entry(trainer).or_default();
            if !tables.contains_key(table) {
                tables.insert(table.to_string(), RowSet::default());
            }
            if let Some(unseen) = tables.get_mut(table) {
                rows.iter().for_each(|&row| unseen.insert(row as usize));
            }
        }
    }

    /// The first `n_max` of the rows that a trainer has not seen, in order; now it has.
    pub(super) fn take(&mut self, trainer: TrainerId, table: &str, n_max: usize) -> Vec<i64> {
        let tables = self.unseen.get_mut(&trainer);
        let unseen = tables.and_then(|tables| tables.get_mut(table));
        unseen.map_or(Vec::new(), |unseen| unseen.take(n_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_sees_a_change_once() {
        let mut changes = Changes::new(3);
        changes.note(TrainerId(2), "t", &[700, 3, 64, 3]);
        changes.note(TrainerId(2), "u", &[9]);
        assert_eq!(changes.take(TrainerId(1), "t", 2), [3, 64]);
        assert_eq!(changes.take(TrainerId(1), "t", 2), [700]);
        assert_eq!(changes.take(TrainerId(1), "t", 9), []);
        changes.note(TrainerId(2), "t", &[63]);
        assert_eq!(changes.take(TrainerId(1), "t", 9), [63]);
        assert_eq!(changes.take(TrainerId(0), "t", 9), [3, 63, 64, 700]);
        assert_eq!(changes.take(TrainerId(2), "t", 9), [], "it made them");
        changes.note(TrainerId(1), "t", &[9, 64]);
        changes.note(TrainerId(2), "t", &[64, 65]);
        assert_eq!(changes.take(TrainerId(2), "t", 9), [9, 64], "another changed what it changed");
        assert_eq!(changes.take(TrainerId(7), "t", 9), []);
    }
}
