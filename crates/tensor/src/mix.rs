//! One way to scatter the bits of a number, wherever a number must decide something the same way in
//! every process: which server has a row, which slot of a map, which rows a rule takes in.

/// Scatters the bits of a number (the finalizer of SplitMix64): equal everywhere, always.
pub fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number from 0 to below 1, of 53 of these bits.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saved tables and running jobs depend on these numbers.
    #[test]
    fn the_numbers_never_change() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(1), 0x910a_2dec_8902_5cc1);
        assert_eq!(mix(u64::MAX), 0xe4d9_7177_1b65_2c20);
    }
}
