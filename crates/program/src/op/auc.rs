//! `auc`: area under the ROC curve from histograms of the predictions of both classes.
//!
//! A prediction p falls into bucket trunc(p * num_thresholds), computed in float32. With
//! `slide_steps` 0 the states hold the histogram of all batches so far; with S >= 1 they hold those
//! of the last S batches, in one of two layouts:
//!
//! - `[S, buckets]` (Fluid up to 1.6): oldest batch first. Each batch moves the rows up by one, so
//!   that no counter is needed.
//! - flat, `(S + 1) * buckets + 1` (Fluid from 1.7.2): a ring of S rows, their sum, and how many
//!   batches there were.

use tensor::{DType, Shape};

use super::{Infer, Op, Run};
use crate::attr::Attrs;
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct Auc;

const WIDTH: &str = "Only support binary classification,prediction dims[1] should be 1 or 2";
const ROWS: &str = "a label for each prediction is needed";
const STATES: &str = "a histogram state must have [slide_steps, num_thresholds + 1] elements";

/// How a state is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One histogram of everything.
    Total,
    /// The last batches, oldest first.
    Shifting { n_steps: usize },
    /// A ring, its sum, a counter.
    Ring { n_steps: usize },
}

struct Options {
    n_thresholds: usize,
    n_steps: usize,
}

impl Options {
    fn of(attrs: &Attrs) -> Result<Self> {
        let size = |name: &str, default, least: i64| {
            let value = attrs.int(name, default)?;
            if value >= least {
                return Ok(value as usize);
            }
            let (attr, expected) = (name.to_string(), format!("{least} or more"));
            Err(Error::BadAttr { attr, expected, actual: value.to_string() })
        };
        Ok(Self {
            n_thresholds: size("num_thresholds", 4095, 1)?,
            n_steps: size("slide_steps", 1, 0)?,
        })
    }

    fn n_buckets(&self) -> usize {
        self.n_thresholds + 1
    }

    /// The layout of a state of this many elements.
    fn layout(&self, len: usize) -> Option<Layout> {
        let (n_buckets, n_steps) = (self.n_buckets(), self.n_steps);
        match n_steps {
            0 => (len == n_buckets).then_some(Layout::Total),
            _ if len == n_steps * n_buckets => Some(Layout::Shifting { n_steps }),
            _ if len == (n_steps + 1) * n_buckets + 1 => Some(Layout::Ring { n_steps }),
            _ => None,
        }
    }
}

impl Op for Auc {
    fn name(&self) -> &'static str {
        "auc"
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        Options::of(infer.attrs())?;
        let (predict, label) = (infer.input("Predict")?, infer.input("Label")?);
        match predict.dims[..] {
            [_, -1 | 1 | 2] => {}
            _ => return Err(infer.shape(WIDTH, "Predict")),
        }
        let rows = (predict.dims[0], label.dims.first().copied().unwrap_or(-1));
        if rows.0 >= 0 && rows.1 >= 0 && rows.0 != rows.1 {
            return Err(infer.shapes(ROWS, "Predict", "Label"));
        }
        for (state, out) in [("StatPos", "StatPosOut"), ("StatNeg", "StatNegOut")] {
            let meta = infer.input(state)?;
            infer.set_output(out, meta)?;
        }
        infer.set_output("AUC", Meta::dense(DType::F64, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let options = Options::of(run.attrs())?;
        check_batch(run)?;
        let len = run.input("StatPos")?.len();
        let layout = options.layout(len).ok_or_else(|| run.shape(STATES, "StatPos"))?;
        if run.input("StatNeg")?.len() != len {
            return Err(run.shapes("both states must have one size", "StatPos", "StatNeg"));
        }
        run.data::<i64>("StatPos")?;
        run.data::<i64>("StatNeg")?;
        let mut auc = run.take("AUC");
        let mut sums = run.spare().tensor();
        let states = [("StatPos", "StatPosOut"), ("StatNeg", "StatNegOut")];
        run.update(states, |run, [pos, neg]| {
            let (pos, neg) = (pos.data_mut::<i64>()?, neg.data_mut::<i64>()?);
            let n_buckets = options.n_buckets();
            let sums = sums.resize::<i64>(Shape::from([2, n_buckets]));
            let (sum_pos, sum_neg) = sums.split_at_mut(n_buckets);
            let (new_pos, new_neg) = (open(pos, layout, sum_pos), open(neg, layout, sum_neg));
            count(run, options.n_thresholds, new_pos, new_neg)?;
            let pos = close(pos, layout, sum_pos);
            let area = area(pos, close(neg, layout, sum_neg));
            auc.resize::<f64>(Shape::from([1]))[0] = area;
            Ok(())
        })?;
        run.spare().keep(sums);
        run.put("AUC", auc);
        Ok(())
    }
}

/// Fails before any state is touched, so that a bad batch leaves no trace.
fn check_batch(run: &Run<'_>) -> Result<()> {
    let (predict, label) = (run.input("Predict")?, run.input("Label")?);
    let width = match predict.dims() {
        &[_, width @ (1 | 2)] => width,
        _ => return Err(run.shape(WIDTH, "Predict")),
    };
    if label.len() != predict.dims()[0] {
        return Err(run.shapes(ROWS, "Predict", "Label"));
    }
    run.data::<i64>("Label")?;
    probabilities(run, width, |row, p| {
        let rule = match p {
            0.0..=1.0 => return Ok(()),
            p if p < 0.0 => "The predict data must gather or equal 0.",
            _ => "The predict data must less or equal 1.",
        };
        let var = run.input_name("Predict").to_string();
        Err(Error::BadValue { rule, var, position: row * width + width - 1, value: f64::from(p) })
    })
}

/// Calls `f(row, probability of class 1)`.
fn probabilities(
    run: &Run<'_>,
    width: usize,
    mut f: impl FnMut(usize, f32) -> Result<()>,
) -> Result<()> {
    let predict = run.input("Predict")?;
    let last = (width - 1..predict.len()).step_by(width).enumerate();
    match predict.dtype() {
        DType::F64 => {
            let data = predict.data::<f64>()?;
            last.map(|(row, at)| (row, data[at] as f32)).try_for_each(|(row, p)| f(row, p))
        }
        _ => {
            let data = run.data::<f32>("Predict")?;
            last.map(|(row, at)| (row, data[at])).try_for_each(|(row, p)| f(row, p))
        }
    }
}

/// Adds the batch to its histograms. A negative label belongs to no class.
fn count(run: &Run<'_>, n_thresholds: usize, pos: &mut [i64], neg: &mut [i64]) -> Result<()> {
    let labels = run.data::<i64>("Label")?;
    let width = run.input("Predict")?.shape().last();
    probabilities(run, width, |row, p| {
        // In [0, 1] as checked, so the bucket is one of those there are.
        let bucket = (p * n_thresholds as f32) as usize;
        match labels[row] {
            1.. => pos[bucket] += 1,
            0 => neg[bucket] += 1,
            _ => {}
        }
        Ok(())
    })
}

/// Makes room in a state and returns the histogram to count the batch into. `scratch` gets the sum
/// of rows that move.
fn open<'a>(state: &'a mut [i64], layout: Layout, scratch: &mut [i64]) -> &'a mut [i64] {
    let n_buckets = scratch.len();
    match layout {
        Layout::Total => state,
        Layout::Shifting { n_steps } => {
            shift(state, n_steps, scratch);
            let row = state.len() - n_buckets;
            state[row..].fill(0);
            &mut state[row..]
        }
        Layout::Ring { n_steps } => {
            let (ring, rest) = state.split_at_mut(n_steps * n_buckets);
            let (sum, counter) = rest.split_at_mut(n_buckets);
            let row = counter[0].rem_euclid(n_steps as i64) as usize;
            let row = &mut ring[row * n_buckets..][..n_buckets];
            sum.iter_mut().zip(&*row).for_each(|(sum, old)| *sum -= old);
            row.fill(0);
            row
        }
    }
}

/// Moves rows up by one and adds them up on the way: the window of twenty batches is larger than the
/// nearest caches, so it is gone through once, and zeros that follow zeros, which most of it is, are
/// not written.
fn shift(state: &mut [i64], n_steps: usize, sum: &mut [i64]) {
    const WIDTH: usize = 512;
    let n_buckets = sum.len();
    sum.fill(0);
    for (part, sum) in sum.chunks_mut(WIDTH).enumerate() {
        for step in 1..n_steps {
            let (before, from) = state.split_at_mut(step * n_buckets + part * WIDTH);
            let to = &mut before[(step - 1) * n_buckets + part * WIDTH..][..sum.len()];
            move_row(to, &from[..sum.len()], sum);
        }
    }
}

/// A cache line of counts.
const LINE: usize = 8;

fn move_row(to: &mut [i64], from: &[i64], sum: &mut [i64]) {
    let (to, to_rest) = to.as_chunks_mut::<LINE>();
    let (from, from_rest) = from.as_chunks::<LINE>();
    let (sum, sum_rest) = sum.as_chunks_mut::<LINE>();
    for ((to, from), sum) in to.iter_mut().zip(from).zip(sum) {
        let all = from.iter().fold(0, |all, count| all | count);
        if all | to.iter().fold(0, |all, count| all | count) != 0 {
            *to = *from;
            sum.iter_mut().zip(from).for_each(|(sum, count)| *sum += count);
        }
    }
    to_rest.copy_from_slice(from_rest);
    sum_rest.iter_mut().zip(from_rest).for_each(|(sum, count)| *sum += count);
}

/// Brings the rest of a state up to date and returns the histogram of the window.
fn close<'a>(state: &'a mut [i64], layout: Layout, scratch: &'a mut [i64]) -> &'a [i64] {
    let n_buckets = scratch.len();
    match layout {
        Layout::Total | Layout::Shifting { n_steps: 1 } => state,
        Layout::Shifting { n_steps } => {
            let new = &state[(n_steps - 1) * n_buckets..];
            scratch.iter_mut().zip(new).for_each(|(sum, count)| *sum += count);
            scratch
        }
        Layout::Ring { n_steps } => {
            let (ring, rest) = state.split_at_mut(n_steps * n_buckets);
            let (sum, counter) = rest.split_at_mut(n_buckets);
            let row = counter[0].rem_euclid(n_steps as i64) as usize;
            let row = &ring[row * n_buckets..][..n_buckets];
            sum.iter_mut().zip(row).for_each(|(sum, new)| *sum += new);
            counter[0] += 1;
            sum
        }
    }
}

/// The area under the curve, from the highest threshold down. The order of the divisions is
/// Fluid's, for equal bits.
fn area(pos: &[i64], neg: &[i64]) -> f64 {
    let (mut area, mut n_pos, mut n_neg) = (0.0f64, 0.0f64, 0.0f64);
    for (&pos, &neg) in pos.iter().zip(neg).rev() {
        let (pos_before, neg_before) = (n_pos, n_neg);
        n_pos += pos as f64;
        n_neg += neg as f64;
        area += (n_neg - neg_before).abs() * (n_pos + pos_before) / 2.0;
    }
    if n_pos > 0.0 && n_neg > 0.0 { area / n_pos / n_neg } else { area }
}

#[cfg(test)]
mod tests;
