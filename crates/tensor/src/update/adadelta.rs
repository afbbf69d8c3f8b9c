//! Adadelta: `G = rho * G + (1 - rho) * g^2; u = sqrt((U + epsilon) / (G + epsilon)) * g;
//! U = rho * U + (1 - rho) * u^2`, and then `p -= sqrt((U + epsilon) / (G + epsilon)) * g`.
//!
//! The step uses the *new* U, as Fluid 1.8 does; the paper uses the old one.

use super::{Rule, check_lengths};
use crate::Float;

/// State: average squared gradient, average squared update.
#[derive(Clone, Copy, Debug)]
pub struct Adadelta<T> {
    /// How much of the averages stays.
    pub rho: T,
    /// Starts the first step, keeps the divisor from 0.
    pub epsilon: T,
}

impl<T: Float> Rule<T, 2> for Adadelta<T> {
    fn update(&self, param: &mut [T], state: [&mut [T]; 2], grad: &[T]) {
        check_lengths(param, &state, grad);
        let [squared_grad, squared_update] = state;
        let Self { rho, epsilon } = *self;
        let fresh = T::one() - rho;
        let all = param.iter_mut().zip(squared_grad).zip(squared_update).zip(grad);
        for (((p, square), update), &g) in all {
            *square = rho * *square + fresh * g * g;
            let inverse = T::one() / (*square + epsilon);
            let u = ((*update + epsilon) * inverse).sqrt() * g;
            *update = rho * *update + fresh * u * u;
            *p -= ((*update + epsilon) * inverse).sqrt() * g;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::near;
    use super::*;

    #[test]
    fn steps_by_the_new_average() {
        let mut p = [1.0];
        let mut square = [0.0];
        let mut update = [0.0];
        Adadelta { rho: 0.5, epsilon: 1.0 }.update(&mut p, [&mut square, &mut update], &[2.0]);
        // G = 2; u^2 = 1/3 * 4; U = 2/3; step = sqrt(5/3 / 3) * 2.
        near("G", &square, &[2.0]);
        near("U", &update, &[2.0 / 3.0]);
        near("p", &p, &[1.0 - 2.0 * (5.0f64 / 9.0).sqrt()]);
    }
}
