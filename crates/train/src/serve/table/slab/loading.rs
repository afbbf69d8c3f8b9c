//! Numbers of the rows of a cut that is loaded. The index of a large table takes as long as its rows: it
//! is made beside them.

use std::thread::{self, JoinHandle};

use ps::table::RowIndex;

/// No row has this number.
const NO_ROW: u64 = u64::MAX;
/// The index of a smaller table is made at the end.
const N_ROWS_MIN: usize = 1 << 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SlabLoad {
    /// Makes the index of the first rows.
    index: Option<JoinHandle<Option<RowIndex>>>,
    n_indexed: usize,
    /// Numbers of the others, by their places.
    rows: Vec<u64>,
}

impl SlabLoad {
    /// How many rows there are.
    pub(super) fn n_rows(&self) -> usize {
        self.n_indexed + self.rows.len()
    }

    /// There are so many rows; the error is what is wrong with that.
    pub(super) fn resize(&mut self, n_rows: usize) -> Result<(), &'static str> {
        let n_rows = n_rows.checked_sub(self.n_indexed);
        let n_rows = n_rows.filter(|&n| n >= self.rows.len());
        self.rows.resize(n_rows.ok_or("a table has lost rows")?, NO_ROW);
        Ok(())
    }

    /// Where numbers of rows go, and the place of the first.
    pub(super) fn names(&mut self) -> (usize, &mut [u64]) {
        (self.n_indexed, &mut self.rows)
    }

    /// The numbers of the rows so far are complete: rows follow. `old` is the index that the table has:
    /// one that fits is used again.
    pub(super) fn begin_index(&mut self, old: &RowIndex) {
        let is_new = self.index.is_none() && self.rows.len() >= N_ROWS_MIN;
        if is_new && old.n_rows() < self.rows.len() {
            let (height, rows) = (old.height(), std::mem::take(&mut self.rows));
            self.n_indexed = rows.len();
            self.index = Some(thread::spawn(move || RowIndex::from_rows(height, rows)));
        }
    }

    /// Completes the index; the error is what is wrong with the rows.
    pub(super) fn finish(self, index: &mut RowIndex) -> Result<(), &'static str> {
        let wrong = "a table has a row twice, or one without a number";
        let Some(thread) = self.index else {
            return if index.reset(self.rows) { Ok(()) } else { Err(wrong) };
        };
        *index = thread.join().ok().flatten().ok_or(wrong)?;
        for row in self.rows {
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
            let (start, names) = loading.names();
            names[n_before - start..].copy_from_slice(rows);
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
            assert!(loaded(first, &[NO_ROW], &mut index).is_err());
        }
        assert!(SlabLoad { rows: vec![1, 2], ..SlabLoad::default() }.resize(1).is_err());
    }
}
