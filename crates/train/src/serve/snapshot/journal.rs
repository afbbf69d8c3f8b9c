//! Journals of cuts whose files are gone: a file that only grows, a record for each.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use durable::Access;

use super::fields::{FieldReader, Fields};
use super::header::{CutId, Owner};
use crate::error::BadSnapshot;

const MAGIC: [u8; 8] = *b"PWJRNL\r\n";
const VERSION: u32 = 1;
/// Bytes of a record before its contents: two cuts and a length.
const HEAD_BYTES: usize = 40;

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
}

impl Journal {
    /// The journal of a folder. A record that was not finished is cut off: the file it is from is still
    /// there.
    pub(in crate::serve) fn open(folder: &Path, owner: &Owner) -> Result<Self, BadSnapshot> {
        let path = folder.join(Self::name(owner));
        let mut journal = Self { path, last: CutId::default(), n_records: 0, n_bytes: 0 };
        let (records, n_bytes) = journal.read_whole()?;
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

    /// All records that are whole.
    pub(in crate::serve) fn read(&self) -> Result<Vec<Record>, BadSnapshot> {
        self.read_whole().map(|(records, _)| records)
    }

    /// All records that are whole, and the bytes of the file up to the end of the last.
    fn read_whole(&self) -> Result<(Vec<Record>, usize), BadSnapshot> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
            Err(source) => {
                return Err(BadSnapshot::Unreadable { path: self.path.clone(), source });
            }
        };
        let parts = &mut FieldReader(&bytes);
        // A file that was just begun may have nothing yet.
        let start = parts.bytes(MAGIC.len()).zip(parts.u32());
        let Some((magic, version)) = start else { return Ok((Vec::new(), 0)) };
        if magic != MAGIC {
            let problem = "it does not say that it is a journal";
            return Err(BadSnapshot::Damaged { path: self.path.clone(), problem });
        }
        if version != VERSION {
            let (path, known) = (self.path.clone(), VERSION);
            return Err(BadSnapshot::Newer { path, version, known });
        }
        let (mut records, mut n_left) = (Vec::new(), parts.0.len());
        while let Some(record) = record(parts) {
            records.push(record);
            n_left = parts.0.len();
        }
        Ok((records, bytes.len() - n_left))
    }

    /// Adds records; they are durable when this returns.
    pub(in crate::serve) fn add(&mut self, records: &[Record]) -> io::Result<()> {
        let mut file =
            Access::Owner.options().create(true).truncate(false).write(true).open(&self.path)?;
        // What was not finished, or failed.
        file.set_len(self.n_bytes)?;
        io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        let mut bytes = Vec::new();
        if self.n_bytes == 0 {
            bytes.extend(MAGIC);
            bytes.extend(VERSION.to_le_bytes());
        }
        for Record { at, after, contents } in records {
            let head = Fields::default().u64(at.cut).u64(at.id).u64(after.cut).u64(after.id);
            let start = bytes.len();
            bytes.extend(head.u64(contents.len() as u64).0);
            bytes.extend(contents);
            let check = crc32fast::hash(&bytes[start..]);
            bytes.extend(check.to_le_bytes());
        }
        file.write_all(&bytes)?;
        file.sync_all()?;
        if let Some(folder) = self.path.parent().filter(|_| self.n_bytes == 0) {
            durable::sync_folder(folder)?;
        }
        self.n_bytes += bytes.len() as u64;
        self.n_records += records.len();
        self.last = records.last().map_or(self.last, |record| record.at);
        Ok(())
    }
}

/// The next record, if it is whole.
fn record(parts: &mut FieldReader<'_>) -> Option<Record> {
    let all = parts.0;
    let mut cut = || Some(CutId { cut: parts.u64()?, id: parts.u64()? });
    let (at, after) = (cut()?, cut()?);
    let n = usize::try_from(parts.u64()?).ok()?;
    let contents = parts.bytes(n)?.to_vec();
    let check = crc32fast::hash(&all[..HEAD_BYTES + n]);
    (parts.u32()? == check).then_some(Record { at, after, contents })
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

    #[test]
    fn records_come_back_and_unfinished_ones_are_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = open(folder.path()).unwrap();
        assert_eq!((journal.last(), journal.read().unwrap()), (None, Vec::new()));
        journal.add(&[record(1), record(2)]).unwrap();
        journal.add(&[record(3)]).unwrap();
        let path = folder.path().join(Journal::name(&Owner::default()));
        let bytes = fs::read(&path).unwrap();
        for n in 0..bytes.len() {
            fs::write(&path, &bytes[..n]).unwrap();
            let mut journal = open(folder.path()).unwrap();
            let last = journal.last().map_or(0, |last| last.cut);
            assert!(last <= 2);
            let missing: Vec<Record> = (last + 1..=4).map(record).collect();
            journal.add(&missing).unwrap();
            let again = open(folder.path()).unwrap();
            assert_eq!(again.read().unwrap(), [record(1), record(2), record(3), record(4)]);
        }
        let mut damaged = bytes.clone();
        damaged[70] ^= 4;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(open(folder.path()).unwrap().last(), Some(record(1).at));
        fs::write(&path, [&MAGIC[..], &[2, 0, 0, 0]].concat()).unwrap();
        let error = open(folder.path()).unwrap_err();
        assert!(matches!(error, BadSnapshot::Newer { version: 2, .. }), "{error}");
        fs::write(&path, [7; 30]).unwrap();
        assert!(matches!(open(folder.path()), Err(BadSnapshot::Damaged { .. })));
    }
}
