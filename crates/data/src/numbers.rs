//! Numbers of columns, exactly: whole numbers of 64 bits with and without a sign, fractions, and missing ones.

use std::borrow::Cow;

/// 2⁶³ and 2⁶⁴.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

/// Texts of other programs for a missing value in a column of numbers or times.
const NOTHING: [&[u8]; 9] =
    [b"", b"NA", b"N/A", b"<NA>", b"null", b"NULL", b"None", b"\\N", b"NaT"];

/// A number of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnNumber {
    /// There is none.
    Missing,
    /// A whole number.
    Whole(i64),
    /// A whole number of 2⁶³ and more.
    Large(u64),
    /// A number.
    Float(f64),
}

impl ColumnNumber {
    /// A whole number without a sign.
    pub fn unsigned(number: u64) -> Self {
        i64::try_from(number).map_or(ColumnNumber::Large(number), ColumnNumber::Whole)
    }

    /// The number of a text: `None` if it is none. Truth values are 1 and 0. A whole number is exact however it is
    /// written: `7`, `007` and `7.0` are the same.
    pub fn of_text(text: &[u8]) -> Option<Self> {
        match text.trim_ascii() {
            text if NOTHING.contains(&text) => Some(ColumnNumber::Missing),
            b"true" | b"True" | b"TRUE" => Some(ColumnNumber::Whole(1)),
            b"false" | b"False" | b"FALSE" => Some(ColumnNumber::Whole(0)),
            text => {
                let text = std::str::from_utf8(text).ok()?;
                let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
                let is_whole = rest.bytes().all(|digit| digit == b'0');
                if is_whole && let Ok(number) = whole.parse() {
                    return Some(ColumnNumber::Whole(number));
                }
                if is_whole && let Ok(number) = whole.parse() {
                    return Some(ColumnNumber::Large(number));
                }
                text.parse().ok().map(ColumnNumber::of_float)
            }
        }
    }

    /// A number, missing if it is none.
    pub fn of_float(number: f64) -> Self {
        if number.is_nan() { ColumnNumber::Missing } else { ColumnNumber::Float(number) }
    }

    /// `digits` / 10^`scale`, as decimal numbers are stored: whole if it is.
    pub fn of_decimal(digits: i128, scale: u32) -> Self {
        let divisor = 10i128.checked_pow(scale).unwrap_or(i128::MAX);
        if digits % divisor == 0 {
            let whole = digits / divisor;
            if let Ok(number) = i64::try_from(whole) {
                return ColumnNumber::Whole(number);
            }
            if let Ok(number) = u64::try_from(whole) {
                return ColumnNumber::Large(number);
            }
        }
        // As its text would be read: rounded once.
        format!("{digits}e-{scale}").parse().map_or(ColumnNumber::Missing, ColumnNumber::of_float)
    }

    /// As a floating-point number; not a number if it is missing.
    pub fn to_f64(self) -> f64 {
        match self {
            ColumnNumber::Missing => f64::NAN,
            ColumnNumber::Whole(number) => number as f64,
            ColumnNumber::Large(number) => number as f64,
            ColumnNumber::Float(number) => number,
        }
    }

    /// The text from which its id is made: whole numbers without a point, nothing for a missing value.
    pub fn text(self) -> Cow<'static, str> {
        match self {
            ColumnNumber::Missing => Cow::Borrowed(""),
            ColumnNumber::Whole(number) => Cow::Owned(number.to_string()),
            ColumnNumber::Large(number) => Cow::Owned(number.to_string()),
            ColumnNumber::Float(number) if number.is_nan() => Cow::Borrowed(""),
            ColumnNumber::Float(number)
                if number.fract() == 0.0 && (-TWO_63..TWO_63).contains(&number) =>
            {
                Cow::Owned((number as i64).to_string())
            }
            ColumnNumber::Float(number)
                if number.fract() == 0.0 && (TWO_63..TWO_64).contains(&number) =>
            {
                Cow::Owned((number as u64).to_string())
            }
            ColumnNumber::Float(number) => Cow::Owned(number.to_string()),
        }
    }
}

/// A number of 32 bits as its shortest text says it: 0.1, not 0.10000000149. So it is the number that a text file has.
pub fn widen(short: f32) -> f64 {
    if short.fract() == 0.0 || !short.is_finite() {
        short.into()
    } else {
        short.to_string().parse().unwrap_or(f64::from(short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_text_however_it_is_written() {
        for (cell, text) in [
            ("7", "7"),
            ("7.0", "7"),
            (" 007", "7"),
            ("7.5", "7.5"),
            ("7.50", "7.5"),
            ("-0.0", "0"),
            ("1e3", "1000"),
            ("9007199254740993", "9007199254740993"),
            ("9223372036854775808", "9223372036854775808"),
            ("18446744073709551615.00", "18446744073709551615"),
            ("True", "1"),
            ("FALSE", "0"),
            ("", ""),
            ("NA", ""),
            ("nan", ""),
        ] {
            assert_eq!(
                ColumnNumber::of_text(cell.as_bytes()).map(ColumnNumber::text).as_deref(),
                Some(text),
                "{cell}"
            );
        }
        assert_eq!(ColumnNumber::of_text(b"7a"), None);
        assert_eq!(ColumnNumber::of_text(b"1.2.0"), None);
        assert_eq!(ColumnNumber::Float(2f64.powi(60)).text(), (1i64 << 60).to_string());
        assert_eq!(ColumnNumber::Float(2f64.powi(63)).text(), (1u64 << 63).to_string());
        assert_eq!(ColumnNumber::Float(-0.0).text(), "0");
    }

    #[test]
    fn decimals_are_what_their_text_is() {
        assert_eq!(ColumnNumber::of_decimal(1230, 2), ColumnNumber::Float(12.3));
        assert_eq!(ColumnNumber::of_decimal(-700, 2), ColumnNumber::Whole(-7));
        assert_eq!(ColumnNumber::of_decimal(u64::MAX.into(), 0), ColumnNumber::Large(u64::MAX));
        assert_eq!(
            ColumnNumber::of_decimal(i128::MAX, 38),
            ColumnNumber::Float(1.7014118346046923)
        );
        assert_eq!(widen(0.1), 0.1);
    }
}
