//! Stochastic gradient descent: `p -= lr * g`.

use super::{Rule, check_lengths};
use crate::{Float, wide};

/// Weights from which the loop for wide vectors pays.
const WIDE_FROM: usize = 256;

/// `p -= lr * g`.
#[derive(Clone, Copy, Debug)]
pub struct Sgd<T> {
    /// Learning rate.
    pub lr: T,
}

impl<T: Float> Rule<T, 0> for Sgd<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 0], grad: &[T]) {
        check_lengths(param, &state, grad);
        let lr = self.lr;
        let mut step = || param.iter_mut().zip(grad).for_each(|(p, &g)| *p -= lr * g);
        // A row of a table is too short to be worth choosing.
        if grad.len() < WIDE_FROM { step() } else { wide(step) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn steps_against_the_gradient() {
        check(&Sgd { lr: 0.1 }, [2.0, -1.0], [0.9, -2.1], []);
    }
}
