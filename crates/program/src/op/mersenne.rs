//! The Mersenne twisters of C++ (`mt19937`, `mt19937_64`) with the numbers that its distributions draw from them.
//!
//! Samplers of Fluid draw negative classes this way, so a seed gives the classes that it gives there.

/// The constants of a twister.
struct Twister {
    word_bits: u32,
    n: usize,
    m: usize,
    a: u64,
    /// Shift and mask of each step of tempering; the last step has a shift alone.
    temper: [(u32, u64); 3],
    last_shift: u32,
    f: u64,
}

static NARROW: Twister = Twister {
    word_bits: 32,
    n: 624,
    m: 397,
    a: 0x9908_B0DF,
    temper: [(11, 0xFFFF_FFFF), (7, 0x9D2C_5680), (15, 0xEFC6_0000)],
    last_shift: 18,
    f: 1_812_433_253,
};

static WIDE: Twister = Twister {
    word_bits: 64,
    n: 312,
    m: 156,
    a: 0xB502_6F5A_A966_19E9,
    temper: [(29, 0x5555_5555_5555_5555), (17, 0x71D6_7FFF_EDA6_0000), (37, 0xFFF7_EEE0_0000_0000)],
    last_shift: 43,
    f: 6_364_136_223_846_793_005,
};

/// A place in a twister's stream.
pub(super) struct Mersenne {
    twister: &'static Twister,
    state: Vec<u64>,
    at: usize,
}

impl Mersenne {
    /// The stream of numbers of 32 bits.
    pub(super) fn narrow(seed: u32) -> Self {
        Self::new(&NARROW, seed)
    }

    /// The stream of numbers of 64 bits.
    pub(super) fn wide(seed: u32) -> Self {
        Self::new(&WIDE, seed)
    }

    fn new(twister: &'static Twister, seed: u32) -> Self {
        let mut state = Vec::with_capacity(twister.n);
        state.push(u64::from(seed));
        for i in 1..twister.n {
            let last = state[i - 1];
            let mixed = last ^ (last >> (twister.word_bits - 2));
            state.push(twister.word(mixed.wrapping_mul(twister.f).wrapping_add(i as u64)));
        }
        Self { twister, state, at: twister.n }
    }

    /// The next number.
    fn draw(&mut self) -> u64 {
        if self.at == self.twister.n {
            self.renew();
        }
        let mut x = self.state[self.at];
        self.at += 1;
        let [(shift, mask), left @ ..] = self.twister.temper;
        x ^= (x >> shift) & mask;
        for (shift, mask) in left {
            x ^= (x << shift) & mask;
        }
        x ^ (x >> self.twister.last_shift)
    }

    fn renew(&mut self) {
        let Twister { n, m, a, .. } = *self.twister;
        const LOW: u64 = (1 << 31) - 1;
        for k in 0..n {
            let y = (self.state[k] & !LOW) | (self.state[(k + 1) % n] & LOW);
            let odd = if y & 1 == 1 { a } else { 0 };
            self.state[k] = self.state[(k + m) % n] ^ (y >> 1) ^ odd;
        }
        self.at = 0;
    }

    /// A number in `0 ..= high`, each equally likely.
    pub(super) fn up_to(&mut self, high: u64) -> u64 {
        let n_values = high + 1;
        let scale = self.twister.word(u64::MAX) / n_values;
        loop {
            let x = self.draw();
            if x < n_values * scale {
                return x / scale;
            }
        }
    }

    /// A number in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        const TWO_32: f64 = (1u64 << 32) as f64;
        let sum = match self.twister.word_bits {
            64 => self.draw() as f64,
            _ => self.draw() as f64 + self.draw() as f64 * TWO_32,
        };
        (sum / (TWO_32 * TWO_32)).min(1.0f64.next_down())
    }
}

impl Twister {
    /// As many low bits as a word has.
    fn word(&self, x: u64) -> u64 {
        x & (u64::MAX >> (64 - self.word_bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard says which number comes after 9999 others of the usual seed.
    #[test]
    fn streams_are_those_of_the_standard() {
        let (mut narrow, mut wide) = (Mersenne::narrow(5489), Mersenne::wide(5489));
        for _ in 0..9999 {
            narrow.draw();
            wide.draw();
        }
        assert_eq!((narrow.draw(), wide.draw()), (4_123_659_995, 9_981_545_732_273_789_042));
    }

    #[test]
    fn draws_are_in_range() {
        let mut wide = Mersenne::wide(7);
        for _ in 0..100 {
            assert!(wide.up_to(4) <= 4);
            assert!((0.0..1.0).contains(&wide.unit()));
        }
    }
}
