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

/// The files of a pass, and what it leaves out of them.
#[derive(Clone, Debug, Default)]
pub struct PassFiles {
    pub(crate) files: Vec<String>,
    /// So many lines at the beginning of a file.
    pub(crate) left_out: BTreeMap<String, u64>,
}

impl PassFiles {
    /// What was read when the readers of the pass stood there; files of which nothing was are not listed.
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
    }
}
