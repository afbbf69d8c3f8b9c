//! LAMB: `m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * g^2;
//! r = m / (sqrt(v) + epsilon) + decay * p; p -= lr * |p| / |r| * r`.
//!
//! The ratio is 1 where a norm is 0. No bias correction, as in Fluid 1.8. The norms are over the
//! whole parameter.

use super::{Rule, check_lengths, norm};
use crate::Float;

/// State: first moment, second moment.
#[derive(Clone, Copy, Debug)]
pub struct Lamb<T> {
    /// Learning rate.
    pub lr: T,
    /// How much of the first moment stays.
    pub beta1: T,
    /// How much of the second moment stays.
    pub beta2: T,
    /// Keeps the divisor from 0.
    pub epsilon: T,
    /// Weight decay.
    pub decay: T,
}

impl<T: Float> Lamb<T> {
    /// Where a weight would go, before it is scaled to the layer.
    #[inline(always)]
    fn direction(&self, p: T, m: T, v: T) -> T {
        m / (v.sqrt() + self.epsilon) + self.decay * p
    }
}

impl<T: Float> Rule<T, 2> for Lamb<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 2], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [moment1, moment2] = state;
        let (fresh1, fresh2) = (T::one() - self.beta1, T::one() - self.beta2);
        for ((m, v), &g) in moment1.iter_mut().zip(moment2.iter_mut()).zip(grad) {
            *m = self.beta1 * *m + fresh1 * g;
            *v = self.beta2 * *v + fresh2 * g * g;
        }
        // The direction is computed twice rather than kept: no memory of the tensor's size.
        let mut square = 0.0;
        for ((&p, &m), &v) in param.iter().zip(&*moment1).zip(&*moment2) {
            let r = self.direction(p, m, v).f64();
            square += r * r;
        }
        let (p_norm, r_norm) = (norm(param), T::of(square.sqrt()));
        let scaled = p_norm > T::zero() && r_norm > T::zero();
        let step = if scaled { self.lr * (p_norm / r_norm) } else { self.lr };
        for ((p, &m), &v) in param.iter_mut().zip(&*moment1).zip(&*moment2) {
            *p -= step * self.direction(*p, m, v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::near;
    use super::*;

    const RULE: Lamb<f64> = Lamb { lr: 0.1, beta1: 0.5, beta2: 0.75, epsilon: 1.0, decay: 0.5 };

    #[test]
    fn the_step_is_as_long_as_the_weights() {
        let mut p = [3.0, 4.0];
        let mut m = [0.0; 2];
        let mut v = [0.0; 2];
        RULE.update(&mut p, [&mut m, &mut v], &[4.0, 0.0]);
        // m = 2, v = 4: r = [2 / 3 + 1.5, 2].
        near("m, v", &[m[0], v[0]], &[2.0, 4.0]);
        let r = [2.0f64 / 3.0 + 1.5, 2.0];
        let step = 0.1 * 5.0 / (r[0] * r[0] + r[1] * r[1]).sqrt();
        near("p", &p, &[3.0 - step * r[0], 4.0 - step * r[1]]);
    }

    #[test]
    fn a_zero_norm_leaves_the_plain_rate() {
        let mut p = [0.0];
        let mut m = [0.0];
        let mut v = [0.0];
        RULE.update(&mut p, [&mut m, &mut v], &[4.0]);
        near("p", &p, &[-0.1 * 2.0 / 3.0]);
    }
}
