//! Event files of TensorBoard: records with checksums, each an `Event` in protobuf.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::clock::wall;
use super::crc32c::masked;

/// A value of a curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scalar<'a> {
    pub(super) tag: &'a str,
    pub(super) value: f64,
}

/// A file that TensorBoard opens.
#[derive(Debug)]
pub(super) struct EventFile {
    file: File,
}

impl EventFile {
    /// A new file in this folder, which is made if it is not there.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let time = wall();
        let name = format!("events.out.tfevents.{time:.0}.paddlewheel.{}", std::process::id());
        let mut file = Self { file: File::create(folder.join(name))? };
        let mut event = Message::default();
        event.double(1, time);
        event.bytes(3, b"brain.Event:2");
        file.write(&event)?;
        Ok(file)
    }

    /// Adds values of one step.
    pub(super) fn add(&mut self, step: u64, scalars: &[Scalar<'_>]) -> io::Result<()> {
        let mut summary = Message::default();
        for Scalar { tag, value } in scalars {
            let mut entry = Message::default();
            entry.bytes(1, tag.as_bytes());
            entry.float(2, *value as f32);
            summary.bytes(1, &entry.0);
        }
        let mut event = Message::default();
        event.double(1, wall());
        event.varint(2, step);
        event.bytes(5, &summary.0);
        self.write(&event)
    }

    /// One record, in one piece: a reader may look at any time.
    fn write(&mut self, message: &Message) -> io::Result<()> {
        self.file.write_all(&record(&message.0))
    }
}

fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    let (of_length, of_bytes) = (masked(&length).to_le_bytes(), masked(bytes).to_le_bytes());
    [&length, of_length.as_slice(), bytes, &of_bytes].concat()
}

/// A message of protobuf.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn varint(&mut self, field: u64, value: u64) {
        self.number(field << 3);
        self.number(value);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.number(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.number(field << 3 | 2);
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.number(field << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_message() {
        let mut message = Message::default();
        message.varint(2, 300);
        message.bytes(1, b"ab");
        message.float(2, 1.0);
        assert_eq!(message.0, [0x10, 0xac, 0x02, 0x0a, 2, b'a', b'b', 0x15, 0, 0, 0x80, 0x3f]);
    }

    #[test]
    fn a_record_has_its_length_and_two_checksums() {
        let bytes = record(b"abc");
        assert_eq!(
            (bytes.len(), &bytes[..8], &bytes[12..15]),
            (19, &[3, 0, 0, 0, 0, 0, 0, 0][..], &b"abc"[..])
        );
        assert_eq!(bytes[8..12], masked(&bytes[..8]).to_le_bytes());
    }
}
