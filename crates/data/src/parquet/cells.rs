//! One value of a column, and its form as a number, an id and a text.

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

/// A number of 16 bits, the lowest byte first.
pub(super) fn short_float(bytes: &[u8]) -> f64 {
    let bits = bytes.iter().rev().fold(0u16, |bits, &byte| bits << 8 | u16::from(byte));
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    match bits >> 10 & 0x1f {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        exponent => sign * (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    }
}

/// Microseconds since the beginning of 1970 of a time of 96 bits: nanoseconds of its day, and the day of the
/// Julian calendar.
pub(super) fn micros_of(words: &[u32]) -> i64 {
    const DAY_OF_1970: i64 = 2_440_588;
    const DAY: i64 = 86_400_000_000;
    let nanos = (u64::from(words[0]) | u64::from(words[1]) << 32) as i64;
    let days = i64::from(words[2]) - DAY_OF_1970;
    days.saturating_mul(DAY).saturating_add(nanos.div_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_16_bits() {
        for (bits, number) in [
            (0x3c00u16, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x0400, 6.103_515_625e-5),
            (0x2e66, 0.099_975_585_937_5),
            (0x8000, 0.0),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(short_float(&bits.to_le_bytes()), number, "{bits:x}");
        }
        assert!(short_float(&[0, 0x7e]).is_nan());
    }

    #[test]
    fn times_of_96_bits() {
        assert_eq!(micros_of(&[0, 0, 2_440_588]), 0);
        assert_eq!(micros_of(&[1_999, 0, 2_440_589]), 86_400_000_001);
        assert_eq!(micros_of(&[0, 0, 2_440_587]), -86_400_000_000);
        assert!(micros_of(&[u32::MAX; 3]) > 0);
    }
}
