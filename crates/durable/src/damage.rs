//! The first bytes of a file, and the problems of one that cannot be read.

use std::io;

use base::bytes::{ByteReader, ByteWriter};

/// The reason why a file cannot be read.
#[derive(Debug)]
pub enum Problem {
    /// The disk says why.
    Unreadable(io::Error),
    /// Other bytes are there than were written.
    Damaged(&'static str),
    /// Another release wrote it.
    OtherVersion(u32),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem::Unreadable(error)
    }
}

/// Something of a file, or the reason why it cannot be read.
pub type ReadResult<T> = Result<T, Problem>;

/// The first bytes of a file: which format it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStart {
    /// Eight bytes that no other format begins with.
    pub magic: [u8; 8],
    /// The version that is written, and the only one that is read.
    pub version: u32,
}

impl FileStart {
    /// Its length.
    pub const N_BYTES: usize = 12;

    /// As bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut to = ByteWriter::default();
        to.raw(&self.magic).u32(self.version);
        to.0
    }

    /// Whether a file begins like that. A version that differs in a single bit was damaged: no format has such a number.
    pub fn check(self, bytes: &[u8]) -> ReadResult<()> {
        let from = &mut ByteReader::new(bytes);
        let (Ok(magic), Ok(version)) = (from.array::<8>(), from.u32()) else {
            return Err(Problem::Damaged("it is cut short"));
        };
        if magic != self.magic {
            return Err(Problem::Damaged("it does not say that it is of this format"));
        }
        match (version ^ self.version).count_ones() {
            0 => Ok(()),
            1 => Err(Problem::Damaged("the number of its format is damaged")),
            _ => Err(Problem::OtherVersion(version)),
        }
    }
}
