//! Mutations of good bytes.

use crate::sim::Rng;

/// Numbers that often decide something.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// No input grows beyond this.
const BYTES_MAX: usize = 64 << 10;

/// A few changes to an input, sometimes none.
pub(super) fn mutated(
    mut bytes: Vec<u8>,
    others: &[Vec<u8>],
    words: &[&[u8]],
    rng: &mut Rng,
) -> Vec<u8> {
    for _ in 0..rng.below(6) {
        change(&mut bytes, others, words, rng);
        bytes.truncate(BYTES_MAX);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], words: &[&[u8]], rng: &mut Rng) {
    let at = rng.below(bytes.len() as u64 + 1) as usize;
    let n = 1 + rng.below(16) as usize;
    let end = (at + n).min(bytes.len());
    match rng.below(9) {
        0 => flip(bytes, at, 1 << rng.below(8)),
        1 => flip(bytes, at, rng.bits() as u8),
        2 => number(bytes, at, rng),
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        6 => {
            let fill = rng.bits() as u8;
            bytes.splice(at..at, std::iter::repeat_n(fill, n));
        }
        7 => {
            let other = &others[rng.below(others.len() as u64) as usize];
            let from = rng.below(other.len() as u64 + 1) as usize;
            let to = (from + 8 * n).min(other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
        _ if words.is_empty() => number(bytes, at, rng),
        _ => {
            let word = words[rng.below(words.len() as u64) as usize];
            bytes.splice(at..end.min(at + word.len()), word.iter().copied());
        }
    }
}

fn flip(bytes: &mut [u8], at: usize, bits: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= bits;
    }
}

/// Writes a number over some bytes, in one of the usual widths.
fn number(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    let known = NUMBERS[rng.below(NUMBERS.len() as u64) as usize];
    let number = known.wrapping_add(rng.below(3)).wrapping_sub(1).to_le_bytes();
    let width = [1, 2, 4, 8][rng.below(4) as usize];
    for (byte, new) in bytes.iter_mut().skip(at).zip(&number[..width]) {
        *byte = *new;
    }
}
