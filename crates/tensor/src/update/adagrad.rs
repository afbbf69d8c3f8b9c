//! Adagrad: `m += g^2; p -= lr * g / (sqrt(m) + epsilon)`.

use super::{Rule, check_lengths};
use crate::Float;

/// State: moment, the sum of squared gradients.
#[derive(Clone, Copy, Debug)]
pub struct Adagrad<T> {
    /// Learning rate.
    pub lr: T,
    /// Keeps the divisor from 0.
    pub epsilon: T,
}

impl<T: Float> Rule<T, 1> for Adagrad<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 1], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [moment] = state;
        let Self { lr, epsilon } = *self;
        for ((p, m), &g) in param.iter_mut().zip(moment).zip(grad) {
            *m += g * g;
            *p -= lr * g / (m.sqrt() + epsilon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn divides_by_the_root_of_all_squares() {
        // m: 9, then 25. Steps: 3/4, then 4/6.
        let rule = Adagrad { lr: 0.6, epsilon: 1.0 };
        check(&rule, [3.0, 4.0], [1.0 - 0.45 - 0.4, -2.0 - 0.45 - 0.4], [25.0]);
    }
}
