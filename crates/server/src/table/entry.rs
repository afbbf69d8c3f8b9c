//! Which rows a table admits, and when.
//!
//! A row that has not been admitted reads as zeros, and gradients for it are dropped. By count, a
//! row learns from the n-th gradient that names it: the gradients before are counted and dropped. A
//! gradient counts once, even if it lists the row several times. Look-ups do not count, so
//! evaluation changes nothing, and neither does a repeated request. By probability, the answer is
//! drawn once from (seed, table, row): every process and every run gets the same answer.

use program::distributed::EntryRule;
use tensor::{TakenIn, mix};

use super::KeyMap;

/// The rule at work on one part of a table.
#[derive(Debug)]
pub struct EntryFilter {
    entry: EntryRule,
    /// Mixed from the seed and the table's name.
    salt: u64,
    /// Rows of the table before this part.
    first: u64,
    /// Rows that were named and not taken in, and how often.
    waiting: KeyMap,
    counts: Vec<u32>,
    n_dropped: u64,
    /// The changes since the last cut, if cuts are made.
    log: Option<EntryLog>,
    /// For each scan under way, the old state of rows that changed or moved since it began.
    scans: Vec<Scan>,
    n_scans: u64,
}

/// Rows with how often each was named; 0 of those that do not wait. A later one is newer.
#[derive(Debug, Default)]
struct EntryLog {
    counts: Vec<(u64, u32)>,
    /// Entries when rows were last listed once each.
    n_settled: usize,
}

#[derive(Debug, Default)]
struct Scan {
    id: u64,
    next: usize,
    before: Vec<(u64, u32)>,
}

/// Logs of fewer entries are left as they are.
const LOG_MIN: usize = 1 << 16;

impl EntryLog {
    fn push(&mut self, row: u64, count: u32) {
        self.counts.push((row, count));
        if self.counts.len() >= LOG_MIN.max(2 * self.n_settled) {
            keep_last(&mut self.counts);
            self.n_settled = self.counts.len();
        }
    }
}

/// Keeps the last entry of each row, in order of the rows.
fn keep_last(counts: &mut Vec<(u64, u32)>) {
    counts.reverse();
    keep_first(counts);
}

fn keep_first(counts: &mut Vec<(u64, u32)>) {
    counts.sort_by_key(|&(row, _)| row);
    counts.dedup_by_key(|&mut (row, _)| row);
}

impl EntryFilter {
    /// A rule for the part of `table` that begins with row `first`.
    pub fn new(entry: EntryRule, seed: u64, table: &str, first: u64) -> Self {
        let salt = table.bytes().fold(mix(seed), |salt, byte| mix(salt ^ u64::from(byte)));
        Self {
            entry,
            salt,
            first,
            waiting: KeyMap::default(),
            counts: Vec::new(),
            n_dropped: 0,
            log: None,
            scans: Vec::new(),
            n_scans: 0,
        }
    }

    /// Whether a row that was never named is admitted at once.
    pub fn is_open(&self, row: u64) -> bool {
        self.taken_in().has(self.first + row)
    }

    /// Which rows of the whole table are admitted without having been named.
    pub fn taken_in(&self) -> TakenIn {
        match self.entry {
            EntryRule::Count(n) if n <= 1 => TakenIn::All,
            EntryRule::Count(_) => TakenIn::None,
            EntryRule::Probability(share) => TakenIn::Drawn { salt: self.salt, share },
        }
    }

    /// Counts a gradient that was dropped; true if the next one will not be.
    pub fn drop_one(&mut self, row: u64) -> bool {
        self.n_dropped += 1;
        let EntryRule::Count(n) = self.entry else { return false };
        let Some((at, is_new)) = self.waiting.find_or_make(row) else { return false };
        if is_new {
            self.counts.push(0);
        }
        for scan in &mut self.scans {
            scan.before.push((row, self.counts[at]));
        }
        self.counts[at] += 1;
        let enters = self.counts[at] + 1 >= n;
        if let Some(log) = &mut self.log {
            log.push(row, if enters { 0 } else { self.counts[at] });
        }
        if enters {
            self.remove(row);
        }
        enters
    }

    /// Takes a row out; the last one moves to its place.
    fn remove(&mut self, row: u64) {
        let last = self.waiting.keys().last().copied().zip(self.counts.last().copied());
        let Some(at) = self.waiting.remove(row) else { return };
        self.counts.swap_remove(at);
        if let Some(moved) = last.filter(|&(last, _)| last != row) {
            self.scans.iter_mut().for_each(|scan| scan.before.push(moved));
        }
    }

    /// From now on changes are noted.
    pub fn track(&mut self) {
        self.log = Some(EntryLog::default());
    }

    /// Rows whose count changed since the last call, with their counts now; 0 for rows that do not
    /// wait any more. A row may be listed several times: the last entry is valid.
    pub fn take_changes(&mut self) -> Vec<(u64, u32)> {
        self.log.as_mut().map_or(Vec::new(), |log| std::mem::take(log).counts)
    }

    /// Sorts changes and keeps the last one of each row.
    pub fn settle(mut changes: Vec<(u64, u32)>) -> Vec<(u64, u32)> {
        keep_last(&mut changes);
        changes
    }

    /// Puts changes back that were taken.
    pub fn put_back(&mut self, mut changes: Vec<(u64, u32)>) {
        if let Some(log) = &mut self.log {
            changes.append(&mut log.counts);
            log.counts = changes;
        }
    }

    /// Begins to list all rows as they are now: call [`EntryFilter::scan`] until it returns
    /// nothing, then [`EntryFilter::end_scan`], with the returned number.
    pub fn begin_scan(&mut self) -> u64 {
        self.n_scans += 1;
        self.scans.push(Scan { id: self.n_scans, ..Scan::default() });
        self.n_scans
    }

    /// The next rows with their counts. Some may have changed since the beginning.
    pub fn scan(&mut self, id: u64, n_max: usize) -> Vec<(u64, u32)> {
        let scan = self.scans.iter_mut().find(|scan| scan.id == id);
        let Some(scan) = scan else { return Vec::new() };
        let keys = self.waiting.keys().get(scan.next..).unwrap_or(&[]).iter().copied();
        let counts = self.counts.get(scan.next..).unwrap_or(&[]).iter().copied();
        let found: Vec<(u64, u32)> = keys.zip(counts).take(n_max).collect();
        scan.next += found.len();
        found
    }

    /// Corrections: rows with the counts they had at the beginning, 0 if they did not wait.
    pub fn end_scan(&mut self, id: u64) -> Vec<(u64, u32)> {
        let at = self.scans.iter().position(|scan| scan.id == id);
        let mut before = at.map_or(Vec::new(), |at| self.scans.swap_remove(at).before);
        keep_first(&mut before);
        before
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        (self.waiting, self.counts, self.scans) = (KeyMap::default(), Vec::new(), Vec::new());
        if self.log.is_some() {
            self.track();
        }
    }

    /// Sets how many rows of gradients were dropped before.
    pub fn set_dropped(&mut self, n_dropped: u64) {
        self.n_dropped = n_dropped;
    }

    /// Rows that were named and have not been admitted (by count).
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

    /// Sets how often a row was named, as others know now, and notes that. A row with count 0 does not wait.
    pub fn renew(&mut self, row: u64, count: u32) {
        if let Some(log) = &mut self.log {
            log.push(row, count);
        }
        self.wait(row, count);
    }

    /// Adds a row that waited in an earlier job. A row with count 0 does not wait.
    pub fn wait(&mut self, row: u64, count: u32) {
        if count == 0 {
            return self.remove(row);
        }
        if let Some((at, is_new)) = self.waiting.find_or_make(row) {
            if is_new { self.counts.push(count) } else { self.counts[at] = count }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_fluids_words() {
        assert_eq!("count_filter_entry:10".parse(), Ok(EntryRule::Count(10)));
        assert_eq!("probability_entry:0.25".parse(), Ok(EntryRule::Probability(0.25)));
        for text in [
            "none",
            "",
            "count_filter_entry:",
            "count_filter_entry:-1",
            "probability_entry:1",
            "probability_entry:nan",
            "show_click_entry:a:b",
        ] {
            assert_eq!(text.parse::<EntryRule>(), Err(()), "{text}");
        }
    }

    #[test]
    fn the_third_gradient_is_the_first_that_counts() {
        let mut filter = EntryFilter::new(EntryRule::Count(3), 0, "t", 0);
        assert!(!filter.is_open(5));
        assert!(!filter.drop_one(5));
        assert!(!filter.drop_one(9));
        assert_eq!(filter.waiting(), [(5, 1), (9, 1)]);
        assert!(filter.drop_one(5));
        assert_eq!((filter.n_waiting(), filter.n_dropped()), (1, 3));
        let mut again = EntryFilter::new(EntryRule::Count(3), 0, "t", 0);
        filter.waiting().into_iter().for_each(|(row, count)| again.wait(row, count));
        assert!(again.drop_one(9), "it had waited before");
        assert!(EntryFilter::new(EntryRule::Count(1), 0, "t", 0).is_open(5));
    }

    /// A copy that gets what was written down, and then what changed, is the same at every cut.
    #[test]
    fn what_is_written_down_while_it_changes_is_one_moment() {
        let new = || EntryFilter::new(EntryRule::Count(4), 0, "t", 0);
        let (mut filter, mut copy) = (new(), new());
        filter.track();
        let mut random = 0;
        let mut drop_some = |filter: &mut EntryFilter, n: usize| {
            for _ in 0..n {
                random += 1;
                filter.drop_one(mix(random) % 300);
            }
        };
        drop_some(&mut filter, 500);
        filter.take_changes();
        for cut in 0..20 {
            let before = filter.waiting();
            let scan = filter.begin_scan();
            let (mut scanned, mut n) = (new(), usize::MAX);
            while n > 0 {
                drop_some(&mut filter, 30);
                let found = filter.scan(scan, 7);
                n = found.len();
                found.into_iter().for_each(|(row, count)| scanned.wait(row, count));
            }
            filter.end_scan(scan).into_iter().for_each(|(row, count)| scanned.wait(row, count));
            assert_eq!(scanned.waiting(), before, "cut {cut}");
            match cut {
                0 => copy = scanned,
                _ => assert_eq!(copy.waiting(), before, "cut {cut}"),
            }
            let mut changes = filter.take_changes();
            if cut % 3 == 0 {
                filter.put_back(std::mem::take(&mut changes));
                drop_some(&mut filter, 9);
                changes = filter.take_changes();
            }
            let changes = EntryFilter::settle(changes);
            changes.into_iter().for_each(|(row, count)| copy.wait(row, count));
        }
        let mut log = EntryLog::default();
        (0..3 * LOG_MIN as u64).for_each(|n| log.push(n % 10, n as u32));
        assert!(log.counts.len() < LOG_MIN);
        filter.clear();
        filter.set_dropped(7);
        assert_eq!((filter.n_waiting(), filter.n_dropped()), (0, 7));
    }

    #[test]
    fn a_draw_is_the_rows_own() {
        let entry = EntryRule::Probability(0.25);
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
