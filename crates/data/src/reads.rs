//! How much of each file a pass has read, so that other trainers can read the rest.

use std::collections::BTreeMap;

use crate::position::Positions;

/// How much of a file was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// The file, as the list names it.
    pub file: String,
    /// Lines or rows; [`FileRead::ALL`] if that is all.
    pub n_lines: u64,
}

impl FileRead {
    /// The file was read to its end.
    pub const ALL: u64 = u64::MAX;
}

/// The files of a pass, and the parts that it leaves out.
#[derive(Clone, Debug, Default)]
pub struct PassFiles {
    pub(crate) files: Vec<String>,
    /// So many lines at the beginning of a file.
    pub(crate) left_out: BTreeMap<String, u64>,
}

impl PassFiles {
    /// The parts of files that the readers of the pass had read at these positions, without files that
    /// were not begun.
    pub fn read_until(&self, positions: &Positions) -> Vec<FileRead> {
        let readers = positions.readers();
        let read = |(at, file): (usize, &String)| {
            // Readers take every n-th file.
            let reader = readers.get(at % readers.len().max(1))?;
            let before = self.left_out.get(file).copied().unwrap_or(0);
            let n_lines = match (at as u64).cmp(&reader.file) {
                std::cmp::Ordering::Less => FileRead::ALL,
                std::cmp::Ordering::Equal => reader.at.max(before),
                std::cmp::Ordering::Greater => before,
            };
            (n_lines > 0).then(|| FileRead { file: file.clone(), n_lines })
        };
        self.files.iter().enumerate().filter_map(read).collect()
    }

    /// Bytes of files with these sizes that readers skip if they begin there: those that they have read, and files that are
    /// left out. A file whose bytes are not known counts when it is over, for it is read from its beginning.
    pub fn bytes_before(&self, positions: Option<&Positions>, size: &dyn Fn(&str) -> u64) -> u64 {
        let readers = positions.map(Positions::readers).unwrap_or_default();
        let before = |(at, file): (usize, &String)| {
            let is_left_out = self.left_out.get(file) == Some(&FileRead::ALL);
            match readers.get(at % readers.len().max(1)) {
                Some(reader) if (at as u64) < reader.file => size(file),
                _ if is_left_out => size(file),
                Some(reader) if at as u64 == reader.file => reader.byte.min(size(file)),
                _ => 0,
            }
        };
        self.files.iter().enumerate().map(before).sum()
    }

    /// All of it.
    pub fn all(&self) -> Vec<FileRead> {
        let read = |file: &String| FileRead { file: file.clone(), n_lines: FileRead::ALL };
        self.files.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::{Facts, HeldSamples, Position};
    use crate::settings::{DatasetKind, Settings};

    #[test]
    fn readers_take_every_nth_file() {
        let files: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_string).to_vec();
        let left_out = BTreeMap::from([("d".to_string(), 7), ("e".to_string(), 3)]);
        let pass = PassFiles { files, left_out };
        let facts = Facts::of(
            DatasetKind::Queue,
            &Settings::default(),
            HeldSamples { n_samples: 0, n_shuffles: 0 },
        );
        let at = |file, at| Position { file, at, ..Position::default() };
        // The first reader is in `c`, the second begins with `b`.
        let read = pass.read_until(&Positions::new(facts, vec![at(2, 5), at(1, 0)]));
        let list: Vec<(&str, u64)> =
            read.iter().map(|read| (read.file.as_str(), read.n_lines)).collect();
        assert_eq!(list, [("a", FileRead::ALL), ("c", 5), ("d", 7), ("e", 3)]);
        let read = pass.read_until(&Positions::new(facts, vec![at(5, 0), at(3, 9)]));
        let list: Vec<u64> = read.iter().map(|read| read.n_lines).collect();
        assert_eq!(list, [u64::MAX, u64::MAX, u64::MAX, 9, u64::MAX]);
        assert_eq!(pass.all().len(), 5);
        let size = |_: &str| 100;
        let bytes = |readers| pass.bytes_before(Some(&Positions::new(facts, readers)), &size);
        let inside = |file, byte| Position { file, at: 5, byte, ..Position::default() };
        assert_eq!(bytes(vec![inside(2, 40), at(1, 0)]), 140);
        assert_eq!(bytes(vec![inside(2, 0), at(1, 7)]), 100, "files that a command reads");
        assert_eq!(bytes(vec![at(5, 0), at(5, 0)]), 500);
        assert_eq!(pass.bytes_before(None, &size), 0);
        let left_out = BTreeMap::from([("d".to_string(), FileRead::ALL)]);
        assert_eq!(PassFiles { left_out, ..pass.clone() }.bytes_before(None, &size), 100);
    }
}
