//! Random numbers, random order, and numbers for texts: always the same for the same seed or text.

use metrics::Phase;

/// A stream of random numbers (splitmix64): all of 64 bits, and nothing to set up.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        // The high half of a product: even for all that fits in memory.
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// Spreads the bits of a number.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number for a text; never 0, which stands for no text.
pub(crate) fn hash(text: &[u8]) -> u64 {
    let step = |sum: u64, &byte: &u8| mix(sum ^ u64::from(byte)).wrapping_add(1);
    text.iter().fold(text.len() as u64, step).max(1)
}

/// Puts a list in random order.
pub(crate) fn shuffle<T>(list: &mut [T], seed: u64) {
    shuffle_in(list, seed, &Phase::default());
}

/// Places that are changed between two reports of progress.
const TOLD_EVERY: usize = 1 << 16;

/// The same, with reports of progress.
pub(crate) fn shuffle_in<T>(list: &mut [T], seed: u64, phase: &Phase) {
    let mut random = Random::new(seed);
    let mut last = list.len();
    while last > 1 {
        let first = last.saturating_sub(TOLD_EVERY).max(1);
        for at in (first..last).rev() {
            list.swap(at, random.below(at + 1));
        }
        phase.add((last - first) as u64);
        last = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_loses_nothing_and_repeats() {
        let shuffled = |seed| {
            let mut list: Vec<u32> = (0..1000).collect();
            shuffle(&mut list, seed);
            list
        };
        let once = shuffled(1);
        assert_eq!(once, shuffled(1));
        assert_ne!(once, shuffled(2));
        let mut sorted = once.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        let unmoved = once.iter().zip(&sorted).filter(|(a, b)| a == b).count();
        assert!(unmoved < 10, "{unmoved}");
    }

    #[test]
    fn numbers_below_are_even() {
        let mut random = Random::new(3);
        let mut counts = [0; 5];
        (0..5000).for_each(|_| counts[random.below(5)] += 1);
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
