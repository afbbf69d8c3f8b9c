//! Layer-wise adaptive rate scaling (LARS) with momentum.
//!
//! `local = lr * coeff * |p| / (|g| + decay * |p|)`, or `lr` where a norm is 0;
//! `v = mu * v + local * (g + decay * p); p -= v`. The norms are over the whole parameter.

use super::{Rule, check_lengths, norm};
use crate::Float;

/// State: velocity.
#[derive(Clone, Copy, Debug)]
pub struct LarsMomentum<T> {
    /// Learning rate.
    pub lr: T,
    /// How much of the velocity stays.
    pub mu: T,
    /// How far to trust a layer's own rate.
    pub coeff: T,
    /// Weight decay.
    pub decay: T,
}

impl<T: Float> Rule<T, 1> for LarsMomentum<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 1], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [velocity] = state;
        let Self { lr, mu, coeff, decay } = *self;
        let (p_norm, g_norm) = (norm(param), norm(grad));
        let scaled = p_norm > T::zero() && g_norm > T::zero();
        let local = if scaled { lr * coeff * p_norm / (g_norm + decay * p_norm) } else { lr };
        for ((p, v), &g) in param.iter_mut().zip(velocity).zip(grad) {
            *v = mu * *v + local * (g + decay * *p);
            *p -= *v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::near;
    use super::*;

    const RULE: LarsMomentum<f64> = LarsMomentum { lr: 1.0, mu: 0.5, coeff: 0.1, decay: 0.2 };

    #[test]
    fn the_rate_follows_the_norms() {
        let (mut p, mut v) = ([3.0, 4.0], [1.0, 0.0]);
        RULE.update(&mut p, [&mut v], &[0.0, 4.0]);
        // |p| = 5, |g| = 4: local = 0.5 / 5 = 0.1; v = [0.5 + 0.06, 0.1 * 4.8].
        near("v", &v, &[0.56, 0.48]);
        near("p", &p, &[2.44, 3.52]);
    }

    #[test]
    fn a_zero_norm_leaves_the_plain_rate() {
        let (mut p, mut v) = ([0.0, 0.0], [0.0, 0.0]);
        RULE.update(&mut p, [&mut v], &[2.0, 0.0]);
        near("p", &p, &[-2.0, 0.0]);
        RULE.update(&mut p, [&mut v], &[0.0, 0.0]);
        // v = 0.5 * 2 + 1.0 * 0.2 * -2.
        near("p", &p, &[-2.6, 0.0]);
    }
}
