//! Rows that somebody changed and others have not seen (GEO): one bit for each row and trainer.

use std::collections::BTreeMap;

use ps::TrainerId;

#[derive(Debug, Default)]
pub(super) struct Changes {
    /// By trainer and table.
    unseen: BTreeMap<TrainerId, BTreeMap<String, Bits>>,
}

#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Changes {
    /// Notes that all trainers but the one who changed these rows have not seen them. That one knows:
    /// it added the same difference to what it had.
    pub(super) fn note(&mut self, (by, n_trainers): (TrainerId, u32), table: &str, rows: &[i64]) {
        for trainer in (0..n_trainers).map(TrainerId).filter(|&trainer| trainer != by) {
            let tables = self.unseen.entry(trainer).or_default();
            if !tables.contains_key(table) {
                tables.insert(table.to_string(), Bits::default());
            }
            if let Some(bits) = tables.get_mut(table) {
                rows.iter().for_each(|&row| bits.set(row as usize));
            }
        }
    }

    /// The first `n_max` of the rows that a trainer has not seen, in order; now it has.
    pub(super) fn take(&mut self, trainer: TrainerId, table: &str, n_max: usize) -> Vec<i64> {
        let tables = self.unseen.get_mut(&trainer);
        let bits = tables.and_then(|tables| tables.get_mut(table));
        bits.map_or(Vec::new(), |bits| bits.take(n_max))
    }
}

impl Bits {
    fn set(&mut self, at: usize) {
        let word = at / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (at % 64);
    }

    fn take(&mut self, n_max: usize) -> Vec<i64> {
        let n: usize = self.0.iter().map(|word| word.count_ones() as usize).sum();
        let mut rows = Vec::with_capacity(n.min(n_max));
        for (at, word) in self.0.iter_mut().enumerate() {
            while *word != 0 && rows.len() < n_max {
                rows.push((at * 64) as i64 + i64::from(word.trailing_zeros()));
                *word &= *word - 1;
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_sees_a_change_once() {
        let mut changes = Changes::default();
        changes.note((TrainerId(2), 3), "t", &[700, 3, 64, 3]);
        changes.note((TrainerId(2), 3), "u", &[9]);
        assert_eq!(changes.take(TrainerId(1), "t", 2), [3, 64]);
        assert_eq!(changes.take(TrainerId(1), "t", 2), [700]);
        assert_eq!(changes.take(TrainerId(1), "t", 9), []);
        changes.note((TrainerId(2), 3), "t", &[63]);
        assert_eq!(changes.take(TrainerId(1), "t", 9), [63]);
        assert_eq!(changes.take(TrainerId(0), "t", 9), [3, 63, 64, 700]);
        assert_eq!(changes.take(TrainerId(2), "t", 9), [], "it made them");
        changes.note((TrainerId(1), 3), "t", &[9, 64]);
        changes.note((TrainerId(2), 3), "t", &[64, 65]);
        assert_eq!(changes.take(TrainerId(2), "t", 9), [9, 64], "another changed what it changed");
        assert_eq!(changes.take(TrainerId(7), "t", 9), []);
    }
}
