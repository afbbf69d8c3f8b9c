//! Adam: `m1 = b1 * m1 + (1 - b1) * g; m2 = b2 * m2 + (1 - b2) * g^2;
//! p -= lr_t * m1 / (sqrt(m2) + epsilon)` with `lr_t = lr * sqrt(1 - b2^t) / (1 - b1^t)`.

use super::{Rule, check_lengths};
use crate::Float;

/// State: first moment, second moment. The powers of the betas belong to the whole parameter and
/// are its owner's.
#[derive(Clone, Copy, Debug)]
pub struct Adam<T> {
    /// Learning rate after [`Adam::corrected_lr`].
    pub lr: T,
    /// How much of the first moment stays.
    pub beta1: T,
    /// How much of the second moment stays.
    pub beta2: T,
    /// Keeps the divisor from 0.
    pub epsilon: T,
}

impl<T: Float> Adam<T> {
    /// The learning rate of a step: young averages are too small by a known factor.
    pub fn corrected_lr(lr: T, beta1_pow: T, beta2_pow: T) -> T {
        lr * (T::one() - beta2_pow).sqrt() / (T::one() - beta1_pow)
    }
}

impl<T: Float> Rule<T, 2> for Adam<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 2], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [moment1, moment2] = state;
        let Self { lr, beta1, beta2, epsilon } = *self;
        let (fresh1, fresh2) = (T::one() - beta1, T::one() - beta2);
        for (((p, m1), m2), &g) in param.iter_mut().zip(moment1).zip(moment2).zip(grad) {
            *m1 = beta1 * *m1 + fresh1 * g;
            *m2 = beta2 * *m2 + fresh2 * g * g;
            *p -= lr * (*m1 / (m2.sqrt() + epsilon));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, near};
    use super::*;

    #[test]
    fn moments_average_the_gradients() {
        // m1: 2, then 1 + 1 = 2. m2: 12, then 3 + 3 = 6 (betas 0.5 and 0.25).
        let rule = Adam { lr: 0.3, beta1: 0.5, beta2: 0.25, epsilon: 1.0 };
        let moved = 0.6 / (1.0 + 12f64.sqrt()) + 0.6 / (1.0 + 6f64.sqrt());
        check(&rule, [4.0, 2.0], [1.0 - moved, -2.0 - moved], [2.0, 6.0]);
    }

    #[test]
    fn the_first_step_is_as_long_as_the_rate() {
        near("lr", &[Adam::corrected_lr(0.1, 0.9, 0.99)], &[0.1]);
    }
}
