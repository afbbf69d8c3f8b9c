//! Some rows of a table, a bit for each: thousands are noted in a step, and read out in their order.

#[derive(Debug, Default)]
pub(crate) struct RowSet(Vec<u64>);

impl RowSet {
    /// Notes a row.
    pub(crate) fn insert(&mut self, row: usize) {
        let word = row / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (row % 64);
    }

    /// All rows, in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> {
        let of_word = |(at, &word): (usize, &u64)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(of_word)
    }

    /// The first `n_max` rows, in order; they are no longer noted.
    pub(crate) fn take(&mut self, n_max: usize) -> Vec<i64> {
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
    fn rows_come_out_once_and_in_order() {
        let mut rows = RowSet::default();
        [700, 3, 64, 3, 0].into_iter().for_each(|row| rows.insert(row));
        assert_eq!(rows.take(2), [0, 3]);
        rows.insert(1);
        assert_eq!(rows.rows().collect::<Vec<_>>(), [1, 64, 700]);
        assert_eq!(rows.take(9), [1, 64, 700]);
        assert_eq!(rows.take(9), []);
    }
}
