//! One value of a column, and what it is as a number, an id and a text.

use crate::csv::{BadCell, Na, floats, ids};
use crate::error::shown;
use crate::numbers::ColumnNumber;

/// Whole numbers beyond this are not exact as floating-point ones.
const EXACT_MAX: f64 = (1u64 << 53) as f64;

/// One cell; nothing is an empty text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Datum<'a> {
    Nothing,
    Whole(i64),
    /// A whole number of 2⁶³ and more.
    Large(u64),
    Float(f64),
    Text(&'a [u8]),
}

impl Datum<'_> {
    pub(super) fn number(self, na: Option<Na>) -> std::result::Result<f32, BadCell> {
        match self {
            Datum::Nothing => na.map(Na::float).ok_or(BadCell::Empty),
            Datum::Whole(number) => Ok(number as f32),
            Datum::Large(number) => Ok(number as f32),
            Datum::Float(number) => Ok(number as f32),
            Datum::Text(text) => floats(text, na),
        }
    }

    pub(super) fn whole(self, na: Option<Na>) -> std::result::Result<i64, BadCell> {
        match self {
            Datum::Nothing => na.map(Na::id).ok_or(BadCell::Empty),
            Datum::Whole(number) if number < 0 => Err(BadCell::Negative),
            Datum::Whole(number) => Ok(number),
            Datum::Large(number) => Ok(number.cast_signed()),
            Datum::Float(number) if number.fract() != 0.0 || number.abs() > EXACT_MAX => {
                Err(BadCell::Other)
            }
            Datum::Float(number) if number < 0.0 => Err(BadCell::Negative),
            Datum::Float(number) => Ok(number as i64),
            Datum::Text(text) => ids(text, na),
        }
    }

    pub(super) fn shown(self) -> String {
        match self {
            Datum::Nothing => String::new(),
            Datum::Whole(number) => number.to_string(),
            Datum::Large(number) => number.to_string(),
            Datum::Float(number) => number.to_string(),
            Datum::Text(text) => shown(text),
        }
    }
}

impl From<ColumnNumber> for Datum<'_> {
    fn from(number: ColumnNumber) -> Self {
        match number {
            ColumnNumber::Missing => Datum::Nothing,
            ColumnNumber::Whole(number) => Datum::Whole(number),
            ColumnNumber::Large(number) => Datum::Large(number),
            ColumnNumber::Float(number) => Datum::Float(number),
        }
    }
}

/// A number that lies there as bytes, the highest first; `None` if it has more than 128 bits.
pub(super) fn big_endian(bytes: &[u8]) -> Option<i128> {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut all = [if is_negative { 0xff } else { 0 }; 16];
    let from = all.len().checked_sub(bytes.len())?;
    all[from..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(all))
}
