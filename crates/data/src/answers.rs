//! Answers of stores, as bytes: for programs that test the handling of damaged answers (`make
//! soak`).

use std::io::{self, Read};

use crate::source::read_lists;
use crate::zstd::ZstdFrames;

/// Reads bytes as a page of an S3 list and as a name node's list of a folder; returns how many names there are.
pub fn lists(bytes: &[u8]) -> usize {
    read_lists(&String::from_utf8_lossy(bytes))
}

/// Unpacks zstd frames, at most so many bytes of text; returns how many there were.
pub fn unpack_zstd(bytes: &[u8], max: u64) -> io::Result<u64> {
    io::copy(&mut ZstdFrames::new(bytes).take(max), &mut io::sink())
}
