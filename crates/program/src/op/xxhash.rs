//! The hash functions XXH32 and XXH64 (their specification is public), by which Fluid hashes ids.

const P32: [u32; 5] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1];
const P64: [u64; 5] = [
    0x9E37_79B1_85EB_CA87,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0x27D4_EB2F_1656_67C5,
];

fn word_32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn word_64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// XXH32 of bytes.
pub(super) fn xxh32(bytes: &[u8], seed: u32) -> u32 {
    let round = |sum: u32, word: u32| {
        sum.wrapping_add(word.wrapping_mul(P32[1])).rotate_left(13).wrapping_mul(P32[0])
    };
    let (mut hash, mut rest) = (seed.wrapping_add(P32[4]), bytes);
    if bytes.len() >= 16 {
        let mut lanes = [
            seed.wrapping_add(P32[0]).wrapping_add(P32[1]),
            seed.wrapping_add(P32[1]),
            seed,
            seed.wrapping_sub(P32[0]),
        ];
        while rest.len() >= 16 {
            let (stripe, tail) = rest.split_at(16);
            for (lane, word) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
                *lane = round(*lane, word_32(word));
            }
            rest = tail;
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        hash = turned.fold(0, u32::wrapping_add);
    }
    hash = hash.wrapping_add(bytes.len() as u32);
    while rest.len() >= 4 {
        let (word, tail) = rest.split_at(4);
        hash = hash.wrapping_add(word_32(word).wrapping_mul(P32[2]));
        hash = hash.rotate_left(17).wrapping_mul(P32[3]);
        rest = tail;
    }
    for &byte in rest {
        hash = hash.wrapping_add(u32::from(byte).wrapping_mul(P32[4]));
        hash = hash.rotate_left(11).wrapping_mul(P32[0]);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(P32[1]);
    hash = (hash ^ (hash >> 13)).wrapping_mul(P32[2]);
    hash ^ (hash >> 16)
}

/// XXH64 of bytes.
pub(super) fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    let round = |sum: u64, word: u64| {
        sum.wrapping_add(word.wrapping_mul(P64[1])).rotate_left(31).wrapping_mul(P64[0])
    };
    let (mut hash, mut rest) = (seed.wrapping_add(P64[4]), bytes);
    if bytes.len() >= 32 {
        let mut lanes = [
            seed.wrapping_add(P64[0]).wrapping_add(P64[1]),
            seed.wrapping_add(P64[1]),
            seed,
            seed.wrapping_sub(P64[0]),
        ];
        while rest.len() >= 32 {
            let (stripe, tail) = rest.split_at(32);
            for (lane, word) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
                *lane = round(*lane, word_64(word));
            }
            rest = tail;
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        hash = turned.fold(0, u64::wrapping_add);
        for lane in lanes {
            hash = (hash ^ round(0, lane)).wrapping_mul(P64[0]).wrapping_add(P64[3]);
        }
    }
    hash = hash.wrapping_add(bytes.len() as u64);
    while rest.len() >= 8 {
        let (word, tail) = rest.split_at(8);
        hash ^= round(0, word_64(word));
        hash = hash.rotate_left(27).wrapping_mul(P64[0]).wrapping_add(P64[3]);
        rest = tail;
    }
    if rest.len() >= 4 {
        let (word, tail) = rest.split_at(4);
        hash ^= u64::from(word_32(word)).wrapping_mul(P64[0]);
        hash = hash.rotate_left(23).wrapping_mul(P64[1]).wrapping_add(P64[2]);
        rest = tail;
    }
    for &byte in rest {
        hash ^= u64::from(byte).wrapping_mul(P64[4]);
        hash = hash.rotate_left(11).wrapping_mul(P64[0]);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(P64[1]);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P64[2]);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that the specification's authors publish.
    #[test]
    fn known_hashes() {
        assert_eq!((xxh32(b"", 0), xxh64(b"", 0)), (0x02CC_5D05, 0xEF46_DB37_51D8_E999));
        assert_eq!((xxh32(b"abc", 0), xxh64(b"abc", 0)), (0x32D1_53FF, 0x44BC_2CF5_AD77_0999));
        let long = b"Nobody inspects the spammish repetition";
        assert_eq!((xxh32(long, 0), xxh64(long, 0)), (0xE229_3B2F, 0xFBCE_A83C_8A37_8BF1));
    }
}
