//! The checksum of TensorBoard's files: CRC-32 with Castagnoli's polynomial.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let (mut table, mut at) = ([0; 256], 0);
    while at < 256 {
        let (mut value, mut bit) = (at as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
    !bytes.iter().fold(!0, step)
}

/// The form in which records have it: turned by 15 bits and moved, so that the checksum of bytes that
/// hold a checksum is not zero.
pub(super) fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa, "RFC 3720");
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43, "RFC 3720");
    }
}
