//! Figures of a click-through model, from the histograms and sums that its program collects.

use super::Auc;

/// Buckets are merged as long as they are not further apart.
const SPAN_MAX: f64 = 0.01;
/// A span has enough samples when chance alone would move its rate by less than this part of it.
const CHANCE_MAX: f64 = 0.05;

/// Sums over samples: what `contrib.layers.ctr_metric_bundle` collects.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Of squared errors.
    pub squared_error: f64,
    /// Of absolute errors.
    pub absolute_error: f64,
    /// Of predictions.
    pub predicted: f64,
    /// Of sigmoids of the predictions.
    pub q: f64,
    /// Of labels.
    pub clicks: f64,
    /// Of ones.
    pub n: f64,
}

/// How good a click-through model is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clicks {
    /// The area under the ROC curve; one half while one of the classes is absent.
    pub auc: f64,
    /// How far predictions are from what was clicked, part of it, where there are enough samples.
    pub bucket_error: f64,
    /// The mean absolute error.
    pub mae: f64,
    /// The root of the mean squared error.
    pub rmse: f64,
    /// The share of samples that were clicked.
    pub actual_ctr: f64,
    /// The share that was predicted.
    pub predicted_ctr: f64,
    /// Clicks over predicted clicks; 0 if hardly any were predicted.
    pub copc: f64,
    /// The mean of the sigmoids of the predictions.
    pub mean_q: f64,
    /// How many samples there are.
    pub n: f64,
}

impl Clicks {
    /// From histograms and sums over the same samples.
    pub fn new(auc: &Auc, sums: &Sums) -> Self {
        let (actual_ctr, predicted_ctr) = (sums.clicks / sums.n, sums.predicted / sums.n);
        Self {
            auc: auc.area_or_half(),
            bucket_error: bucket_error(auc),
            mae: sums.absolute_error / sums.n,
            rmse: (sums.squared_error / sums.n).sqrt(),
            actual_ctr,
            predicted_ctr,
            copc: if predicted_ctr > 1e-6 { actual_ctr / predicted_ctr } else { 0.0 },
            mean_q: sums.q / sums.n,
            n: sums.n,
        }
    }
}

/// Neighbouring buckets, as many as it takes to say something of them.
#[derive(Default)]
struct Span {
    n: f64,
    clicks: f64,
    predicted: f64,
}

/// Walks up the buckets and compares, span by span, the rate that was predicted with the rate of
/// clicks; the mean of their relative differences, by samples.
fn bucket_error(auc: &Auc) -> f64 {
    let n_buckets = auc.positives().len() as f64;
    let (mut error, mut counted) = (0.0, 0.0);
    let (mut span, mut begin): (Span, Option<f64>) = (Span::default(), None);
    for (at, (&clicks, &others)) in auc.positives().iter().zip(auc.negatives()).enumerate() {
        let rate = at as f64 / n_buckets;
        if begin.is_none_or(|begin| (rate - begin).abs() > SPAN_MAX) {
            (span, begin) = (Span::default(), Some(rate));
        }
        let n = (clicks + others) as f64;
        span.n += n;
        span.clicks += clicks as f64;
        span.predicted += rate * n;
        let predicted = span.predicted / span.n;
        // For an empty span this is not a number.
        if predicted > 0.0 && ((1.0 - predicted) / (predicted * span.n)).sqrt() < CHANCE_MAX {
            error += (span.clicks / span.n / predicted - 1.0).abs() * span.n;
            counted += span.n;
            begin = None;
        }
    }
    if counted > 0.0 { error / counted } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_means_of_the_sums() {
        let mut auc = Auc::new(100);
        auc.update(&[0.2, 0.6], &[0.0, 1.0]).unwrap();
        let sums = Sums {
            squared_error: 0.2,
            absolute_error: 0.6,
            predicted: 0.8,
            q: 1.2,
            clicks: 1.0,
            n: 2.0,
        };
        let found = Clicks::new(&auc, &sums);
        assert_eq!((found.auc, found.mae, found.actual_ctr), (1.0, 0.3, 0.5));
        assert_eq!((found.predicted_ctr, found.copc), (0.4, 1.25));
        assert_eq!((found.rmse, found.mean_q, found.n), (0.1f64.sqrt(), 0.6, 2.0));
        assert_eq!(found.bucket_error, 0.0, "two samples say nothing");
        assert_eq!(Clicks::new(&auc, &Sums { predicted: 0.0, ..sums }).copc, 0.0);
        assert_eq!(Clicks::new(&Auc::new(9), &sums).auc, 0.5);
    }

    /// 10,000 samples in one bucket: by chance their rate is off by sqrt(0.5 / (0.5 * 10,000)) = 0.01.
    #[test]
    fn a_bucket_error_is_that_of_full_buckets() {
        let (mut positives, mut negatives) = (vec![0; 4], vec![0; 4]);
        (positives[2], negatives[2]) = (6_000, 4_000);
        (positives[3], negatives[3]) = (1, 1);
        let auc = Auc::from_counts(positives, negatives).unwrap();
        assert!((bucket_error(&auc) - 0.2).abs() < 1e-12, "0.6 instead of 0.5");
    }
}
