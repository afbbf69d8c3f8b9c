//! CRC-32 of short texts. Libraries are made for long ones: of eight bytes, which is what the ids of
//! click logs have, most of their time goes into choosing a method.

/// The polynomial, its lowest power first.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// `TABLES[k][b]`: the contribution of a byte `b` that `k` more bytes follow.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut after = 1;
    while after < 8 {
        let mut byte = 0;
        while byte < 256 {
            let sum: u32 = tables[after - 1][byte];
            tables[after][byte] = sum >> 8 ^ tables[0][(sum & 0xff) as usize];
            byte += 1;
        }
        after += 1;
    }
    tables
}

/// The checksum of a text whose beginning has the checksum `before`.
#[inline]
pub(crate) fn crc32(before: u32, text: &[u8]) -> u32 {
    let (words, rest) = text.as_chunks::<8>();
    let mut sum = !before;
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(sum);
        sum = 0;
        for (after, table) in TABLES.iter().rev().enumerate() {
            sum ^= table[(word >> (8 * after) & 0xff) as usize];
        }
    }
    for &byte in rest {
        sum = sum >> 8 ^ TABLES[0][((sum ^ u32::from(byte)) & 0xff) as usize];
    }
    !sum
}

/// The id below `n` of a text, as the readers make it: of `"<slot>:<text>"` if a slot is named (a column
/// of `csv-reader` and `parquet-reader`, the number of a text column from 0 for
/// `criteo-reader --hash crc32`).
///
/// ```
/// assert_eq!(data::hash_id("Paris", Some("city"), 1000), data::hash_id("city:Paris", None, 1000));
/// ```
///
/// # Panics
/// If `n` is 0.
pub fn hash_id(text: impl AsRef<[u8]>, slot: Option<&str>, n: u64) -> i64 {
    let before = slot.map_or(0, |slot| crc32(0, format!("{slot}:").as_bytes()));
    (u64::from(crc32(before, text.as_ref())) % n) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_library() {
        let text =
            b"123456789 and whatever else there is to be said, in more bytes than a line has";
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
        for n in 0..text.len() {
            let (head, rest) = text.split_at(n);
            assert_eq!(crc32(0, head), crc32fast::hash(head));
            assert_eq!(crc32(crc32(0, head), rest), crc32fast::hash(text), "cut at {n}");
        }
    }
}
