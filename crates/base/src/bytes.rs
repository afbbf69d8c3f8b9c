//! Numbers, texts and lists as bytes: little-endian, and no length is trusted. Messages, journals, snapshots and states
//! are made of these; where the bytes come from and go to is up to others.

use std::fmt;

/// The problem of bytes that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// Collects bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteWriter(pub Vec<u8>);

impl ByteWriter {
    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// How many things follow, in eight bytes.
    pub fn count(&mut self, n: usize) -> &mut Self {
        self.u64(n as u64)
    }

    /// How many things follow, in four bytes.
    pub fn count_u32(&mut self, n: usize) -> &mut Self {
        self.u32(n as u32)
    }

    /// The length in four bytes, and a text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.count_u32(text.len()).raw(text.as_bytes())
    }

    /// The beginning of a text, of `n_max` bytes at most.
    pub fn text_up_to(&mut self, text: &str, n_max: usize) -> &mut Self {
        self.text(&text[..text.floor_char_boundary(n_max)])
    }

    /// The length in eight bytes, and bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len()).raw(bytes)
    }

    /// A byte that says whether bytes follow, and the bytes.
    pub fn opt_bytes(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        self.u8(bytes.is_some().into());
        bytes.into_iter().fold(self, Self::bytes)
    }

    /// The length in four bytes, and the parts of a list, each by its own rule.
    pub fn list<T>(&mut self, all: &[T], mut one: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.count_u32(all.len());
        all.iter().for_each(|part| one(self, part));
        self
    }

    /// The length in four bytes, and numbers of eight bytes: the dimensions of a tensor.
    pub fn dims(&mut self, dims: &[i64]) -> &mut Self {
        self.list(dims, |to, &dim| {
            to.u64(dim as u64);
        })
    }

    /// Makes room, so that the bytes to come move nothing.
    pub fn reserve(&mut self, n_bytes: usize) {
        self.0.reserve(n_bytes);
    }
}

/// Takes bytes apart.
#[derive(Clone, Debug)]
pub struct ByteReader<'a>(&'a [u8]);

/// The answer of a read.
pub type Read<T> = Result<T, Malformed>;

impl<'a> ByteReader<'a> {
    /// Reads from the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that were not read yet.
    pub fn n_left(&self) -> usize {
        self.0.len()
    }

    /// The bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Bytes as they are.
    pub fn take(&mut self, n: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// A fixed number of bytes.
    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// One byte.
    pub fn u8(&mut self) -> Read<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Read<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Yes or no.
    pub fn flag(&mut self) -> Read<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("neither yes nor no")),
        }
    }

    /// A number of eight bytes that memory may have as an address.
    pub fn size(&mut self) -> Read<usize> {
        usize::try_from(self.u64()?).map_err(|_| Malformed("a size that no machine has"))
    }

    /// How many things follow, each of which has a byte or more.
    pub fn count(&mut self) -> Read<usize> {
        let n = self.size()?;
        self.fits(n)
    }

    /// The same, in four bytes.
    pub fn count_u32(&mut self) -> Read<usize> {
        let n = self.u32()? as usize;
        self.fits(n)
    }

    fn fits(&self, n: usize) -> Read<usize> {
        if n > self.n_left() { Err(Malformed("a list is longer than all of it")) } else { Ok(n) }
    }

    /// A text with its length in four bytes.
    pub fn text(&mut self) -> Read<&'a str> {
        self.text_up_to(usize::MAX)
    }

    /// A text of `n_max` bytes at most.
    pub fn text_up_to(&mut self, n_max: usize) -> Read<&'a str> {
        let n = self.u32()? as usize;
        if n > n_max {
            return Err(Malformed("a text is too long"));
        }
        std::str::from_utf8(self.take(n)?).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// Bytes with their length in eight bytes.
    pub fn bytes(&mut self) -> Read<&'a [u8]> {
        let n = self.size()?;
        self.take(n)
    }

    /// Bytes, if a byte says that they follow.
    pub fn opt_bytes(&mut self) -> Read<Option<&'a [u8]>> {
        match self.u8()? {
            0 => Ok(None),
            _ => self.bytes().map(Some),
        }
    }

    /// A list with its length in four bytes. No memory is taken for parts that are not there.
    pub fn list<T, E: From<Malformed>>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        (0..self.count_u32()?).map(|_| one(self)).collect()
    }

    /// The dimensions of a tensor.
    pub fn dims(&mut self) -> Read<Vec<i64>> {
        self.list(|from| from.u64().map(|dim| dim as i64))
    }

    /// Numbers of eight bytes, `n` of them.
    pub fn u64s(&mut self, n: usize) -> Read<impl ExactSizeIterator<Item = u64> + use<'a>> {
        self.take(n.saturating_mul(size_of::<u64>())).map(u64s)
    }

    /// Everything was read.
    pub fn end(&self) -> Read<()> {
        if self.is_empty() { Ok(()) } else { Err(Malformed("it is longer than it says")) }
    }
}

/// Numbers of four bytes, of any bytes.
pub fn u32s(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four))
}

/// Numbers of eight bytes.
pub fn u64s(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|eight| u64::from_le_bytes(*eight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive() {
        let mut to = ByteWriter::default();
        to.u8(7).u16(9).u32(8).u64(9).text("w_0").dims(&[3, -1]).text_up_to("aäb", 2);
        to.bytes(&[1, 2]).opt_bytes(None).opt_bytes(Some(&[3])).u8(1).count(0);
        to.list(&["a", "bc"], |to, text| {
            to.text(text);
        });
        assert_eq!(&to.0[..15], [7, 9, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        let from = &mut ByteReader::new(&to.0);
        assert_eq!((from.u8(), from.u16(), from.u32(), from.u64()), (Ok(7), Ok(9), Ok(8), Ok(9)));
        assert_eq!((from.text(), from.dims()), (Ok("w_0"), Ok(vec![3, -1])));
        assert_eq!(from.text(), Ok("a"), "half a character is none");
        assert_eq!((from.bytes(), from.opt_bytes()), (Ok(&[1, 2][..]), Ok(None)));
        assert_eq!((from.opt_bytes(), from.flag()), (Ok(Some(&[3][..])), Ok(true)));
        assert_eq!((from.count(), from.end().is_err()), (Ok(0), true));
        assert_eq!(from.list(ByteReader::text), Ok(vec!["a", "bc"]));
        assert_eq!((from.end(), from.u8().is_err()), (Ok(()), true));
        assert!(u32s(&[1, 0, 0, 0, 2, 0, 0, 0, 9]).eq([1, 2]));
        assert!(u64s(&[1, 0, 0, 0, 0, 0, 0, 0]).eq([1]));
    }

    #[test]
    fn lengths_are_not_trusted() {
        let huge = [0xff; 8];
        let from = || ByteReader::new(&huge);
        assert!(from().list(ByteReader::u8).is_err());
        assert!(from().text().is_err() && from().count().is_err() && from().bytes().is_err());
        assert!(from().u64s(usize::MAX).is_err() && from().flag().is_err());
        let text = [2, 0, 0, 0, b'a', b'b'];
        assert!(ByteReader::new(&text).text_up_to(1).is_err());
        assert_eq!(ByteReader::new(&text).text_up_to(2), Ok("ab"));
        assert_eq!(ByteReader::new(&text).take(7), Err(Malformed("it ends too early")));
    }
}
