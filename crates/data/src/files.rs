//! The list of files, which free threads take one by one; their text, line by line.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use flate2::read::MultiGzDecoder;

/// How gzip files begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// A line longer than this is a file that is no text.
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

/// Bytes of files that this process has read so far, as they are on disk. A file that a command reads counts
/// when it is over.
pub fn read_bytes() -> u64 {
    N_READ.load(Ordering::Relaxed)
}

/// A file was read to its end by somebody else: a command, say.
pub(crate) fn note_read(path: &str) {
    let n = std::fs::metadata(path).map_or(0, |about| about.len());
    N_READ.fetch_add(n, Ordering::Relaxed);
}

/// Counts what is read.
struct Counted(File);

impl Read for Counted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(bytes)?;
        N_READ.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Opens a file; what is gzip by its first bytes is unpacked, whatever its name. Also says whether
/// there is anything in it.
pub(crate) fn open(path: &str) -> io::Result<(Opened, bool)> {
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    (&mut file).take(GZIP.len() as u64).read_to_end(&mut head)?;
    let filled = !head.is_empty();
    let packed = head == GZIP;
    if file.rewind().is_ok() {
        let opened = match packed {
            true => Opened::Stream(Box::new(MultiGzDecoder::new(Counted(file)))),
            false => Opened::Plain(file),
        };
        return Ok((opened, filled));
    }
    // A pipe cannot go back: its first bytes are put before the rest.
    let whole = Cursor::new(head).chain(file);
    let stream: Box<dyn Read + Send> =
        if packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
    Ok((Opened::Stream(stream), filled))
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
    /// What of the buffer was read and not given out.
    from: usize,
    to: usize,
    /// How many lines were given out.
    pub(crate) n_lines: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; READ_BYTES], from: 0, to: 0, n_lines: 0 }
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
        let (opened, filled) = open(path.to_str().unwrap()).unwrap();
        assert_eq!(all(opened.reader()), ["one", "two", "one", "two"]);
        assert!(filled);
        std::fs::write(&path, "").unwrap();
        assert!(!open(path.to_str().unwrap()).unwrap().1);
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
