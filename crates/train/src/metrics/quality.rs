//! Figures of quality of a click-through model from its samples: exact, without histograms.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// Predictions are kept this far from 0 and 1 where their logarithm is taken.
const LOG_MIN: f64 = 1e-15;

/// Predictions of samples with their labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoredSamples {
    predictions: Vec<f64>,
    labels: Vec<bool>,
    /// The user of each sample; empty if unknown.
    users: Vec<i64>,
    /// Which slice each sample belongs to; empty if that is not said.
    slices: Vec<i64>,
}

/// One more batch of samples.
#[derive(Clone, Copy, Debug)]
pub struct ScoredBatch<'a> {
    /// Probabilities.
    pub predictions: &'a [f64],
    /// 1 for a click, 0 for none.
    pub labels: &'a [f64],
    /// The user of each sample.
    pub users: Option<&'a [i64]>,
    /// Which slice each sample belongs to.
    pub slices: Option<&'a [i64]>,
}

/// How good predictions are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Samples.
    pub n: u64,
    /// Samples that were clicked.
    pub clicks: u64,
    /// The sum of the predictions.
    pub predicted: f64,
    /// The area under the ROC curve: how often a click has a greater prediction than none, a tie counting
    /// half. `None` while one of the classes is absent.
    pub auc: Option<f64>,
    /// The mean of the areas of all users that have both classes, each weighted by its samples. `None`
    /// without such a user.
    pub gauc: Option<f64>,
    /// How many users have both classes.
    pub n_users: u64,
    /// The mean of the negative logarithms of what was predicted for what happened.
    pub log_loss: f64,
    /// The log loss over that of predicting the mean for all: below 1 is better than the mean. `None`
    /// while one of the classes is absent.
    pub normalised_entropy: Option<f64>,
    /// Predicted clicks over observed clicks. `None` without a click.
    pub pcoc: Option<f64>,
}

/// One sample.
#[derive(Clone, Copy, Debug)]
struct ScoredSample {
    prediction: f64,
    is_click: bool,
    user: i64,
}

impl ScoredSamples {
    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.predictions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.predictions.is_empty()
    }

    /// Adds a batch, whole or not at all. Users and slices are given for all batches or for none.
    pub fn add(&mut self, batch: &ScoredBatch<'_>) -> Result<()> {
        let n = batch.predictions.len();
        let check = |what: &'static str, found: usize| {
            if found == n { Ok(()) } else { Err(Error::MetricLength { what, expected: n, found }) }
        };
        check("labels", batch.labels.len())?;
        check("users", batch.users.map_or(n, <[i64]>::len))?;
        check("slices", batch.slices.map_or(n, <[i64]>::len))?;
        let before = |known: &[i64], given: Option<&[i64]>, what: &'static str| {
            let is_known = known.len() == self.len();
            if is_known == given.is_some() || self.is_empty() {
                Ok(())
            } else {
                Err(Error::MetricLength { what, expected: self.len() + n, found: known.len() })
            }
        };
        before(&self.users, batch.users, "users of all batches")?;
        before(&self.slices, batch.slices, "slices of all batches")?;
        let in_range = |value: &&f64| (0.0..=1.0).contains(*value);
        if let Some(&value) = batch.predictions.iter().find(|value| !in_range(value)) {
            return Err(Error::NotAProbability { what: "preds", value });
        }
        if let Some(&value) = batch.labels.iter().find(|&&value| value != 0.0 && value != 1.0) {
            return Err(Error::NotALabel { value });
        }
        self.predictions.extend(batch.predictions);
        self.labels.extend(batch.labels.iter().map(|&label| label == 1.0));
        self.users.extend(batch.users.unwrap_or_default());
        self.slices.extend(batch.slices.unwrap_or_default());
        Ok(())
    }

    /// Adds the samples of another trainer.
    pub fn join(&mut self, other: Self) -> Result<()> {
        let labels: Vec<f64> =
            other.labels.iter().map(|&label| f64::from(u8::from(label))).collect();
        let given = |list: &'_ [i64]| !list.is_empty();
        if other.is_empty() {
            return Ok(());
        }
        self.add(&ScoredBatch {
            predictions: &other.predictions,
            labels: &labels,
            users: given(&other.users).then_some(&other.users[..]),
            slices: given(&other.slices).then_some(&other.slices[..]),
        })
    }

    /// How good all predictions are.
    pub fn quality(&self) -> Quality {
        quality_of((0..self.len()).map(|at| self.sample(at)).collect(), !self.users.is_empty())
    }

    /// How good the predictions of each slice are.
    pub fn by_slice(&self) -> BTreeMap<i64, Quality> {
        let mut slices: BTreeMap<i64, Vec<ScoredSample>> = BTreeMap::new();
        for (at, &slice) in self.slices.iter().enumerate() {
            slices.entry(slice).or_default().push(self.sample(at));
        }
        let has_users = !self.users.is_empty();
        slices.into_iter().map(|(slice, samples)| (slice, quality_of(samples, has_users))).collect()
    }

    fn sample(&self, at: usize) -> ScoredSample {
        let user = self.users.get(at).copied().unwrap_or(0);
        ScoredSample { prediction: self.predictions[at], is_click: self.labels[at], user }
    }

    /// All of it as bytes, for the other trainers.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = (self.len() as u64).to_le_bytes().to_vec();
        bytes.push(u8::from(!self.users.is_empty()) | u8::from(!self.slices.is_empty()) << 1);
        bytes.extend(self.predictions.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(self.labels.iter().map(|&label| u8::from(label)));
        bytes.extend(self.users.iter().chain(&self.slices).flat_map(|id| id.to_le_bytes()));
        bytes
    }

    /// Reads the bytes of [`ScoredSamples::to_bytes`]. `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(9)?;
        let n = usize::try_from(u64::from_le_bytes(head[..8].try_into().ok()?)).ok()?;
        let flags = head[8];
        let (predictions, rest) = rest.split_at_checked(n.checked_mul(8)?)?;
        let (labels, mut rest) = rest.split_at_checked(n)?;
        let mut ids = |is_there: bool| {
            let n_bytes = if is_there { n.checked_mul(8)? } else { 0 };
            let (ids, after) = rest.split_at_checked(n_bytes)?;
            rest = after;
            let id = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            Some(ids.chunks_exact(8).map(id).collect::<Vec<i64>>())
        };
        let (users, slices) = (ids(flags & 1 != 0)?, ids(flags & 2 != 0)?);
        let number = |bytes: &[u8]| Some(f64::from_le_bytes(bytes.try_into().ok()?));
        let predictions = predictions.chunks_exact(8).filter_map(number).collect();
        let labels = labels.iter().map(|&label| label != 0).collect();
        rest.is_empty().then_some(Self { predictions, labels, users, slices })
    }
}

/// All figures. Samples are sorted, so that sums do not depend on how trainers divided them.
fn quality_of(mut samples: Vec<ScoredSample>, has_users: bool) -> Quality {
    let order = |a: &ScoredSample, b: &ScoredSample| {
        a.prediction.total_cmp(&b.prediction).then(a.is_click.cmp(&b.is_click))
    };
    samples.sort_by(order);
    let n = samples.len() as u64;
    let clicks = samples.iter().filter(|sample| sample.is_click).count() as u64;
    let predicted = samples.iter().map(|sample| sample.prediction).sum();
    let loss = |sample: &ScoredSample| {
        let right = if sample.is_click { sample.prediction } else { 1.0 - sample.prediction };
        -right.max(LOG_MIN).ln()
    };
    let total: f64 = samples.iter().map(loss).sum();
    let log_loss = if n == 0 { 0.0 } else { total / n as f64 };
    let rate = clicks as f64 / n.max(1) as f64;
    let entropy = -(rate * rate.ln() + (1.0 - rate) * (1.0 - rate).ln());
    let auc = area(&samples);
    let groups = if has_users { by_user(samples) } else { UserSums::default() };
    Quality {
        n,
        clicks,
        predicted,
        auc,
        gauc: (groups.n_users > 0).then(|| groups.sum / groups.n_samples as f64),
        n_users: groups.n_users,
        log_loss,
        normalised_entropy: (clicks > 0 && clicks < n).then(|| log_loss / entropy),
        pcoc: (clicks > 0).then(|| predicted / clicks as f64),
    }
}

/// The area under the ROC curve of samples in order of their predictions. Pairs are counted in whole
/// numbers: nothing is rounded before the last division.
fn area(samples: &[ScoredSample]) -> Option<f64> {
    let mut negatives = 0u128;
    let mut positives = 0u128;
    let mut halves = 0u128;
    for ties in samples.chunk_by(|a, b| a.prediction == b.prediction) {
        let clicks = ties.iter().filter(|sample| sample.is_click).count() as u128;
        let others = ties.len() as u128 - clicks;
        halves += clicks * (2 * negatives + others);
        positives += clicks;
        negatives += others;
    }
    let pairs = positives * negatives;
    (pairs > 0).then(|| halves as f64 / (2 * pairs) as f64)
}

/// Sums over users that have both classes.
#[derive(Debug, Default)]
struct UserSums {
    /// Of area times samples.
    sum: f64,
    n_samples: u64,
    n_users: u64,
}

fn by_user(mut samples: Vec<ScoredSample>) -> UserSums {
    // Stable: the samples of a user stay in order of their predictions.
    samples.sort_by_key(|sample| sample.user);
    let mut groups = UserSums::default();
    for of_user in samples.chunk_by(|a, b| a.user == b.user) {
        let Some(area) = area(of_user) else { continue };
        groups.sum += area * of_user.len() as f64;
        groups.n_samples += of_user.len() as u64;
        groups.n_users += 1;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, always the same.
    fn samples(n: u64) -> ScoredSamples {
        let mut samples = ScoredSamples::default();
        for at in 0..n {
            let word = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at << 7;
            // Few values: there are ties.
            let prediction = (word >> 40) as f64 % 17.0 / 16.0;
            let label = f64::from(u8::from((word >> 20) % 3 == 0));
            let (user, slice) = ((word >> 30) as i64 % 23, (word >> 50) as i64 % 2);
            samples
                .add(&ScoredBatch {
                    predictions: &[prediction],
                    labels: &[label],
                    users: Some(&[user]),
                    slices: Some(&[slice]),
                })
                .unwrap();
        }
        samples
    }

    /// All pairs, one by one.
    fn slow_area(samples: &ScoredSamples, keep: impl Fn(usize) -> bool) -> Option<f64> {
        let (mut won, mut n) = (0.0, 0.0);
        for a in (0..samples.len()).filter(|&at| keep(at) && samples.labels[at]) {
            for b in (0..samples.len()).filter(|&at| keep(at) && !samples.labels[at]) {
                let (high, low) = (samples.predictions[a], samples.predictions[b]);
                won += if high > low { 1.0 } else { 0.0 } + if high == low { 0.5 } else { 0.0 };
                n += 1.0;
            }
        }
        (n > 0.0).then(|| won / n)
    }

    #[test]
    fn figures_are_those_of_counting_all_pairs() {
        let samples = samples(500);
        let quality = samples.quality();
        assert_eq!(quality.auc, slow_area(&samples, |_| true));
        let mut sum = 0.0;
        let mut n = 0.0;
        let mut n_users = 0;
        for user in 0..23 {
            let of_user = |at: usize| samples.users[at] == user;
            let Some(area) = slow_area(&samples, of_user) else { continue };
            let count = (0..samples.len()).filter(|&at| of_user(at)).count() as f64;
            (sum, n, n_users) = (sum + area * count, n + count, n_users + 1);
        }
        assert!(n_users > 10);
        assert_eq!(quality.n_users, n_users);
        assert!((quality.gauc.unwrap() - sum / n).abs() < 1e-12);
        let clicks = samples.labels.iter().filter(|&&label| label).count() as f64;
        let predicted: f64 = samples.predictions.iter().sum();
        assert!((quality.pcoc.unwrap() - predicted / clicks).abs() < 1e-12);
        let losses = samples.predictions.iter().zip(&samples.labels).map(|(&p, &label)| {
            let right: f64 = if label { p } else { 1.0 - p };
            -right.max(LOG_MIN).ln()
        });
        let loss = losses.sum::<f64>() / 500.0;
        let rate = clicks / 500.0;
        let entropy = -(rate * rate.ln() + (1.0 - rate) * (1.0 - rate).ln());
        assert!((quality.log_loss - loss).abs() < 1e-12);
        assert!((quality.normalised_entropy.unwrap() - loss / entropy).abs() < 1e-12);
        let slices = samples.by_slice();
        assert_eq!(slices.values().map(|slice| slice.n).sum::<u64>(), 500);
        let first = slow_area(&samples, |at| samples.slices[at] == 0);
        assert_eq!(slices[&0].auc, first);
    }

    #[test]
    fn it_does_not_matter_who_has_which_sample() {
        let whole = samples(300);
        let bytes = whole.to_bytes();
        assert_eq!(ScoredSamples::from_bytes(&bytes), Some(whole.clone()));
        let (mut odd, mut even) = (ScoredSamples::default(), ScoredSamples::default());
        for at in 0..whole.len() {
            let part = if at % 2 == 0 { &mut even } else { &mut odd };
            let batch = ScoredBatch {
                predictions: &whole.predictions[at..=at],
                labels: &[f64::from(u8::from(whole.labels[at]))],
                users: Some(&whole.users[at..=at]),
                slices: Some(&whole.slices[at..=at]),
            };
            part.add(&batch).unwrap();
        }
        odd.join(even).unwrap();
        assert_eq!(odd.quality(), whole.quality());
        assert_eq!(odd.by_slice(), whole.by_slice());
    }

    #[test]
    fn one_class_has_no_area() {
        let mut samples = ScoredSamples::default();
        assert_eq!(samples.quality(), Quality::default());
        let batch = ScoredBatch {
            predictions: &[0.5, 1.0],
            labels: &[1.0, 1.0],
            users: None,
            slices: None,
        };
        samples.add(&batch).unwrap();
        let quality = samples.quality();
        assert_eq!((quality.auc, quality.gauc, quality.normalised_entropy), (None, None, None));
        assert_eq!(quality.pcoc, Some(0.75));
    }

    #[test]
    fn wrong_samples_are_refused_and_nothing_is_added() {
        let mut samples = samples(10);
        let before = samples.clone();
        let batch = ScoredBatch {
            predictions: &[0.5, 0.5],
            labels: &[1.0, 0.0],
            users: Some(&[1, 2]),
            slices: Some(&[1, 2]),
        };
        let wrong = [
            ScoredBatch { labels: &[1.0], ..batch },
            ScoredBatch { users: Some(&[1]), ..batch },
            ScoredBatch { users: None, ..batch },
            ScoredBatch { slices: None, ..batch },
            ScoredBatch { predictions: &[0.5, f64::NAN], ..batch },
            ScoredBatch { predictions: &[0.5, 1.5], ..batch },
            ScoredBatch { labels: &[1.0, 2.0], ..batch },
        ];
        for batch in wrong {
            assert!(samples.add(&batch).is_err(), "{batch:?}");
        }
        assert_eq!(samples, before);
        assert_eq!(ScoredSamples::from_bytes(&[1, 2]), None);
        assert_eq!(ScoredSamples::from_bytes(&[255; 9]), None);
    }
}
