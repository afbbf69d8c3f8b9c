//! Where each row of a table is in its slabs.

use super::hash::KeyMap;

/// Tables of so many rows always have an array: 4 MiB of it is less than the question is worth.
const SMALL_ROWS: u64 = 1 << 20;
/// No array has more rows than this: their places would not fit it.
const ARRAY_ROWS_MAX: u64 = u32::MAX as u64;

/// Where rows are. While less than a quarter of all possible rows exist, this is a map of those
/// that exist; then it becomes an array of four bytes for each possible row. So an index never
/// costs more than 16 bytes for a row that exists (plus 4 MiB), for tables of any height.
#[derive(Debug)]
pub struct RowIndex {
    /// Rows have lower numbers. The highest table, of [`RowIndex::ALL`], has each number of 64 bits.
    height: u64,
    n_rows: usize,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Place plus one; 0 means that the row does not exist.
    Array(Vec<u32>),
    Map(KeyMap),
}

/// Some rows of an index with their positions, in the order of the index.
#[derive(Debug, PartialEq, Eq)]
pub enum RowNames {
    /// Rows whose places follow one another.
    ByPlace {
        /// The place of the first.
        first: usize,
        /// Their numbers.
        rows: Vec<u64>,
    },
    /// Rows in the order of their numbers.
    ByRow {
        /// The number that all others count from.
        first: u64,
        /// The offset to add, and the place.
        rows: Vec<(u32, u32)>,
    },
}

/// How far an index was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamesCursor {
    by_row: bool,
    next: usize,
}

impl RowIndex {
    /// The height of a table that has a row for each number of 64 bits, the highest number too.
    pub const ALL: u64 = u64::MAX;

    /// The index of a table with `height` rows, of which these exist, in the order of their
    /// positions; `None` if a row occurs twice or is not in the table.
    pub fn from_rows(height: u64, rows: Vec<u64>) -> Option<Self> {
        let mut index = Self { height, n_rows: rows.len(), form: Form::Map(KeyMap::default()) };
        if rows.iter().any(|&row| !index.has(row)) {
            return None;
        }
        if height > SMALL_ROWS && !index.is_dense() {
            index.form = Form::Map(KeyMap::from_keys(rows)?);
            return Some(index);
        }
        let mut places: Vec<u32> = bytemuck::zeroed_vec(height as usize);
        for (row, place) in rows.into_iter().zip(1..) {
            let old = std::mem::replace(&mut places[row as usize], place);
            if old != 0 {
                return None;
            }
        }
        index.form = Form::Array(places);
        Some(index)
    }

    /// Replaces all rows by these, in the order of their positions; false if a row occurs twice or
    /// is not in the table. Rows that keep their position cost nothing.
    pub fn reset(&mut self, rows: Vec<u64>) -> bool {
        match &mut self.form {
            Form::Map(map) if map.keys().starts_with(&rows) && rows.len() >= map.len() / 2 => {
                map.truncate(rows.len());
                self.n_rows = rows.len();
            }
            _ => match Self::from_rows(self.height, rows) {
                Some(index) => *self = index,
                None => return false,
            },
        }
        true
    }

    /// The next rows of an index that is written in steps. Rows that were made meanwhile may be
    /// among them, and rows may occur twice. At most `n_max` are looked at; `None` at the end.
    pub fn names(&self, cursor: &mut NamesCursor, n_max: usize) -> Option<RowNames> {
        let by_row = matches!(self.form, Form::Array(_));
        if cursor.by_row != by_row {
            *cursor = NamesCursor { by_row, next: 0 };
        }
        let first = cursor.next;
        match &self.form {
            Form::Map(map) => {
                let rows = map.keys().get(first..).filter(|rows| !rows.is_empty())?;
                let rows = rows[..rows.len().min(n_max)].to_vec();
                cursor.next += rows.len();
                Some(RowNames::ByPlace { first, rows })
            }
            Form::Array(places) => {
                let places = places.get(first..).filter(|places| !places.is_empty())?;
                let places = &places[..places.len().min(n_max)];
                cursor.next += places.len();
                let there = places.iter().zip(0..).filter(|(place, _)| **place > 0);
                let rows = there.map(|(&place, offset)| (offset, place - 1)).collect();
                Some(RowNames::ByRow { first: first as u64, rows })
            }
        }
    }

    /// Whether an array is smaller than a map.
    fn is_dense(&self) -> bool {
        self.n_rows as u64 > self.height / 4 && self.height <= ARRAY_ROWS_MAX
    }

    /// An index of a table with `height` rows, none of which exists.
    pub fn new(height: u64) -> Self {
        let form = if height <= SMALL_ROWS {
            Form::Array(bytemuck::zeroed_vec(height as usize))
        } else {
            Form::Map(KeyMap::default())
        };
        Self { height, n_rows: 0, form }
    }

    /// Whether the table has a row of this number.
    fn has(&self, row: u64) -> bool {
        row < self.height || self.height == Self::ALL
    }

    /// Rows that the table could have.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// Rows that exist.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Bytes in use.
    pub fn n_bytes(&self) -> usize {
        match &self.form {
            Form::Array(places) => places.len() * size_of::<u32>(),
            Form::Map(map) => map.n_bytes(),
        }
    }

    /// The position of a row, if it exists.
    pub fn find(&self, row: u64) -> Option<usize> {
        match &self.form {
            Form::Array(places) => match *places.get(usize::try_from(row).ok()?)? {
                0 => None,
                place => Some(place as usize - 1),
            },
            Form::Map(map) => map.find(row),
        }
    }

    /// The position of a row, and whether it was made just now. `None` if it is not a row of the
    /// table, or if there are too many.
    pub fn find_or_make(&mut self, row: u64) -> Option<(usize, bool)> {
        if !self.has(row) {
            return None;
        }
        let (place, is_new) = match &mut self.form {
            Form::Array(places) => {
                let place = &mut places[row as usize];
                let is_new = *place == 0;
                if is_new {
                    *place = u32::try_from(self.n_rows + 1).ok()?;
                }
                (*place as usize - 1, is_new)
            }
            Form::Map(map) => map.find_or_make(row)?,
        };
        if is_new {
            self.n_rows += 1;
            self.settle();
        }
        Some((place, is_new))
    }

    /// Turns a map that is no longer smaller than an array into one.
    fn settle(&mut self) {
        let Form::Map(map) = &self.form else { return };
        if !self.is_dense() {
            return;
        }
        let mut places: Vec<u32> = bytemuck::zeroed_vec(self.height as usize);
        for (&row, place) in map.keys().iter().zip(1..) {
            places[row as usize] = place;
        }
        self.form = Form::Array(places);
    }

    /// Every row that exists with its position, in the order of the row numbers.
    pub fn sorted(&self) -> Vec<(u64, usize)> {
        match &self.form {
            Form::Array(places) => {
                let rows = places.iter().zip(0..).filter(|(place, _)| **place > 0);
                rows.map(|(&place, row)| (row, place as usize - 1)).collect()
            }
            Form::Map(map) => {
                let mut rows: Vec<(u64, usize)> = map.keys().iter().copied().zip(0..).collect();
                rows.sort_unstable();
                rows
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(height: u64, rows: [u64; 2]) -> RowIndex {
        let mut index = RowIndex::new(height);
        assert_eq!(index.find(rows[0]), None);
        assert_eq!(index.find_or_make(rows[0]), Some((0, true)));
        assert_eq!(index.find_or_make(rows[1]), Some((1, true)));
        assert_eq!(index.find_or_make(rows[0]), Some((0, false)));
        assert_eq!((index.find(rows[1]), index.n_rows()), (Some(1), 2));
        assert_eq!(index.find_or_make(height), None, "no row of the table");
        assert_eq!(index.sorted(), [(rows[1], 1), (rows[0], 0)]);
        index
    }

    #[test]
    fn rows_are_made_once_and_in_order_of_asking() {
        check(10, [7, 2]);
        let high = check(1 << 62, [(1 << 62) - 1, 1 << 40]);
        assert!(high.n_bytes() < 1000, "what does not exist costs nothing");
    }

    #[test]
    fn the_highest_table_has_every_number() {
        let rows = vec![u64::MAX, 0, 1 << 63, u64::MAX - 1, (1 << 63) - 1];
        let mut index = RowIndex::new(RowIndex::ALL);
        let made: Vec<_> = rows.iter().map(|&row| index.find_or_make(row)).collect();
        assert_eq!(made, [0, 1, 2, 3, 4].map(|place| Some((place, true))));
        assert_eq!(written_down(&index, 2), rows);
        let again = RowIndex::from_rows(RowIndex::ALL, rows).unwrap();
        assert_eq!((again.find(u64::MAX), again.sorted()), (Some(0), index.sorted()));
        assert!(index.reset(vec![7, u64::MAX]));
        assert_eq!(index.find(u64::MAX), Some(1));
    }

    /// All rows by their places.
    fn written_down(index: &RowIndex, n_max: usize) -> Vec<u64> {
        let (mut cursor, mut all) = (NamesCursor::default(), vec![u64::MAX; index.n_rows()]);
        while let Some(names) = index.names(&mut cursor, n_max) {
            match names {
                RowNames::ByPlace { first, rows } => {
                    all[first..first + rows.len()].copy_from_slice(&rows);
                }
                RowNames::ByRow { first, rows } => {
                    let rows = rows.into_iter();
                    rows.for_each(|(offset, at)| all[at as usize] = first + u64::from(offset));
                }
            }
        }
        all
    }

    #[test]
    fn an_index_that_was_written_down_is_the_same() {
        for (height, step) in [(1000, 7), (1 << 40, 1_000_003), (SMALL_ROWS + 100, 3)] {
            let mut index = RowIndex::new(height);
            let rows: Vec<u64> = (0..height).rev().step_by(step).take(400_000).collect();
            for &row in &rows {
                assert!(index.find_or_make(row).is_some());
            }
            assert_eq!(written_down(&index, 1000), rows);
            let mut again = RowIndex::from_rows(height, rows.clone()).unwrap();
            assert_eq!(
                matches!(again.form, Form::Array(_)),
                matches!(index.form, Form::Array(_)),
                "height {height}"
            );
            assert_eq!(again.sorted(), index.sorted());
            assert_eq!(again.find_or_make(0), index.find_or_make(0));
            assert!(RowIndex::from_rows(height, vec![3, 4, 3]).is_none());
            assert!(!again.reset(vec![3, 4, 3]));
            for n in [rows.len(), rows.len() - 7, 5] {
                assert!(again.reset(rows[..n].to_vec()));
                assert_eq!((written_down(&again, 999), again.n_rows()), (rows[..n].to_vec(), n));
                assert_eq!(again.find(rows[n - 1]), Some(n - 1));
                assert!(rows[n..].iter().all(|&row| again.find(row).is_none()));
            }
            assert!(RowIndex::from_rows(height, vec![height]).is_none());
        }
    }

    #[test]
    fn a_map_becomes_an_array_and_nobody_notices() {
        let height = SMALL_ROWS + 4;
        let mut index = RowIndex::new(height);
        let rows = || (0..height).rev().step_by(3);
        for (place, row) in rows().enumerate() {
            let was_map = matches!(index.form, Form::Map(_));
            assert_eq!(index.find_or_make(row), Some((place, true)));
            let is_map = matches!(index.form, Form::Map(_));
            assert_eq!(is_map, place < height as usize / 4, "place {place}");
            assert!(was_map || !is_map);
        }
        for (place, row) in rows().enumerate() {
            assert_eq!(index.find(row), Some(place));
        }
        assert_eq!(index.find(height - 2), None);
        assert_eq!(index.sorted().len(), index.n_rows());
    }
}
