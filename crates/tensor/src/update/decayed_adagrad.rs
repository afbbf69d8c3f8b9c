//! Adagrad that forgets: `m = d * m + (1 - d) * g^2; p -= lr * g / (sqrt(m) + epsilon)`.

use super::{Rule, check_lengths};
use crate::Float;

/// State: moment, the decayed average of squared gradients.
#[derive(Clone, Copy, Debug)]
pub struct DecayedAdagrad<T> {
    /// Learning rate.
    pub lr: T,
    /// How much of the average stays.
    pub decay: T,
    /// Keeps the divisor from 0.
    pub epsilon: T,
}

impl<T: Float> Rule<T, 1> for DecayedAdagrad<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 1], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [moment] = state;
        let Self { lr, decay, epsilon } = *self;
        let fresh = T::one() - decay;
        for ((p, m), &g) in param.iter_mut().zip(moment).zip(grad) {
            *m = decay * *m + fresh * g * g;
            *p -= lr * g / (m.sqrt() + epsilon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn old_squares_fade() {
        // m: 0.75 * 12 = 9, then 0.25 * 9 + 0.75 * 12 = 11.25.
        let (rule, g) = (DecayedAdagrad { lr: 0.1, decay: 0.25, epsilon: 0.0 }, 12f64.sqrt());
        let moved = 0.1 * g / 3.0 + 0.1 * g / 11.25f64.sqrt();
        check(&rule, [g, g], [1.0 - moved, -2.0 - moved], [11.25]);
    }
}
