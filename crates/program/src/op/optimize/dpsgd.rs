//! `dpsgd`: differentially private SGD, p -= lr * (g * min(1, clip / |g|) + noise / batch_size), where
//! noise is one normal number with deviation `sigma` for the whole parameter.
//!
//! A `seed` of 0 asks the host for one, so that each step has another noise (Fluid 1.8 takes the
//! seconds of the clock).

use tensor::rng::{self, Rng};
use tensor::{Number, update};

use super::{OptimizerKind, PARAM, Setting, Sparse, constant, learning_rate};
use crate::attr::{Attr, Attrs};
use crate::error::Result;
use crate::op::{Infer, Op, Run, Traits, Untouched, for_float};

optimizer! {
    /// `DpsgdOptimizer`.
    Dpsgd: "dpsgd" {
        clip: f32 = 0.9 => "clip",
        batch_size: f32 = 0.999 => "batch_size",
        sigma: f32 = 1e-8 => "sigma",
    }
}

impl Op for Dpsgd {
    rules! { [PARAM] }

    fn traits(&self, _attrs: &Attrs) -> Traits {
        Traits { needs_whole: true, ..Traits::update(Untouched::Change) }
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let seed = match run.attrs().int("seed", 0)? {
            0 => run.host().fresh_seed(),
            seed => seed as u32,
        };
        let mut noise = [0.0f32];
        rng::gaussian(&mut Rng::new(seed), 0.0, run.attrs().float("sigma", 1.0)?, &mut noise);
        let noise = f64::from(noise[0]) / f64::from(run.attrs().float("batch_size", 16.0)?);
        step!(run, [PARAM], Sparse::AsDense, T => update::Dpsgd::<T> {
            lr: learning_rate(run)?,
            clip: constant(run, "clip", 10.0)?,
            noise: T::of(noise),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::op::check::t;
    use crate::op::optimize::tests::{on_table, rows};

    #[test]
    fn shortens_long_gradients() {
        // |g| = 5, so the step is 0.5 * g / 5.
        on_table("dpsgd", t(&[3, 2], &[3.0, 0.0, 0.0, 0.0, 0.0, -4.0]))
            .attr("clip", 1.0f32)
            .attr("sigma", 0.0f32)
            .gives("ParamOut", t(&[3, 2], &[0.7, 1.0, 2.0, 2.0, 3.0, 3.4]));
    }

    #[test]
    fn takes_rows_as_a_dense_gradient() {
        on_table("dpsgd", rows(3, &[0, 2], &[3.0, 0.0, 0.0, -4.0]))
            .attr("clip", 1.0f32)
            .attr("sigma", 0.0f32)
            .gives("ParamOut", t(&[3, 2], &[0.7, 1.0, 2.0, 2.0, 3.0, 3.4]));
    }
}
