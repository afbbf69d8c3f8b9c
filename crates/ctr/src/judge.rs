//! How good predictions are.

use crate::error::{Error, Result};
use crate::target::CtrTarget;
use crate::words::Loss;

/// The area under the curve of true over false positives. Equal predictions share their places.
pub(crate) fn auc(target: &CtrTarget, predicted: &[f32], labels: &[f32]) -> Result<f64> {
    if target.loss == Loss::Squared {
        return Err(Error::NoAuc);
    }
    let n_clicks = labels.iter().filter(|&&label| label > 0.0).count() as u64;
    let n_others = labels.len() as u64 - n_clicks;
    if n_clicks == 0 || n_others == 0 {
        let value = target.classes[usize::from(n_clicks > 0)].clone();
        return Err(Error::OneClass { target: target.name.clone(), value });
    }
    let mut order: Vec<usize> = (0..predicted.len()).collect();
    order.sort_by(|&a, &b| predicted[a].total_cmp(&predicted[b]));
    // Twice the pairs in the right order, so that ties count as halves.
    let mut pairs = 0u128;
    let mut below = 0u64;
    let mut at = 0;
    while at < order.len() {
        let tie = order[at..].iter().take_while(|&&row| predicted[row] == predicted[order[at]]);
        let (mut clicks, mut others) = (0, 0);
        tie.for_each(|&row| if labels[row] > 0.0 { clicks += 1 } else { others += 1 });
        pairs += u128::from(clicks) * u128::from(2 * below + others);
        below += others;
        at += (clicks + others).max(1) as usize;
    }
    Ok(pairs as f64 / 2.0 / (n_clicks as f64 * n_others as f64))
}

/// The root of the mean squared error.
pub(crate) fn rmse(predicted: &[f32], labels: &[f32]) -> f64 {
    let errors = predicted.iter().zip(labels).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2));
    (errors.sum::<f64>() / labels.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> CtrTarget {
        let classes = vec!["0".to_string(), "1".to_string()];
        CtrTarget { name: "y".into(), loss: Loss::Log, classes }
    }

    #[test]
    fn ties_count_as_halves() {
        let labels = [0.0, 1.0, 0.0, 1.0];
        assert_eq!(auc(&target(), &[0.1, 0.9, 0.2, 0.8], &labels).unwrap(), 1.0);
        assert_eq!(auc(&target(), &[0.5; 4], &labels).unwrap(), 0.5);
        // Pairs (0.5, 0.1) and (0.3, 0.1) are right, (0.5, 0.5) is half, (0.3, 0.5) is wrong.
        assert_eq!(auc(&target(), &[0.1, 0.5, 0.5, 0.3], &labels).unwrap(), 2.5 / 4.0);
        let error = auc(&target(), &[0.5; 2], &[1.0; 2]).unwrap_err();
        assert!(matches!(error, Error::OneClass { .. }), "{error}");
    }

    #[test]
    fn errors_are_squared() {
        assert_eq!(rmse(&[1.0, 3.0], &[1.0, 1.0]), 2f64.sqrt());
    }
}
