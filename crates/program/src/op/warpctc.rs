//! `warpctc`: Loss = -log of the probability that the softmax of Logits, step by step, gives the labels of each sequence, with `blank` between
//! them and each repeated at will (connectionist temporal classification). WarpCTCGrad is its derivative by Logits, \[steps, sequences, classes\].
//!
//! Logits and Label are sequences, or they are filled up: Logits \[steps, sequences, classes\] with LogitsLength, and Label \[sequences,
//! labels\] with LabelLength. A sequence that is too short for its labels costs 0, as in Fluid. `norm_by_times` divides gradients by the number
//! of steps.

use tensor::{Float, Shape};

use super::ragged;
use super::sizes::bad_attr;
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct Warpctc;
pub(super) struct WarpctcGrad;

const OP: &str = "WarpCTCOp";
const RULE: &str = "Logits and Label have as many sequences";
const PADDED: &str = "Logits are [steps, sequences, classes], with a length for each sequence";

/// One sequence: where its steps lie in Logits, and its labels.
struct CtcSequence {
    /// The first number of the first step.
    start: usize,
    /// From one step to the next.
    stride: usize,
    n_steps: usize,
    labels: Vec<usize>,
}

/// All sequences of a run.
struct CtcBatch {
    sequences: Vec<CtcSequence>,
    n_classes: usize,
    n_steps_max: usize,
}

impl CtcBatch {
    fn of(run: &Run<'_>) -> Result<Self> {
        let logits = run.input("Logits")?;
        let label_var = run.input_name("Label");
        let labels = super::sizes::integers(run.input("Label")?, label_var)?;
        let (mut sequences, n_classes) = if run.opt_input("LogitsLength").is_some() {
            Self::padded(run, &labels)?
        } else {
            Self::ragged(run, &labels)?
        };
        let blank = run.attrs().int("blank", 0)?;
        if !(0..n_classes as i64).contains(&blank) {
            return Err(bad_attr("blank", &format!("a class of {n_classes}"), blank));
        }
        for (row, sequence) in sequences.iter_mut().enumerate() {
            if let Some(&label) = sequence.labels.iter().find(|label| **label >= n_classes) {
                let var = label_var.to_string();
                return Err(Error::LabelOutOfRange { var, row, label: label as i64, n_classes });
            }
        }
        let longest = sequences.iter().map(|sequence| sequence.n_steps).max().unwrap_or(0);
        let padded = run.opt_input("LogitsLength").is_some();
        let n_steps_max = if padded { logits.shape().dim(0) } else { longest };
        Ok(Self { sequences, n_classes, n_steps_max })
    }

    fn ragged(run: &Run<'_>, labels: &[i64]) -> Result<(Vec<CtcSequence>, usize)> {
        let steps = ragged::offsets(run, OP, "Logits")?;
        let places = ragged::offsets(run, OP, "Label")?;
        let (n_classes, width) =
            (ragged::width(run.input("Logits")?), ragged::width(run.input("Label")?));
        if steps.len() != places.len() || width != 1 {
            return Err(run.shapes(RULE, "Logits", "Label"));
        }
        let sequence = |(steps, places): (&[usize], &[usize])| CtcSequence {
            start: steps[0] * n_classes,
            stride: n_classes,
            n_steps: steps[1] - steps[0],
            labels: labels[places[0]..places[1]].iter().map(|&label| as_class(label)).collect(),
        };
        Ok((steps.windows(2).zip(places.windows(2)).map(sequence).collect(), n_classes))
    }

    fn padded(run: &Run<'_>, labels: &[i64]) -> Result<(Vec<CtcSequence>, usize)> {
        let &[n_steps, n, n_classes] = run.input("Logits")?.dims() else {
            return Err(run.shape(PADDED, "Logits"));
        };
        let (steps, counts) = (run.data::<i64>("LogitsLength")?, run.data::<i64>("LabelLength")?);
        let width = ragged::width(run.input("Label")?);
        let fits = |lengths: &[i64], most: usize| {
            lengths.len() == n && lengths.iter().all(|length| (0..=most as i64).contains(length))
        };
        if !fits(steps, n_steps) {
            return Err(run.shapes(PADDED, "Logits", "LogitsLength"));
        }
        if !fits(counts, width) || labels.len() != n * width {
            return Err(run.shapes(
                "Label has a row of labels for each length",
                "Label",
                "LabelLength",
            ));
        }
        let sequence = |at: usize| CtcSequence {
            start: at * n_classes,
            stride: n * n_classes,
            n_steps: steps[at] as usize,
            labels: labels[at * width..][..counts[at] as usize]
                .iter()
                .map(|&l| as_class(l))
                .collect(),
        };
        Ok(((0..n).map(sequence).collect(), n_classes))
    }

    fn grad_shape(&self) -> Shape {
        Shape::from([self.n_steps_max, self.sequences.len(), self.n_classes])
    }
}

/// A negative label is beyond all classes.
fn as_class(label: i64) -> usize {
    usize::try_from(label).unwrap_or(usize::MAX)
}

impl Op for Warpctc {
    traits!(Never, "Logits": [F32], "Label": [I32]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let logits = infer.input("Logits")?;
        let padded = infer.opt_input("LogitsLength")?.is_some();
        let n_classes = logits.dims.last().copied().unwrap_or(-1);
        let n = if padded { logits.dims.get(1).copied().unwrap_or(-1) } else { -1 };
        infer.set_output("WarpCTCGrad", Meta::dense(logits.dtype, &[-1, n, n_classes]))?;
        infer.set_output("Loss", Meta::dense(logits.dtype, &[n, 1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut loss, mut d_logits) = (run.take("Loss"), run.take("WarpCTCGrad"));
        let batch = CtcBatch::of(run)?;
        let blank = run.attrs().int("blank", 0)? as usize;
        let logits = run.input("Logits")?;
        for_float!(logits.dtype(), run.input_name("Logits"), T => {
            let data = logits.data::<T>()?;
            let (n, n_classes) = (batch.sequences.len(), batch.n_classes);
            let loss = loss.resize::<T>(Shape::from([n, 1]));
            let d_logits = d_logits.try_resize_zeroed::<T>(batch.grad_shape())?;
            for (at, sequence) in batch.sequences.iter().enumerate() {
                let steps = (0..sequence.n_steps).map(|t| &data[sequence.start + t * sequence.stride..][..n_classes]);
                let chances: Vec<Vec<f64>> = steps.map(softmax).collect();
                let alignment = Alignment::new(&sequence.labels, blank);
                let (cost, slopes) = alignment.cost(&chances);
                loss[at] = cost as T;
                for (t, slopes) in slopes.iter().enumerate() {
                    let to = &mut d_logits[(t * n + at) * n_classes..][..n_classes];
                    to.iter_mut().zip(slopes).for_each(|(to, &slope)| *to = slope as T);
                }
            }
            Ok(())
        })?;
        run.put("Loss", loss);
        run.put("WarpCTCGrad", d_logits);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let keep = Keep::grads(&["Loss"], &["Logits"]).inputs(&[
            "Logits",
            "Label",
            "LogitsLength",
            "LabelLength",
        ]);
        grad.emit_usual(keep.outputs(&["WarpCTCGrad"]))
    }
}

fn softmax<T: Float>(scores: &[T]) -> Vec<f64> {
    let largest = scores.iter().fold(f64::NEG_INFINITY, |most, score| most.max(score.f64()));
    let powers: Vec<f64> = scores.iter().map(|score| (score.f64() - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// log(exp a + exp b).
fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// Labels with blanks around them, in which a step stays, goes on by one, or by two over a blank.
struct Alignment {
    states: Vec<usize>,
    n_repeats: usize,
}

impl Alignment {
    fn new(labels: &[usize], blank: usize) -> Self {
        let mut states = vec![blank];
        for &label in labels {
            states.extend([label, blank]);
        }
        Self { states, n_repeats: labels.windows(2).filter(|pair| pair[0] == pair[1]).count() }
    }

    /// Whether a step may go from the state before the last one to this one.
    fn skips(&self, state: usize) -> bool {
        state >= 2 && state % 2 == 1 && self.states[state] != self.states[state - 2]
    }

    /// -log of the probability, and its derivative by the score of each class at each step.
    fn cost(&self, chances: &[Vec<f64>]) -> (f64, Vec<Vec<f64>>) {
        let (n_steps, n_states) = (chances.len(), self.states.len());
        if n_steps == 0 || n_states / 2 + self.n_repeats > n_steps {
            return (0.0, Vec::new());
        }
        const NEVER: f64 = f64::NEG_INFINITY;
        let emit = |t: usize, state: usize| chances[t][self.states[state]].ln();
        let mut before = vec![vec![NEVER; n_states]; n_steps];
        before[0][0] = emit(0, 0);
        if n_states > 1 {
            before[0][1] = emit(0, 1);
        }
        for t in 1..n_steps {
            for state in 0..n_states {
                let mut sum = before[t - 1][state];
                if state >= 1 {
                    sum = log_add(sum, before[t - 1][state - 1]);
                }
                if self.skips(state) {
                    sum = log_add(sum, before[t - 1][state - 2]);
                }
                before[t][state] = sum + emit(t, state);
            }
        }
        // What comes after a state, without what it emits itself.
        let mut after = vec![NEVER; n_states];
        after[n_states - 1] = 0.0;
        if n_states > 1 {
            after[n_states - 2] = 0.0;
        }
        let ends = before[n_steps - 1].iter().zip(&after).map(|(b, a)| b + a);
        let total = ends.fold(NEVER, log_add);
        let mut slopes = chances.to_vec();
        for t in (0..n_steps).rev() {
            for state in 0..n_states {
                slopes[t][self.states[state]] -= (before[t][state] + after[state] - total).exp();
            }
            if t == 0 {
                break;
            }
            let next: Vec<f64> = (0..n_states).map(|state| after[state] + emit(t, state)).collect();
            for (state, after) in after.iter_mut().enumerate() {
                *after = next[state];
                if state + 1 < n_states {
                    *after = log_add(*after, next[state + 1]);
                }
                if state + 2 < n_states && self.skips(state + 2) {
                    *after = log_add(*after, next[state + 2]);
                }
            }
        }
        (-total, slopes)
    }
}

/// dLogits = dLoss WarpCTCGrad.
impl Kernel for WarpctcGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let by_times = run.attrs().bool("norm_by_times", false)?;
        run.fill("Logits@GRAD", "Logits", |run, logits, d_logits| {
            let batch = CtcBatch::of(run)?;
            let (kept, d_loss) = (run.input("WarpCTCGrad")?, run.input("Loss@GRAD")?);
            let n = batch.sequences.len();
            if kept.shape() != batch.grad_shape() || d_loss.len() != n {
                return Err(run.shapes("the forward pass had other sequences", "WarpCTCGrad", "Loss@GRAD"));
            }
            for_float!(logits.dtype(), run.input_name("Logits"), T => {
                let (kept, d_loss) = (kept.data::<T>()?, d_loss.data::<T>()?);
                let d_logits = d_logits.resize_zeroed::<T>(logits.shape());
                for (at, sequence) in batch.sequences.iter().enumerate() {
                    let times = if by_times { sequence.n_steps as T } else { 1.0 };
                    for t in 0..sequence.n_steps {
                        let to = &mut d_logits[sequence.start + t * sequence.stride..][..batch.n_classes];
                        let from = &kept[(t * n + at) * batch.n_classes..];
                        to.iter_mut().zip(from).for_each(|(to, &d)| *to = d * d_loss[at] / times);
                    }
                }
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use crate::error::Error;
    use crate::op::check::{Check, check, ids, seq, some, t};

    fn labels(dims: &[usize], data: &[i32]) -> Tensor {
        Tensor::new(dims, data).unwrap()
    }

    fn ragged() -> Check {
        check("warpctc")
            .input("Logits", seq(some(&[7, 3]), &[4, 3]))
            .input("Label", seq(labels(&[3, 1], &[1, 2, 1]), &[2, 1]))
    }

    #[test]
    fn sums_over_alignments() {
        // Two steps of equal chances, one label of two classes: (b l), (l b), (l l) of four.
        check("warpctc")
            .input("Logits", seq(t(&[2, 2], &[0.0; 4]), &[2]))
            .input("Label", seq(labels(&[1, 1], &[1]), &[1]))
            .output("WarpCTCGrad")
            .gives("Loss", t(&[1, 1], &[-0.75f64.ln()]));
        // Three equal labels do not fit into three steps.
        check("warpctc")
            .input("Logits", seq(t(&[3, 2], &[0.0; 6]), &[3]))
            .input("Label", seq(labels(&[3, 1], &[1, 1, 1]), &[3]))
            .output("WarpCTCGrad")
            .gives("Loss", t(&[1, 1], &[0.0]));
    }

    #[test]
    fn gradients_match_finite_differences() {
        ragged().output("Loss").aux("WarpCTCGrad").grad(&["Logits"]);
        check("warpctc")
            .input("Logits", some(&[4, 2, 3]))
            .input("LogitsLength", ids(&[2], &[4, 3]))
            .input("Label", labels(&[2, 2], &[1, 1, 2, 0]))
            .input("LabelLength", ids(&[2], &[2, 1]))
            .output("Loss")
            .aux("WarpCTCGrad")
            .grad(&["Logits"]);
    }

    #[test]
    fn refuses_labels_and_blanks_that_are_no_classes() {
        let beyond = seq(labels(&[3, 1], &[1, 3, 1]), &[2, 1]);
        let error = ragged().input("Label", beyond).output("Loss").fails();
        assert!(matches!(error.root(), Error::LabelOutOfRange { label: 3, .. }), "{error}");
        let error = ragged().attr("blank", 3).output("Loss").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let one = seq(labels(&[3, 1], &[1, 2, 1]), &[3]);
        let error = ragged().input("Label", one).output("Loss").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
