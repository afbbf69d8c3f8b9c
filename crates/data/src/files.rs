//! The list of files, which free threads take one by one; their text, line by line.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use flate2::read::MultiGzDecoder;

use crate::zstd::ZstdFrames;

/// First bytes of a file that say how it is packed.
const HEAD_BYTES: u64 = 4;
/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// A command may have read so much that it has not printed.
const AHEAD_BYTES: u64 = 128 << 10;
/// A file with a longer line is not text.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;

/// Files that several threads take from; each is taken once.
#[derive(Debug)]
pub(crate) struct Files {
    paths: Vec<String>,
    next: AtomicUsize,
}

impl Files {
    pub(crate) fn new(paths: &[String]) -> Self {
        Self { paths: paths.to_vec(), next: AtomicUsize::new(0) }
    }

    /// Sets the first `n` files aside: one for each thread, which takes others when it is done.
    pub(crate) fn set_aside(&self, n: usize) {
        self.next.store(n, Ordering::Relaxed);
    }

    /// The next file and its place in the list.
    pub(crate) fn take(&self) -> Option<(usize, &str)> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        Some((at, self.paths.get(at)?))
    }

    pub(crate) fn paths(&self) -> &[String] {
        &self.paths
    }
}

/// A file that was opened.
pub(crate) enum Opened {
    /// Text as it is, which a process can be given as its input.
    Plain(File),
    /// Text that comes out of something else.
    Stream(Box<dyn Read + Send>),
}

impl Opened {
    pub(crate) fn reader(self) -> Box<dyn Read + Send> {
        match self {
            Opened::Plain(file) => Box::new(Counted(file)),
            Opened::Stream(stream) => stream,
        }
    }
}

static N_READ: AtomicU64 = AtomicU64::new(0);

/// Bytes of files that this process and its commands have read so far, as they are on disk. A file that a command
/// fetches by itself counts when it is over.
pub fn read_bytes() -> u64 {
    N_READ.load(Ordering::Relaxed)
}

/// Counts a file that something else read to its end: a command, say.
pub(crate) fn note_read(path: &str) {
    let n = std::fs::metadata(path).map_or(0, |about| about.len());
    N_READ.fetch_add(n, Ordering::Relaxed);
}

/// A file that a command has as its input. Both have one place in it, so this sees how far the command is.
pub(crate) struct SharedFile {
    file: File,
    n_counted: u64,
}

impl SharedFile {
    pub(crate) fn new(file: &File) -> Option<Self> {
        file.try_clone().ok().map(|file| Self { file, n_counted: 0 })
    }

    /// Counts the bytes that were read since the last time, and that have come out of the command for sure.
    pub(crate) fn count(&mut self) {
        let place = (&self.file).stream_position().unwrap_or(0);
        self.count_until(place.saturating_sub(AHEAD_BYTES));
    }

    /// Counts all of it: some commands have other ways to read it.
    pub(crate) fn count_all(&mut self) {
        let size = self.file.metadata().map_or(0, |about| about.len());
        self.count_until(size);
    }

    fn count_until(&mut self, place: u64) {
        let more = place.saturating_sub(self.n_counted);
        self.n_counted += more;
        N_READ.fetch_add(more, Ordering::Relaxed);
    }
}

/// Counts the bytes that are read.
struct Counted<R>(R);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(bytes)?;
        N_READ.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Text of a file, ready to be read.
pub(crate) struct OpenText {
    pub(crate) opened: Opened,
    /// Whether there is anything in it.
    pub(crate) filled: bool,
    /// Whether it is text as it is: bytes of the text are bytes of the file.
    pub(crate) is_plain: bool,
    /// A number that changes with the file; 0 if it is not known.
    pub(crate) version: u64,
}

impl OpenText {
    /// Text that is not packed.
    pub(crate) fn plain(opened: Opened) -> Self {
        Self { opened, filled: true, is_plain: true, version: 0 }
    }
}

/// Opens a file of this machine; a file that is packed by its first bytes is unpacked, whatever its
/// name.
pub(crate) fn open(path: &str) -> io::Result<OpenText> {
    let mut file = File::open(path)?;
    let head = head(&mut file)?;
    let (filled, version) = (!head.is_empty(), 0);
    if packing(&head) == Packing::None && file.rewind().is_ok() {
        let opened = Opened::Plain(file);
        return Ok(OpenText { opened, filled, is_plain: true, version });
    }
    match file.rewind() {
        Ok(()) => unpacked(head, Counted(file), false),
        // A pipe cannot go back: its first bytes are put before the rest.
        Err(_) => unpacked(head, Counted(file), true),
    }
}

/// Opens a file of this machine at a byte; it is known to be text as it is.
pub(crate) fn open_at(path: &str, byte: u64) -> io::Result<OpenText> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(byte))?;
    Ok(OpenText::plain(Opened::Plain(file)))
}

/// Unpacks a stream if its first bytes say that it is packed.
pub(crate) fn unpack(mut stream: impl Read + Send + 'static) -> io::Result<OpenText> {
    let head = head(&mut stream)?;
    unpacked(head, stream, true)
}

fn head(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    stream.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// The text of a stream whose first bytes were read, and must be put back unless it begins with them.
fn unpacked(
    head: Vec<u8>,
    stream: impl Read + Send + 'static,
    put_back: bool,
) -> io::Result<OpenText> {
    let (filled, packing) = (!head.is_empty(), packing(&head));
    let whole = Cursor::new(if put_back { head } else { Vec::new() }).chain(stream);
    let text: Box<dyn Read + Send> = match packing {
        Packing::None => Box::new(whole),
        Packing::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Packing::Zstd => Box::new(ZstdFrames::new(whole)),
    };
    let is_plain = packing == Packing::None;
    Ok(OpenText { opened: Opened::Stream(text), filled, is_plain, version: 0 })
}

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

fn packing(head: &[u8]) -> Packing {
    match head {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        // A frame, or one that holds notes before it.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Packing::Zstd,
        _ => Packing::None,
    }
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadLine<'a> {
    /// A line without its end.
    Text(&'a [u8]),
    /// More bytes without an end than a line may have.
    TooLong,
    /// There are no more.
    End,
}

/// The lines of a text, read in large pieces.
pub(crate) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The part of the buffer that was read and not given out.
    from: usize,
    to: usize,
    /// How many lines were given out.
    pub(crate) n_lines: u64,
    /// How many bytes they had, with their ends.
    pub(crate) n_bytes: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; READ_BYTES], from: 0, to: 0, n_lines: 0, n_bytes: 0 }
    }

    /// The lines from a place on that is known.
    pub(crate) fn at(source: R, n_lines: u64, n_bytes: u64) -> Self {
        Self { n_lines, n_bytes, ..Self::new(source) }
    }

    /// Ends reading and gives the source back.
    pub(crate) fn into_source(self) -> R {
        self.source
    }

    pub(crate) fn next(&mut self) -> io::Result<ReadLine<'_>> {
        let mut searched = self.from;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[searched..self.to]) {
                let (from, end) = (self.from, searched + at);
                self.from = end + 1;
                self.n_lines += 1;
                self.n_bytes += (end + 1 - from) as u64;
                return Ok(ReadLine::Text(&self.buffer[from..end]));
            }
            searched = self.to - self.from;
            if searched > LINE_BYTES_MAX {
                self.n_lines += 1;
                return Ok(ReadLine::TooLong);
            }
            if self.fill()? == 0 {
                let (from, to) = (self.from, self.to);
                self.from = to;
                self.n_lines += u64::from(from < to);
                self.n_bytes += (to - from) as u64;
                let rest = &self.buffer[from..to];
                return Ok(if rest.is_empty() { ReadLine::End } else { ReadLine::Text(rest) });
            }
        }
    }

    /// Reads on behind what is there, which moves to the front.
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        if self.to + READ_BYTES / 2 > self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.to..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let n = read?;
                    self.to += n;
                    return Ok(n);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn all(source: impl Read) -> Vec<String> {
        let mut lines = Lines::new(source);
        let mut found = Vec::new();
        while let ReadLine::Text(line) = lines.next().unwrap() {
            found.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(lines.n_lines as usize, found.len());
        found
    }

    #[test]
    fn lines_end_with_a_newline_or_the_file() {
        assert_eq!(all(&b"a\n\nb"[..]), ["a", "", "b"]);
        assert_eq!(all(&b"a\n"[..]), ["a"]);
        assert!(all(&b""[..]).is_empty());
    }

    #[test]
    fn lines_longer_than_the_buffer_stay_whole() {
        let long = "x".repeat(3 * READ_BYTES + 5);
        let text = format!("{long}\nshort\n{long}");
        // A source that gives little at a time: pieces end within lines.
        let pieces = text.as_bytes()[..text.len() / 2].chain(&text.as_bytes()[text.len() / 2..]);
        assert_eq!(all(pieces), [long.as_str(), "short", long.as_str()]);
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let mut lines = Lines::new(io::repeat(b'x'));
        assert_eq!(lines.next().unwrap(), ReadLine::TooLong);
    }

    #[test]
    fn gzip_is_known_by_its_bytes_and_not_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part-0");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"one\ntwo\n").unwrap();
        let mut bytes = packed.finish().unwrap();
        // Two members one behind the other are one text.
        bytes.extend(bytes.clone());
        std::fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        let text = open(path).unwrap();
        assert!(text.filled && !text.is_plain);
        assert_eq!(all(text.opened.reader()), ["one", "two", "one", "two"]);
        std::fs::write(path, "").unwrap();
        assert!(!open(path).unwrap().filled);
        std::fs::write(path, "one\ntwo\n").unwrap();
        assert!(open(path).unwrap().is_plain);
        assert_eq!(all(open_at(path, 4).unwrap().opened.reader()), ["two"]);
    }

    #[test]
    fn each_file_is_taken_once() {
        let files = Files::new(&["a".to_string(), "b".to_string()]);
        assert_eq!(
            [files.take(), files.take(), files.take()],
            [Some((0, "a")), Some((1, "b")), None]
        );
    }
}
