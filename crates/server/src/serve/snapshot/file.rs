//! A file of sections, each with its checksum. It is in its place when it is complete and durable.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crc32fast::Hasher;
use durable::{Access, Replacement};
use metrics::Phase;

use super::header::Header;
use crate::bad_snapshot::{BadSnapshot, SnapshotResult};

/// The first bytes of every file.
const MAGIC: [u8; 8] = *b"PWSNAP\r\n";
/// The format.
pub(in crate::serve) const VERSION: u32 = 1;
/// Bytes written or read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Longer reads go past the buffer, to where their bytes belong.
const SMALL_BYTES: usize = 16 << 10;
/// After so many bytes the disk is told to begin: it writes while the rest is put together.
const SYNC_BYTES: u64 = 64 << 20;
/// Bytes of a section before its contents, and behind.
const HEAD_BYTES: usize = 16;
const CHECK_BYTES: usize = 4;

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
    out: BufWriter<File>,
    /// Removed, if it is not finished.
    fresh: Replacement,
    n_bytes: u64,
    /// Bytes that were not synced to disk yet.
    n_waiting: u64,
    disk: Option<Disk>,
    n_sections: u64,
    all: Hasher,
    /// How far it is, for who wants to see it.
    phase: Phase,
}

/// A thread that makes durable what is there, again and again.
#[derive(Debug)]
struct Disk {
    begin: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Disk {
    fn new(file: File) -> Self {
        let (begin, begun) = sync_channel(1);
        let thread = thread::spawn(move || begun.into_iter().try_for_each(|()| file.sync_data()));
        Self { begin, thread }
    }

    /// Tells it to begin, when it is through with what it was told before.
    fn begin(&self) {
        // It says at its end what went wrong.
        let _ = self.begin.send(());
    }

    fn end(self) -> io::Result<()> {
        drop(self.begin);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("writing was given up")))
    }
}

impl FileWriter {
    /// A file of a folder, with its header.
    pub(in crate::serve) fn new(folder: &Path, name: &str, header: &Header) -> io::Result<Self> {
        let mut fresh = Replacement::begin(&folder.join(name), Access::Owner)?;
        let mut file = Self {
            out: BufWriter::with_capacity(BLOCK_BYTES, fresh.file().try_clone()?),
            fresh,
            n_bytes: 0,
            n_waiting: 0,
            disk: None,
            n_sections: 0,
            all: Hasher::new(),
            phase: Phase::begin("writing a snapshot", "bytes"),
        };
        file.put(&MAGIC)?;
        file.put(&VERSION.to_le_bytes())?;
        file.section(Kind::Header, 0, &[&header.to_bytes()])?;
        Ok(file)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.n_bytes += bytes.len() as u64;
        self.n_waiting += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Writes a section; `table` says which table it is of.
    pub(in crate::serve) fn section(
        &mut self,
        kind: Kind,
        table: usize,
        contents: &[&[u8]],
    ) -> io::Result<()> {
        let n_bytes: usize = contents.iter().map(|part| part.len()).sum();
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        head[4..8].copy_from_slice(&(table as u32).to_le_bytes());
        head[8..].copy_from_slice(&(n_bytes as u64).to_le_bytes());
        let mut check = Hasher::new();
        check.update(&head);
        self.put(&head)?;
        for part in contents {
            check.update(part);
            self.put(part)?;
        }
        let check = check.finalize().to_le_bytes();
        self.put(&check)?;
        self.all.update(&check);
        self.n_sections += 1;
        self.phase.set(self.n_bytes);
        if self.n_waiting >= SYNC_BYTES {
            self.out.flush()?;
            if self.disk.is_none() {
                self.disk = Some(Disk::new(self.out.get_ref().try_clone()?));
            }
            self.disk.iter().for_each(Disk::begin);
            self.n_waiting = 0;
        }
        Ok(())
    }

    /// Ends the file and puts it in its place; the answer is its bytes. It survives a power cut then.
    pub(in crate::serve) fn finish(mut self) -> io::Result<u64> {
        let mut end = self.n_sections.to_le_bytes().to_vec();
        end.extend(self.all.clone().finalize().to_le_bytes());
        self.section(Kind::End, 0, &[&end])?;
        self.out.flush()?;
        self.disk.take().map_or(Ok(()), Disk::end)?;
        self.fresh.commit()?;
        Ok(self.n_bytes)
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
    input: BufReader<File>,
    /// Bytes of the file that were not read.
    n_left: u64,
    /// Bytes of the section that were not read.
    section_left: u64,
    check: Hasher,
    is_open: bool,
    n_sections: u64,
    all: Hasher,
}

impl FileReader {
    /// Opens a file and reads its header.
    pub(in crate::serve) fn open(path: &Path) -> SnapshotResult<(Self, Header)> {
        let unreadable = |source| BadSnapshot::Unreadable { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(unreadable)?;
        let n_left = file.metadata().map_err(unreadable)?.len();
        let mut reader = Self {
            path: path.to_path_buf(),
            input: BufReader::with_capacity(SMALL_BYTES, file),
            n_left,
            section_left: 0,
            check: Hasher::new(),
            is_open: false,
            n_sections: 0,
            all: Hasher::new(),
        };
        let mut start = [0; 12];
        reader.raw(&mut start)?;
        if start[..8] != MAGIC {
            return Err(reader.damaged("it does not say that it is a snapshot"));
        }
        let version = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        if is_damaged_number(version, VERSION) {
            return Err(reader.damaged("the number of its format is damaged"));
        }
        if version != VERSION {
            let (path, known) = (path.to_path_buf(), VERSION);
            return Err(BadSnapshot::Newer { path, version, known });
        }
        let first = reader.next_section()?;
        let header = match first {
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

    fn raw(&mut self, to: &mut [u8]) -> SnapshotResult<()> {
        if to.len() as u64 > self.n_left {
            return Err(self.damaged("it is cut short"));
        }
        self.n_left -= to.len() as u64;
        let read = self.input.read_exact(to);
        read.map_err(|source| BadSnapshot::Unreadable { path: self.path.clone(), source })
    }

    /// The next section; none behind the last. The one before must have been read.
    pub(in crate::serve) fn next_section(&mut self) -> SnapshotResult<Option<Section>> {
        self.close()?;
        let mut head = [0; HEAD_BYTES];
        self.raw(&mut head)?;
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let n_bytes = u64::from(number(8)) | u64::from(number(12)) << 32;
        if n_bytes.saturating_add(CHECK_BYTES as u64) > self.n_left {
            return Err(self.damaged("it is cut short"));
        }
        let kind = KINDS.into_iter().find(|&kind| kind as u32 == number(0));
        let kind = kind.ok_or_else(|| self.damaged("it has a section that nobody wrote"))?;
        self.check = Hasher::new();
        self.check.update(&head);
        (self.section_left, self.is_open) = (n_bytes, true);
        if n_bytes == 0 {
            self.close()?;
        }
        if kind == Kind::End {
            self.check_end()?;
            return Ok(None);
        }
        Ok(Some(Section { kind, table: number(4) as usize, n_bytes }))
    }

    /// The last section: nothing is missing, nothing is behind it.
    fn check_end(&mut self) -> SnapshotResult<()> {
        let (n_sections, all) = (self.n_sections, self.all.clone().finalize());
        let end = self.contents()?;
        if end != [&n_sections.to_le_bytes()[..], &all.to_le_bytes()].concat() {
            return Err(self.damaged("sections are missing"));
        }
        match self.n_left {
            0 => Ok(()),
            _ => Err(self.damaged("there are bytes behind its end")),
        }
    }

    /// Bytes of the file that were not read.
    pub(in crate::serve) fn n_left(&self) -> u64 {
        self.n_left
    }

    /// Bytes of the section that were not read.
    pub(in crate::serve) fn n_unread(&self) -> u64 {
        self.section_left
    }

    /// Reads bytes of the section.
    pub(in crate::serve) fn read(&mut self, to: &mut [u8]) -> SnapshotResult<()> {
        if to.len() as u64 > self.section_left {
            return Err(self.damaged("a section is shorter than it says"));
        }
        self.section_left -= to.len() as u64;
        // Block by block: the checksum is made of what has just come to the processor.
        for block in to.chunks_mut(BLOCK_BYTES) {
            self.raw(block)?;
            self.check.update(block);
        }
        // At once, so that nobody goes by what is wrong.
        if self.section_left == 0 { self.close() } else { Ok(()) }
    }

    /// Bytes of the section, in memory of their own.
    pub(in crate::serve) fn bytes(&mut self, n: usize) -> SnapshotResult<Vec<u8>> {
        if n as u64 > self.section_left {
            return Err(self.damaged("a section is shorter than it says"));
        }
        let mut bytes = vec![0; n];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// All that was not read of the section.
    pub(in crate::serve) fn contents(&mut self) -> SnapshotResult<Vec<u8>> {
        self.bytes(self.section_left as usize)
    }

    /// Reads past the section; it is checked nevertheless.
    pub(in crate::serve) fn skip(&mut self) -> SnapshotResult<()> {
        let mut block = vec![0; BLOCK_BYTES.min(self.section_left as usize)];
        while self.section_left > 0 {
            let n = block.len().min(self.section_left as usize);
            self.read(&mut block[..n])?;
        }
        Ok(())
    }

    /// Compares the checksum of the section.
    fn close(&mut self) -> SnapshotResult<()> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        if self.section_left > 0 {
            return Err(self.damaged("a section is longer than what it holds"));
        }
        let mut check = [0; CHECK_BYTES];
        self.raw(&mut check)?;
        if check != self.check.clone().finalize().to_le_bytes() {
            return Err(self.damaged("a checksum is wrong"));
        }
        self.all.update(&check);
        self.n_sections += 1;
        Ok(())
    }
}

/// Whether the number of a format is another one with one bit flipped. No format has such a number.
pub(super) fn is_damaged_number(found: u32, known: u32) -> bool {
    (found ^ known).count_ones() == 1
}

/// The header of a file. Whether the file is complete is looked at too, as far as its end says.
pub(in crate::serve) fn read_header(path: &Path) -> SnapshotResult<Header> {
    let (mut reader, header) = FileReader::open(path)?;
    let end = (HEAD_BYTES + 12 + CHECK_BYTES) as u64;
    let skipped = reader.n_left.checked_sub(end).and_then(|n| i64::try_from(n).ok());
    let skipped = skipped.ok_or_else(|| reader.damaged("it is cut short"))?;
    let moved = reader.input.seek_relative(skipped);
    moved.map_err(|source| BadSnapshot::Unreadable { path: path.to_path_buf(), source })?;
    reader.n_left = end;
    let mut last = [0; HEAD_BYTES];
    reader.raw(&mut last)?;
    if last[..4] == (Kind::End as u32).to_le_bytes() {
        Ok(header)
    } else {
        Err(reader.damaged("it has no end"))
    }
}

/// The bytes of a file with checksums that fit its sections, whatever is in them, and an end.
pub(super) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let (start, mut rest) = bytes.split_at(bytes.len().min(MAGIC.len() + size_of_val(&VERSION)));
    let mut out = start.to_vec();
    let mut all = Vec::new();
    let mut n_sections = 0u64;
    let mut add = |mut head: [u8; HEAD_BYTES], contents: &[u8]| {
        head[8..].copy_from_slice(&(contents.len() as u64).to_le_bytes());
        let section = [&head[..], contents].concat();
        let check = crc32fast::hash(&section).to_le_bytes();
        out.extend([&section[..], &check].concat());
        all.extend(check);
        n_sections += 1;
        [&n_sections.to_le_bytes()[..], &crc32fast::hash(&all).to_le_bytes()].concat()
    };
    let (mut end, mut last) = (Vec::new(), [0; HEAD_BYTES]);
    last[..4].copy_from_slice(&(Kind::End as u32).to_le_bytes());
    while let Some((head, behind)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let n = head[8..].iter().rev().fold(0, |n: u64, &byte| n << 8 | u64::from(byte));
        let n_contents = behind.len().saturating_sub(CHECK_BYTES) as u64;
        let (contents, behind) = behind.split_at(n.min(n_contents) as usize);
        if head[..4] == last[..4] {
            break;
        }
        end = add(*head, contents);
        rest = behind.get(CHECK_BYTES..).unwrap_or_default();
    }
    add(last, &end);
    out
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
                BadSnapshot::Newer { known, .. } => assert_eq!((known, bit / 32), (VERSION, 2)),
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
