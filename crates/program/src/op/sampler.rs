//! Which classes are drawn as examples of wrong ones, and how likely each is.

use super::mersenne::Mersenne;

/// A distribution over the classes `0 ..= range`.
pub(super) enum Distribution<'a> {
    /// Each class is equally likely.
    Uniform,
    /// Class c has probability log((c + 2) / (c + 1)) / log(range + 1).
    LogUniform,
    /// Probabilities of a table, drawn by the alias method.
    Custom { probabilities: &'a [f32], aliases: &'a [i32], alias_probabilities: &'a [f32] },
}

/// A stream of classes.
pub(super) struct Sampler<'a> {
    distribution: Distribution<'a>,
    range: i64,
    stream: Mersenne,
}

impl<'a> Sampler<'a> {
    /// The stream of a seed.
    pub(super) fn new(distribution: Distribution<'a>, range: i64, seed: u32) -> Self {
        let stream = match distribution {
            Distribution::Custom { .. } => Mersenne::narrow(seed),
            _ => Mersenne::wide(seed),
        };
        Self { distribution, range, stream }
    }

    /// The next class.
    pub(super) fn draw(&mut self) -> i64 {
        match &self.distribution {
            Distribution::Uniform => self.stream.up_to(self.range as u64) as i64,
            Distribution::LogUniform => {
                let log_range = ((self.range + 1) as f64).ln();
                let class = (self.stream.unit() * log_range).exp() as i64 - 1;
                class % self.range.max(1)
            }
            Distribution::Custom { aliases, alias_probabilities, .. } => {
                let index = self.stream.up_to(self.range as u64) as usize;
                let alias = aliases[index];
                if self.stream.unit() > f64::from(alias_probabilities[index]) && alias >= 0 {
                    return i64::from(alias);
                }
                index as i64
            }
        }
    }

    /// How likely a class is; it is in `0 ..= range` or a label.
    pub(super) fn probability(&self, class: i64) -> f32 {
        match &self.distribution {
            Distribution::Uniform => (1.0 / (self.range + 1) as f64) as f32,
            Distribution::LogUniform => {
                let odds = (class as f64 + 2.0) / (class as f64 + 1.0);
                (odds.ln() / ((self.range + 1) as f64).ln()) as f32
            }
            Distribution::Custom { probabilities, .. } => probabilities[class as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_range_and_as_likely_as_said() {
        let custom = Distribution::Custom {
            probabilities: &[0.25, 0.75],
            aliases: &[1, -1],
            alias_probabilities: &[0.5, 1.0],
        };
        for (distribution, range) in
            [(Distribution::Uniform, 4), (Distribution::LogUniform, 4), (custom, 1)]
        {
            let mut sampler = Sampler::new(distribution, range, 3);
            let mut counts = vec![0; range as usize + 1];
            for _ in 0..4000 {
                counts[sampler.draw() as usize] += 1;
            }
            for (class, &count) in counts.iter().enumerate().take(range as usize) {
                let share = f64::from(count) / 4000.0;
                let expected = f64::from(sampler.probability(class as i64));
                // Where the range ends, the logarithmic stream gives the last class to the first one.
                assert!((share - expected).abs() < 0.15, "{class}: {share}, {expected}");
            }
        }
    }
}
