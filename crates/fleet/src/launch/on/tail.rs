//! Lines that are appended to a file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// How much is read at once; the rest comes next time.
const BYTES_MAX: u64 = 1 << 20;

/// A file that others write.
pub(super) struct Tail {
    path: PathBuf,
    at: u64,
    /// A line without its end.
    rest: Vec<u8>,
}

impl Tail {
    /// Follows the file from its present end.
    pub(super) fn new(path: PathBuf) -> Self {
        let at = std::fs::metadata(&path).map_or(0, |data| data.len());
        Self { path, at, rest: Vec::new() }
    }

    /// The lines that were added. A file that is not there has none.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.at))?;
            file.take(BYTES_MAX).read_to_end(&mut bytes)
        });
        // Bytes that were read before an error count: they are not read again.
        self.at += bytes.len() as u64;
        self.rest.append(&mut bytes);
        let end = self.rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        if read.is_err() && whole.is_empty() {
            return Vec::new();
        }
        String::from_utf8_lossy(&whole).lines().map(str::to_string).collect()
    }

    /// The lines that were added, and the last one without an end.
    pub(super) fn last_lines(&mut self) -> Vec<String> {
        let mut lines = self.lines();
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            lines.push(String::from_utf8_lossy(&rest).into_owned());
        }
        lines
    }
}
