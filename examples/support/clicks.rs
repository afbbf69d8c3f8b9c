//! What the distributed example is given: made-up clicks, and the words of its command line.

use paddlewheel::Result;
use paddlewheel::prelude::*;
use paddlewheel::tensor::{mix, unit};

pub(crate) const N_SLOTS: usize = 8;
pub(crate) const N_ROWS: i64 = 10_001;
const BATCH: usize = 100;

/// `--mode sync|ssp|half_async|async|geo` and `--batches N`.
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) n_batches: usize,
}

impl Options {
    /// Reads the words of this process.
    pub(crate) fn parse() -> Result<Self> {
        let mut options = Self { mode: Mode::Sync, n_batches: 300 };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            match (word.as_str(), value.as_str()) {
                ("--mode", "sync") => options.mode = Mode::Sync,
                ("--mode", "ssp") => options.mode = Mode::Ssp { staleness: 2 },
                ("--mode", "half_async") => options.mode = Mode::HalfAsync,
                ("--mode", "async") => options.mode = Mode::Async,
                ("--mode", "geo") => options.mode = Mode::Geo { push_every: 10 },
                ("--batches", n) => {
                    options.n_batches = n.parse().map_err(|_| format!("`{n}` is not a number"))?;
                }
                _ => return Err(format!("unknown: {word} {value}").into()),
            }
        }
        Ok(options)
    }
}

pub(crate) fn slot_name(slot: usize) -> String {
    format!("C{}", slot + 1)
}

/// Made-up clicks: every id has a hidden weight, and the sum decides whether there is a click.
pub(crate) struct Clicks {
    state: u64,
}

/// Prints the mean loss of every 50 batches.
#[derive(Default)]
pub(crate) struct Report {
    n_batches: usize,
    sum: f64,
}

impl Report {
    pub(crate) fn n_samples(&self) -> f64 {
        (self.n_batches * BATCH) as f64
    }

    #[allow(clippy::print_stdout)] // An example talks to its user.
    pub(crate) fn add(&mut self, loss: f64) {
        (self.n_batches, self.sum) = (self.n_batches + 1, self.sum + loss);
        if self.n_batches.is_multiple_of(50) {
            println!("batch {:4}: loss {:.4}", self.n_batches, self.sum / 50.0);
            self.sum = 0.0;
        }
    }
}

impl Clicks {
    /// Those of a trainer.
    pub(crate) fn of(trainer: u32) -> Self {
        Self { state: trainer.into() }
    }

    /// The next batch.
    pub(crate) fn batch(&mut self) -> Result<Feed> {
        let mut feed = Feed::new();
        let mut scores = vec![0.0; BATCH];
        for slot in 0..N_SLOTS {
            let mut ids = Vec::with_capacity(BATCH);
            for score in &mut scores {
                self.state = self.state.wrapping_add(1);
                let rank = mix(self.state) % 100;
                let id = mix(slot as u64 * 7919 + rank + 1) % N_ROWS as u64;
                *score += unit(mix(id + 1)) - 0.5;
                ids.push(id as i64);
            }
            feed.set(&slot_name(slot), Tensor::new([BATCH, 1], &ids)?);
        }
        let labels: Vec<i64> = scores.iter().map(|&score| i64::from(score > 0.0)).collect();
        feed.set("label", Tensor::new([BATCH, 1], &labels)?);
        // Trainers see different clicks.
        self.state = mix(self.state);
        Ok(feed)
    }
}
