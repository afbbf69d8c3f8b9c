//! Random streams that are equal, bit for bit, to those Fluid starts parameters from.
//!
//! The engine is the minimal-standard generator x' = 48271 x mod (2³¹ - 1). Its state after n draws
//! is one modular power away, so a stream can be entered anywhere: a server that holds rows from i
//! on need not draw the rows before them.

use crate::Float;

const MODULUS: u64 = (1 << 31) - 1;
const MULTIPLIER: u64 = 48271;
/// How many different values the engine gives.
const N_VALUES: u64 = MODULUS - 1;

/// A place in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: u64,
    multiplier: u64,
}

impl Rng {
    /// The beginning of a seed's stream.
    pub fn new(seed: u32) -> Self {
        Self::with_multiplier(seed, MULTIPLIER)
    }

    /// The older generator with factor 16807 (C++'s default engine), which shuffling uses.
    pub fn older(seed: u32) -> Self {
        Self::with_multiplier(seed, 16807)
    }

    fn with_multiplier(seed: u32, multiplier: u64) -> Self {
        let state = match u64::from(seed) % MODULUS {
            0 => 1,
            state => state,
        };
        Self { state, multiplier }
    }

    /// A seed's stream after `n_draws` draws.
    pub fn at(seed: u32, n_draws: u64) -> Self {
        let mut rng = Self::new(seed);
        rng.skip(n_draws);
        rng
    }

    /// Moves on as if `n_draws` numbers had been drawn.
    pub fn skip(&mut self, n_draws: u64) {
        self.state = self.state * power(self.multiplier, n_draws) % MODULUS;
    }

    /// The next number, in 1 ..= 2³¹ - 2.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        // The modulus is 2³¹ - 1: high and low bits add up to the remainder, or to one modulus more.
        let product = self.state * self.multiplier;
        let folded = (product >> 31) + (product & MODULUS);
        self.state = if folded >= MODULUS { folded - MODULUS } else { folded };
        self.state as u32
    }

    /// A number in `low ..= high`, each equally likely.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let n = high.wrapping_sub(low) as u64;
        debug_assert!(n < N_VALUES - 1, "the engine gives fewer numbers than that");
        let scale = (N_VALUES - 1) / (n + 1);
        loop {
            let x = u64::from(self.draw() - 1);
            if x < (n + 1) * scale {
                return low + (x / scale) as i64;
            }
        }
    }
}

/// `base` to the power `exponent`, modulo the engine's modulus.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % MODULUS;
        }
        base = base * base % MODULUS;
        exponent >>= 1;
    }
    result
}

/// The widths in which streams give real numbers.
pub trait Real: Float {
    /// Draws it takes to make one number.
    const N_DRAWS: u64;

    /// A number in [0, 1).
    fn unit(rng: &mut Rng) -> Self;

    /// The natural logarithm, correctly rounded in `f32`: first values depend on the last bit.
    fn ln_exact(self) -> Self;
}

impl Real for f32 {
    const N_DRAWS: u64 = 1;

    #[inline]
    fn unit(rng: &mut Rng) -> f32 {
        let unit = (rng.draw() - 1) as f32 / N_VALUES as f32;
        unit.min(1.0f32.next_down())
    }

    fn ln_exact(self) -> f32 {
        f64::from(self).ln() as f32
    }
}

impl Real for f64 {
    const N_DRAWS: u64 = 2;

    #[inline]
    fn unit(rng: &mut Rng) -> f64 {
        let n = N_VALUES as f64;
        let low = f64::from(rng.draw() - 1);
        let unit = (low + f64::from(rng.draw() - 1) * n) / (n * n);
        unit.min(1.0f64.next_down())
    }

    fn ln_exact(self) -> f64 {
        self.ln()
    }
}

/// Fills `out` with numbers in [low, high).
pub fn uniform<T: Real>(rng: &mut Rng, low: T, high: T, out: &mut [T]) {
    let range = high - low;
    for value in out {
        *value = T::unit(rng) * range + low;
    }
}

/// Fills `out` with normal numbers: Marsaglia's polar method, the second of a pair first.
pub fn gaussian<T: Real>(rng: &mut Rng, mean: T, std: T, out: &mut [T]) {
    for pair in out.chunks_mut(2) {
        let (x, y) = polar_pair::<T>(rng);
        pair[0] = y * std + mean;
        if let Some(second) = pair.get_mut(1) {
            *second = x * std + mean;
        }
    }
}

/// Two independent standard normal numbers.
fn polar_pair<T: Real>(rng: &mut Rng) -> (T, T) {
    let two = T::of(2.0);
    loop {
        let x = two * T::unit(rng) - T::one();
        let y = two * T::unit(rng) - T::one();
        let r2 = x * x + y * y;
        if r2 > T::zero() && r2 <= T::one() {
            let k = (-two * r2.ln_exact() / r2).sqrt();
            return (x * k, y * k);
        }
    }
}

/// Fills `out` with normal numbers not further than two deviations from the mean.
pub fn truncated_gaussian(rng: &mut Rng, mean: f32, std: f32, out: &mut [f32]) {
    /// Φ(2), the share of normal numbers below two deviations.
    const BELOW_TWO: f64 = 0.977_249_868_051_820_8;
    for value in out {
        let u = f64::from(f32::unit(rng).max(f32::MIN_POSITIVE));
        let p = (1.0 - BELOW_TWO) + (2.0 * BELOW_TWO - 1.0) * u;
        let z = std::f64::consts::SQRT_2 * erf_inverse(2.0 * p - 1.0);
        *value = z as f32 * std + mean;
    }
}

/// The inverse error function for |x| < 0.99, to seven digits (the polynomial of M. Giles, 2010).
fn erf_inverse(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        2.810_226_36e-8,
        3.432_739_39e-7,
        -3.523_387_7e-6,
        -4.391_506_54e-6,
        0.000_218_580_87,
        -0.001_253_725_03,
        -0.004_177_681_64,
        0.246_640_727,
        1.501_409_41,
    ];
    let w = -((1.0 - x) * (1.0 + x)).ln() - 2.5;
    COEFFICIENTS.iter().fold(0.0, |sum, c| sum * w + c) * x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Fluid 1.8.5, from `golden/rng.json` and section 9.1 of the specification.
    #[track_caller]
    fn check_bits(fill: impl Fn(&mut [f32]), bits: &[u32]) {
        let mut out = vec![0.0; bits.len()];
        fill(&mut out);
        let actual: Vec<u32> = out.iter().map(|value| value.to_bits()).collect();
        assert_eq!(actual, bits, "{out:?}");
    }

    #[track_caller]
    fn check_doubles(fill: impl Fn(&mut [f64]), expected: &[f64]) {
        let mut out = vec![0.0; expected.len()];
        fill(&mut out);
        assert_eq!(out, expected);
    }

    #[test]
    fn the_engine_counts_as_the_standard_says() {
        let mut rng = Rng::new(1);
        assert_eq!([rng.draw(), rng.draw(), rng.draw()], [48271, 182_605_794, 1_291_394_886]);
        // The C++ standard fixes the 10000th draw of both generators.
        assert_eq!(Rng::at(1, 9_999).draw(), 399_268_537);
        let mut older = Rng::older(1);
        older.skip(9_999);
        assert_eq!(older.draw(), 1_043_618_065);
    }

    #[test]
    fn a_stream_can_be_entered_anywhere() {
        let mut all = [0.0f32; 100];
        uniform(&mut Rng::new(90), -1.0, 1.0, &mut all);
        let mut part = [0.0f32; 10];
        uniform(&mut Rng::at(90, 77), -1.0, 1.0, &mut part);
        assert_eq!(part, all[77..87]);
        let mut doubles = [0.0f64; 5];
        uniform(&mut Rng::new(90), -1.0, 1.0, &mut doubles);
        let mut last = [0.0f64];
        uniform(&mut Rng::at(90, 4 * f64::N_DRAWS), -1.0, 1.0, &mut last);
        assert_eq!(last[0], doubles[4]);
    }

    #[test]
    fn a_seed_of_no_state_counts_as_one() {
        assert_eq!(Rng::new(0), Rng::new(1));
        assert_eq!(Rng::new(MODULUS as u32), Rng::new(1));
    }

    #[test]
    fn uniform_floats_are_fluids() {
        let fill = |out: &mut [f32]| uniform(&mut Rng::new(90), -0.5, 0.5, out);
        check_bits(fill, UNIFORM_90);
        let fill = |out: &mut [f32]| uniform(&mut Rng::new(123_456_789), -1.0, 1.0, out);
        check_bits(fill, UNIFORM_123456789);
    }

    #[test]
    fn normal_floats_are_fluids() {
        check_bits(|out| gaussian(&mut Rng::new(90), 0.0, 1.0, out), NORMAL_90);
        check_bits(|out| gaussian(&mut Rng::new(1), 0.5, 0.05, out), NORMAL_1);
    }

    #[test]
    fn doubles_are_fluids() {
        let uniform_1 = |out: &mut [f64]| uniform(&mut Rng::new(1), -1.0, 1.0, out);
        check_doubles(uniform_1, &[-0.829_935_102_565_132_7, 0.783_222_554_609_715_3]);
        let expected =
            [-0.407_471_786_737_876_7, -1.239_735_903_658_918_4, 0.399_770_661_708_839_35];
        check_doubles(|out| gaussian(&mut Rng::new(1), 0.0, 1.0, out), &expected);
    }

    #[test]
    fn truncated_normal_floats_are_near_fluids() {
        for (seed, mean, std, expected) in TRUNCATED {
            let mut out = vec![0.0; expected.len()];
            truncated_gaussian(&mut Rng::new(*seed), *mean, *std, &mut out);
            for (a, e) in out.iter().zip(*expected) {
                assert!((a - e).abs() <= 2e-6, "{a} is not {e}");
            }
        }
    }

    #[test]
    fn integers_are_fluids() {
        let mut rng = Rng::new(7);
        let drawn: Vec<i64> = (0..6).map(|_| rng.between(0, 9)).collect();
        assert_eq!(drawn, [0, 5, 2, 2, 7, 3]);
    }

    #[rustfmt::skip]
    const UNIFORM_90: &[u32] = &[
        0xbefe_f6d7, 0x3e1c_972c, 0xbec1_ac05, 0xbe82_8d67,
        0xbec4_99ec, 0xbedb_1866, 0xbe1b_d3fa, 0x3ea4_39fe,
        0x3e25_6ea4, 0x3ed5_0dc4, 0xbee1_a387, 0xbd84_edac,
        0xbdcb_6c3c, 0x3eb8_d4d6, 0xbe68_c3c4, 0xbee4_491b,
    ];
    #[rustfmt::skip]
    const UNIFORM_123456789: &[u32] = &[
        0xbf64_73ea, 0xbf3c_6285, 0x3ed6_4b98, 0xbec8_cccc,
        0x3f38_0362, 0xbf3a_772a, 0x3ea8_4a14, 0x3e4e_0c10,
        0x3f7d_560a, 0x3f31_d442, 0xbf49_b3d2, 0xbf39_7dcc,
        0x3b0d_2c00, 0xbc91_e5e0, 0x3e9b_7a3c, 0x3e9d_78d0,
    ];
    #[rustfmt::skip]
    const NORMAL_90: &[u32] = &[
        0xbead_5702, 0xbf00_92be, 0x3f87_582d, 0xbf00_6c47,
        0x3f20_c069, 0x3e79_a420, 0xbdca_d799, 0xbf2c_2825,
        0x3f84_bf59, 0xbe92_1996, 0x3e09_f89c, 0x3f6d_ba98,
        0xbf50_f901, 0x3fa0_cf79, 0x3df0_f720, 0xbf8f_82fa,
    ];
    #[rustfmt::skip]
    const NORMAL_1: &[u32] = &[
        0x3f0b_68b6, 0x3f02_f3e8, 0x3ec0_582f, 0x3f04_ac64,
        0x3f0b_6578, 0x3ee9_cedc, 0x3f01_9c21, 0x3eea_1dc1,
        0x3f10_82e8, 0x3f04_62c9, 0x3f04_3382, 0x3f20_f876,
        0x3eef_ef83, 0x3ed3_ec61, 0x3f03_9da9, 0x3f09_7102,
    ];
    /// Seed, mean, deviation and the first values.
    #[rustfmt::skip]
    const TRUNCATED: &[(u32, f32, f32, &[f32])] = &[
        (90, 0.0, 1.0, &[-1.965449, 0.3744426, -1.085069, -0.6538108,
            -1.110069, -1.331271, -0.3725325, 0.8638342]),
        (7, 1.0, 0.1, &[0.8002777, 1.022985, 0.9236852, 0.933508,
            1.071646, 0.9575669, 1.02535, 1.074891]),
    ];
}
