//! How much a pass has to read, so that it can be told how much is left.

use count::Phase;
use data::{Dataset, DatasetKind};

use crate::counters::TRAINER;

/// How much a pass has to read. Zero: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PassSize {
    n_samples: u64,
    n_bytes: u64,
    /// What this process had read of any file before.
    read_before: u64,
}

impl PassSize {
    /// Of a pass over this dataset that begins now.
    pub(super) fn of(dataset: &Dataset) -> Self {
        let size = |file: &String| std::fs::metadata(file).map_or(0, |about| about.len());
        match dataset.kind() {
            DatasetKind::InMemory => {
                let n_samples = dataset.n_rows(None).unwrap_or(0);
                Self { n_samples, ..Self::default() }
            }
            DatasetKind::Queue => Self {
                n_samples: 0,
                n_bytes: dataset.settings().files.iter().map(size).sum(),
                read_before: data::read_bytes(),
            },
        }
    }

    /// The share that is done, from 0 to 1; 0 if that is not known.
    fn done(&self, n_samples: u64, n_read: u64) -> f64 {
        let n_read = n_read.saturating_sub(self.read_before);
        let share =
            |n: u64, all: u64| if all == 0 { 0.0 } else { (n as f64 / all as f64).min(1.0) };
        share(n_samples, self.n_samples).max(share(n_read, self.n_bytes))
    }

    /// Tells who watches the job how far the pass is.
    pub(super) fn tell(&self, progress: &super::Progress, phase: &Phase) {
        let done = self.done(progress.n_samples, data::read_bytes());
        TRAINER.pass_done.set(done);
        phase.set_share(done);
        phase.set(progress.n_samples);
        TRAINER.pass_seconds.set(progress.elapsed.as_secs_f64());
    }
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
}
