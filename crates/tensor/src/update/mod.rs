//! Update rules: how a gradient changes a parameter. One rule per file.
//!
//! A rule is its constants; [`Rule::update`] works on a whole tensor or on one row of a table, so
//! that optimizer ops and server tables share one truth. Loops run over zipped slices of equal
//! length and vectorise.

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod decayed_adagrad;
mod dpsgd;
mod ftrl;
mod lamb;
mod lars_momentum;
mod momentum;
mod rmsprop;
mod sgd;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adamax::Adamax;
pub use decayed_adagrad::DecayedAdagrad;
pub use dpsgd::Dpsgd;
pub use ftrl::Ftrl;
pub use lamb::Lamb;
pub use lars_momentum::LarsMomentum;
pub use momentum::Momentum;
pub use rmsprop::{CenteredRmsProp, RmsProp};
pub use sgd::Sgd;

use crate::Float;

/// A rule that keeps `N` numbers of state beside each weight.
pub trait Rule<T: Float, const N: usize> {
    /// Changes weights and state by one gradient. All slices are of one length; the order of the
    /// state is the rule's own.
    fn update(&self, param: &mut [T], state: [&mut [T]; N], grad: &[T]);
}

/// Unequal lengths are a bug of the caller, and zipping would hide it.
fn check_lengths<T, const N: usize>(param: &[T], state: &[&mut [T]; N], grad: &[T]) {
    assert_eq!(param.len(), grad.len(), "a gradient for each weight");
    assert!(state.iter().all(|state| state.len() == param.len()), "state for each weight");
}

/// The Euclidean norm: summed in `f64` over eight lanes, always in the same order.
fn norm<T: Float>(values: &[T]) -> T {
    let mut lanes = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value.f64() * value.f64();
        }
    }
    let rest: f64 = rest.iter().map(|value| value.f64() * value.f64()).sum();
    T::of((lanes.iter().sum::<f64>() + rest).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies a rule twice, to weights 1 and -2, and compares with hand numbers.
    #[track_caller]
    pub(super) fn check<const N: usize>(
        rule: &impl Rule<f64, N>,
        grads: [f64; 2],
        expected: [f64; 2],
        expected_state: [f64; N],
    ) {
        let (mut param, mut state) = ([1.0, -2.0], [[0.0; 2]; N]);
        for grad in grads {
            rule.update(&mut param, state.each_mut().map(|s| &mut s[..]), &[grad, grad]);
        }
        near("param", &param, &expected);
        near("state", &state.map(|s| s[0]), &expected_state);
    }

    #[track_caller]
    pub(super) fn near(what: &str, actual: &[f64], expected: &[f64]) {
        let apart = |(a, e): (&f64, &f64)| (a - e).abs() > 1e-9 * e.abs().max(1.0);
        assert_eq!(actual.len(), expected.len());
        assert!(!actual.iter().zip(expected).any(apart), "{what}: {actual:?}, not {expected:?}");
    }

    #[test]
    fn a_norm_counts_every_element() {
        assert_eq!(norm(&[3.0f32, 4.0]), 5.0);
        assert_eq!(norm(&[1.0f64; 9]), 3.0);
        assert_eq!(norm::<f32>(&[]), 0.0);
    }

    #[test]
    #[should_panic(expected = "a gradient for each weight")]
    fn unequal_lengths_are_a_bug() {
        Sgd { lr: 0.1 }.update(&mut [1.0, 2.0], [], &[1.0]);
    }
}
