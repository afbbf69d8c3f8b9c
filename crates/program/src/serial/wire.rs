//! Protobuf's wire format and nothing of its schemas: fields out of bytes, fields into bytes.

use crate::error::{Error, Result};

/// Reads the fields of one message. Offsets count from the start of the whole input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireReader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// One field as found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireField<'a> {
    pub(crate) number: u32,
    pub(crate) value: Wire<'a>,
    /// Where it starts.
    pub(crate) offset: usize,
    /// All of it, tag included.
    pub(crate) raw: &'a [u8],
}

/// The four ways a value is laid out; groups are refused, no version of the format has any.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wire<'a> {
    Varint(u64),
    Fixed64,
    Bytes(WireReader<'a>),
    Fixed32(u32),
}

/// Field numbers above this do not exist.
const NUMBER_MAX: u64 = (1 << 29) - 1;

/// An error, and its place.
pub(crate) fn bad(offset: usize, problem: impl Into<String>) -> Error {
    Error::BadProgram { offset, problem: problem.into() }
}

impl<'a> WireReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, end: bytes.len() }
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The rest of the message.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..self.end]
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// The next field, `None` at the end of the message.
    pub(crate) fn field(&mut self) -> Result<Option<WireField<'a>>> {
        if self.is_at_end() {
            return Ok(None);
        }
        let offset = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number > NUMBER_MAX {
            return Err(bad(offset, format!("{number} is not a field number")));
        }
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Wire::Fixed64
            }
            2 => Wire::Bytes(self.length_delimited()?),
            5 => Wire::Fixed32(self.fixed32()?),
            other => return Err(bad(offset, format!("wire type {other} is not allowed"))),
        };
        let raw = &self.bytes[offset..self.at];
        Ok(Some(WireField { number: number as u32, value, offset, raw }))
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        let offset = self.at;
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.take(1)?[0];
            // The tenth byte has room for one bit; more are cut off, as everywhere.
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(bad(offset, "a number longer than ten bytes"))
    }

    pub(crate) fn fixed32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn length_delimited(&mut self) -> Result<WireReader<'a>> {
        let offset = self.at;
        let length = self.varint()?;
        let left = self.end - self.at;
        if length > left as u64 {
            return Err(bad(offset, format!("{length} bytes are announced, {left} are left")));
        }
        let start = self.at;
        self.at += length as usize;
        Ok(WireReader { bytes: self.bytes, at: start, end: self.at })
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if self.end - self.at < n {
            return Err(bad(self.at, "the bytes end in the middle of a value"));
        }
        let taken = &self.bytes[self.at..self.at + n];
        self.at += n;
        Ok(taken)
    }

    /// The message as text.
    pub(crate) fn text(&self) -> Result<String> {
        match std::str::from_utf8(self.rest()) {
            Ok(text) => Ok(text.to_string()),
            Err(error) => Err(bad(self.at + error.valid_up_to(), "a string that is not UTF-8")),
        }
    }
}

impl<'a> WireField<'a> {
    /// A number, if the field is laid out as one.
    pub(crate) fn varint(&self) -> Option<u64> {
        match self.value {
            Wire::Varint(value) => Some(value),
            _ => None,
        }
    }

    /// A message or string, if the field is laid out as one.
    pub(crate) fn bytes(&self) -> Option<WireReader<'a>> {
        match self.value {
            Wire::Bytes(reader) => Some(reader),
            _ => None,
        }
    }
}

/// Writes fields one after another.
#[derive(Debug, Default)]
pub struct WireWriter(Vec<u8>);

impl WireWriter {
    fn tag(&mut self, number: u32, wire: u32) {
        self.raw_varint(u64::from(number << 3 | wire));
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A number; negative ones take ten bytes, as protobuf has it for `int32` too.
    pub fn int(&mut self, number: u32, value: i64) {
        self.tag(number, 0);
        self.raw_varint(value as u64);
    }

    /// A truth value.
    pub fn bool(&mut self, number: u32, value: bool) {
        self.int(number, i64::from(value));
    }

    /// A number of 32 bits.
    pub fn float(&mut self, number: u32, value: f32) {
        self.tag(number, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A string or a finished message.
    pub fn bytes(&mut self, number: u32, value: &[u8]) {
        self.tag(number, 2);
        self.raw_varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// The message, with unknown fields put where their numbers belong.
    pub fn finish(mut self, unknown: &[u8]) -> Vec<u8> {
        if unknown.is_empty() {
            return self.0;
        }
        self.0.extend_from_slice(unknown);
        let mut fields = Vec::new();
        let mut reader = WireReader::new(&self.0);
        while let Ok(Some(field)) = reader.field() {
            fields.push((field.number, field.raw));
        }
        fields.sort_by_key(|&(number, _)| number);
        fields.into_iter().flat_map(|(_, raw)| raw).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for value in [0, 1, 127, 128, -1, i64::MAX, i64::MIN, 1_008_005] {
            let mut writer = WireWriter::default();
            writer.int(4, value);
            let bytes = writer.finish(&[]);
            let field = WireReader::new(&bytes).field().unwrap().unwrap();
            assert_eq!((field.number, field.varint()), (4, Some(value as u64)));
            assert_eq!(field.raw, bytes);
        }
    }

    #[test]
    fn unknown_fields_go_where_their_numbers_belong() {
        let mut writer = WireWriter::default();
        writer.int(1, 5);
        writer.int(4, 6);
        assert_eq!(writer.finish(&[0x18, 7]), [0x08, 5, 0x18, 7, 0x20, 6]);
    }

    #[track_caller]
    fn refuses(bytes: &[u8], at: usize) {
        let error = WireReader::new(bytes).field().unwrap_err();
        assert!(matches!(error, Error::BadProgram { offset, .. } if offset == at), "{error}");
    }

    #[test]
    fn refuses_what_is_no_field() {
        refuses(&[0x00], 0); // Field number 0.
        refuses(&[0x0b], 0); // A group.
        refuses(&[0x0a, 5, 1], 1); // Five bytes announced, one there.
        refuses(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], 1);
        refuses(&[0x08, 0x80], 2); // Cut short.
        refuses(&[0x0d, 1, 2], 1); // Half a float.
        refuses(&[0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], 1);
    }
}
