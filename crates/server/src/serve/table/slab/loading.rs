//! Numbers of the rows of a cut that is loaded. The index of a large table takes as long as its rows: it
//! is made beside them.

use std::thread::{self, JoinHandle};

use crate::table::RowIndex;

use crate::serve::snapshot::RowNumbers;

/// The index of a smaller table is made at the end.
const N_ROWS_MIN: usize = 1 << 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SlabLoad {
    /// Makes the index of the first rows.
    index: Option<JoinHandle<Option<RowIndex>>>,
    /// Numbers of the others.
    numbers: RowNumbers,
}

impl SlabLoad {
    /// How many rows there are.
    pub(super) fn n_rows(&self) -> usize {
        self.numbers.len()
    }

    /// There are so many rows; the error is what is wrong with that.
    pub(super) fn resize(&mut self, n_rows: usize) -> Result<(), &'static str> {
        if self.numbers.grow(n_rows) { Ok(()) } else { Err("a table has lost rows") }
    }

    /// Where numbers of rows go.
    pub(super) fn numbers(&mut self) -> &mut RowNumbers {
        &mut self.numbers
    }

    /// The numbers of the rows so far are complete: rows follow. `old` is the index that the table has:
    /// one that fits is used again.
    pub(super) fn begin_index(&mut self, old: &RowIndex) {
        let is_new = self.index.is_none() && self.numbers.len() >= N_ROWS_MIN;
        if is_new && self.numbers.is_complete() && old.n_rows() < self.numbers.len() {
            let (height, rows) = (old.height(), self.numbers.take());
            self.index = Some(thread::spawn(move || RowIndex::from_rows(height, rows)));
        }
    }

    /// Completes the index; the error is what is wrong with the rows.
    pub(super) fn finish(mut self, index: &mut RowIndex) -> Result<(), &'static str> {
        let wrong = "a table has a row twice, or one without a number";
        if !self.numbers.is_complete() {
            return Err(wrong);
        }
        let rows = self.numbers.take();
        let Some(thread) = self.index else {
            return if index.reset(rows) { Ok(()) } else { Err(wrong) };
        };
        *index = thread.join().ok().flatten().ok_or(wrong)?;
        for row in rows {
            if !index.find_or_make(row).is_some_and(|(_, is_new)| is_new) {
                return Err(wrong);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads rows, some of them before others.
    fn loaded(first: &[u64], then: &[u64], index: &mut RowIndex) -> Result<(), &'static str> {
        let mut loading = SlabLoad::default();
        for rows in [first, then] {
            let n_before = loading.n_rows();
            loading.resize(n_before + rows.len()).unwrap();
            loading.numbers().set_all(n_before, rows.iter().copied()).unwrap();
            loading.begin_index(index);
        }
        assert_eq!(loading.n_rows(), first.len() + then.len());
        loading.finish(index)
    }

    #[test]
    fn an_index_is_made_beside_the_rows_or_at_the_end() {
        let rows: Vec<u64> = (0..N_ROWS_MIN as u64 + 500).map(|n| n * 1_000_003).collect();
        let (first, then) = rows.split_at(N_ROWS_MIN);
        for (first, then) in [(first, then), (then, &first[..7])] {
            let mut index = RowIndex::new(1 << 40);
            loaded(first, then, &mut index).unwrap();
            let all: Vec<u64> = first.iter().chain(then).copied().collect();
            assert!(all.iter().zip(0..).all(|(&row, place)| index.find(row) == Some(place)));
            // Again, with an index that fits.
            loaded(first, &then[..3], &mut index).unwrap();
            assert_eq!(index.n_rows(), first.len() + 3);
            assert!(loaded(first, &first[..1], &mut index).is_err(), "a row twice");
            assert!(loaded(first, &[u64::MAX], &mut index).is_err(), "no row of the table");
        }
        let mut loading = SlabLoad::default();
        loading.resize(2).unwrap();
        assert!(loading.resize(1).is_err());
        loading.numbers().set_all(1, [5]).unwrap();
        assert!(loading.finish(&mut RowIndex::new(9)).is_err(), "a row without a number");
    }

    #[test]
    fn the_highest_number_is_a_row_like_any_other() {
        let first: Vec<u64> = (0..N_ROWS_MIN as u64).map(|n| n.wrapping_mul(1 << 50 | 1)).collect();
        for (first, then) in [(&first[..], &[u64::MAX][..]), (&[u64::MAX][..], &[1 << 63][..])] {
            let mut index = RowIndex::new(RowIndex::ALL);
            loaded(first, then, &mut index).unwrap();
            assert_eq!(index.n_rows(), first.len() + then.len());
            assert!(index.find(u64::MAX).is_some());
        }
    }
}
