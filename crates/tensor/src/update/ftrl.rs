//! Follow the regularized leader: `n' = n + g^2; z += g - (n'^-power - n^-power) / lr * p`, and
//! then `p = 0` if `|z| <= l1`, else `(l1 * sign(z) - z) / (n'^-power / lr + 2 * l2)`.

use super::{Rule, check_lengths};
use crate::Float;

/// State: squared accumulator (n), linear accumulator (z).
#[derive(Clone, Copy, Debug)]
pub struct Ftrl<T> {
    /// Learning rate.
    pub lr: T,
    /// Weights whose linear part is within this are 0.
    pub l1: T,
    /// Pulls weights towards 0.
    pub l2: T,
    /// Negative; -0.5 is the usual square root.
    pub power: T,
}

impl<T: Float> Rule<T, 2> for Ftrl<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 2], grad: &[T]) {
        // The usual power is worth a loop of its own: a root vectorises, a power does not.
        if self.power == T::of(-0.5) {
            self.update_by(param, state, grad, T::sqrt);
        } else {
            self.update_by(param, state, grad, |n| n.powf(-self.power));
        }
    }
}

impl<T: Float> Ftrl<T> {
    #[inline(always)]
    fn update_by(&self, param: &mut [T], state: [&mut [T]; 2], grad: &[T], root: impl Fn(T) -> T) {
        check_lengths(param, &state, grad);
        let [squared, linear] = state;
        let Self { lr, l1, l2, .. } = *self;
        for (((p, n), z), &g) in param.iter_mut().zip(squared).zip(linear).zip(grad) {
            let old_root = root(*n);
            *n += g * g;
            let new_root = root(*n);
            *z += g - (new_root - old_root) / lr * *p;
            let shrunk = (l1 * z.signum() - *z) / (new_root / lr + (l2 + l2));
            *p = if z.abs() > l1 { shrunk } else { T::zero() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::near;
    use super::*;

    #[track_caller]
    fn check(rule: Ftrl<f64>, grad: f64, expected: [f64; 3]) {
        let mut p = [1.0];
        let mut n = [1.0];
        let mut z = [0.5];
        rule.update(&mut p, [&mut n, &mut z], &[grad]);
        near("p, n, z", &[p[0], n[0], z[0]], &expected);
    }

    #[test]
    fn follows_the_leader() {
        // n' = 9, z = 0.5 + sqrt 8 - (3 - 1) / 0.5.
        let (g, z) = (8f64.sqrt(), 0.5 + 8f64.sqrt() - 4.0);
        let rule = Ftrl { lr: 0.5, l1: 0.1, l2: 1.0, power: -0.5 };
        check(rule, g, [(-0.1 - z) / (6.0 + 2.0), 9.0, z]);
        let power = Ftrl { power: -1.0, ..rule };
        let z = 0.5 + g - 16.0;
        check(power, g, [(-0.1 - z) / (18.0 + 2.0), 9.0, z]);
    }

    #[test]
    fn a_small_linear_part_means_zero() {
        let rule = Ftrl { lr: 0.5, l1: 2.0, l2: 1.0, power: -0.5 };
        check(rule, 0.0, [0.0, 1.0, 0.5]);
    }
}
