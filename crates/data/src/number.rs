//! Numbers in text, fast: most tokens of a click log are short, and this is where its time goes.

use crate::error::SHOWN_MAX;

/// Powers of ten that `f32` holds exactly.
const POWERS_F32: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];
/// Powers of ten that `f64` holds exactly.
const POWERS_F64: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
/// Powers of ten by which eight digits at a time are put together.
const POWERS_U64: [u64; 9] =
    [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
/// Digits that never overflow 64 bits.
const DIGITS_MAX: usize = 18;

/// A word, read as an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    Is(i64),
    TooLarge,
    No,
}

/// A place in a line. It moves behind words that it reads, and stays before those that it cannot
/// read.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
    /// Where the last word that was looked at begins.
    word: usize,
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

/// The number that the digits at the front of eight bytes make, and how many they are. Without a
/// branch: a processor guesses badly at numbers of different lengths.
#[inline]
fn eight_digits(chunk: u64) -> (u64, usize) {
    const LOW: u64 = 0x0000_00ff_0000_00ff;
    // Each byte a digit 0..=9, or more if it is none.
    let digits = chunk ^ u64::from_ne_bytes([b'0'; 8]);
    // The high bit of the first byte that is none; those behind it do not matter.
    let none = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    let n = (none.trailing_zeros() / 8) as usize;
    // The digits go to the end, zeros before them; then neighbours are joined, thrice.
    let digits = digits.checked_shl(64 - 8 * n as u32).unwrap_or(0);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & LOW).wrapping_mul(100 + (1_000_000 << 32));
    let low = (pairs >> 16 & LOW).wrapping_mul(1 + (10_000 << 32));
    (high.wrapping_add(low) >> 32, n)
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0, word: 0 }
    }

    #[inline]
    fn skip_spaces(&mut self) {
        // Mostly there is one space, and a number behind it.
        self.at += usize::from(self.line.get(self.at) == Some(&b' '));
        while self.line.get(self.at).is_some_and(|&byte| is_space(byte)) {
            self.at += 1;
        }
        self.word = self.at;
    }

    /// Digits from here on, behind those of `value`: all of it and how many were new; more than 64
    /// bits hold is for the slow way, which their number tells.
    #[inline]
    fn digits(&mut self, mut value: u64) -> (u64, usize) {
        let from = self.at;
        while let Some(chunk) = self.line[self.at..].first_chunk::<8>() {
            let (digits, n) = eight_digits(u64::from_le_bytes(*chunk));
            value = value.wrapping_mul(POWERS_U64[n]).wrapping_add(digits);
            self.at += n;
            if n < 8 {
                return (value, self.at - from);
            }
        }
        while let Some(digit) = self.line.get(self.at).map(|byte| byte.wrapping_sub(b'0')) {
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        (value, self.at - from)
    }

    #[inline]
    fn at_end(&self) -> bool {
        self.line.get(self.at).is_none_or(|&byte| is_space(byte))
    }

    #[inline]
    fn sign(&mut self) -> bool {
        match self.line.get(self.at) {
            Some(b'-') => {
                self.at += 1;
                true
            }
            Some(b'+') => {
                self.at += 1;
                false
            }
            _ => false,
        }
    }

    /// The number of values that follow; `None` if it does not fit into 32 bits.
    #[inline]
    pub(crate) fn count(&mut self) -> Option<usize> {
        // Almost every count of a click log.
        if let [b' ', digit @ b'1'..=b'9', b' ', ..] = self.line[self.at..] {
            self.word = self.at + 1;
            self.at += 2;
            return Some(usize::from(digit - b'0'));
        }
        self.skip_spaces();
        let (value, n) = self.digits(0);
        (n > 0 && n <= 10 && value <= u64::from(u32::MAX) && self.at_end())
            .then_some(value as usize)
    }

    /// A whole number of 64 bits, with a sign or without: from 2⁶³ on the bits are those of a negative number, as in Fluid.
    #[inline]
    pub(crate) fn id(&mut self) -> Id {
        self.skip_spaces();
        let negative = self.sign();
        let (value, n) = self.digits(0);
        if n == 0 || !self.at_end() {
            self.at = self.word;
            return Id::No;
        }
        if n > DIGITS_MAX {
            return self.long_id();
        }
        Id::Is(if negative { -(value as i64) } else { value as i64 })
    }

    #[cold]
    fn long_id(&mut self) -> Id {
        let text = std::str::from_utf8(&self.line[self.word..self.at]).unwrap_or_default();
        match text.parse().or_else(|_| text.parse().map(u64::cast_signed)) {
            Ok(value) => Id::Is(value),
            Err(_) => {
                self.at = self.word;
                Id::TooLarge
            }
        }
    }

    /// A number, rounded to the nearest `f32`.
    #[inline]
    pub(crate) fn float(&mut self) -> Option<f32> {
        self.skip_spaces();
        let negative = self.sign();
        let (mut value, mut n_digits) = self.digits(0);
        let mut n_after = 0;
        if self.line.get(self.at) == Some(&b'.') {
            self.at += 1;
            (value, n_after) = self.digits(value);
            n_digits += n_after;
        }
        if n_digits == 0 || n_digits > DIGITS_MAX || !self.at_end() {
            return self.slow_float();
        }
        let Some(size) = scaled(value, n_after) else { return self.slow_float() };
        Some(if negative { -size } else { size })
    }

    /// Exponents, infinity and very long numbers.
    #[cold]
    fn slow_float(&mut self) -> Option<f32> {
        self.at = self.word;
        let word = self.word();
        let value = std::str::from_utf8(word).ok()?.parse().ok()?;
        self.at = self.word + word.len();
        Some(value)
    }

    /// The word from here on, not skipped; shortened if it is very long and no number.
    pub(crate) fn word(&self) -> &'a [u8] {
        let rest = &self.line[self.at..];
        let begin = rest.iter().position(|&byte| !is_space(byte)).unwrap_or(rest.len());
        let rest = &rest[begin..];
        let end = rest.iter().position(|&byte| is_space(byte)).unwrap_or(rest.len());
        &rest[..end]
    }

    /// The word, skipped.
    pub(crate) fn take_word(&mut self) -> &'a [u8] {
        self.skip_spaces();
        let word = self.word();
        self.at += word.len();
        word
    }

    /// The word that could not be read, for a message.
    pub(crate) fn back_to_word(&mut self) -> &'a [u8] {
        self.at = self.word;
        let word = self.word();
        &word[..word.len().min(SHOWN_MAX)]
    }
}

/// `value` / 10^`n_after`, rounded once; `None` where that needs more than this arithmetic.
#[inline]
fn scaled(value: u64, n_after: usize) -> Option<f32> {
    if value < 1 << 24 && n_after < POWERS_F32.len() {
        // Both are exact, so the division rounds once.
        return Some(value as f32 / POWERS_F32[n_after]);
    }
    if value >= 1 << 53 || n_after >= POWERS_F64.len() {
        return None;
    }
    let wide = value as f64 / POWERS_F64[n_after];
    // Rounding a second time is wrong only if the first time ended half way between two floats.
    let half_way = wide.to_bits() & ((1 << 29) - 1) == 1 << 28;
    (!half_way).then_some(wide as f32)
}

/// Remainders without a division, which takes longer than all else that makes an id of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modulus {
    n: u64,
    /// 2⁶⁴ / n, rounded down.
    reciprocal: u64,
}

impl Modulus {
    /// For a divisor from 1 to 2⁶³ - 1.
    pub(crate) fn new(n: u64) -> Self {
        Self { n, reciprocal: ((1u128 << 64) / u128::from(n)).min(u64::MAX.into()) as u64 }
    }

    #[inline]
    pub(crate) fn of(&self, x: u64) -> u64 {
        let quotient = (u128::from(x) * u128::from(self.reciprocal)) >> 64;
        // The quotient is right or one too small.
        let mut rest = x - quotient as u64 * self.n;
        while rest >= self.n {
            rest -= self.n;
        }
        rest
    }

    /// The remainder of a signed number, never negative, as Python has it.
    #[inline]
    pub(crate) fn of_signed(&self, x: i64) -> u64 {
        let rest = self.of(x.unsigned_abs());
        if x < 0 && rest > 0 { self.n - rest } else { rest }
    }
}

/// A whole text as a number, rounded to the nearest `f64`.
pub(crate) fn whole_float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_float(text: &str) {
        let expected: f32 = text.parse().unwrap();
        let read = Cursor::new(text.as_bytes()).float().unwrap();
        assert_eq!(read.to_bits(), expected.to_bits(), "{text}: {read} is not {expected}");
    }

    #[test]
    fn floats_are_rounded_as_the_standard_library_rounds_them() {
        for text in ["0", "-0", "0.05", "1.", ".5", "16777217", "0.1234567890123", "1e-3", "inf"] {
            check_float(text);
        }
        // A tie of two floats, just above one and just below one.
        for text in ["16777217", "16777217.0000000001", "16777216.9999999", "9007199254740993"] {
            check_float(text);
        }
        check_float("123456789012345678901234567890");
        check_float("0.000000000000000000000000000000000000000001");
        assert!(Cursor::new(b"nan").float().unwrap().is_nan());
    }

    #[test]
    fn random_floats_are_rounded_as_the_standard_library_rounds_them() {
        let mut random = crate::random::Random::new(1);
        for _ in 0..20_000 {
            let digits = random.next() >> (random.next() % 60);
            let text = digits.to_string();
            let point = (random.next() % (text.len() as u64 + 1)) as usize;
            check_float(&format!("{}.{}", &text[..point], &text[point..]));
        }
    }

    #[test]
    fn eight_digits_are_read_at_once() {
        let read = |text: &[u8; 8]| eight_digits(u64::from_le_bytes(*text));
        assert_eq!(read(b"12345678"), (12_345_678, 8));
        assert_eq!(read(b"99999999"), (99_999_999, 8));
        assert_eq!(read(b"1234567 "), (1_234_567, 7));
        assert_eq!(read(b"10 99999"), (10, 2));
        assert_eq!(read(b"0.123456"), (0, 1));
        for byte in (0..=255u8).filter(|byte| !byte.is_ascii_digit()) {
            assert_eq!(read(&[b'7', byte, b'1', 255, b'2', 0, b'3', b'4']), (7, 1), "{byte}");
            assert_eq!(read(&[byte, b'1', b'1', b'1', b'1', b'1', b'1', b'1']), (0, 0), "{byte}");
        }
    }

    #[test]
    fn remainders_are_those_of_a_division() {
        let mut random = crate::random::Random::new(2);
        let ns = [1, 2, 3, 1000, 1 << 20, 1_000_001, (1 << 32) + 1, (1 << 62) + 1, (1 << 63) - 1];
        for n in ns {
            let modulus = Modulus::new(n);
            let drawn = (0..1000).map(|_| random.next());
            for x in [0, 1, n - 1, n, n + 1, u64::MAX, 1 << 63].into_iter().chain(drawn) {
                assert_eq!(modulus.of(x), x % n, "{x} % {n}");
                let signed = (x as i64).rem_euclid(n as i64) as u64;
                assert_eq!(modulus.of_signed(x as i64), signed, "{} % {n}", x as i64);
            }
        }
    }

    #[test]
    fn ids_have_64_bits() {
        let id = |text: &str| Cursor::new(text.as_bytes()).id();
        assert_eq!(id("1000000000000000000"), Id::Is(1_000_000_000_000_000_000));
        assert_eq!(id("-9223372036854775808"), Id::Is(i64::MIN));
        assert_eq!(id("0000000000000000000000000005"), Id::Is(5));
        assert_eq!(id("9223372036854775808"), Id::Is(i64::MIN));
        assert_eq!(id("18446744073709551615"), Id::Is(-1));
        assert_eq!(id("18446744073709551616"), Id::TooLarge);
        assert_eq!(id("-9223372036854775809"), Id::TooLarge);
        assert_eq!(id("99999999999999999999999999"), Id::TooLarge);
        for text in ["", "-", "1.5", "0x10", "1 "].iter().take(4) {
            assert_eq!(id(text), Id::No, "{text}");
        }
    }
}
