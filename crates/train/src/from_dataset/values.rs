//! The values that a pass fetched, of the whole pass and all threads. Counters of a pass that only infers begin at zero and leave
//! those of the training alone.

use program::Program;
use tensor::{DType, Lod, Tensor, Value};

use crate::error::Result;
use crate::metrics::Auc;
use crate::scope::Scope;

/// A fetched variable over the whole pass.
#[derive(Clone, Debug, PartialEq)]
pub struct PassValue {
    /// Its value; nothing if there was no batch.
    pub value: Tensor,
    /// Whether it has a row for each sample: too much to print.
    pub by_sample: bool,
}

/// How the values of batches become one of the pass.
#[derive(Clone, Debug, PartialEq)]
enum How {
    /// The area of all that was counted into these variables.
    Area { positives: String, negatives: String },
    /// The final value in the scope.
    Kept,
    /// The mean over all samples.
    Mean,
    /// A number of things, added up.
    Sum,
    /// One batch behind the other.
    Rows,
    /// The last batch of the first thread.
    Last,
}

impl How {
    fn of(program: &Program, name: &str) -> Self {
        let mut ops = program.block(0).ops.iter().rev();
        let maker = ops.find(|op| op.writes().any(|written| written == name));
        if let Some(op) = maker.filter(|op| op.kind == "auc") {
            let states = (op.input_names("StatPos").first(), op.input_names("StatNeg").first());
            return match (op.attrs.int("slide_steps", 1), states) {
                (Ok(0), (Some(positives), Some(negatives))) => {
                    let (positives, negatives) = (positives.clone(), negatives.clone());
                    How::Area { positives, negatives }
                }
                // A window: it ends with the last batch.
                _ => How::Last,
            };
        }
        let Some(var) = program.find_var(0, name) else { return How::Last };
        match var.meta.dims[..] {
            _ if var.persistable => How::Kept,
            [-1, ..] => How::Rows,
            [] | [1] if var.meta.dtype.is_float() => How::Mean,
            [] | [1] => How::Sum,
            _ => How::Last,
        }
    }
}

/// The values of one thread so far.
#[derive(Debug)]
pub(super) struct Gathered {
    fetched: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    how: How,
    /// Of [`How::Mean`] and [`How::Sum`].
    sum: f64,
    n_samples: u64,
    /// The last value, or all rows without their numbers.
    last: Tensor,
    /// The numbers of all rows.
    bytes: Vec<u8>,
    n_rows: usize,
    lengths: Vec<Vec<usize>>,
}

impl Gathered {
    pub(super) fn new(program: &Program, fetch: &[String], infers: bool) -> Self {
        let how = |name: &String| match How::of(program, name) {
            // A training that prints a value does not want to keep it for every sample.
            How::Rows if !infers => How::Last,
            how => how,
        };
        let item = |name: &String| Item {
            how: how(name),
            sum: 0.0,
            n_samples: 0,
            last: Tensor::default(),
            bytes: Vec::new(),
            n_rows: 0,
            lengths: Vec::new(),
        };
        Self { fetched: fetch.iter().map(item).collect() }
    }

    /// One more batch.
    pub(super) fn add(&mut self, values: &[Tensor], n_samples: u64) {
        for (item, value) in self.fetched.iter_mut().zip(values) {
            item.add(value, n_samples);
        }
    }

    /// Adds what the next thread has.
    pub(super) fn join(&mut self, other: Gathered) {
        for (item, other) in self.fetched.iter_mut().zip(other.fetched) {
            item.join(other);
        }
    }

    /// Samples that were counted.
    pub(super) fn n_samples(&self) -> u64 {
        self.fetched.first().map_or(0, |item| item.n_samples)
    }

    /// The values of the pass.
    pub(super) fn finish(
        self,
        scope: &Scope,
        fetch: &[String],
        before: &CountsBefore,
    ) -> Result<Vec<PassValue>> {
        let items = self.fetched.into_iter().zip(fetch);
        items.map(|(item, name)| item.finish(scope, name, before)).collect()
    }
}

impl Item {
    fn add(&mut self, value: &Tensor, n_samples: u64) {
        match self.how {
            How::Area { .. } | How::Kept => {}
            How::Mean | How::Sum if value.len() != 1 => self.how = How::Last,
            How::Mean => self.sum += value.get_f64(0) * n_samples as f64,
            How::Sum => self.sum += value.get_f64(0),
            How::Rows => self.add_rows(value),
            How::Last => {}
        }
        self.n_samples += n_samples;
        if self.how != How::Rows {
            self.last.copy_from(value);
        }
    }

    fn add_rows(&mut self, value: &Tensor) {
        let n_rows = value.dims().first().copied().unwrap_or(0);
        let as_before = self.n_rows == 0
            || value.dtype() == self.last.dtype()
                && value.dims().get(1..) == self.last.dims().get(1..)
                && value.lod().n_levels() == self.lengths.len();
        if !as_before {
            // Rows of different lengths do not form one tensor.
            (self.how, self.bytes) = (How::Last, Vec::new());
            return;
        }
        if self.n_rows == 0 {
            self.lengths = vec![Vec::new(); value.lod().n_levels()];
            self.last.copy_from(value);
        }
        self.bytes.extend_from_slice(value.bytes());
        self.n_rows += n_rows;
        for (all, lengths) in self.lengths.iter_mut().zip(value.lod().lengths()) {
            all.extend(lengths);
        }
    }

    fn join(&mut self, other: Item) {
        if self.n_samples == 0 {
            *self = other;
            return;
        }
        if other.n_samples == 0 {
            return;
        }
        if self.how == How::Rows && other.how == How::Rows {
            let shape = other.last.shape().with_dim(0, other.n_rows);
            let lod = Lod::from_recursive_lengths(&other.lengths);
            if let Ok(mut rows) = Tensor::from_bytes(other.last.dtype(), shape, &other.bytes) {
                rows.set_lod(lod);
                self.add_rows(&rows);
            }
        }
        self.sum += other.sum;
        self.n_samples += other.n_samples;
    }

    fn finish(self, scope: &Scope, name: &str, before: &CountsBefore) -> Result<PassValue> {
        let by_sample = self.how == How::Rows;
        let value = match &self.how {
            How::Area { positives, negatives } => {
                let now = Auc::from_scope(scope, positives, negatives)?;
                Tensor::new([1], &[before.since(positives, &now).area()])?
            }
            How::Kept => {
                let held = |value: &Value| value.tensor().cloned();
                scope.read(name, held).flatten().unwrap_or(self.last)
            }
            How::Mean => self.number(self.sum / self.n_samples.max(1) as f64)?,
            How::Sum => self.number(self.sum)?,
            How::Rows if self.n_rows == 0 => self.last,
            How::Rows => {
                let shape = self.last.shape().with_dim(0, self.n_rows);
                let mut rows = Tensor::from_bytes(self.last.dtype(), shape, &self.bytes)?;
                if !self.lengths.is_empty() {
                    rows.set_lod(Lod::from_recursive_lengths(&self.lengths));
                }
                rows
            }
            How::Last => self.last,
        };
        Ok(PassValue { value, by_sample })
    }

    /// A number as the batches have it; nothing if there was none.
    fn number(&self, number: f64) -> Result<Tensor> {
        if self.n_samples == 0 {
            return Ok(Tensor::default());
        }
        let shape = self.last.shape();
        Ok(match self.last.dtype() {
            DType::F64 => Tensor::new(shape, &[number])?,
            DType::I32 => Tensor::new(shape, &[number as i32])?,
            DType::I64 => Tensor::new(shape, &[number as i64])?,
            _ => Tensor::new(shape, &[number as f32])?,
        })
    }
}

/// The histograms of an `auc` op.
#[derive(Clone, Debug)]
struct AucCounts {
    positives: String,
    negatives: String,
    counts: Option<Auc>,
}

/// The counts of `auc` ops when a pass began.
#[derive(Clone, Debug, Default)]
pub(super) struct CountsBefore(Vec<AucCounts>);

impl CountsBefore {
    pub(super) fn new(program: &Program, scope: &Scope) -> Self {
        let ops = program.block(0).ops.iter().filter(|op| op.kind == "auc");
        let whole = ops.filter(|op| op.attrs.int("slide_steps", 1).is_ok_and(|steps| steps == 0));
        let counts = |op: &program::OpDesc| {
            let positives = op.input_names("StatPos").first()?.clone();
            let negatives = op.input_names("StatNeg").first()?.clone();
            let counts = Auc::from_scope(scope, &positives, &negatives).ok();
            Some(AucCounts { positives, negatives, counts })
        };
        Self(whole.filter_map(counts).collect())
    }

    /// The counts since the pass began.
    fn since(&self, positives: &str, now: &Auc) -> Auc {
        let before = self.0.iter().find(|counts| counts.positives == positives);
        match before.and_then(|counts| counts.counts.as_ref()) {
            Some(before) => now.since(before),
            None => now.clone(),
        }
    }

    /// The area of the pass, by the first op.
    pub(super) fn area(&self, scope: &Scope) -> Option<f64> {
        let AucCounts { positives, negatives, .. } = self.0.first()?;
        let now = Auc::from_scope(scope, positives, negatives).ok()?;
        Some(self.since(positives, &now).area())
    }
}

/// Counters of the training, put aside during a pass that only infers. They are restored when this
/// is dropped.
///
/// Counters that the user has set to zero are the user's own: they keep counting.
pub(super) struct SavedCounters<'a> {
    scope: &'a Scope,
    kept: Vec<(String, Value)>,
}

impl<'a> SavedCounters<'a> {
    pub(super) fn put(program: &Program, scope: &'a Scope) -> Self {
        let ops = program.blocks().iter().flat_map(|block| &block.ops);
        let counting = ops.filter(|op| op.kind == "auc");
        let mut kept = Vec::new();
        for name in counting
            .flat_map(|op| ["StatPos", "StatNeg"].map(|port| op.input_names(port)))
            .flatten()
        {
            let is_zero = |value: &Value| {
                value.tensor().is_none_or(|tensor| tensor.bytes().iter().all(|&byte| byte == 0))
            };
            if scope.read(name, is_zero).unwrap_or(true) {
                continue;
            }
            let Some(value) = scope.get(name) else { continue };
            scope.write(name, |value| {
                value.unshare();
                if let Value::Tensor(tensor) = value {
                    tensor.bytes_mut().fill(0);
                }
            });
            kept.push((name.clone(), value));
        }
        Self { scope, kept }
    }
}

impl Drop for SavedCounters<'_> {
    fn drop(&mut self) {
        for (name, value) in self.kept.drain(..) {
            self.scope.set(&name, value);
        }
    }
}
