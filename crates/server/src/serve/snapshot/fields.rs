//! Numbers and texts as bytes, little-endian; no length is trusted.

/// Puts fields together.
#[derive(Debug, Default)]
pub(in crate::serve) struct Fields(pub(in crate::serve) Vec<u8>);

impl Fields {
    pub(in crate::serve) fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(in crate::serve) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(in crate::serve) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(in crate::serve) fn text(self, text: &str) -> Self {
        let mut fields = self.u32(text.len() as u32);
        fields.0.extend_from_slice(text.as_bytes());
        fields
    }

    pub(in crate::serve) fn dims(self, dims: &[i64]) -> Self {
        let fields = self.u32(dims.len() as u32);
        dims.iter().fold(fields, |fields, &dim| fields.u64(dim as u64))
    }

    /// A list, each part by its own rule.
    pub(in crate::serve) fn list<T>(self, all: &[T], one: impl Fn(Self, &T) -> Self) -> Self {
        let fields = self.u32(all.len() as u32);
        all.iter().fold(fields, one)
    }
}

/// Takes fields apart; `None` if there are not so many bytes.
#[derive(Debug)]
pub(in crate::serve) struct FieldReader<'a>(pub(in crate::serve) &'a [u8]);

impl<'a> FieldReader<'a> {
    pub(in crate::serve) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(in crate::serve) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(in crate::serve) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(in crate::serve) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(in crate::serve) fn text(&mut self) -> Option<String> {
        let n = self.u32()?;
        String::from_utf8(self.bytes(n as usize)?.to_vec()).ok()
    }

    pub(in crate::serve) fn dims(&mut self) -> Option<Vec<i64>> {
        self.list(|parts| parts.u64().map(|dim| dim as i64))
    }

    /// A list; every part takes a byte at least, so that no memory is taken for what is not there.
    pub(in crate::serve) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let n = self.u32()? as usize;
        if n > self.0.len() {
            return None;
        }
        (0..n).map(|_| one(self)).collect()
    }

    /// All of it was read.
    pub(in crate::serve) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Numbers of four bytes, from any bytes.
pub(in crate::serve) fn u32s(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

/// Numbers of eight bytes.
pub(in crate::serve) fn u64s(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    bytes.chunks_exact(8).map(|eight| {
        u64::from_le_bytes([
            eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7],
        ])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_and_lengths_are_not_trusted() {
        let fields = Fields::default().u8(7).u32(8).u64(9).text("w_0").dims(&[3, -1]);
        let bytes = fields.list(&["a", "bc"], |fields, text| fields.text(text)).0;
        let parts = &mut FieldReader(&bytes);
        assert_eq!((parts.u8(), parts.u32(), parts.u64()), (Some(7), Some(8), Some(9)));
        assert_eq!((parts.text(), parts.dims()), (Some("w_0".to_string()), Some(vec![3, -1])));
        assert_eq!(parts.list(FieldReader::text), Some(vec!["a".to_string(), "bc".to_string()]));
        assert_eq!(parts.end(), Some(()));
        assert_eq!(parts.u8(), None);
        assert_eq!(FieldReader(&u32::MAX.to_le_bytes()).list(FieldReader::u8), None);
        assert_eq!(FieldReader(&u32::MAX.to_le_bytes()).text(), None);
    }
}
