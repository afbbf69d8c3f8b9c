//! Figures of quality over the samples of all trainers: their histograms and sums are added up in
//! the order of ranks, so that all trainers see the same bits.

use train::Scope;
use train::metrics::{Auc, Clicks, ScoredSamples, Sums};

use crate::error::{Error, Result};
use crate::lifecycle::Fleet;

/// The variables of a click-through model: two histograms and, in the order in which
/// `contrib.layers.ctr_metric_bundle` returns them, six sums.
#[derive(Clone, Copy, Debug)]
pub struct ClickVars<'a> {
    /// Positives and negatives by predicted value.
    pub histograms: [&'a str; 2],
    /// Squared errors, absolute errors, predictions, their sigmoids, labels, ones.
    pub sums: [&'a str; 6],
}

impl Fleet {
    /// The histograms of all trainers, added up: equal to those of one process that saw all
    /// samples.
    pub fn global_auc(&self, scope: &Scope, histograms: [&str; 2]) -> Result<Auc> {
        self.merged(scope, histograms, []).map(|(auc, _)| auc)
    }

    /// How good a click-through model is on the samples of all trainers.
    pub fn global_clicks(&self, scope: &Scope, vars: &ClickVars<'_>) -> Result<Clicks> {
        let (auc, sums) = self.merged(scope, vars.histograms, vars.sums)?;
        let [squared_error, absolute_error, predicted, q, clicks, n] = sums;
        let sums = Sums { squared_error, absolute_error, predicted, q, clicks, n };
        Ok(Clicks::new(&auc, &sums))
    }

    /// The samples of all trainers, in the order of ranks: figures of them are those of one process that saw
    /// all samples. 9 to 25 bytes of each sample go to every trainer.
    pub fn global_samples(&self, own: &ScoredSamples) -> Result<ScoredSamples> {
        if self.role().n_trainers == 1 && !self.trainer_job().recovers() {
            return Ok(own.clone());
        }
        let gathered = self.all_gather("samples", &mut || Ok(own.to_bytes()))?;
        let mut all = ScoredSamples::default();
        for (trainer, bytes) in gathered.iter().enumerate() {
            let samples = ScoredSamples::from_bytes(bytes);
            let samples = samples.ok_or(Error::UnevenReduction {
                trainer,
                expected: 0,
                actual: bytes.len(),
            })?;
            all.join(samples)?;
        }
        Ok(all)
    }

    /// Everything in one all-gather.
    fn merged<const N: usize>(
        &self,
        scope: &Scope,
        [positives, negatives]: [&str; 2],
        sums: [&str; N],
    ) -> Result<(Auc, [f64; N])> {
        let mut bring = || {
            let own = Auc::from_scope(scope, positives, negatives)?;
            let counts = [own.positives(), own.negatives()].concat();
            let mut numbers: Vec<f64> = counts.iter().map(|&count| count as f64).collect();
            for sum in sums {
                numbers.push(train::metrics::first_number(scope, sum)?);
            }
            Ok(numbers)
        };
        let all = self.all_reduce_with(&mut bring, "sum")?;
        let n_buckets = all.len().saturating_sub(N) / 2;
        let (counts, rest) = all.split_at(2 * n_buckets);
        // Whole numbers far below 2^53: nothing is rounded.
        let mut positives: Vec<u64> = counts.iter().map(|&count| count as u64).collect();
        let negatives = positives.split_off(n_buckets);
        let mut sums = [0.0; N];
        sums.copy_from_slice(rest);
        Ok((Auc::from_counts(positives, negatives)?, sums))
    }
}
