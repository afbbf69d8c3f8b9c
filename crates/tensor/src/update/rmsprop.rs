//! RMSProp: `s = rho * s + (1 - rho) * g^2; m = momentum * m + lr * g / sqrt(s + epsilon); p -= m`.
//!
//! The centered form also averages the gradient, `a = rho * a + (1 - rho) * g`, and divides by
//! `sqrt(s - a^2 + epsilon)`.

use super::{Rule, check_lengths};
use crate::Float;

/// State: mean square, moment.
#[derive(Clone, Copy, Debug)]
pub struct RmsProp<T> {
    /// Learning rate.
    pub lr: T,
    /// How much of the averages stays.
    pub rho: T,
    /// Keeps the divisor from 0.
    pub epsilon: T,
    /// How much of the moment stays.
    pub momentum: T,
}

/// [`RmsProp`], centered. State: mean square, moment, mean gradient.
#[derive(Clone, Copy, Debug)]
pub struct CenteredRmsProp<T>(pub RmsProp<T>);

impl<T: Float> Rule<T, 2> for RmsProp<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 2], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [square, moment] = state;
        let Self { lr, rho, epsilon, momentum } = *self;
        let fresh = T::one() - rho;
        for (((p, s), m), &g) in param.iter_mut().zip(square).zip(moment).zip(grad) {
            *s = rho * *s + fresh * g * g;
            *m = momentum * *m + lr * g / (*s + epsilon).sqrt();
            *p -= *m;
        }
    }
}

impl<T: Float> Rule<T, 3> for CenteredRmsProp<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 3], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [square, moment, mean] = state;
        let RmsProp { lr, rho, epsilon, momentum } = self.0;
        let fresh = T::one() - rho;
        let all = param.iter_mut().zip(square).zip(moment).zip(mean).zip(grad);
        for ((((p, s), m), a), &g) in all {
            *s = rho * *s + fresh * g * g;
            *a = rho * *a + fresh * g;
            *m = momentum * *m + lr * g / (*s - *a * *a + epsilon).sqrt();
            *p -= *m;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, near};
    use super::*;

    const RULE: RmsProp<f64> = RmsProp { lr: 0.1, rho: 0.5, epsilon: 1.0, momentum: 0.5 };

    #[test]
    fn divides_by_the_root_mean_square() {
        // s: 8, then 4 + 4 = 8 again; the divisor is 3 each time.
        let grads = [4.0, 8f64.sqrt()];
        let first = 0.1 * grads[0] / 3.0;
        let second = 0.5 * first + 0.1 * grads[1] / 3.0;
        check(&RULE, grads, [1.0 - first - second, -2.0 - first - second], [8.0, second]);
    }

    #[test]
    fn centered_takes_the_mean_out() {
        let mut p = [1.0];
        let mut s = [0.0];
        let mut m = [0.0];
        let mut a = [0.0];
        CenteredRmsProp(RULE).update(&mut p, [&mut s, &mut m, &mut a], &[4.0]);
        // s = 8, a = 2: the divisor is sqrt(8 - 4 + 1).
        near("a", &a, &[2.0]);
        near("p", &p, &[1.0 - 0.4 / 5f64.sqrt()]);
    }
}
