//! Records one behind the other, each with its checksum: for files that only grow. A record is a head of a fixed length, the
//! length u64 of its contents, the contents, and the CRC-32 u32 of all of this. A record that is not whole is the end.

use base::bytes::{ByteReader, ByteWriter};

/// A record that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a, const N: usize> {
    /// Bytes that are up to the writer.
    pub head: [u8; N],
    /// What it holds.
    pub contents: &'a [u8],
}

impl<'a, const N: usize> Record<'a, N> {
    /// Adds a record to others.
    pub fn write(self, to: &mut ByteWriter) {
        let start = to.0.len();
        to.raw(&self.head).bytes(self.contents);
        let check = crc32fast::hash(&to.0[start..]);
        to.u32(check);
    }

    /// The next record, if it is whole; what is read otherwise does not matter.
    pub fn read(from: &mut ByteReader<'a>) -> Option<Self> {
        let all = from.rest();
        let record = Self { head: from.array().ok()?, contents: from.bytes().ok()? };
        let check = crc32fast::hash(&all[..all.len() - from.n_left()]);
        (from.u32() == Ok(check)).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_and_those_that_are_not_whole_are_the_end() {
        let records = [b"", &b"abc"[..]].map(|contents| Record { head: [7, 8], contents });
        let mut to = ByteWriter::default();
        records.into_iter().for_each(|record| record.write(&mut to));
        let n_first = 2 + 8 + 4;
        let read = |bytes: &[u8]| {
            let mut from = ByteReader::new(bytes);
            std::iter::from_fn(|| Record::<2>::read(&mut from)).count()
        };
        assert_eq!(Record::read(&mut ByteReader::new(&to.0[n_first..])), Some(records[1]));
        assert_eq!(read(&to.0), 2);
        for n in 0..to.0.len() {
            assert_eq!(read(&to.0[..n]), usize::from(n >= n_first), "{n} bytes");
        }
        for bit in 0..to.0.len() * 8 {
            let mut other = to.0.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&other) < 2, "bit {bit}");
        }
    }
}
