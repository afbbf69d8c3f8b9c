//! Journals of cuts whose files are gone: a file that only grows, a record for each.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base::bytes::{ByteReader, ByteWriter};
use base::formats::SERVER_JOURNAL;
use durable::{Access, FileStart};

use super::again::{again, copy_to};
use super::header::{CutId, Owner};
use crate::bad_snapshot::BadSnapshot;

/// How the file begins.
const START: FileStart = FileStart { magic: *b"PWJRNL\r\n", version: SERVER_JOURNAL.version };
/// Bytes of two cuts.
const CUTS_BYTES: usize = 32;

/// A smaller journal is left as it is.
const COMPACT_MIN: u64 = 16 << 10;

/// A record that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct Record {
    pub(in crate::serve) at: CutId,
    pub(in crate::serve) after: CutId,
    pub(in crate::serve) contents: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub(in crate::serve) struct Journal {
    path: PathBuf,
    last: CutId,
    n_records: usize,
    n_bytes: u64,
    /// Its bytes when it was last made smaller.
    n_compacted: u64,
}

impl Journal {
    /// The journal of a folder. A record that was not finished is cut off: the file it is from is still
    /// there.
    pub(in crate::serve) fn open(folder: &Path, owner: &Owner) -> Result<Self, BadSnapshot> {
        let path = folder.join(Self::name(owner));
        let mut journal =
            Self { path, last: CutId::default(), n_records: 0, n_bytes: 0, n_compacted: 0 };
        let WholeRecords { records, n_bytes } = journal.whole()?;
        journal.n_records = records.len();
        journal.last = records.last().map_or(CutId::default(), |record| record.at);
        journal.n_bytes = n_bytes as u64;
        Ok(journal)
    }

    /// The name of the file.
    pub(in crate::serve) fn name(owner: &Owner) -> String {
        format!("journal.{}.{}", owner.n_servers, owner.n_trainers)
    }

    /// The cut of the last record; none if there is no record.
    pub(in crate::serve) fn last(&self) -> Option<CutId> {
        (self.n_records > 0).then_some(self.last)
    }

    /// All records that were added; an error if one of them cannot be read.
    pub(in crate::serve) fn read_whole(&self) -> Result<Vec<Record>, BadSnapshot> {
        let WholeRecords { records, .. } = self.whole()?;
        if records.len() < self.n_records {
            let problem = "records are missing, here and in its second copy";
            Err(BadSnapshot::Damaged { path: self.path.clone(), problem })
        } else {
            Ok(records)
        }
    }

    /// The records that are whole, of the file or of its second copy, whichever has more.
    fn whole(&self) -> Result<WholeRecords, BadSnapshot> {
        let (first, second) = (self.whole_of(&self.path), self.whole_of(&again(&self.path)));
        match (first, second) {
            (Ok(first), Ok(second)) if first.n_bytes < second.n_bytes => Ok(second),
            (Err(BadSnapshot::Damaged { .. }), Ok(second)) if second.n_bytes > 0 => Ok(second),
            (first, _) => first,
        }
    }

    fn whole_of(&self, path: &Path) -> Result<WholeRecords, BadSnapshot> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(WholeRecords::default());
            }
            Err(source) => {
                return Err(BadSnapshot::Unreadable { path: path.to_path_buf(), source });
            }
        };
        let parts = &mut ByteReader::new(&bytes);
        // A file that was just begun may have nothing yet.
        let Ok(start) = parts.take(FileStart::N_BYTES) else { return Ok(WholeRecords::default()) };
        START
            .check(start)
            .map_err(|problem| BadSnapshot::of_file(path, problem, SERVER_JOURNAL.version))?;
        let (mut records, mut n_left) = (Vec::new(), parts.n_left());
        while let Some(record) = Record::read(parts) {
            records.push(record);
            n_left = parts.n_left();
        }
        Ok(WholeRecords { records, n_bytes: bytes.len() - n_left })
    }

    /// The file and its second copy have the same records from now on.
    pub(in crate::serve) fn mend(&self) -> Result<(), BadSnapshot> {
        let n_bytes = self.whole()?.n_bytes;
        let n_of = |path: &Path| self.whole_of(path).map_or(0, |whole| whole.n_bytes);
        let (first, second) = (self.path.clone(), again(&self.path));
        for (to, from) in [(&first, &second), (&second, &first)] {
            if n_of(to) < n_bytes {
                copy_to(from, to).map_err(|source| BadSnapshot::writing(to, source))?;
            }
        }
        Ok(())
    }

    /// Adds records; they are durable when this returns.
    pub(in crate::serve) fn add(&mut self, records: &[Record]) -> io::Result<()> {
        let bytes = bytes_of(records, self.n_bytes == 0);
        self.append(&self.path, &bytes)?.sync_all()?;
        self.append(&again(&self.path), &bytes)?;
        if let Some(folder) = self.path.parent().filter(|_| self.n_bytes == 0) {
            durable::sync_folder(folder)?;
        }
        self.n_bytes += bytes.len() as u64;
        self.n_records += records.len();
        self.last = records.last().map_or(self.last, |record| record.at);
        Ok(())
    }

    /// Makes one record of all, if they have become twice as many bytes since that was last done: a script that does the
    /// same again and again has a journal that does not grow.
    pub(in crate::serve) fn compact(
        &mut self,
        smaller: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<(), BadSnapshot> {
        if self.n_bytes < COMPACT_MIN.max(2 * self.n_compacted) {
            return Ok(());
        }
        self.n_compacted = self.n_bytes;
        let records = self.read_whole()?;
        let Some(&Record { at, after, .. }) = records.last() else { return Ok(()) };
        let all: Vec<u8> = records.into_iter().flat_map(|record| record.contents).collect();
        let Some(contents) = smaller(&all).filter(|contents| contents.len() < all.len()) else {
            return Ok(());
        };
        let bytes = bytes_of(&[Record { at, after, contents }], true);
        let failed = |source| BadSnapshot::writing(&self.path, source);
        for path in [self.path.clone(), again(&self.path)] {
            durable::replace_with(&path, Access::Owner, &bytes).map_err(failed)?;
        }
        (self.n_records, self.n_bytes) = (1, bytes.len() as u64);
        self.n_compacted = self.n_bytes;
        Ok(())
    }

    /// Adds bytes behind the last record.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<File> {
        let mut file =
            Access::Owner.options().create(true).truncate(false).write(true).open(path)?;
        // What was not finished, or failed.
        file.set_len(self.n_bytes)?;
        io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        file.write_all(bytes)?;
        Ok(file)
    }
}

/// What of a file is whole: its first records, and the bytes up to the end of the last of them.
#[derive(Default)]
struct WholeRecords {
    records: Vec<Record>,
    n_bytes: usize,
}

impl Record {
    fn write(&self, to: &mut ByteWriter) {
        let mut cuts = ByteWriter::default();
        self.at.write(&mut cuts);
        self.after.write(&mut cuts);
        let mut head = [0; CUTS_BYTES];
        head.copy_from_slice(&cuts.0);
        durable::Record { head, contents: &self.contents }.write(to);
    }

    /// The next record, if it is whole.
    fn read(from: &mut ByteReader<'_>) -> Option<Self> {
        let durable::Record { head, contents } = durable::Record::<CUTS_BYTES>::read(from)?;
        let cuts = &mut ByteReader::new(&head);
        let (at, after) = (CutId::read(cuts).ok()?, CutId::read(cuts).ok()?);
        Some(Self { at, after, contents: contents.to_vec() })
    }
}

/// Records, behind the first bytes of the file if they are the first.
fn bytes_of(records: &[Record], is_start: bool) -> Vec<u8> {
    let mut to = ByteWriter(if is_start { START.to_bytes() } else { Vec::new() });
    records.iter().for_each(|record| record.write(&mut to));
    to.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cut: u64) -> Record {
        let id = |cut| CutId { cut, id: 3 * cut };
        Record { at: id(cut), after: id(cut - 1), contents: vec![cut as u8; cut as usize] }
    }

    fn open(folder: &Path) -> Result<Journal, BadSnapshot> {
        Journal::open(folder, &Owner::default())
    }

    /// Writes a file and its second copy.
    fn write(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        fs::write(again(path), bytes).unwrap();
    }

    /// Wherever a bit is flipped, the other copy has all records; both are whole again then.
    #[test]
    fn one_of_two_copies_may_be_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = open(folder.path()).unwrap();
        journal.add(&[record(1), record(2)]).unwrap();
        let path = folder.path().join(Journal::name(&Owner::default()));
        let bytes = fs::read(&path).unwrap();
        for (bit, path) in
            (0..8 * bytes.len()).zip([path.clone(), again(&path)].into_iter().cycle())
        {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &damaged).unwrap();
            assert_eq!(journal.read_whole().unwrap(), [record(1), record(2)], "bit {bit}");
            let again = open(folder.path()).unwrap();
            assert_eq!(again.last(), Some(record(2).at));
            again.mend().unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        write(&path, &bytes[..60]);
        assert!(matches!(journal.read_whole(), Err(BadSnapshot::Damaged { .. })));
    }

    #[test]
    fn many_records_become_one_when_they_are_long() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = open(folder.path()).unwrap();
        let long = |cut: u64| Record { contents: vec![7; 3000], ..record(cut) };
        let path = folder.path().join(Journal::name(&Owner::default()));
        for cut in 1..200 {
            journal.add(&[long(cut)]).unwrap();
            journal.compact(&|all| Some(all[..all.len().min(3000)].to_vec())).unwrap();
            assert!(fs::metadata(&path).unwrap().len() < 2 * COMPACT_MIN, "cut {cut}");
            assert_eq!(fs::read(&path).unwrap(), fs::read(again(&path)).unwrap());
        }
        let last = open(folder.path()).unwrap();
        assert_eq!((last.last(), journal.last()), (Some(long(199).at), Some(long(199).at)));
        let n_before = fs::metadata(&path).unwrap().len();
        journal.add(&[long(200)]).unwrap();
        journal.n_compacted = 0;
        journal.compact(&|_| None).unwrap();
        assert!(
            fs::metadata(&path).unwrap().len() > n_before,
            "what cannot be read stays as it is"
        );
    }

    #[test]
    fn records_come_back_and_unfinished_ones_are_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = open(folder.path()).unwrap();
        assert_eq!((journal.last(), journal.read_whole().unwrap()), (None, Vec::new()));
        journal.add(&[record(1), record(2)]).unwrap();
        journal.add(&[record(3)]).unwrap();
        let path = folder.path().join(Journal::name(&Owner::default()));
        let bytes = fs::read(&path).unwrap();
        for n in 0..bytes.len() {
            write(&path, &bytes[..n]);
            let mut journal = open(folder.path()).unwrap();
            let last = journal.last().map_or(0, |last| last.cut);
            assert!(last <= 2);
            let missing: Vec<Record> = (last + 1..=4).map(record).collect();
            journal.add(&missing).unwrap();
            let again = open(folder.path()).unwrap();
            assert_eq!(again.read_whole().unwrap(), [record(1), record(2), record(3), record(4)]);
        }
        let mut damaged = bytes.clone();
        damaged[70] ^= 4;
        write(&path, &damaged);
        assert_eq!(open(folder.path()).unwrap().last(), Some(record(1).at));
        write(&path, &[&START.magic[..], &[2, 0, 0, 0]].concat());
        let error = open(folder.path()).unwrap_err();
        assert!(matches!(error, BadSnapshot::Newer { version: 2, .. }), "{error}");
        write(&path, &[7; 30]);
        assert!(matches!(open(folder.path()), Err(BadSnapshot::Damaged { .. })));
    }
}
