//! Which rows a table takes in, and when.
//!
//! A row that has not been taken in reads as zeros; gradients for it are dropped. By count, the
//! n-th gradient that names a row is the first that it learns from: those before are counted and
//! dropped, once for each gradient however often it lists the row. Looking up counts nothing, so
//! that evaluation leaves no trace and a repeated question changes nothing. By probability, the
//! answer is drawn once from (seed, table, row): every process and every run gives the same.

use std::str::FromStr;

use tensor::mix;

use super::KeyMap;

/// The rule of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entry {
    /// Rows that this many gradients have named, the last of them included.
    Count(u32),
    /// This share of all rows.
    Probability(f64),
}

impl FromStr for Entry {
    type Err = ();

    /// `count_filter_entry:10`, `probability_entry:0.1`.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(':') {
            Some(("count_filter_entry", n)) => n.parse().map(Entry::Count).map_err(drop),
            Some(("probability_entry", p)) => match p.parse() {
                Ok(p) if 0.0 < p && p < 1.0 => Ok(Entry::Probability(p)),
                _ => Err(()),
            },
            _ => Err(()),
        }
    }
}

/// The rule at work on one part of a table.
#[derive(Debug)]
pub struct EntryFilter {
    entry: Entry,
    /// Mixed from the seed and the table's name.
    salt: u64,
    /// Rows of the table before this part.
    first: u64,
    /// Rows that were named and not taken in, and how often.
    waiting: KeyMap,
    counts: Vec<u32>,
    n_dropped: u64,
}

impl EntryFilter {
    /// A rule for the part of `table` that begins with row `first`.
    pub fn new(entry: Entry, seed: u64, table: &str, first: u64) -> Self {
        let salt = table.bytes().fold(mix(seed), |salt, byte| mix(salt ^ u64::from(byte)));
        let (waiting, counts) = (KeyMap::default(), Vec::new());
        Self { entry, salt, first, waiting, counts, n_dropped: 0 }
    }

    /// Whether a row that nobody has named yet is taken in at once.
    pub fn is_open(&self, row: u64) -> bool {
        match self.entry {
            Entry::Count(n) => n <= 1,
            Entry::Probability(p) => {
                let drawn = mix(self.salt ^ mix(self.first + row)) >> 11;
                (drawn as f64) < p * (1u64 << 53) as f64
            }
        }
    }

    /// Counts a gradient that was dropped; true if the next one will not be.
    pub fn drop_one(&mut self, row: u64) -> bool {
        self.n_dropped += 1;
        let Entry::Count(n) = self.entry else { return false };
        let Some((at, is_new)) = self.waiting.find_or_make(row) else { return false };
        if is_new {
            self.counts.push(0);
        }
        self.counts[at] += 1;
        let enters = self.counts[at] + 1 >= n;
        if enters {
            self.waiting.remove(row);
            self.counts.swap_remove(at);
        }
        enters
    }

    /// Rows that were named and have not been taken in (by count).
    pub fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Rows of gradients that were dropped.
    pub fn n_dropped(&self) -> u64 {
        self.n_dropped
    }

    /// Bytes in use.
    pub fn n_bytes(&self) -> usize {
        self.waiting.n_bytes() + self.counts.len() * size_of::<u32>()
    }

    /// Rows that wait and how often they were named, in order of the rows.
    pub fn waiting(&self) -> Vec<(u64, u32)> {
        let keys = self.waiting.keys().iter().copied();
        let mut all: Vec<(u64, u32)> = keys.zip(self.counts.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    /// Goes on with a row that waited in an earlier job.
    pub fn wait(&mut self, row: u64, count: u32) {
        if let Some((at, is_new)) = self.waiting.find_or_make(row) {
            match is_new {
                true => self.counts.push(count),
                false => self.counts[at] = count,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_fluids_words() {
        assert_eq!("count_filter_entry:10".parse(), Ok(Entry::Count(10)));
        assert_eq!("probability_entry:0.25".parse(), Ok(Entry::Probability(0.25)));
        for text in [
            "none",
            "",
            "count_filter_entry:",
            "count_filter_entry:-1",
            "probability_entry:1",
            "probability_entry:nan",
            "show_click_entry:a:b",
        ] {
            assert_eq!(text.parse::<Entry>(), Err(()), "{text}");
        }
    }

    #[test]
    fn the_third_gradient_is_the_first_that_counts() {
        let mut filter = EntryFilter::new(Entry::Count(3), 0, "t", 0);
        assert!(!filter.is_open(5));
        assert!(!filter.drop_one(5));
        assert!(!filter.drop_one(9));
        assert_eq!(filter.waiting(), [(5, 1), (9, 1)]);
        assert!(filter.drop_one(5));
        assert_eq!((filter.n_waiting(), filter.n_dropped()), (1, 3));
        let mut again = EntryFilter::new(Entry::Count(3), 0, "t", 0);
        filter.waiting().into_iter().for_each(|(row, count)| again.wait(row, count));
        assert!(again.drop_one(9), "it had waited before");
        assert!(EntryFilter::new(Entry::Count(1), 0, "t", 0).is_open(5));
    }

    #[test]
    fn a_draw_is_the_rows_own() {
        let entry = Entry::Probability(0.25);
        let whole = EntryFilter::new(entry, 7, "t", 0);
        let second = EntryFilter::new(entry, 7, "t", 1000);
        let open: Vec<u64> = (0..20_000).filter(|&row| whole.is_open(row)).collect();
        assert!((4_800..5_200).contains(&open.len()), "{}", open.len());
        assert!((0..1000).all(|row| second.is_open(row) == whole.is_open(row + 1000)));
        for other in [EntryFilter::new(entry, 8, "t", 0), EntryFilter::new(entry, 7, "u", 0)] {
            let same = open.iter().filter(|&&row| other.is_open(row)).count();
            assert!(same < open.len() / 2, "another draw: {same}");
        }
        let mut whole = whole;
        let shut = (0..).find(|&row| !whole.is_open(row)).unwrap();
        assert!(!whole.drop_one(shut) && whole.n_waiting() == 0, "nothing is remembered");
    }
}
