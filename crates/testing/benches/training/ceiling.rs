//! The ceiling: a CTR-DNN training step by hand on slices, everything a framework could fuse fused.
//!
//! Same arithmetic as the model in `model.rs`: gather, three relu layers, softmax of two classes,
//! cross-entropy summed over the batch, SGD. The weight update is folded into the product that
//! computes the gradient, and no intermediate is written that the next line does not need.

use tensor::gemm::{Matrix, gemm};

use crate::data::{N_DENSE, N_SLOTS, Samples};

pub(crate) const WIDTH: usize = 10;
pub(crate) const HIDDEN: usize = 400;
const INPUT: usize = N_SLOTS * WIDTH + N_DENSE;
const LAYERS: [(usize, usize); 4] =
    [(INPUT, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 2)];

pub(crate) struct Ceiling {
    table: Vec<f32>,
    weights: Vec<Vec<f32>>,
    biases: Vec<Vec<f32>>,
    activations: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    lr: f32,
}

impl Ceiling {
    /// A net whose numbers are small and fixed; their values do not change the work.
    pub(crate) fn new(n_rows: usize, batch: usize, lr: f32) -> Self {
        let fill = |n: usize, scale: f32| {
            let value =
                |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32;
            (0..n).map(|i| (value(i) - 0.5) * scale).collect::<Vec<f32>>()
        };
        let sizes = [INPUT, HIDDEN, HIDDEN, HIDDEN, 2];
        let activations: Vec<_> = sizes.iter().map(|&size| vec![0.0; batch * size]).collect();
        Self {
            table: fill(n_rows * WIDTH, 0.02),
            weights: LAYERS.iter().map(|&(i, o)| fill(i * o, 2.0 / (i as f32).sqrt())).collect(),
            biases: LAYERS.iter().map(|&(_, o)| vec![0.0; o]).collect(),
            gradients: activations.clone(),
            activations,
            lr,
        }
    }

    /// One step on the samples from `at` on; returns the loss.
    pub(crate) fn step(&mut self, samples: &Samples, at: usize, batch: usize) -> f32 {
        self.gather(samples, at, batch);
        self.forward(batch);
        let loss = self.loss(&samples.labels[at..at + batch]);
        self.backward(batch);
        self.scatter(samples, at, batch);
        loss
    }

    fn gather(&mut self, samples: &Samples, at: usize, batch: usize) {
        let rows = self.activations[0].chunks_exact_mut(INPUT).take(batch);
        for (r, row) in rows.enumerate() {
            let ids = &samples.ids[(at + r) * N_SLOTS..][..N_SLOTS];
            for (out, &id) in row.chunks_exact_mut(WIDTH).zip(ids) {
                out.copy_from_slice(&self.table[id as usize * WIDTH..][..WIDTH]);
            }
            let dense = &samples.dense[(at + r) * N_DENSE..][..N_DENSE];
            row[N_SLOTS * WIDTH..].copy_from_slice(dense);
        }
    }

    fn forward(&mut self, batch: usize) {
        for (l, &(i, o)) in LAYERS.iter().enumerate() {
            let (before, after) = self.activations.split_at_mut(l + 1);
            let out = &mut after[0];
            for row in out.chunks_exact_mut(o) {
                row.copy_from_slice(&self.biases[l]);
            }
            let (x, w) = (Matrix::new(&before[l], batch, i), Matrix::new(&self.weights[l], i, o));
            gemm(1.0, x, w, 1.0, out);
            if l < 3 {
                out.iter_mut().for_each(|v| *v = v.max(0.0));
            }
        }
    }

    fn loss(&mut self, labels: &[i64]) -> f32 {
        let mut loss = 0.0;
        let (logits, grads) = (&self.activations[4], &mut self.gradients[4]);
        for ((z, d), &label) in logits.chunks_exact(2).zip(grads.chunks_exact_mut(2)).zip(labels) {
            let p = 1.0 / (1.0 + (z[0] - z[1]).exp());
            let y = label as f32;
            loss -= if label == 1 { p.ln() } else { (1.0 - p).ln() };
            (d[0], d[1]) = (y - p, p - y);
        }
        loss
    }

    fn backward(&mut self, batch: usize) {
        for (l, &(i, o)) in LAYERS.iter().enumerate().rev() {
            let (before, after) = self.gradients.split_at_mut(l + 1);
            let d = Matrix::new(&after[0], batch, o);
            gemm(1.0, d, Matrix::new(&self.weights[l], i, o).t(), 0.0, &mut before[l]);
            let x = Matrix::new(&self.activations[l], batch, i);
            gemm(-self.lr, x.t(), d, 1.0, &mut self.weights[l]);
            for row in after[0].chunks_exact(o) {
                for (b, &d) in self.biases[l].iter_mut().zip(row) {
                    *b -= self.lr * d;
                }
            }
            if l > 0 {
                for (d, &a) in before[l].iter_mut().zip(&self.activations[l]) {
                    *d = if a > 0.0 { *d } else { 0.0 };
                }
            }
        }
    }

    fn scatter(&mut self, samples: &Samples, at: usize, batch: usize) {
        let rows = self.gradients[0].chunks_exact(INPUT).take(batch);
        for (r, row) in rows.enumerate() {
            let ids = &samples.ids[(at + r) * N_SLOTS..][..N_SLOTS];
            for (d, &id) in row.chunks_exact(WIDTH).zip(ids) {
                let weights = &mut self.table[id as usize * WIDTH..][..WIDTH];
                for (w, &d) in weights.iter_mut().zip(d) {
                    *w -= self.lr * d;
                }
            }
        }
    }
}
