//! The values of a row before its first update.

use crate::mix::mix;
use crate::rng::{self, Rng};

/// The rule for the numbers of a new row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowInit {
    /// All the same.
    Constant(f32),
    /// From a stream of random numbers.
    Drawn {
        /// How they are distributed.
        shape: Distribution,
        /// Names the stream.
        seed: u32,
        /// Numbers of the stream before the first row of this part.
        offset: u64,
    },
}

/// How random numbers are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Evenly: at least the first, below the second. A row has what a whole table has there.
    Uniform(f32, f32),
    /// Around a mean with a deviation, cut off at two of them. A row has what a whole table has
    /// there.
    Truncated(f32, f32),
    /// Around a mean with a deviation. A whole table takes an unknown number of draws for each, so a
    /// row has a stream of its own instead, which its seed and its number among all rows name.
    Normal(f32, f32),
}

/// Draws after which a stream repeats.
const PERIOD: u128 = (1 << 31) - 2;

impl RowInit {
    /// Fills a row.
    pub fn fill(&self, row: u64, values: &mut [f32]) {
        let (shape, seed, offset) = match *self {
            RowInit::Constant(value) => return values.fill(value),
            RowInit::Drawn { shape, seed, offset } => (shape, seed, offset),
        };
        let width = values.len() as u64;
        let first = u128::from(offset) + u128::from(row) * u128::from(width);
        let at = || Rng::at(seed, (first % PERIOD) as u64);
        match shape {
            Distribution::Uniform(low, high) => rng::uniform(&mut at(), low, high, values),
            Distribution::Truncated(mean, std) => {
                rng::truncated_gaussian(&mut at(), mean, std, values)
            }
            Distribution::Normal(mean, std) => {
                let number = (offset / width.max(1)).wrapping_add(row);
                let mut own = Rng::new((mix(mix(u64::from(seed)) ^ number) >> 32) as u32);
                rng::gaussian(&mut own, mean, std, values);
            }
        }
    }

    /// As words, for the attribute of a program.
    pub fn to_text(&self) -> String {
        let (shape, seed, offset) = match *self {
            RowInit::Constant(value) => return format!("constant {}", value.to_bits()),
            RowInit::Drawn { shape, seed, offset } => (shape, seed, offset),
        };
        let (kind, a, b) = match shape {
            Distribution::Uniform(low, high) => ("uniform", low, high),
            Distribution::Truncated(mean, std) => ("truncated", mean, std),
            Distribution::Normal(mean, std) => ("normal", mean, std),
        };
        format!("{kind} {} {} {seed} {offset}", a.to_bits(), b.to_bits())
    }

    /// Back from words; a seed of 0 becomes `fresh_seed`.
    pub fn from_text(text: &str, fresh_seed: u32) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let float = |word: &str| word.parse().ok().map(f32::from_bits);
        let [kind, a, b, seed, offset] = words[..] else {
            return match words[..] {
                ["constant", value] => Some(RowInit::Constant(float(value)?)),
                _ => None,
            };
        };
        let (a, b) = (float(a)?, float(b)?);
        let shape = match kind {
            "uniform" => Distribution::Uniform(a, b),
            "truncated" => Distribution::Truncated(a, b),
            "normal" => Distribution::Normal(a, b),
            _ => return None,
        };
        let seed = match seed.parse().ok()? {
            0 => fresh_seed,
            seed => seed,
        };
        Some(RowInit::Drawn { shape, seed, offset: offset.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(shape: Distribution, seed: u32, offset: u64) -> RowInit {
        RowInit::Drawn { shape, seed, offset }
    }

    #[test]
    fn a_row_is_what_a_whole_table_has_there() {
        let (mut even, mut cut) = ([0.0f32; 12], [0.0f32; 12]);
        rng::uniform(&mut Rng::new(90), -1.0, 1.0, &mut even);
        rng::truncated_gaussian(&mut Rng::new(90), 0.0, 1.0, &mut cut);
        for (shape, whole) in
            [(Distribution::Uniform(-1.0, 1.0), even), (Distribution::Truncated(0.0, 1.0), cut)]
        {
            // A part that begins with row 1 of the whole, rows of three.
            let mut row = [0.0; 3];
            drawn(shape, 90, 3).fill(2, &mut row);
            assert_eq!(row, whole[9..12]);
        }
        // Far beyond the period of the stream, which begins again.
        let (mut far, mut near) = ([0.0; 2], [0.0; 2]);
        drawn(Distribution::Uniform(0.0, 1.0), 90, 0)
            .fill(7 + (PERIOD as u64) * (1 << 30), &mut far);
        drawn(Distribution::Uniform(0.0, 1.0), 90, 0).fill(7, &mut near);
        assert_eq!(far, near);
    }

    #[test]
    fn a_normal_row_is_its_own_wherever_the_table_is_cut() {
        let shape = Distribution::Normal(1.0, 0.5);
        let row = |seed, offset, row| {
            let mut values = [0.0f32; 8];
            drawn(shape, seed, offset).fill(row, &mut values);
            values
        };
        assert_eq!(row(9, 0, 12), row(9, 8 * 10, 2));
        assert_ne!(row(9, 0, 12), row(9, 0, 13));
        assert_ne!(row(9, 0, 12), row(8, 0, 12));
        let all: Vec<f32> = (0..5000).flat_map(|number| row(9, 0, number)).collect();
        let mean = all.iter().sum::<f32>() / all.len() as f32;
        let var = all.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / all.len() as f32;
        assert!((mean - 1.0).abs() < 0.01 && (var - 0.25).abs() < 0.01, "{mean} {var}");
    }

    #[test]
    fn an_init_survives_as_words() {
        let all = [
            Distribution::Uniform(-0.1, 0.3),
            Distribution::Truncated(0.0, 0.1),
            Distribution::Normal(1.0, 2.0),
        ];
        let all = all.map(|shape| drawn(shape, 7, u64::MAX / 2));
        for init in all.into_iter().chain([RowInit::Constant(1e-6)]) {
            assert_eq!(RowInit::from_text(&init.to_text(), 1), Some(init));
        }
        let (unseeded, seeded) = (Distribution::Uniform(0.0, 1.0), Distribution::Uniform(0.0, 1.0));
        let text = drawn(unseeded, 0, 0).to_text();
        assert_eq!(RowInit::from_text(&text, 5), Some(drawn(seeded, 5, 0)));
        for text in ["", "constant", "constant x", "normal 1 2", "uniform 1 2 3", "odd 1 2 3 4"] {
            assert_eq!(RowInit::from_text(text, 1), None, "{text}");
        }
    }
}
