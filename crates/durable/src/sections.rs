//! A file of sections, each with its checksum. It is in its place when it is complete and durable.
//!
//! It begins with eight bytes that say what it is and the version of its format. A section is a kind u32, a tag u32, the
//! length u64 of its contents, the contents, and the CRC-32 u32 of all of this. The last one has the number of sections u64
//! and the CRC-32 u32 of their checksums.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crc32fast::Hasher;

use crate::damage::{FileStart, Problem, ReadResult};
use crate::{Access, Replacement};

/// Bytes written or read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Longer reads go past the buffer, to where their bytes belong.
const SMALL_BYTES: usize = 16 << 10;
/// After so many bytes the disk is told to begin: it writes while the rest is put together.
const SYNC_BYTES: u64 = 64 << 20;
/// Bytes of a section before its contents, and behind.
const HEAD_BYTES: usize = 16;
const CHECK_BYTES: usize = 4;
/// Contents of the last section.
const END_BYTES: usize = 12;

/// How files of one kind begin and end.
#[derive(Clone, Copy, Debug)]
pub struct SectionForm {
    /// The first bytes.
    pub start: FileStart,
    /// The kind of the last section.
    pub end: u32,
}

/// The description of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionHead {
    /// Kinds are up to the writer.
    pub kind: u32,
    /// A number that is up to the writer.
    pub tag: u32,
    /// Bytes of its contents.
    pub n_bytes: u64,
}

impl SectionHead {
    fn head(self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&self.kind.to_le_bytes());
        head[4..8].copy_from_slice(&self.tag.to_le_bytes());
        head[8..].copy_from_slice(&self.n_bytes.to_le_bytes());
        head
    }

    fn of_head(head: &[u8; HEAD_BYTES]) -> Self {
        let (words, _) = head.as_chunks::<4>();
        let number = |at: usize| u32::from_le_bytes(words[at]);
        let n_bytes = u64::from(number(2)) | u64::from(number(3)) << 32;
        Self { kind: number(0), tag: number(1), n_bytes }
    }
}

/// Writes a file; one that is not finished is removed.
#[derive(Debug)]
pub struct SectionWriter {
    out: BufWriter<File>,
    /// Removed, if it is not finished.
    fresh: Replacement,
    form: SectionForm,
    n_bytes: u64,
    /// Bytes that were not synced to disk yet.
    n_waiting: u64,
    disk: Option<Disk>,
    n_sections: u64,
    all: Hasher,
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

impl SectionWriter {
    /// A file beside its place.
    pub fn begin(path: &Path, access: Access, form: SectionForm) -> io::Result<Self> {
        let mut fresh = Replacement::begin(path, access)?;
        let mut file = Self {
            out: BufWriter::with_capacity(BLOCK_BYTES, fresh.file().try_clone()?),
            fresh,
            form,
            n_bytes: 0,
            n_waiting: 0,
            disk: None,
            n_sections: 0,
            all: Hasher::new(),
        };
        file.put(&form.start.to_bytes())?;
        Ok(file)
    }

    /// Bytes that were written so far.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.n_bytes += bytes.len() as u64;
        self.n_waiting += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Writes a section.
    pub fn section(&mut self, kind: u32, tag: u32, contents: &[&[u8]]) -> io::Result<()> {
        let n_bytes = contents.iter().map(|part| part.len() as u64).sum();
        let head = SectionHead { kind, tag, n_bytes }.head();
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
    pub fn finish(mut self) -> io::Result<u64> {
        let end = end_contents(self.n_sections, self.all.clone().finalize());
        self.section(self.form.end, 0, &[&end])?;
        self.out.flush()?;
        self.disk.take().map_or(Ok(()), Disk::end)?;
        self.fresh.commit()?;
        Ok(self.n_bytes)
    }
}

fn end_contents(n_sections: u64, all: u32) -> Vec<u8> {
    [&n_sections.to_le_bytes()[..], &all.to_le_bytes()].concat()
}

/// Reads a file, section by section.
#[derive(Debug)]
pub struct SectionReader {
    input: BufReader<File>,
    form: SectionForm,
    /// Bytes of the file that were not read.
    n_left: u64,
    /// Bytes of the section that were not read.
    section_left: u64,
    check: Hasher,
    is_open: bool,
    n_sections: u64,
    all: Hasher,
}

impl SectionReader {
    /// Opens a file and looks at its first bytes.
    pub fn open(path: &Path, form: SectionForm) -> ReadResult<Self> {
        let file = File::open(path)?;
        let n_left = file.metadata()?.len();
        let mut reader = Self {
            input: BufReader::with_capacity(SMALL_BYTES, file),
            form,
            n_left,
            section_left: 0,
            check: Hasher::new(),
            is_open: false,
            n_sections: 0,
            all: Hasher::new(),
        };
        let mut start = [0; FileStart::N_BYTES];
        reader.raw(&mut start)?;
        form.start.check(&start)?;
        Ok(reader)
    }

    fn raw(&mut self, to: &mut [u8]) -> ReadResult<()> {
        if to.len() as u64 > self.n_left {
            return Err(Problem::Damaged("it is cut short"));
        }
        self.n_left -= to.len() as u64;
        Ok(self.input.read_exact(to)?)
    }

    /// The next section; none behind the last. The one before must have been read.
    pub fn next_section(&mut self) -> ReadResult<Option<SectionHead>> {
        self.close()?;
        let mut head = [0; HEAD_BYTES];
        self.raw(&mut head)?;
        let section = SectionHead::of_head(&head);
        if section.n_bytes.saturating_add(CHECK_BYTES as u64) > self.n_left {
            return Err(Problem::Damaged("it is cut short"));
        }
        self.check = Hasher::new();
        self.check.update(&head);
        (self.section_left, self.is_open) = (section.n_bytes, true);
        if section.n_bytes == 0 {
            self.close()?;
        }
        if section.kind == self.form.end {
            self.check_end()?;
            return Ok(None);
        }
        Ok(Some(section))
    }

    /// The last section: nothing is missing, nothing is behind it.
    fn check_end(&mut self) -> ReadResult<()> {
        let expected = end_contents(self.n_sections, self.all.clone().finalize());
        if self.contents()? != expected {
            return Err(Problem::Damaged("sections are missing"));
        }
        match self.n_left {
            0 => Ok(()),
            _ => Err(Problem::Damaged("there are bytes behind its end")),
        }
    }

    /// Bytes of the file that were not read.
    pub fn n_left(&self) -> u64 {
        self.n_left
    }

    /// Bytes of the section that were not read.
    pub fn n_unread(&self) -> u64 {
        self.section_left
    }

    /// Reads bytes of the section.
    pub fn read(&mut self, to: &mut [u8]) -> ReadResult<()> {
        self.check_length(to.len())?;
        self.section_left -= to.len() as u64;
        // Block by block: the checksum is made of what has just come to the processor.
        for block in to.chunks_mut(BLOCK_BYTES) {
            self.raw(block)?;
            self.check.update(block);
        }
        // At once, so that nobody goes by what is wrong.
        if self.section_left == 0 { self.close() } else { Ok(()) }
    }

    /// Whether so many bytes are left of the section: before any memory is taken for them.
    fn check_length(&self, n: usize) -> ReadResult<()> {
        if n as u64 > self.section_left {
            return Err(Problem::Damaged("a section is shorter than it says"));
        }
        Ok(())
    }

    /// Bytes of the section, in memory of their own.
    pub fn bytes(&mut self, n: usize) -> ReadResult<Vec<u8>> {
        self.check_length(n)?;
        let mut bytes = vec![0; n];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// All that was not read of the section.
    pub fn contents(&mut self) -> ReadResult<Vec<u8>> {
        self.bytes(self.section_left as usize)
    }

    /// Reads past the section; it is checked nevertheless.
    pub fn skip(&mut self) -> ReadResult<()> {
        let mut block = vec![0; BLOCK_BYTES.min(self.section_left as usize)];
        while self.section_left > 0 {
            let n = block.len().min(self.section_left as usize);
            self.read(&mut block[..n])?;
        }
        Ok(())
    }

    /// Compares the checksum of the section.
    fn close(&mut self) -> ReadResult<()> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        if self.section_left > 0 {
            return Err(Problem::Damaged("a section is longer than what it holds"));
        }
        let mut check = [0; CHECK_BYTES];
        self.raw(&mut check)?;
        if check != self.check.clone().finalize().to_le_bytes() {
            return Err(Problem::Damaged("a checksum is wrong"));
        }
        self.all.update(&check);
        self.n_sections += 1;
        Ok(())
    }

    /// Whether the file has its last section, without reading those before it.
    pub fn check_has_end(mut self) -> ReadResult<()> {
        let end = (HEAD_BYTES + END_BYTES + CHECK_BYTES) as u64;
        let skipped = self.n_left.checked_sub(end).and_then(|n| i64::try_from(n).ok());
        self.input.seek_relative(skipped.ok_or(Problem::Damaged("it is cut short"))?)?;
        self.n_left = end;
        let mut last = [0; HEAD_BYTES];
        self.raw(&mut last)?;
        if SectionHead::of_head(&last).kind == self.form.end {
            Ok(())
        } else {
            Err(Problem::Damaged("it has no end"))
        }
    }
}

/// The bytes of a file with checksums that fit its sections, whatever is in them, and an end: for tests with damaged
/// input.
pub fn sealed(bytes: &[u8], form: SectionForm) -> Vec<u8> {
    let (start, mut rest) = bytes.split_at(bytes.len().min(FileStart::N_BYTES));
    let mut out = start.to_vec();
    let mut all = Vec::new();
    let mut n_sections = 0u64;
    let mut add = |section: SectionHead, contents: &[u8]| {
        let section = SectionHead { n_bytes: contents.len() as u64, ..section };
        let section = [&section.head()[..], contents].concat();
        let check = crc32fast::hash(&section).to_le_bytes();
        out.extend([&section[..], &check].concat());
        all.extend(check);
        n_sections += 1;
        end_contents(n_sections, crc32fast::hash(&all))
    };
    let mut end = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<HEAD_BYTES>() {
        let section = SectionHead::of_head(head);
        let n_contents = behind.len().saturating_sub(CHECK_BYTES) as u64;
        let (contents, behind) = behind.split_at(section.n_bytes.min(n_contents) as usize);
        if section.kind == form.end {
            break;
        }
        end = add(section, contents);
        rest = behind.get(CHECK_BYTES..).unwrap_or_default();
    }
    add(SectionHead { kind: form.end, tag: 0, n_bytes: 0 }, &end);
    out
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const FORM: SectionForm =
        SectionForm { start: FileStart { magic: *b"PWTEST\r\n", version: 1 }, end: 12 };

    fn write(path: &Path) -> u64 {
        let mut file = SectionWriter::begin(path, Access::Owner, FORM).unwrap();
        file.section(3, 2, &[b"ab", b"", b"cde"]).unwrap();
        file.section(10, 0, &[]).unwrap();
        file.finish().unwrap()
    }

    fn read(path: &Path) -> ReadResult<Vec<(SectionHead, Vec<u8>)>> {
        let (mut reader, mut found) = (SectionReader::open(path, FORM)?, Vec::new());
        while let Some(section) = reader.next_section()? {
            found.push((section, reader.contents()?));
        }
        Ok(found)
    }

    #[test]
    fn sections_survive_and_every_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(write(&path), fs::metadata(&path).unwrap().len());
        let value = SectionHead { kind: 3, tag: 2, n_bytes: 5 };
        let empty = SectionHead { kind: 10, tag: 0, n_bytes: 0 };
        assert_eq!(read(&path).unwrap(), [(value, b"abcde".to_vec()), (empty, Vec::new())]);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(sealed(&bytes, FORM), bytes);
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &other).unwrap();
            assert!(matches!(read(&path), Err(Problem::Damaged(_))), "bit {bit}");
        }
        for n in 0..bytes.len() {
            fs::write(&path, &bytes[..n]).unwrap();
            assert!(matches!(read(&path), Err(Problem::Damaged(_))), "{n} bytes");
        }
        fs::write(&path, [&bytes[..8], &[6, 0, 0, 0], &bytes[12..]].concat()).unwrap();
        assert!(matches!(read(&path), Err(Problem::OtherVersion(6))));
        fs::remove_file(&path).unwrap();
        assert!(matches!(read(&path), Err(Problem::Unreadable(_))));
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        drop(SectionWriter::begin(&path, Access::Owner, FORM).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
