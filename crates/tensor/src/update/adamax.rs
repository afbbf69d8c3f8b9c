//! Adamax: `m = b1 * m + (1 - b1) * g; n = max(|g|, b2 * n + epsilon);
//! p -= lr / (1 - b1^t) * m / n`.

use super::{Rule, check_lengths};
use crate::Float;

/// State: moment, infinity norm.
#[derive(Clone, Copy, Debug)]
pub struct Adamax<T> {
    /// Learning rate after [`Adamax::corrected_lr`].
    pub lr: T,
    /// How much of the moment stays.
    pub beta1: T,
    /// How much of the norm stays.
    pub beta2: T,
    /// Keeps the divisor from 0.
    pub epsilon: T,
}

impl<T: Float> Adamax<T> {
    /// The learning rate of a step.
    pub fn corrected_lr(lr: T, beta1_pow: T) -> T {
        lr / (T::one() - beta1_pow)
    }
}

impl<T: Float> Rule<T, 2> for Adamax<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 2], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [moment, inf_norm] = state;
        let Self { lr, beta1, beta2, epsilon } = *self;
        let fresh = T::one() - beta1;
        for (((p, m), n), &g) in param.iter_mut().zip(moment).zip(inf_norm).zip(grad) {
            *m = beta1 * *m + fresh * g;
            *n = g.abs().max(beta2 * *n + epsilon);
            *p -= lr * (*m / *n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, near};
    use super::*;

    #[test]
    fn divides_by_the_largest_gradient() {
        // m: 2, then 1.5. n: 4, then max(1, 2 + 0.5) = 2.5.
        let rule = Adamax { lr: 0.2, beta1: 0.5, beta2: 0.5, epsilon: 0.5 };
        let moved = 0.2 * (2.0 / 4.0 + 1.5 / 2.5);
        check(&rule, [4.0, 1.0], [1.0 - moved, -2.0 - moved], [1.5, 2.5]);
    }

    #[test]
    fn the_rate_is_corrected_by_one_power() {
        near("lr", &[Adamax::corrected_lr(0.1, 0.9)], &[1.0]);
    }
}
