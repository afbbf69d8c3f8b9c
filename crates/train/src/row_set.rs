//! Some rows of a table, a bit for each: thousands are noted in a step, and read out in their order.
//! A second level has a bit for each word that has one, so that nobody reads what is empty.

const BITS: usize = 64;

/// Some rows of a table.
#[derive(Clone, Debug, Default)]
pub struct RowSet {
    words: Vec<u64>,
    /// A bit for each word that is not 0.
    filled: Vec<u64>,
    n: usize,
}

impl RowSet {
    /// Notes a row.
    pub fn insert(&mut self, row: usize) {
        self.is_new(row);
    }

    /// Notes a row; true if it was not noted.
    pub fn is_new(&mut self, row: usize) -> bool {
        let word = row / BITS;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.filled.resize(word / BITS + 1, 0);
        }
        let bit = 1 << (row % BITS);
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.filled[word / BITS] |= 1 << (word % BITS);
        self.n += usize::from(is_new);
        is_new
    }

    /// Whether a row is noted.
    pub fn contains(&self, row: usize) -> bool {
        self.words.get(row / BITS).is_some_and(|word| word >> (row % BITS) & 1 == 1)
    }

    /// How many rows are noted.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Notes 64 rows at once, as [`RowSet::words`] gives them.
    pub fn insert_word(&mut self, at: usize, bits: u64) {
        if bits != 0 {
            self.insert(at * BITS + bits.trailing_zeros() as usize);
            self.n += (bits & !self.words[at]).count_ones() as usize;
            self.words[at] |= bits;
        }
    }

    /// Notes the rows of another set too.
    pub fn unite(&mut self, other: &RowSet) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        other.words().for_each(|(at, bits)| self.insert_word(at, bits));
    }

    /// The words that have a row, and which they are.
    pub fn words(&self) -> impl Iterator<Item = (usize, u64)> {
        let groups = self.filled.iter().enumerate();
        let at =
            groups.flat_map(|(group, &filled)| bits_of(filled).map(move |at| group * BITS + at));
        at.map(|at| (at, self.words[at]))
    }

    /// The first row that is noted and not before `from`.
    pub fn next_from(&self, from: usize) -> Option<usize> {
        let word = from / BITS;
        let rest = self.words.get(word)? & (u64::MAX << (from % BITS));
        if rest != 0 {
            return Some(word * BITS + rest.trailing_zeros() as usize);
        }
        let (mut group, after) = ((word + 1) / BITS, (word + 1) % BITS);
        let mut filled = self.filled.get(group)? & (u64::MAX << after);
        while filled == 0 {
            group += 1;
            filled = *self.filled.get(group)?;
        }
        let word = group * BITS + filled.trailing_zeros() as usize;
        Some(word * BITS + self.words[word].trailing_zeros() as usize)
    }

    /// All rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        self.words().flat_map(|(at, bits)| bits_of(bits).map(move |bit| at * BITS + bit))
    }

    /// The first `n_max` rows, in order; they are no longer noted.
    pub fn take(&mut self, n_max: usize) -> Vec<i64> {
        let mut rows = Vec::with_capacity(self.n.min(n_max));
        for group in 0..self.filled.len() {
            if rows.len() == n_max {
                break;
            }
            for at in bits_of(self.filled[group]) {
                let word = &mut self.words[group * BITS + at];
                while *word != 0 && rows.len() < n_max {
                    let row = (group * BITS + at) * BITS + word.trailing_zeros() as usize;
                    rows.push(row as i64);
                    *word &= *word - 1;
                }
                if *word == 0 {
                    self.filled[group] &= !(1 << at);
                }
            }
        }
        self.n -= rows.len();
        rows
    }
}

/// Which bits of a word are 1.
fn bits_of(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (at < BITS).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rows_come_out_once_and_in_order() {
        let mut rows = RowSet::default();
        let are_new = [700, 3, 64, 3, 0].map(|row| rows.is_new(row));
        assert_eq!(are_new, [true, true, true, false, true]);
        assert_eq!(rows.take(2), [0, 3]);
        rows.insert(1);
        assert_eq!(rows.rows().collect::<Vec<_>>(), [1, 64, 700]);
        assert_eq!(rows.len(), 3);
        assert_eq!(rows.take(9), [1, 64, 700]);
        assert!(rows.take(9).is_empty());
        assert!(rows.is_empty());
    }

    #[test]
    fn behaves_like_a_set() {
        let mut rows = RowSet::default();
        let mut model = BTreeSet::new();
        let mut other = RowSet::default();
        for step in 0..3000u64 {
            let row = (tensor::mix(step) % 100_000) as usize;
            assert_eq!(rows.is_new(row), model.insert(row));
            if step % 500 == 499 {
                let taken = rows.take(37);
                let first: Vec<i64> = model.iter().take(37).map(|&row| row as i64).collect();
                assert_eq!(taken, first);
                assert!(first.iter().all(|&row| model.remove(&(row as usize))));
            }
            other.insert((tensor::mix(step + 7) % 200_000) as usize);
        }
        let all: Vec<usize> = model.iter().copied().collect();
        let mut found = Vec::new();
        while let Some(row) = rows.next_from(found.last().map_or(0, |row| row + 1)) {
            found.push(row);
        }
        assert_eq!((found, rows.len()), (all, model.len()));
        let mut both = rows.clone();
        both.unite(&other);
        let is_in = |row: &usize| rows.contains(*row) || other.contains(*row);
        assert_eq!(both.len(), (0..200_001).filter(is_in).count());
        let mut copy = RowSet::default();
        both.words().for_each(|(at, bits)| copy.insert_word(at, bits));
        assert_eq!(copy.take(usize::MAX), both.take(usize::MAX));
    }
}
