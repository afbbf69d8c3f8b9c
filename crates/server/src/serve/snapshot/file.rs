//! A file of sections, each with its checksum. It is in its place when it is complete and durable.

use std::io;
use std::path::{Path, PathBuf};

use base::formats::SNAPSHOT;
use durable::{Access, FileStart, Problem, SectionForm, SectionReader, SectionWriter};
use metrics::Phase;

use super::header::Header;
use crate::bad_snapshot::{BadSnapshot, SnapshotResult};

/// How every file begins and ends.
const FORM: SectionForm = SectionForm {
    start: FileStart { magic: *b"PWSNAP\r\n", version: SNAPSHOT.version },
    end: Kind::End as u32,
};

/// What a section holds. Numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Kind {
    /// [`Header`]; the first.
    Header = 1,
    /// Tables and where their variables are parts of others.
    Layout = 2,
    /// A variable with its whole value.
    Value = 3,
    /// The description of a table of rows.
    RowsHead = 4,
    /// Numbers of rows, in the order of their places.
    NamesByPlace = 5,
    /// Places of rows, in the order of their numbers.
    NamesByRow = 6,
    /// Rows with their values.
    Rows = 7,
    /// Rows that an entry rule has not taken in, and how often each was named.
    Waiting = 8,
    /// Rows that a trainer has not seen since others changed them.
    Unseen = 9,
    /// The state of the protocol: what the server and its trainers know beside the data.
    State = 10,
    /// What must be kept when the file is gone.
    Journal = 11,
    /// The last: how many sections there are, and a checksum of their checksums.
    End = 12,
}

const KINDS: [Kind; 12] = [
    Kind::Header,
    Kind::Layout,
    Kind::Value,
    Kind::RowsHead,
    Kind::NamesByPlace,
    Kind::NamesByRow,
    Kind::Rows,
    Kind::Waiting,
    Kind::Unseen,
    Kind::State,
    Kind::Journal,
    Kind::End,
];

/// Writes a file; one that is not finished is removed.
#[derive(Debug)]
pub(in crate::serve) struct FileWriter {
    sections: SectionWriter,
    /// How far it is, for who wants to see it.
    phase: Phase,
}

impl FileWriter {
    /// A file of a folder, with its header.
    pub(in crate::serve) fn new(folder: &Path, name: &str, header: &Header) -> io::Result<Self> {
        let sections = SectionWriter::begin(&folder.join(name), Access::Owner, FORM)?;
        let mut file = Self { sections, phase: Phase::begin("writing a snapshot", "bytes") };
        file.section(Kind::Header, 0, &[&header.to_bytes()])?;
        Ok(file)
    }

    /// Writes a section; `table` says which table it is of.
    pub(in crate::serve) fn section(
        &mut self,
        kind: Kind,
        table: usize,
        contents: &[&[u8]],
    ) -> io::Result<()> {
        self.sections.section(kind as u32, table as u32, contents)?;
        self.phase.set(self.sections.n_bytes());
        Ok(())
    }

    /// Ends the file and puts it in its place; the answer is its bytes. It survives a power cut then.
    pub(in crate::serve) fn finish(self) -> io::Result<u64> {
        self.sections.finish()
    }
}

/// A section of a file that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct Section {
    pub(in crate::serve) kind: Kind,
    pub(in crate::serve) table: usize,
    pub(in crate::serve) n_bytes: u64,
}

/// Reads a file, section by section.
#[derive(Debug)]
pub(in crate::serve) struct FileReader {
    path: PathBuf,
    sections: SectionReader,
}

impl FileReader {
    /// Opens a file and reads its header.
    pub(in crate::serve) fn open(path: &Path) -> SnapshotResult<(Self, Header)> {
        let sections = SectionReader::open(path, FORM);
        let sections =
            sections.map_err(|problem| BadSnapshot::of_file(path, problem, SNAPSHOT.version))?;
        let mut reader = Self { path: path.to_path_buf(), sections };
        let header = match reader.next_section()? {
            Some(Section { kind: Kind::Header, .. }) => Header::from_bytes(&reader.contents()?),
            _ => None,
        };
        let header = header.ok_or_else(|| reader.damaged("its header cannot be read"))?;
        Ok((reader, header))
    }

    /// An error that names the file.
    pub(in crate::serve) fn damaged(&self, problem: &'static str) -> BadSnapshot {
        BadSnapshot::Damaged { path: self.path.clone(), problem }
    }

    /// Asks the sections; an error names the file.
    fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut SectionReader) -> Result<T, Problem>,
    ) -> SnapshotResult<T> {
        let answer = ask(&mut self.sections);
        answer.map_err(|problem| BadSnapshot::of_file(&self.path, problem, SNAPSHOT.version))
    }

    /// The next section; none behind the last. The one before must have been read.
    pub(in crate::serve) fn next_section(&mut self) -> SnapshotResult<Option<Section>> {
        let Some(section) = self.ask(SectionReader::next_section)? else { return Ok(None) };
        let kind = KINDS.into_iter().find(|&kind| kind as u32 == section.kind);
        let kind = kind.ok_or_else(|| self.damaged("it has a section that nobody wrote"))?;
        let table = section.tag as usize;
        Ok(Some(Section { kind, table, n_bytes: section.n_bytes }))
    }

    /// Bytes of the file that were not read.
    pub(in crate::serve) fn n_left(&self) -> u64 {
        self.sections.n_left()
    }

    /// Bytes of the section that were not read.
    pub(in crate::serve) fn n_unread(&self) -> u64 {
        self.sections.n_unread()
    }

    /// Reads bytes of the section.
    pub(in crate::serve) fn read(&mut self, to: &mut [u8]) -> SnapshotResult<()> {
        self.ask(|sections| sections.read(to))
    }

    /// Bytes of the section, in memory of their own.
    pub(in crate::serve) fn bytes(&mut self, n: usize) -> SnapshotResult<Vec<u8>> {
        self.ask(|sections| sections.bytes(n))
    }

    /// All that was not read of the section.
    pub(in crate::serve) fn contents(&mut self) -> SnapshotResult<Vec<u8>> {
        self.ask(SectionReader::contents)
    }

    /// Reads past the section; it is checked nevertheless.
    pub(in crate::serve) fn skip(&mut self) -> SnapshotResult<()> {
        self.ask(SectionReader::skip)
    }
}

/// The header of a file. Whether the file is complete is looked at too, as far as its end says.
pub(in crate::serve) fn read_header(path: &Path) -> SnapshotResult<Header> {
    let (reader, header) = FileReader::open(path)?;
    let ended = reader.sections.check_has_end();
    ended.map_err(|problem| BadSnapshot::of_file(path, problem, SNAPSHOT.version)).map(|()| header)
}

/// The bytes of a file with checksums that fit its sections, whatever is in them, and an end.
pub(super) fn sealed(bytes: &[u8]) -> Vec<u8> {
    durable::sealed(bytes, FORM)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::serve::snapshot::header::{CutId, FileKind, Owner};

    fn header() -> Header {
        let (at, after) = (CutId { cut: 3, id: 9 }, CutId::default());
        Header { kind: FileKind::Base, owner: Owner::default(), term: 1, at, after }
    }

    fn write(folder: &Path) -> u64 {
        let mut file = FileWriter::new(folder, "base.3", &header()).unwrap();
        file.section(Kind::Value, 2, &[b"ab", b"", b"cde"]).unwrap();
        file.section(Kind::State, 0, &[&vec![7; 3 << 20]]).unwrap();
        file.finish().unwrap()
    }

    /// Reads all of it.
    fn read(path: &Path) -> SnapshotResult<Vec<(Section, usize)>> {
        let (mut reader, _) = FileReader::open(path)?;
        let mut found = Vec::new();
        while let Some(section) = reader.next_section()? {
            found.push((section, reader.contents()?.len()));
        }
        Ok(found)
    }

    #[test]
    fn sections_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base.3");
        assert_eq!(write(folder.path()), fs::metadata(&path).unwrap().len());
        assert_eq!(read_header(&path).unwrap(), header());
        let found = read(&path).unwrap();
        let value = Section { kind: Kind::Value, table: 2, n_bytes: 5 };
        let state = Section { kind: Kind::State, table: 0, n_bytes: 3 << 20 };
        assert_eq!(found, [(value, 5), (state, 3 << 20)]);
        let (mut reader, _) = FileReader::open(&path).unwrap();
        reader.next_section().unwrap();
        reader.skip().unwrap();
        reader.next_section().unwrap();
        assert_eq!(reader.bytes(2).unwrap(), [7; 2]);
        assert!(reader.bytes(4 << 20).is_err());
        assert!(matches!(reader.next_section(), Err(BadSnapshot::Damaged { .. })), "not all read");
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let file = FileWriter::new(folder.path(), "base.3", &header()).unwrap();
        drop(file);
        read(&folder.path().join("base.3")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Every flipped bit and every cut is found.
    #[test]
    fn damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = FileWriter::new(folder.path(), "cut.4", &header()).unwrap();
        file.section(Kind::Value, 2, &[b"abcde"]).unwrap();
        file.finish().unwrap();
        let path = folder.path().join("cut.4");
        let bytes = fs::read(&path).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &other).unwrap();
            let error = read(&path).unwrap_err();
            match error {
                BadSnapshot::Damaged { .. } => {}
                BadSnapshot::Newer { known, .. } => {
                    assert_eq!((known, bit / 32), (SNAPSHOT.version, 2))
                }
                other => panic!("{other}"),
            }
        }
        for n in 0..bytes.len() {
            fs::write(&path, &bytes[..n]).unwrap();
            assert!(matches!(read(&path), Err(BadSnapshot::Damaged { .. })), "{n} bytes");
            assert!(read_header(&path).is_err(), "{n} bytes");
        }
        fs::write(&path, [&bytes[..], &[0]].concat()).unwrap();
        assert!(matches!(read(&path), Err(BadSnapshot::Damaged { .. })));
        fs::remove_file(&path).unwrap();
        assert!(matches!(read(&path), Err(BadSnapshot::Unreadable { .. })));
    }
}
