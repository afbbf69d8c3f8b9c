//! Common parts of recurrent ops: steps of many sequences as batches, and their activations.

use tensor::{Float, list_or_give_up, room_or_give_up};

use crate::error::{Error, Result};

/// Sequences laid side by side: batch t holds step t of every sequence that has one.
///
/// The longest sequence comes first, so that the sequences of batch t + 1 are the first of batch t.
#[derive(Debug)]
pub(super) struct Steps {
    /// Sequences, longest first; equally long ones in their order.
    order: Vec<usize>,
    /// The row of the input that each row of the batches is.
    rows: Vec<usize>,
    /// Where each batch begins, and the end of the last.
    starts: Vec<usize>,
}

impl Steps {
    /// The batches of sequences with these (checked) offsets; from their ends if `reverse`.
    pub(super) fn new(offsets: &[usize], reverse: bool) -> Self {
        let length = |sequence: usize| offsets[sequence + 1] - offsets[sequence];
        let mut order: Vec<usize> = list_or_give_up(0..offsets.len() - 1);
        // A stable sort would need memory.
        order.sort_unstable_by_key(|&sequence| (std::cmp::Reverse(length(sequence)), sequence));
        let n_steps = order.first().map_or(0, |&longest| length(longest));
        let (mut rows, mut starts) = (Vec::new(), vec![0]);
        room_or_give_up(&mut rows, offsets.last().copied().unwrap_or(0));
        for t in 0..n_steps {
            for &sequence in order.iter().take_while(|&&sequence| length(sequence) > t) {
                let first = offsets[sequence];
                rows.push(if reverse { first + length(sequence) - 1 - t } else { first + t });
            }
            starts.push(rows.len());
        }
        Self { order, rows, starts }
    }

    /// How many batches: the length of the longest sequence.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many sequences are not empty.
    pub(super) fn n_first(&self) -> usize {
        self.starts.get(1).copied().unwrap_or(0)
    }

    /// First row of batch `t`, and how many rows it has.
    pub(super) fn batch(&self, t: usize) -> (usize, usize) {
        (self.starts[t], self.starts[t + 1] - self.starts[t])
    }

    /// Puts rows of the input into the order of the batches.
    pub(super) fn gather<T: Float>(&self, input: &[T], width: usize, batches: &mut [T]) {
        gather(&self.rows, input, width, batches);
    }

    /// Puts rows of the batches into the order of the input.
    pub(super) fn scatter<T: Float>(&self, batches: &[T], width: usize, output: &mut [T]) {
        scatter(&self.rows, batches, width, output);
    }

    /// Puts the rows of the sequences that are not empty (first states) into the order of batch 0.
    pub(super) fn gather_first<T: Float>(&self, states: &[T], width: usize, batch: &mut [T]) {
        gather(&self.order[..self.n_first()], states, width, batch);
    }

    /// The inverse; states of empty sequences become 0.
    pub(super) fn scatter_first<T: Float>(&self, batch: &[T], width: usize, states: &mut [T]) {
        states.fill(T::zero());
        scatter(&self.order[..self.n_first()], batch, width, states);
    }
}

fn gather<T: Float>(rows: &[usize], from: &[T], width: usize, to: &mut [T]) {
    for (to, &row) in to.chunks_exact_mut(width.max(1)).zip(rows) {
        to.copy_from_slice(&from[row * width..(row + 1) * width]);
    }
}

fn scatter<T: Float>(rows: &[usize], from: &[T], width: usize, to: &mut [T]) {
    for (from, &row) in from.chunks_exact(width.max(1)).zip(rows) {
        to[row * width..(row + 1) * width].copy_from_slice(from);
    }
}

/// A function between gates and states, with its slope as a function of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Identity,
    Sigmoid,
    /// The sigmoid of inputs kept between [`GATE_MIN`] and [`GATE_MAX`]: that of `gru` and `lstm`.
    ClippedSigmoid,
    Tanh,
    Relu,
}

/// Where the sigmoid of `gru` and `lstm` stops to fall: no gate is quite closed.
const GATE_MIN: f64 = -40.0;
/// Where it stops to rise: no gate is quite open.
const GATE_MAX: f64 = 13.0;

impl Act {
    /// By the name that `gru` and `lstm` have in their attributes.
    pub(super) fn named(attrs: &crate::attr::Attrs, attr: &str, default: &str) -> Result<Self> {
        Ok(match attrs.str(attr, default)? {
            "identity" => Act::Identity,
            "sigmoid" => Act::ClippedSigmoid,
            "tanh" => Act::Tanh,
            "relu" => Act::Relu,
            other => return Err(bad(attr, "identity, sigmoid, tanh or relu", other)),
        })
    }

    /// By the number that `gru_unit` has.
    pub(super) fn numbered(attrs: &crate::attr::Attrs, attr: &str, default: i64) -> Result<Self> {
        Ok(match attrs.int(attr, default)? {
            0 => Act::Identity,
            1 => Act::Sigmoid,
            2 => Act::Tanh,
            3 => Act::Relu,
            other => return Err(bad(attr, "from 0 to 3", &other.to_string())),
        })
    }

    /// Its value.
    pub(super) fn of<T: Float>(self, x: T) -> T {
        match self {
            Act::Identity => x,
            Act::Sigmoid => T::one() / (T::one() + (-x).exp()),
            Act::ClippedSigmoid if x < T::of(GATE_MIN) => Act::Sigmoid.of(T::of(GATE_MIN)),
            Act::ClippedSigmoid if x > T::of(GATE_MAX) => Act::Sigmoid.of(T::of(GATE_MAX)),
            Act::ClippedSigmoid => Act::Sigmoid.of(x),
            Act::Tanh => x.tanh(),
            Act::Relu => x.max(T::zero()),
        }
    }

    /// Its slope where its value is `y`.
    pub(super) fn slope<T: Float>(self, y: T) -> T {
        match self {
            Act::Identity => T::one(),
            // The slope is not clipped, as in Fluid.
            Act::Sigmoid | Act::ClippedSigmoid => y * (T::one() - y),
            Act::Tanh => T::one() - y * y,
            Act::Relu if y > T::zero() => T::one(),
            Act::Relu => T::zero(),
        }
    }
}

fn bad(attr: &str, expected: &str, actual: &str) -> Error {
    let (attr, expected) = (attr.to_string(), expected.to_string());
    Error::BadAttr { attr, expected, actual: actual.to_string() }
}

/// Adds `bias` to every row.
pub(super) fn add_to_rows<T: Float>(bias: &[T], rows: &mut [T]) {
    for row in rows.chunks_exact_mut(bias.len().max(1)) {
        row.iter_mut().zip(bias).for_each(|(x, &b)| *x += b);
    }
}

/// Adds the rows up: the gradient of a bias.
pub(super) fn sum_rows<T: Float>(rows: &[T], sum: &mut [T]) {
    sum.fill(T::zero());
    for row in rows.chunks_exact(sum.len().max(1)) {
        sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_begin_with_the_longest_sequence() {
        // Lengths 2, 0, 3; Fluid 1.8.5 orders the rows the same way.
        let steps = Steps::new(&[0, 2, 2, 5], false);
        assert_eq!((steps.len(), steps.n_first()), (3, 2));
        assert_eq!(steps.rows, [2, 0, 3, 1, 4]);
        assert_eq!(steps.starts, [0, 2, 4, 5]);
        assert_eq!(Steps::new(&[0, 2, 2, 5], true).rows, [4, 1, 3, 0, 2]);
    }

    #[test]
    fn states_of_empty_sequences_stay_out() {
        let steps = Steps::new(&[0, 2, 2, 5], false);
        let (mut batch, mut states) = ([0.0; 2], [9.0; 3]);
        steps.gather_first(&[1.0, 2.0, 3.0], 1, &mut batch);
        assert_eq!(batch, [3.0, 1.0]);
        steps.scatter_first(&batch, 1, &mut states);
        assert_eq!(states, [1.0, 0.0, 3.0]);
    }

    /// The numbers are those of Fluid 1.8.5 for gates of `gru` and `lstm`, and of `gru_unit`.
    #[test]
    fn gates_of_sequences_are_never_quite_open_or_closed() {
        let mut attrs = crate::attr::Attrs::default();
        attrs.set("gate_activation", "sigmoid");
        let gate = Act::named(&attrs, "gate_activation", "").unwrap();
        for (x, y) in [
            (13.0, 0.999997739675702),
            (14.0, 0.999997739675702),
            (100.0, 0.999997739675702),
            (12.0, 0.9999938558253978),
            (-50.0, 4.248354255291589e-18),
            (-100.0, 4.248354255291589e-18),
            (-30.0, 9.357622968839299e-14),
        ] {
            assert!((gate.of(x) / y - 1.0f64).abs() < 1e-15, "{x}: {} {y}", gate.of(x));
            assert!((gate.of(x as f32) / y as f32 - 1.0).abs() < 2e-7, "{x}");
        }
        assert!(gate.of(f64::NAN).is_nan());
        attrs.set("gate_activation", 1);
        let unit = Act::numbered(&attrs, "gate_activation", 1).unwrap();
        // One step alone is not clipped.
        assert_eq!(unit.of(20.0f32), 1.0);
        assert!((unit.of(14.0f32) - 0.999_999_17).abs() < 2e-7);
    }

    #[test]
    fn nothing_makes_no_batches() {
        let steps = Steps::new(&[0, 0], false);
        assert_eq!((steps.len(), steps.n_first()), (0, 0));
    }
}
