//! The Mersenne twister, as numpy's `RandomState` seeds and uses it to shuffle.

const N: usize = 624;
const M: usize = 397;

/// The generator of Matsumoto and Nishimura (1998), 32 bits.
pub(super) struct Mt19937 {
    state: [u32; N],
    at: usize,
}

impl Mt19937 {
    pub(super) fn new(seed: u32) -> Self {
        let mut state = [seed; N];
        for i in 1..N {
            let before = state[i - 1];
            state[i] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, at: N }
    }

    fn refill(&mut self) {
        for i in 0..N {
            let bits = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let twist = if bits & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (bits >> 1) ^ twist;
        }
        self.at = 0;
    }

    fn draw(&mut self) -> u32 {
        if self.at == N {
            self.refill();
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A number in `0 ..= max`: draws under the next mask of ones until one fits.
    fn interval(&mut self, max: u32) -> u32 {
        let mask = u32::MAX.checked_shr(max.leading_zeros()).unwrap_or(0);
        loop {
            let value = self.draw() & mask;
            if value <= max {
                return value;
            }
        }
    }

    /// Fisher and Yates, from the back.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let j = self.interval(i as u32) as usize;
            list.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_the_published_numbers() {
        let mut twister = Mt19937::new(5489);
        assert_eq!(twister.draw(), 3_499_211_612);
        // The C++ standard fixes the 10000th.
        assert_eq!((1..9999).fold(0, |_, _| twister.draw()), twister_9999());
        assert_eq!(twister.draw(), 4_123_659_995);
    }

    fn twister_9999() -> u32 {
        let mut twister = Mt19937::new(5489);
        (0..9999).fold(0, |_, _| twister.draw())
    }

    #[test]
    fn shuffles_as_numpy_does() {
        // numpy: RandomState(90).shuffle(list(range(10))), RandomState(0) likewise.
        for (seed, expected) in [(90, NINETY), (0, ZERO)] {
            let mut list: Vec<u32> = (0..10).collect();
            Mt19937::new(seed).shuffle(&mut list);
            assert_eq!(list, expected, "seed {seed}");
        }
    }

    const NINETY: [u32; 10] = [8, 1, 0, 6, 5, 9, 4, 7, 3, 2];
    const ZERO: [u32; 10] = [2, 8, 4, 9, 1, 6, 7, 3, 0, 5];
}
