//! Which passes over files trainers have made, and how far: other trainers make the rest.
//!
//! A job may go on with another number of trainers. Their scripts begin anew, and each of them has another
//! part of the files. Passes that all trainers had made are not made again. In one that was under way, a
//! trainer reads of its files what nobody has read.

use std::collections::BTreeMap;

use base::bytes::{ByteReader, ByteWriter};
use data::FileRead;

use super::bytes::{ReadValues, WriteValues};
use crate::error::Result;

/// A trainer remembers the files of so many passes: others are not further apart.
const PASSES_MAX: usize = 2;

/// A pass of a trainer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PassRead {
    /// Its number among all passes of the script that train, from 0.
    number: u64,
    /// The part of each file that was read; none if its samples were in memory.
    files: Option<Vec<FileRead>>,
}

/// The passes of a trainer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passes {
    /// Passes that are over.
    n_done: u64,
    /// The last ones, ascending.
    last: Vec<PassRead>,
    /// Of a trainer that was there before trainers that were there before.
    is_older: bool,
}

impl Passes {
    /// A pass is this far; `is_done`: it is over. Later ones have not been made.
    pub(crate) fn note(&mut self, number: u64, files: Option<Vec<FileRead>>, is_done: bool) {
        self.last.retain(|pass| pass.number < number);
        self.last.push(PassRead { number, files });
        let n_more = self.last.len().saturating_sub(PASSES_MAX);
        self.last.drain(..n_more);
        self.n_done = number + u64::from(is_done);
    }

    pub(super) fn write(&self, to: &mut ByteWriter) {
        to.u64(self.n_done);
        to.u8(u8::from(self.is_older));
        to.count(self.last.len());
        for PassRead { number, files } in &self.last {
            to.u64(*number);
            to.u8(u8::from(files.is_some()));
            let files = files.as_deref().unwrap_or_default();
            to.count(files.len());
            for FileRead { file, n_lines } in files {
                to.str(file);
                to.u64(*n_lines);
            }
        }
    }

    pub(super) fn read(from: &mut ByteReader<'_>) -> Result<Self> {
        let (n_done, is_older) = (from.u64()?, from.u8()? != 0);
        let mut last = Vec::new();
        for _ in 0..from.count()? {
            let (number, is_known) = (from.u64()?, from.u8()? != 0);
            let mut files = Vec::new();
            for _ in 0..from.count()? {
                files.push(FileRead { file: from.str()?.to_string(), n_lines: from.u64()? });
            }
            last.push(PassRead { number, files: is_known.then_some(files) });
        }
        Ok(Self { n_done, last, is_older })
    }
}

/// The rest of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Everything.
    All,
    /// All of its files, without this.
    Rest(Vec<FileRead>),
    /// Nothing: all trainers had made it.
    Nothing,
    /// That cannot be told, for this reason.
    Unknown(&'static str),
}

/// The trainers that were there before: what each has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Former(pub(crate) Vec<Passes>);

impl Former {
    /// Former trainers, of which `before` are the ones before them.
    pub(crate) fn new(own: Vec<Passes>, before: Vec<Passes>) -> Self {
        let older = before.into_iter().map(|passes| Passes { is_older: true, ..passes });
        Self(own.into_iter().chain(older).collect())
    }

    /// The rest of a pass.
    pub(crate) fn left(&self, number: u64) -> Left {
        let mut last = self.0.iter().filter(|passes| !passes.is_older).peekable();
        if last.peek().is_some() && last.all(|passes| passes.n_done > number) {
            return Left::Nothing;
        }
        let mut all: BTreeMap<&str, FileReadBy> = BTreeMap::new();
        for passes in &self.0 {
            let of_pass = passes.last.iter().find(|pass| pass.number == number);
            let Some(PassRead { files, .. }) = of_pass else {
                if passes.n_done > number && !passes.is_older {
                    return Left::Unknown("trainers were too far apart");
                } else {
                    continue;
                }
            };
            let Some(files) = files else { return Left::Unknown("its samples were in memory") };
            for FileRead { file, n_lines } in files {
                let read = all.entry(file).or_default();
                read.n_lines = read.n_lines.max(*n_lines);
                read.n_trainers += usize::from(!passes.is_older);
            }
        }
        if all.values().any(|read| read.n_trainers > 1) {
            return Left::Unknown("several trainers had the same file");
        }
        let read = |(file, read): (&str, FileReadBy)| FileRead {
            file: file.to_string(),
            n_lines: read.n_lines,
        };
        if all.is_empty() { Left::All } else { Left::Rest(all.into_iter().map(read).collect()) }
    }
}

/// The part of a file that was read, and the number of its readers.
#[derive(Clone, Copy, Default)]
struct FileReadBy {
    n_lines: u64,
    n_trainers: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, u64)]) -> Option<Vec<FileRead>> {
        let read = |&(file, n_lines): &(&str, u64)| FileRead { file: file.to_string(), n_lines };
        Some(list.iter().map(read).collect())
    }

    /// So far is a pass; the one before it is over.
    fn passes(number: u64, before: &[(&str, u64)], now: &[(&str, u64)]) -> Passes {
        let mut passes = Passes::default();
        if number > 0 {
            passes.note(number - 1, files(before), true);
        }
        passes.note(number, files(now), false);
        passes
    }

    const ALL: u64 = FileRead::ALL;

    #[test]
    fn what_nobody_has_read_is_left() {
        let ahead = passes(4, &[("a", ALL), ("b", ALL)], &[("a", 7)]);
        let behind = passes(3, &[("c", ALL)], &[("c", 5)]);
        let former = Former::new(vec![ahead, behind], Vec::new());
        assert_eq!(former.left(2), Left::Nothing);
        let rest = |list| Left::Rest(files(list).unwrap());
        assert_eq!(former.left(3), rest(&[("a", ALL), ("b", ALL), ("c", 5)]));
        assert_eq!(former.left(4), rest(&[("a", 7)]));
        assert_eq!(former.left(5), Left::All);
    }

    #[test]
    fn those_before_those_before_count_too() {
        let first = passes(0, &[], &[("a", 9), ("b", ALL)]);
        // It had the rest of `a`.
        let second = passes(0, &[], &[("a", 12)]);
        let idle = Passes::default();
        let former = Former::new(vec![second, idle], vec![first]);
        let rest = Left::Rest(files(&[("a", 12), ("b", ALL)]).unwrap());
        assert_eq!((former.left(0), former.left(1)), (rest, Left::All));
    }

    #[test]
    fn what_cannot_be_told_is_not_guessed() {
        let mut memory = Passes::default();
        memory.note(0, None, false);
        let unknown = |passes: Vec<Passes>| {
            matches!(Former::new(passes, Vec::new()).left(0), Left::Unknown(_))
        };
        assert!(unknown(vec![memory]));
        assert!(unknown(vec![passes(0, &[], &[("a", 1)]); 2]));
        assert!(unknown(vec![passes(2, &[], &[]), Passes::default()]));
    }
}
