//! `auc`: area under the ROC curve from histograms of the predictions of both classes.
//!
//! A prediction p falls into bucket trunc(p * num_thresholds), computed in float32. With
//! `slide_steps` 0 the states hold the histogram of all batches so far, `[1, buckets]`; with S >= 1
//! those of the last S batches, flat, `(S + 1) * buckets + 1`: a ring of S rows, their sum, and how
//! many batches there were (Fluid from 1.7.2).
//!
//! States of Fluid up to 1.6, `[S, buckets]` with the oldest batch first, are read too, and are
//! written in the new layout.

use tensor::{DType, Shape, Tensor};

use super::{Infer, Op, Run, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct Auc;

const WIDTH: &str = "Only support binary classification,prediction dims[1] should be 1 or 2";
const ROWS: &str = "a label for each prediction is needed";
const STATES: &str = "a state must have (slide_steps + 1) * (num_thresholds + 1) + 1 elements (1.6: slide_steps * \
     (num_thresholds + 1); without steps: num_thresholds + 1)";

struct AucOptions {
    n_thresholds: usize,
    n_steps: usize,
}

impl AucOptions {
    fn of(attrs: &Attrs) -> Result<Self> {
        let size = |name: &str, default, least: i64| {
            let value = attrs.int(name, default)?;
            if (least..=i64::from(i32::MAX)).contains(&value) {
                return Ok(value as usize);
            }
            let (attr, expected) = (name.to_string(), format!("{least} or more, an int32"));
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

    /// The shape that states get.
    fn shape(&self) -> Shape {
        match self.n_steps {
            0 => Shape::from([1, self.n_buckets()]),
            n_steps => Shape::from([(n_steps + 1) * self.n_buckets() + 1]),
        }
    }

    /// Elements of a state as older versions have it, or as the layer of 1.8.5 declares it.
    fn other_len(&self) -> usize {
        match self.n_steps {
            0 => self.n_buckets() + 1,
            n_steps => n_steps * self.n_buckets(),
        }
    }

    /// Gives a state of one of the known sizes its shape and layout.
    fn settle(&self, state: &mut Tensor) -> Result<()> {
        let shape = self.shape();
        if state.len() == shape.n_elements() {
            return Ok(state.reshape(shape)?);
        }
        let old = state.data::<i64>()?.to_vec();
        let new = state.resize_zeroed::<i64>(shape);
        let kept = old.len().min(new.len());
        new[..kept].copy_from_slice(&old[..kept]);
        if self.n_steps > 0 {
            // The oldest row comes first, so it is the next to go.
            let (ring, rest) = new.split_at_mut(kept);
            for row in ring.chunks_exact(self.n_buckets()) {
                rest.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
            }
            rest[self.n_buckets()] = self.n_steps as i64;
        }
        Ok(())
    }
}

impl Op for Auc {
    traits!(Never, "Predict": [F32, F64], "Label": [I32, I64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let options = AucOptions::of(infer.attrs())?;
        let (predict, label) = (infer.input("Predict")?, infer.input("Label")?);
        match predict.dims[..] {
            [_, -1 | 1 | 2] => {}
            _ => return Err(infer.shape(WIDTH, "Predict")),
        }
        let rows = (predict.dims[0], label.dims.first().copied().unwrap_or(-1));
        if rows.0 >= 0 && rows.1 >= 0 && rows.0 != rows.1 {
            return Err(infer.shapes(ROWS, "Predict", "Label"));
        }
        let dims = options.shape().to_i64();
        for (state, out) in [("StatPos", "StatPosOut"), ("StatNeg", "StatNegOut")] {
            let meta = infer.input(state)?;
            infer.set_output(out, meta.with_dims(dims.clone()))?;
        }
        infer.set_output("AUC", Meta::dense(DType::F64, &[1]))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let options = AucOptions::of(run.attrs())?;
        check_batch(run)?;
        let len = run.input("StatPos")?.len();
        if len != options.shape().n_elements() && len != options.other_len() {
            return Err(run.shape(STATES, "StatPos"));
        }
        if run.input("StatNeg")?.len() != len {
            return Err(run.shapes("both states must have one size", "StatPos", "StatNeg"));
        }
        run.data::<i64>("StatPos")?;
        run.data::<i64>("StatNeg")?;
        let mut auc = run.take("AUC");
        let states = [("StatPos", "StatPosOut"), ("StatNeg", "StatNegOut")];
        run.update(states, |run, [pos, neg]| {
            options.settle(pos)?;
            options.settle(neg)?;
            let (pos, neg) = (pos.data_mut::<i64>()?, neg.data_mut::<i64>()?);
            let (new_pos, new_neg) = (open(pos, &options), open(neg, &options));
            count(run, options.n_thresholds, new_pos, new_neg)?;
            let area = area(close(pos, &options), close(neg, &options));
            auc.resize::<f64>(Shape::from([1]))[0] = area;
            Ok(())
        })?;
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
            1.. => pos[bucket] = pos[bucket].wrapping_add(1),
            0 => neg[bucket] = neg[bucket].wrapping_add(1),
            _ => {}
        }
        Ok(())
    })
}

/// The parts of a state that covers the last batches.
struct AucWindow<'a> {
    /// The histogram of the batch that is under way.
    row: &'a mut [i64],
    /// The sum of all rows.
    sum: &'a mut [i64],
    n_batches: &'a mut i64,
}

fn window<'a>(state: &'a mut [i64], options: &AucOptions) -> AucWindow<'a> {
    let (n_steps, n_buckets) = (options.n_steps, options.n_buckets());
    let (ring, rest) = state.split_at_mut(n_steps * n_buckets);
    let (sum, counter) = rest.split_at_mut(n_buckets);
    let row = counter[0].rem_euclid(n_steps as i64) as usize;
    let row = &mut ring[row * n_buckets..][..n_buckets];
    AucWindow { row, sum, n_batches: &mut counter[0] }
}

/// Makes room in a state and returns the histogram to count the batch into.
fn open<'a>(state: &'a mut [i64], options: &AucOptions) -> &'a mut [i64] {
    if options.n_steps == 0 {
        return state;
    }
    let AucWindow { row, sum, .. } = window(state, options);
    sum.iter_mut().zip(&*row).for_each(|(sum, old)| *sum = sum.wrapping_sub(*old));
    row.fill(0);
    row
}

/// Brings the rest of a state up to date and returns the histogram of the window.
fn close<'a>(state: &'a mut [i64], options: &AucOptions) -> &'a [i64] {
    if options.n_steps == 0 {
        return state;
    }
    let AucWindow { row, sum, n_batches } = window(state, options);
    sum.iter_mut().zip(&*row).for_each(|(sum, new)| *sum = sum.wrapping_add(*new));
    *n_batches = n_batches.wrapping_add(1);
    sum
}

/// The area under the curve, from the highest threshold down. The order of the divisions is
/// Fluid's, for equal bits.
fn area(pos: &[i64], neg: &[i64]) -> f64 {
    let mut area = 0.0f64;
    let mut n_pos = 0.0f64;
    let mut n_neg = 0.0f64;
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
