//! How far a pass has come.

use std::time::Duration;

use super::values::PassValue;
use super::worker::ThreadDone;
use crate::remote::Staleness;

/// How far a pass has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Batches of all threads so far.
    pub n_batches: u64,
    /// Samples of all threads so far.
    pub n_samples: u64,
    /// Since the pass began.
    pub elapsed: Duration,
    /// How long threads waited for data, all together.
    pub waited: Duration,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        let rate = self.n_samples as f64 / seconds.max(1e-9);
        let (batches, samples) = (self.n_batches, self.n_samples);
        write!(f, "{samples} samples in {batches} batches, {seconds:.0} s, {rate:.0} samples/s, ")?;
        write!(f, "waited {:.1} s for data", self.waited.as_secs_f64())
    }
}

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Batches of all threads.
    pub n_batches: u64,
    /// Samples of all threads.
    pub n_samples: u64,
    /// From the first thread's start to the last one's end.
    pub seconds: f64,
    /// How long each thread waited for data, in seconds.
    pub waited: Vec<f64>,
    /// The fetched values over all samples of the pass. A pass that trains leaves out values with a row for
    /// each sample, and has none of these at all if it continued where a process had died.
    pub fetched: Vec<PassValue>,
    /// The area under the ROC curve of the samples of this pass, counted from zero, if the program has an
    /// `auc` op; of the first of them. Not known if the pass continued where a process had died.
    pub auc: Option<f64>,
    /// How old parameters were, if gradients are sent in the background.
    pub staleness: Option<Staleness>,
    /// An earlier process of this trainer ran this pass and called its observer.
    pub is_past: bool,
}

impl Report {
    pub(super) fn add(&mut self, done: ThreadDone) {
        self.n_batches += done.n_batches;
        self.n_samples += done.n_samples;
        self.waited.push(done.waited.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_one_line() {
        let elapsed = Duration::from_secs(2);
        let waited = Duration::from_millis(500);
        let progress = Progress { n_batches: 10, n_samples: 1000, elapsed, waited };
        let text = "1000 samples in 10 batches, 2 s, 500 samples/s, waited 0.5 s for data";
        assert_eq!(progress.to_string(), text);
    }
}
