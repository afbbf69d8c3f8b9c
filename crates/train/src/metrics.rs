//! Figures of quality, collected over batches outside of a program (`fluid.metrics`).

mod clicks;
mod quality;

pub use clicks::{Clicks, Sums};
pub use quality::{Quality, ScoredBatch, ScoredSamples};

use tensor::Tensor;

use crate::error::{Error, Result};
use crate::scope::Scope;

/// Looks at a tensor of a scope.
fn look<R>(scope: &Scope, name: &str, look: impl FnOnce(&Tensor) -> R) -> Result<R> {
    let found = scope.read(name, |value| value.tensor().map(look)).flatten();
    found.ok_or_else(|| Error::NotInScope { var: name.to_string() })
}

/// The first number of a variable.
pub fn first_number(scope: &Scope, name: &str) -> Result<f64> {
    let first = look(scope, name, |tensor| (!tensor.is_empty()).then(|| tensor.get_f64(0)))?;
    first.ok_or(Error::MetricLength { what: "a sum", expected: 1, found: 0 })
}

/// Sets a variable to zero, with the size and type that it has: a metric starts again.
pub fn set_zero(scope: &Scope, name: &str) -> Result<()> {
    let zeros = look(scope, name, |tensor| {
        let mut zeros = tensor.clone();
        zeros.bytes_mut().fill(0);
        zeros
    })?;
    scope.set(name, zeros);
    Ok(())
}

/// A weighted mean of numbers or of arrays of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeightedMean {
    sum: Vec<f64>,
    weight: f64,
}

impl WeightedMean {
    /// Adds values that count `weight` times. One value beside many stands for all of them.
    pub fn add(&mut self, values: &[f64], weight: f64) -> Result<()> {
        if self.sum.is_empty() || (self.sum.len() == 1 && values.len() > 1) {
            let first = self.sum.first().copied().unwrap_or(0.0);
            self.sum = vec![first; values.len()];
        }
        if values.len() != 1 && values.len() != self.sum.len() {
            let (expected, found) = (self.sum.len(), values.len());
            return Err(Error::MetricLength { what: "value", expected, found });
        }
        for (k, sum) in self.sum.iter_mut().enumerate() {
            *sum += values[if values.len() == 1 { 0 } else { k }] * weight;
        }
        self.weight += weight;
        Ok(())
    }

    /// Sums of value times weight, so far.
    pub fn sum(&self) -> &[f64] {
        &self.sum
    }

    /// The sum of the weights so far.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// The mean; `None` while the weights sum to 0.
    pub fn mean(&self) -> Option<Vec<f64>> {
        let divide = |sum: &f64| sum / self.weight;
        (self.weight != 0.0).then(|| self.sum.iter().map(divide).collect())
    }
}

/// Right and wrong answers of a classifier that says yes above one half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Said yes, and it was.
    pub true_positives: u64,
    /// Said yes, but it was not.
    pub false_positives: u64,
    /// Did not say yes, but it was.
    pub false_negatives: u64,
}

impl Answers {
    /// Counts one prediction per label. Halves round to even, as Fluid's do.
    pub fn update(&mut self, predictions: &[f64], labels: &[f64]) -> Result<()> {
        check_lengths(predictions.len(), labels.len())?;
        for (prediction, &label) in predictions.iter().zip(labels) {
            let said = prediction.round_ties_even();
            match (said == 1.0, label == 1.0) {
                (true, true) => self.true_positives += 1,
                (true, false) => self.false_positives += 1,
                (false, true) => self.false_negatives += 1,
                (false, false) => {}
            }
        }
        Ok(())
    }

    /// Precision: the share of correct ones among the predicted positives; 0 if there are none.
    pub fn precision(&self) -> f64 {
        ratio(self.true_positives, self.true_positives + self.false_positives)
    }

    /// Recall: the share of predicted ones among the real positives; 0 if there are none.
    pub fn recall(&self) -> f64 {
        ratio(self.true_positives, self.true_positives + self.false_negatives)
    }
}

fn check_lengths(predictions: usize, labels: usize) -> Result<()> {
    if predictions >= labels {
        return Ok(());
    }
    Err(Error::MetricLength { what: "preds", expected: labels, found: predictions })
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The area under the curve of true over false positives, from histograms of the predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Auc {
    positives: Vec<u64>,
    negatives: Vec<u64>,
}

impl Auc {
    /// Histograms of `n_thresholds + 1` buckets.
    pub fn new(n_thresholds: usize) -> Self {
        let empty = vec![0; n_thresholds + 1];
        Self { positives: empty.clone(), negatives: empty }
    }

    /// Histograms that were made elsewhere.
    pub fn from_counts(positives: Vec<u64>, negatives: Vec<u64>) -> Result<Self> {
        match (positives.len(), negatives.len()) {
            (0, _) => Err(Error::MetricLength { what: "a histogram", expected: 1, found: 0 }),
            (expected, found) if expected != found => {
                Err(Error::MetricLength { what: "the histogram of negatives", expected, found })
            }
            _ => Ok(Self { positives, negatives }),
        }
    }

    /// The histograms that an `auc` op keeps in these variables. Where it keeps several batches, a
    /// row each, they are added up.
    pub fn from_scope(scope: &Scope, positives: &str, negatives: &str) -> Result<Self> {
        let counts = |name| {
            look(scope, name, |tensor| {
                let mut counts = vec![0; tensor.dims().last().copied().unwrap_or(0)];
                for at in 0..tensor.len() {
                    let bucket = at % counts.len();
                    counts[bucket] += tensor.get_f64(at) as u64;
                }
                counts
            })
        };
        Self::from_counts(counts(positives)?, counts(negatives)?)
    }

    /// The counts since `before`.
    pub(crate) fn since(&self, before: &Auc) -> Self {
        let counted = |now: &[u64], before: &[u64]| {
            let before = before.iter().copied().chain(std::iter::repeat(0));
            now.iter().zip(before).map(|(&now, before)| now.saturating_sub(before)).collect()
        };
        Self {
            positives: counted(&self.positives, &before.positives),
            negatives: counted(&self.negatives, &before.negatives),
        }
    }

    /// How many samples were counted.
    pub fn n_samples(&self) -> u64 {
        self.positives.iter().chain(&self.negatives).sum()
    }

    /// The area; one half, which is what guessing reaches, while one of the classes is absent.
    pub fn area_or_half(&self) -> f64 {
        let is_absent = |histogram: &[u64]| histogram.iter().all(|&count| count == 0);
        if is_absent(&self.positives) || is_absent(&self.negatives) { 0.5 } else { self.area() }
    }

    /// Counts one probability per label; a label of 0 is a negative.
    pub fn update(&mut self, probabilities: &[f64], labels: &[f64]) -> Result<()> {
        check_lengths(probabilities.len(), labels.len())?;
        for &value in &probabilities[..labels.len()] {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::NotAProbability { what: "preds", value });
            }
        }
        let n_thresholds = (self.positives.len() - 1) as f64;
        for (probability, &label) in probabilities.iter().zip(labels) {
            let bucket = (probability * n_thresholds) as usize;
            let histogram = if label == 0.0 { &mut self.negatives } else { &mut self.positives };
            histogram[bucket] += 1;
        }
        Ok(())
    }

    /// How many positives fell into each bucket.
    pub fn positives(&self) -> &[u64] {
        &self.positives
    }

    /// How many negatives fell into each bucket.
    pub fn negatives(&self) -> &[u64] {
        &self.negatives
    }

    /// The area, by trapezoids; 0 while one of the classes is absent.
    pub fn area(&self) -> f64 {
        let mut tp = 0.0;
        let mut tn = 0.0;
        let mut area = 0.0;
        for (&positives, &negatives) in self.positives.iter().zip(&self.negatives).rev() {
            let before = tp;
            tp += positives as f64;
            tn += negatives as f64;
            area += negatives as f64 * (tp + before) / 2.0;
        }
        if tp > 0.0 && tn > 0.0 { area / tp / tn } else { 0.0 }
    }
}

/// Precision, recall and F1 of chunks, from their counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chunks {
    /// Chunks that were predicted.
    pub inferred: f64,
    /// Chunks that the labels have.
    pub labelled: f64,
    /// Chunks that are both.
    pub correct: f64,
}

impl Chunks {
    /// Adds the counts of a batch.
    pub fn update(&mut self, inferred: f64, labelled: f64, correct: f64) {
        self.inferred += inferred;
        self.labelled += labelled;
        self.correct += correct;
    }

    /// Each 0 where it has no meaning.
    pub fn scores(&self) -> ChunkScores {
        let precision = if self.inferred == 0.0 { 0.0 } else { self.correct / self.inferred };
        let recall = if self.labelled == 0.0 { 0.0 } else { self.correct / self.labelled };
        let f1 =
            if self.correct == 0.0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) };
        ChunkScores { precision, recall, f1 }
    }
}

/// How good the chunks are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChunkScores {
    /// The share of inferred chunks that are correct.
    pub precision: f64,
    /// The share of labelled chunks that were found.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

/// The mean edit distance, and how many sequences had one at all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EditDistances {
    /// The sum of the distances.
    pub total: f64,
    /// How many sequences there were.
    pub sequences: f64,
    /// How many of them were not right.
    pub wrong: f64,
}

impl EditDistances {
    /// Adds the distances of `sequences` sequences.
    pub fn update(&mut self, distances: &[f64], sequences: f64) {
        let right = distances.iter().filter(|&&distance| distance == 0.0).count();
        self.total += distances.iter().sum::<f64>();
        self.sequences += sequences;
        self.wrong += sequences - right as f64;
    }

    /// None without sequences.
    pub fn scores(&self) -> Option<EditScores> {
        (self.sequences != 0.0).then(|| EditScores {
            mean: self.total / self.sequences,
            wrong: self.wrong / self.sequences,
        })
    }
}

/// How far sequences are from right ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EditScores {
    /// The mean distance.
    pub mean: f64,
    /// The share of sequences that were not right.
    pub wrong: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_weigh() {
        let mut mean = WeightedMean::default();
        assert_eq!(mean.mean(), None);
        mean.add(&[2.0], 3.0).unwrap();
        mean.add(&[4.0], 1.0).unwrap();
        assert_eq!(mean.mean(), Some(vec![2.5]));
    }

    #[test]
    fn means_of_arrays_are_arrays() {
        let mut mean = WeightedMean::default();
        mean.add(&[1.0, 2.0], 1.0).unwrap();
        mean.add(&[3.0, 4.0], 3.0).unwrap();
        assert_eq!(mean.mean(), Some(vec![2.5, 3.5]));
        assert!(matches!(mean.add(&[1.0; 3], 1.0), Err(Error::MetricLength { .. })));
    }

    #[test]
    fn answers_are_counted() {
        let mut answers = Answers::default();
        answers.update(&[0.9, 0.2, 0.8], &[1.0, 1.0, 0.0]).unwrap();
        assert_eq!((answers.precision(), answers.recall()), (0.5, 0.5));
        assert_eq!(answers.false_negatives, 1);
        assert!(answers.update(&[0.1], &[1.0, 1.0]).is_err());
    }

    /// The vectors of the specification, section 8.
    #[test]
    fn areas_are_those_of_the_specification() {
        let area = |probabilities: &[f64], labels: &[f64]| {
            let mut auc = Auc::new(4095);
            auc.update(probabilities, labels).unwrap();
            auc.area()
        };
        assert_eq!(area(&[0.1, 0.4, 0.35, 0.8], &[0.0, 0.0, 1.0, 1.0]), 0.75);
        assert_eq!(area(&[0.5, 0.5, 0.5, 0.9], &[0.0, 1.0, 1.0, 1.0]), 2.0 / 3.0);
        assert_eq!(area(&[0.5, 1.0], &[1.0, 1.0]), 0.0);
    }

    #[test]
    fn histograms_come_from_a_scope_and_go_back_to_zero() {
        let scope = Scope::new();
        scope.set("pos", Tensor::new([2, 2], &[1i64, 0, 0, 3]).unwrap());
        scope.set("neg", Tensor::new([1, 2], &[4i64, 0]).unwrap());
        let auc = Auc::from_scope(&scope, "pos", "neg").unwrap();
        assert_eq!(
            (auc.positives(), auc.negatives(), auc.n_samples()),
            (&[1, 3][..], &[4, 0][..], 8)
        );
        set_zero(&scope, "pos").unwrap();
        let auc = Auc::from_scope(&scope, "pos", "neg").unwrap();
        assert_eq!((auc.n_samples(), auc.area(), auc.area_or_half()), (4, 0.0, 0.5));
        let missing = Auc::from_scope(&scope, "pos", "x").unwrap_err();
        assert!(matches!(&missing, Error::NotInScope { var } if var == "x"), "{missing}");
        scope.set("x", Tensor::new([3], &[1i64, 0, 0]).unwrap());
        let uneven = Auc::from_scope(&scope, "pos", "x").unwrap_err();
        assert!(matches!(uneven, Error::MetricLength { expected: 2, found: 3, .. }), "{uneven}");
    }

    #[test]
    fn only_probabilities_have_an_area() {
        for value in [1.5, -0.1, f64::NAN] {
            let mut auc = Auc::new(10);
            assert!(auc.update(&[0.5, value], &[1.0, 1.0]).is_err());
            assert_eq!(auc, Auc::new(10), "nothing was counted");
        }
    }

    #[test]
    fn chunks_and_distances_have_scores() {
        let mut chunks = Chunks::default();
        assert_eq!(chunks.scores(), ChunkScores::default());
        chunks.update(10.0, 8.0, 6.0);
        let ChunkScores { precision, recall, f1 } = chunks.scores();
        assert_eq!((precision, recall), (0.6, 0.75));
        assert!((f1 - 2.0 / 3.0).abs() < 1e-12);

        let mut distances = EditDistances::default();
        assert_eq!(distances.scores(), None);
        distances.update(&[1.0, 0.0, 2.0], 3.0);
        assert_eq!(distances.scores(), Some(EditScores { mean: 1.0, wrong: 2.0 / 3.0 }));
    }
}
