//! `linear_chain_crf`: LogLikelihood = log Z - score(Label) for each chain (a cost, whatever its
//! name says).
//!
//! score = start + Σ emissions + Σ transitions + end along the tags of a chain, Z = Σ exp(score) over
//! all tags. EmissionExps = exp(Emission - largest of its row), TransitionExps = exp(Transition), and
//! Alpha is the forward variable, scaled to sum to 1 at each step.

use tensor::{Float, Shape};

use super::chains::{self, Chains};
use super::ragged::data_of_len;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::Result;

pub(super) struct LinearChainCrf;
pub(super) struct LinearChainCrfGrad;

const OP: &str = "LinearChainCRFOp";

impl Op for LinearChainCrf {
    traits!(Never, "Emission": [F32, F64], "Label": [I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        chains::infer(infer)?;
        let emission = infer.input("Emission")?.with_lod_level(0);
        let transition = infer.input("Transition")?;
        infer.set_output("Alpha", emission.clone())?;
        infer.set_output("EmissionExps", emission.clone())?;
        infer.set_output("TransitionExps", transition)?;
        infer.set_output("LogLikelihood", emission.with_dims(vec![-1, 1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut alpha, mut exps) = (run.take("Alpha"), run.take("EmissionExps"));
        let (mut weights, mut cost) = (run.take("TransitionExps"), run.take("LogLikelihood"));
        let chains = Chains::of(run, OP)?;
        let labels = chains.labels(run)?;
        let (emission, d) = (run.input("Emission")?, chains.n_tags);
        for_float!(emission.dtype(), run.input_name("Emission"), T => {
            let (x, w) = (emission.data::<T>()?, run.data::<T>("Transition")?);
            let weights = weights.resize::<T>(Shape::from([d + 2, d]));
            weights.iter_mut().zip(w).for_each(|(exp, &w)| *exp = w.exp());
            let exps = exps.resize::<T>(emission.shape());
            let alpha = alpha.resize_zeroed::<T>(emission.shape());
            let cost = cost.resize::<T>(Shape::from([chains.spans.len(), 1]));
            for (x, exps) in x.chunks_exact(d).zip(exps.chunks_exact_mut(d)) {
                let max = largest(x);
                exps.iter_mut().zip(x).for_each(|(exp, &x)| *exp = (x - max).exp());
            }
            for (cost, &(start, n)) in cost.iter_mut().zip(&chains.spans) {
                let (here, tags) = (start * d..(start + n) * d, &labels[start..start + n]);
                let log_z = forward(weights, &exps[here.clone()], &mut alpha[here.clone()]);
                *cost = log_z + scale(&x[here.clone()], d) - score(w, &x[here], tags);
            }
            Ok(())
        })?;
        run.put("Alpha", alpha);
        run.put("EmissionExps", exps);
        run.put("TransitionExps", weights);
        run.put("LogLikelihood", cost);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(
            Keep::grads(&["LogLikelihood"], &["Emission", "Transition"])
                .inputs(&["Emission", "Transition", "Label", "Length"])
                .outputs(&["Alpha", "EmissionExps", "TransitionExps"]),
        )
    }
}

fn largest<T: Float>(row: &[T]) -> T {
    row.iter().fold(T::neg_infinity(), |max, &x| max.max(x))
}

/// The product of all divisors of a chain's emissions, as a logarithm.
fn scale<T: Float>(x: &[T], d: usize) -> T {
    x.chunks_exact(d).fold(T::zero(), |sum, x| sum + largest(x))
}

/// Scales a row to sum to 1 and returns what its sum was.
fn normalize<T: Float>(row: &mut [T]) -> T {
    let sum = row.iter().fold(T::zero(), |sum, &x| sum + x);
    row.iter_mut().for_each(|x| *x = *x / sum);
    sum
}

/// Fills the forward variable of one chain; log Z without the scales of the emissions.
fn forward<T: Float>(weights: &[T], exps: &[T], alpha: &mut [T]) -> T {
    let Some(d) = (!exps.is_empty()).then(|| n_tags(weights)) else { return T::zero() };
    let (ends, pairs) = weights.split_at(2 * d);
    for ((alpha, &start), &x) in alpha.iter_mut().zip(&ends[..d]).zip(&exps[..d]) {
        *alpha = start * x;
    }
    let mut log_z = normalize(&mut alpha[..d]).ln();
    for at in (d..exps.len()).step_by(d) {
        let (before, here) = alpha.split_at_mut(at);
        let before = &before[at - d..];
        for (j, alpha) in here[..d].iter_mut().enumerate() {
            let reach = (0..d).fold(T::zero(), |sum, i| sum + before[i] * pairs[i * d + j]);
            *alpha = reach * exps[at + j];
        }
        log_z += normalize(&mut here[..d]).ln();
    }
    let last = &alpha[exps.len() - d..];
    let end = last.iter().zip(&ends[d..]).fold(T::zero(), |sum, (&a, &end)| sum + a * end);
    log_z + end.ln()
}

/// Of a [d + 2, d] matrix.
fn n_tags<T>(weights: &[T]) -> usize {
    // d² + 2d = len, so (d + 1)² = len + 1.
    (weights.len() + 1).isqrt() - 1
}

/// The score of the labelled tags; they are in range.
fn score<T: Float>(w: &[T], x: &[T], tags: &[i64]) -> T {
    let d = n_tags(w);
    let (Some(&first), Some(&last)) = (tags.first(), tags.last()) else { return T::zero() };
    let mut sum = w[first as usize] + w[d + last as usize];
    for (row, &tag) in tags.iter().enumerate() {
        sum += x[row * d + tag as usize];
    }
    for pair in tags.windows(2) {
        sum += w[(2 + pair[0] as usize) * d + pair[1] as usize];
    }
    sum
}

/// Expected minus labelled counts of each emission and transition, times the gradient of the cost.
impl Kernel for LinearChainCrfGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_w) = (run.take("Emission@GRAD"), run.take("Transition@GRAD"));
        let mut beta = run.spare().tensor();
        let chains = Chains::of(run, OP)?;
        let labels = chains.labels(run)?;
        let (emission, d) = (run.input("Emission")?, chains.n_tags);
        for_float!(emission.dtype(), run.input_name("Emission"), T => {
            let n = chains.n_rows * d;
            let weights = data_of_len::<T>(run, "TransitionExps", (d + 2) * d)?;
            let exps = data_of_len::<T>(run, "EmissionExps", n)?;
            let alpha = data_of_len::<T>(run, "Alpha", n)?;
            let d_cost = data_of_len::<T>(run, "LogLikelihood@GRAD", chains.spans.len())?;
            let d_x = d_x.resize_zeroed::<T>(emission.shape());
            let d_w = d_w.resize_zeroed::<T>(Shape::from([d + 2, d]));
            let beta = beta.resize::<T>(emission.shape());
            for (&d_cost, &(start, n)) in d_cost.iter().zip(&chains.spans) {
                let here = start * d..(start + n) * d;
                let chain = CrfChain {
                    weights,
                    exps: &exps[here.clone()],
                    alpha: &alpha[here.clone()],
                    tags: &labels[start..start + n],
                };
                chain.fill_beta(&mut beta[here.clone()]);
                chain.add_gradients(&beta[here.clone()], d_cost, &mut d_x[here], d_w);
            }
            Ok(())
        })?;
        d_x.set_lod(emission.lod().clone());
        run.put("Emission@GRAD", d_x);
        run.put("Transition@GRAD", d_w);
        run.spare().keep(beta);
        Ok(())
    }
}

/// One chain, as the forward pass left it.
struct CrfChain<'a, T> {
    weights: &'a [T],
    exps: &'a [T],
    alpha: &'a [T],
    tags: &'a [i64],
}

impl<T: Float> CrfChain<'_, T> {
    /// The backward variable, scaled to sum to 1 at each step.
    fn fill_beta(&self, beta: &mut [T]) {
        let d = n_tags(self.weights);
        let (ends, pairs) = self.weights.split_at(2 * d);
        for row in (0..self.tags.len()).rev() {
            let (here, after) = beta[row * d..].split_at_mut(d);
            if row + 1 == self.tags.len() {
                here.copy_from_slice(&ends[d..]);
            } else {
                let exps = &self.exps[(row + 1) * d..(row + 2) * d];
                for (i, beta) in here.iter_mut().enumerate() {
                    let reach = |sum, j: usize| sum + pairs[i * d + j] * exps[j] * after[j];
                    *beta = (0..d).fold(T::zero(), reach);
                }
            }
            normalize(here);
        }
    }

    /// Writes the gradient of the emissions and adds to that of the transitions.
    fn add_gradients(&self, beta: &[T], d_cost: T, d_x: &mut [T], d_w: &mut [T]) {
        let d = n_tags(self.weights);
        for row in 0..self.tags.len() {
            let here = row * d..(row + 1) * d;
            let d_x = &mut d_x[here.clone()];
            for (j, d_x) in d_x.iter_mut().enumerate() {
                *d_x = self.alpha[row * d + j] * beta[row * d + j];
            }
            normalize(d_x);
            d_x[self.tags[row] as usize] -= T::one();
            d_x.iter_mut().for_each(|d_x| *d_x *= d_cost);
            // The first and last emissions count like the weights to start and to end there.
            let at_start = (row == 0).then_some(0);
            let at_end = (row + 1 == self.tags.len()).then_some(d);
            for start in at_start.into_iter().chain(at_end) {
                let d_w = &mut d_w[start..start + d];
                d_w.iter_mut().zip(&*d_x).for_each(|(sum, &d)| *sum += d);
            }
            if row > 0 {
                self.add_pair(beta, row, d_cost, &mut d_w[2 * d..]);
            }
        }
    }

    /// The share of the steps `row` - 1 and `row` in the gradient of the transitions.
    fn add_pair(&self, beta: &[T], row: usize, d_cost: T, d_pairs: &mut [T]) {
        let d = n_tags(self.weights);
        let count = |i: usize, j: usize| {
            let (before, here) = ((row - 1) * d + i, row * d + j);
            self.alpha[before] * self.weights[(2 + i) * d + j] * self.exps[here] * beta[here]
        };
        let all = || (0..d).flat_map(move |i| (0..d).map(move |j| (i, j)));
        let sum = all().fold(T::zero(), |sum, (i, j)| sum + count(i, j));
        for (i, j) in all() {
            d_pairs[i * d + j] += d_cost * count(i, j) / sum;
        }
        let (from, to) = (self.tags[row - 1] as usize, self.tags[row] as usize);
        d_pairs[from * d + to] -= d_cost;
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, t};

    const X: [f64; 15] = [
        -0.56, 0.74, -0.59, 0.84, -0.02, 0.22, 0.53, 0.04, -0.41, -0.62, -0.84, 0.48, -0.12, -0.68,
        0.76,
    ];
    const W: [f64; 15] = [
        -0.45, -0.17, -0.41, 0.26, 0.16, 0.2, -0.47, -0.43, -0.49, -0.34, -0.71, -0.67, 0.93, 0.92,
        -0.62,
    ];

    fn saved(check: Check) -> Check {
        check.aux("Alpha").aux("EmissionExps").aux("TransitionExps")
    }

    fn crf(labels: [i64; 5], lengths: &[usize]) -> Check {
        saved(
            check("linear_chain_crf")
                .input("Emission", seq(t(&[5, 3], &X), lengths))
                .input("Transition", t(&[5, 3], &W))
                .input("Label", seq(ids(&[5, 1], &labels), lengths)),
        )
    }

    /// The same chains of 2 and 3 steps, padded.
    fn padded(lengths: [i64; 2]) -> Check {
        let x = [&X[..6], &[0.0; 3], &X[6..]].concat();
        saved(
            check("linear_chain_crf")
                .input("Emission", t(&[2, 3, 3], &x))
                .input("Transition", t(&[5, 3], &W))
                .input("Label", ids(&[2, 3, 1], &[0, 2, 0, 1, 1, 0]))
                .input("Length", ids(&[2, 1], &lengths)),
        )
    }

    /// The results of Fluid 1.8.5 for the op `linear_chain_crf` with these inputs.
    #[test]
    fn costs_what_fluid_says() {
        let cost = [3.5325775146484375, 4.80142879486084];
        crf([0, 2, 1, 1, 0], &[2, 3]).gives("LogLikelihood", t(&[2, 1], &cost));
        padded([2, 3]).gives("LogLikelihood", t(&[2, 1], &cost));
        let with_empty = [cost[0], 0.0, cost[1]];
        crf([0, 2, 1, 1, 0], &[2, 0, 3]).gives("LogLikelihood", t(&[3, 1], &with_empty));
    }

    #[test]
    fn gradients_match_finite_differences() {
        let ports = ["Emission", "Transition"];
        crf([0, 2, 1, 1, 0], &[2, 3]).output("LogLikelihood").grad(&ports);
        crf([0, 2, 1, 1, 0], &[1, 0, 4]).output("LogLikelihood").grad(&ports);
        padded([2, 3]).output("LogLikelihood").grad(&ports);
    }

    #[test]
    fn refuses_labels_lengths_and_sizes_that_do_not_fit() {
        let error = crf([0, 3, 1, 1, 0], &[2, 3]).output("LogLikelihood").fails();
        let expected = matches!(error.root(), Error::LabelOutOfRange { row: 1, label: 3, .. });
        assert!(expected, "{error}");
        let error = padded([2, 4]).output("LogLikelihood").fails();
        assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
        let error = crf([0; 5], &[2, 4]).output("LogLikelihood").fails();
        assert!(matches!(error.root(), Error::Tensor(tensor::Error::BadLod(_))), "{error}");
        let wrong = check("linear_chain_crf")
            .input("Emission", seq(t(&[1, 3], &X[..3]), &[1]))
            .input("Transition", t(&[4, 3], &W[..12]))
            .input("Label", ids(&[1, 1], &[0]));
        let error = wrong.output("LogLikelihood").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
