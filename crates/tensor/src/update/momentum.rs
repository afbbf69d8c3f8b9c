//! Momentum: `v = mu * v + g; p -= lr * v`, or Nesterov's `p -= lr * (g + mu * v)`.

use super::{Rule, check_lengths};
use crate::Float;

/// State: velocity.
#[derive(Clone, Copy, Debug)]
pub struct Momentum<T> {
    /// Learning rate.
    pub lr: T,
    /// How much of the velocity stays.
    pub mu: T,
    /// Looks one step ahead.
    pub nesterov: bool,
}

impl<T: Float> Rule<T, 1> for Momentum<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 1], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [velocity] = state;
        let Self { lr, mu, nesterov } = *self;
        let all = param.iter_mut().zip(velocity).zip(grad);
        if nesterov {
            for ((p, v), &g) in all {
                *v = mu * *v + g;
                *p -= lr * (g + mu * *v);
            }
        } else {
            for ((p, v), &g) in all {
                *v = mu * *v + g;
                *p -= lr * *v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn velocity_carries_over() {
        // v: 2, then 0.5*2 + 1 = 2.
        let rule = Momentum { lr: 0.1, mu: 0.5, nesterov: false };
        check(&rule, [2.0, 1.0], [0.6, -2.4], [2.0]);
    }

    #[test]
    fn nesterov_looks_ahead() {
        // Steps: 2 + 0.5*2 = 3, then 1 + 0.5*2 = 2.
        let rule = Momentum { lr: 0.1, mu: 0.5, nesterov: true };
        check(&rule, [2.0, 1.0], [0.5, -2.5], [2.0]);
    }
}
