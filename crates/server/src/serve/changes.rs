//! Rows that one trainer changed and others have not seen (GEO): one bit for each row and trainer.

use std::collections::BTreeMap;

use base::bytes::{ByteReader, ByteWriter, Read};
use wire::TrainerId;

use train::row_set::RowSet;

/// Rows of a table that a trainer has not seen, in order.
pub(super) struct UnseenRows {
    pub(super) trainer: TrainerId,
    pub(super) table: String,
    pub(super) rows: Vec<i64>,
}

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

    /// Notes that the trainers have not seen these rows, apart from the one that changed them: it added the same difference to
    /// its own values.
    pub(super) fn note(&mut self, by: TrainerId, table: &str, rows: &[i64]) {
        for trainer in (0..self.n_trainers).map(TrainerId).filter(|&trainer| trainer != by) {
            self.note_for(trainer, table, rows);
        }
    }

    /// Notes that a trainer has not seen these rows.
    pub(super) fn note_for(&mut self, trainer: TrainerId, table: &str, rows: &[i64]) {
        let tables = self.unseen.entry(trainer).or_default();
        if !tables.contains_key(table) {
            tables.insert(table.to_string(), RowSet::default());
        }
        if let Some(unseen) = tables.get_mut(table) {
            rows.iter().for_each(|&row| unseen.insert(row as usize));
        }
    }

    /// Everything that was noted.
    pub(super) fn into_rows(self) -> Vec<UnseenRows> {
        let tables = self.unseen.into_iter().flat_map(|(trainer, tables)| {
            tables.into_iter().map(move |(table, mut rows)| {
                let rows = rows.take(usize::MAX);
                UnseenRows { trainer, table, rows }
            })
        });
        tables.collect()
    }

    /// The first `n_max` of the rows that a trainer has not seen, in order; now it has.
    pub(super) fn take(&mut self, trainer: TrainerId, table: &str, n_max: usize) -> Vec<i64> {
        let tables = self.unseen.get_mut(&trainer);
        let unseen = tables.and_then(|tables| tables.get_mut(table));
        unseen.map_or(Vec::new(), |unseen| unseen.take(n_max))
    }
}

impl Changes {
    /// The rows that each trainer has not seen, for a file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut to = ByteWriter::default();
        for (trainer, tables) in &self.unseen {
            for (table, rows) in tables.iter().filter(|(_, rows)| !rows.is_empty()) {
                let words: Vec<(usize, u64)> = rows.words().collect();
                to.u32(trainer.0).text(table);
                to.list(&words, |to, (at, bits)| {
                    to.u32(*at as u32).u64(*bits);
                });
            }
        }
        to.0
    }

    /// Reads what `to_bytes` wrote; `None` if these are other bytes.
    pub(super) fn from_bytes(n_trainers: u32, bytes: &[u8]) -> Option<Self> {
        Self::read(n_trainers, &mut ByteReader::new(bytes)).ok()
    }

    fn read(n_trainers: u32, parts: &mut ByteReader<'_>) -> Read<Self> {
        let mut changes = Self::new(n_trainers);
        while !parts.is_empty() {
            let (trainer, table) = (TrainerId(parts.u32()?), parts.text()?.to_string());
            let words = parts.list(|parts| -> Read<(usize, u64)> {
                Ok((parts.u32()? as usize, parts.u64()?))
            })?;
            let mut rows = RowSet::default();
            words.into_iter().for_each(|(at, bits)| rows.insert_word(at, bits));
            if trainer.0 < n_trainers {
                changes.unseen.entry(trainer).or_default().insert(table, rows);
            }
        }
        Ok(changes)
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
        assert!(changes.take(TrainerId(1), "t", 9).is_empty());
        changes.note(TrainerId(2), "t", &[63]);
        assert_eq!(changes.take(TrainerId(1), "t", 9), [63]);
        assert_eq!(changes.take(TrainerId(0), "t", 9), [3, 63, 64, 700]);
        assert!(changes.take(TrainerId(2), "t", 9).is_empty(), "it made them");
        changes.note(TrainerId(1), "t", &[9, 64]);
        changes.note(TrainerId(2), "t", &[64, 65]);
        assert_eq!(changes.take(TrainerId(2), "t", 9), [9, 64], "another changed what it changed");
        assert!(changes.take(TrainerId(7), "t", 9).is_empty());
    }

    #[test]
    fn what_nobody_has_seen_survives_a_file() {
        let mut changes = Changes::new(3);
        changes.note(TrainerId(2), "t", &[700, 3, 64, 3]);
        changes.note(TrainerId(0), "u", &[1 << 20]);
        changes.take(TrainerId(0), "t", 9);
        let mut again = Changes::from_bytes(3, &changes.to_bytes()).unwrap();
        for trainer in (0..3).map(TrainerId) {
            for table in ["t", "u"] {
                assert_eq!(again.take(trainer, table, 9), changes.take(trainer, table, 9));
            }
        }
        assert!(Changes::from_bytes(3, &[1, 2, 3]).is_none());
    }
}
