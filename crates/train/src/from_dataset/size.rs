//! How much a pass has to read, so that it can be told how much is left.

use data::{Dataset, Positions};
use metrics::Phase;

use crate::counters::TRAINER;

/// Before so much more is done, nobody knows how long the rest takes.
const SHARE_MIN: f64 = 0.005;

/// How much a pass has to read. Zero: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PassSize {
    n_samples: u64,
    n_bytes: u64,
    /// Bytes that readers need not read any more if they began when `read_before` was counted.
    skipped: u64,
    /// Bytes that this process had read of any file before.
    read_before: u64,
    /// The share that others had done before this trainer began with it.
    begun: f64,
}

impl PassSize {
    /// Of a pass over this dataset.
    pub(super) fn of(dataset: &Dataset) -> Self {
        match dataset.pass_files() {
            None => {
                let n_samples = dataset.n_rows(None).unwrap_or(0);
                Self { n_samples, ..Self::default() }
            }
            Some(files) => {
                let n_bytes = dataset.settings().files.iter().map(|file| size(file)).sum::<u64>();
                let others = files.bytes_before(None, &size);
                Self { n_bytes, begun: share(others, n_bytes), ..Self::default() }
            }
        }
    }

    /// Readers begin now, there or at the beginning of the pass.
    pub(super) fn begin(&mut self, dataset: &Dataset, from: Option<&Positions>) {
        self.read_before = data::read_bytes();
        let files = dataset.pass_files();
        self.skipped = files.map_or(0, |files| files.bytes_before(from, &size));
    }

    /// The share that is done, from 0 to 1; 0 if that is not known.
    fn done(&self, n_samples: u64, n_read: u64) -> f64 {
        let n_read = n_read.saturating_sub(self.read_before) + self.skipped;
        share(n_samples, self.n_samples).max(share(n_read, self.n_bytes))
    }

    /// How long the rest takes, in seconds, if this share took so long; 0 if that is not known. The time is that of all
    /// processes of this trainer.
    fn left(&self, done: f64, elapsed: f64) -> f64 {
        let own = done - self.begun;
        if own >= SHARE_MIN { elapsed * (1.0 - done) / own } else { 0.0 }
    }

    /// Shows the progress of the pass to watchers of the job.
    pub(super) fn tell(&self, progress: &super::Progress, phase: &Phase) {
        let done = self.done(progress.n_samples, data::read_bytes());
        let elapsed = progress.elapsed.as_secs_f64();
        let left = self.left(done, elapsed);
        TRAINER.pass_done.set(done);
        TRAINER.pass_seconds.set(elapsed);
        TRAINER.pass_left_seconds.set(left);
        phase.set_share(done);
        phase.set_left(left);
        phase.set(progress.n_samples);
    }
}

fn size(file: &str) -> u64 {
    std::fs::metadata(file).map_or(0, |about| about.len())
}

fn share(n: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (n as f64 / all as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_samples_and_of_files() {
        let in_memory = PassSize { n_samples: 200, ..PassSize::default() };
        assert_eq!((in_memory.done(50, 7), in_memory.done(300, 7)), (0.25, 1.0));
        let files = PassSize { n_bytes: 1000, read_before: 100, ..PassSize::default() };
        assert_eq!((files.done(50, 350), files.done(50, 9000)), (0.25, 1.0));
        assert_eq!(PassSize::default().done(50, 50), 0.0, "not known");
    }

    #[test]
    fn a_pass_that_goes_on_counts_from_its_beginning() {
        let resumed =
            PassSize { n_bytes: 1000, skipped: 900, read_before: 7, ..Default::default() };
        assert_eq!(resumed.done(0, 57), 0.95);
        // 95 % took 190 s, over all processes.
        assert!((resumed.left(0.95, 190.0) - 10.0).abs() < 1e-9);
        let after_others = PassSize { begun: 0.5, ..resumed };
        assert!((after_others.left(0.75, 20.0) - 20.0).abs() < 1e-9, "others took their own time");
        assert_eq!(after_others.left(0.5, 20.0), 0.0, "not known");
    }
}
