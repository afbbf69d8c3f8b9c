//! Differentially private SGD: `p -= lr * (g * min(1, clip / |g|) + noise)`.
//!
//! The norm is over the whole gradient, and the noise is one number for all weights, as in Fluid 1.8.

use super::{Rule, check_lengths, norm};
use crate::Float;

/// No state.
#[derive(Clone, Copy, Debug)]
pub struct Dpsgd<T> {
    /// Learning rate.
    pub lr: T,
    /// A gradient that is longer is shortened to this.
    pub clip: T,
    /// The noise that is added to each number of the gradient.
    pub noise: T,
}

impl<T: Float> Rule<T, 0> for Dpsgd<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 0], grad: &[T]) {
        check_lengths(param, &state, grad);
        let length = norm(grad);
        let scale = if length > self.clip { self.clip / length } else { T::one() };
        for (p, &g) in param.iter_mut().zip(grad) {
            *p -= self.lr * (g * scale + self.noise);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::near;
    use super::*;

    #[test]
    fn long_gradients_are_shortened_and_all_get_the_noise() {
        let mut p = [1.0, 1.0];
        Dpsgd { lr: 0.5, clip: 1.0, noise: 0.25 }.update(&mut p, [], &[3.0, -4.0]);
        near("p", &p, &[1.0 - 0.5 * (0.6 + 0.25), 1.0 - 0.5 * (-0.8 + 0.25)]);
        Dpsgd { lr: 0.5, clip: 9.0, noise: 0.0 }.update(&mut p, [], &[0.0, 2.0]);
        near("p", &p, &[0.575, 0.275]);
    }
}
