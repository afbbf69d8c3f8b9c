//! Passes over the rows, and which of them was the best.

use data::{DataFrame, Feed};
use fleet::ready::Watch;
use metrics::{Phase, PhaseNumber};
use tensor::Value;

use crate::batches::{Batches, Labels, share, shuffle};
use crate::encode::{Encoded, Encoding};
use crate::error::{Error, Result};
use crate::judge;
use crate::model::CtrModel;
use crate::settings::Ctr;
use crate::words::Loss;

/// The best epoch so far.
pub(crate) struct Best<'a> {
    settings: &'a Ctr,
    epoch: u32,
    score: Option<f64>,
    pub(crate) kept: Option<Vec<(String, Value)>>,
}

impl<'a> Best<'a> {
    pub(crate) fn new(settings: &'a Ctr) -> Self {
        Self { settings, epoch: 0, score: None, kept: None }
    }

    /// Whether this epoch is the best. Then it is kept, if there is a later one that may be worse.
    pub(crate) fn take(
        &mut self,
        epoch: u32,
        score: Option<f64>,
        keep: impl FnOnce() -> Vec<(String, Value)>,
    ) -> bool {
        let is_better = |old: f64, new: f64| match self.settings.loss {
            Loss::Log => new > old,
            Loss::Squared => new < old,
        };
        let is_best = match (self.score, score) {
            (Some(old), Some(new)) => is_better(old, new),
            _ => true,
        };
        if is_best {
            (self.epoch, self.score) = (epoch, score);
            let is_last = epoch == self.settings.epochs || score.is_none();
            self.kept = (!is_last).then(keep);
        }
        is_best
    }

    /// Whether nothing became better for too long.
    pub(crate) fn is_over(&self, epoch: u32) -> bool {
        epoch >= self.settings.epochs || epoch - self.epoch >= self.settings.patience
    }

    pub(crate) fn line(&self, epoch: u32, loss: f64, score: Option<f64>, is_best: bool) -> String {
        let what = if self.settings.loss == Loss::Log { "AUC" } else { "RMSE" };
        let score = score.map_or(String::new(), |score| {
            format!(", validation {what} {score:.5}{}", if is_best { " (best)" } else { "" })
        });
        format!("epoch {epoch}/{}: loss {loss:.5}{score}", self.settings.epochs)
    }
}

/// The tables of a training.
pub(crate) struct Tables<'a> {
    pub(crate) train: &'a DataFrame,
    pub(crate) validation: Option<&'a DataFrame>,
}

/// Rows to train on and rows to validate with, encoded.
pub(crate) struct Rows {
    pub(crate) encoded: Encoded,
    pub(crate) labels: Vec<f32>,
    train: Vec<usize>,
    validation: Vec<usize>,
    other: Option<OtherRows>,
}

/// Rows to validate with that are of another table.
struct OtherRows {
    encoded: Encoded,
    labels: Vec<f32>,
}

impl Rows {
    pub(crate) fn new(settings: &Ctr, encoding: &Encoding, tables: Tables<'_>) -> Result<Self> {
        let encoded = encoding.apply(tables.train)?;
        let labels = encoding.labels(tables.train)?;
        let other = match tables.validation {
            Some(frame) => {
                let (encoded, labels) = (encoding.apply(frame)?, encoding.labels(frame)?);
                Some(OtherRows { encoded, labels })
            }
            None => None,
        };
        let mut train: Vec<usize> = (0..encoded.n_rows).collect();
        let part = if other.is_some() { 0.0 } else { settings.validation_part() };
        let n_kept = (part * encoded.n_rows as f64).round() as usize;
        if n_kept == 0 {
            return Ok(Self { encoded, labels, train, validation: Vec::new(), other });
        }
        shuffle(&mut train, settings.seed as u64);
        let mut validation = train.split_off(encoded.n_rows - n_kept);
        // The rest stays in its order.
        train.sort_unstable();
        validation.sort_unstable();
        if train.is_empty() {
            return Err(Error::NoRows);
        }
        Ok(Self { encoded, labels, train, validation, other })
    }

    /// The rows of an epoch in their order.
    pub(crate) fn order(&self, settings: &Ctr, epoch: u32) -> Vec<usize> {
        let mut rows = self.train.clone();
        // The first pass is in the order of the table: click logs are in the order of time.
        if epoch > 1 {
            shuffle(&mut rows, (settings.seed as u64) << 32 | u64::from(epoch));
        }
        rows
    }

    /// The score of a row of which nothing is known.
    pub(crate) fn base(&self, loss: Loss) -> f32 {
        let n = self.train.len().max(1) as f64;
        let mean = self.train.iter().map(|&row| f64::from(self.labels[row])).sum::<f64>() / n;
        match loss {
            Loss::Squared => mean as f32,
            Loss::Log => {
                let rate = mean.clamp(0.5 / n, 1.0 - 0.5 / n);
                (rate / (1.0 - rate)).ln() as f32
            }
        }
    }

    /// How good the model is on the rows that were kept back; `None` if there are none.
    pub(crate) fn judge(&self, model: &mut CtrModel) -> Result<Option<f64>> {
        let CtrModel { encoding, predictor, .. } = model;
        let (predicted, labels) = match &self.other {
            Some(OtherRows { encoded, labels }) => {
                let rows: Vec<usize> = (0..encoded.n_rows).collect();
                (predictor.run(encoding, encoded, &rows)?, labels.clone())
            }
            None if self.validation.is_empty() => return Ok(None),
            None => {
                let labels = self.validation.iter().map(|&row| self.labels[row]).collect();
                (predictor.run(encoding, &self.encoded, &self.validation)?, labels)
            }
        };
        match encoding.target.loss {
            Loss::Squared => Ok(Some(judge::rmse(&predicted, &labels))),
            Loss::Log => match judge::auc(&encoding.target, &predicted, &labels) {
                // So few rows were kept back that all are of one class: they say nothing.
                Err(Error::OneClass { .. }) => Ok(None),
                judged => judged.map(Some),
            },
        }
    }
}

/// One pass.
pub(crate) struct Epoch<'a> {
    pub(crate) settings: &'a Ctr,
    pub(crate) nth: u32,
    /// The rows of this process, in order.
    pub(crate) rows: Vec<usize>,
    pub(crate) rows_of: &'a Rows,
}

impl Epoch<'_> {
    /// Runs a step on each batch; returns the mean loss.
    pub(crate) fn run(
        self,
        encoding: &Encoding,
        mut run: impl FnMut(&mut Feed) -> Result<f64>,
        watch: &mut Watch<'_>,
    ) -> Result<f64> {
        let Self { settings, nth, rows, rows_of } = self;
        let labels = Labels { name: &encoding.target.name, values: &rows_of.labels };
        let mut batches = Batches::new(encoding, &rows_of.encoded, Some(labels));
        let (mut sum, mut n_done) = (0.0, 0);
        let phase = Phase::begin(&format!("epoch {nth}/{}", settings.epochs), "rows");
        phase.set_total(rows.len() as u64);
        for batch in rows.chunks(settings.batch_size) {
            let loss = run(batches.of(batch)?)?;
            if !loss.is_finite() {
                return Err(Error::Diverged { epoch: nth });
            }
            sum += loss * batch.len() as f64;
            n_done += batch.len();
            if (watch.stops)() {
                return Err(Error::Stopped);
            }
            phase.add(batch.len() as u64);
            let number = || PhaseNumber { name: "loss".to_string(), value: sum / n_done as f64 };
            phase.set_numbers(|| vec![number()]);
        }
        Ok(sum / n_done.max(1) as f64)
    }

    /// The part of a worker.
    pub(crate) fn of_worker(mut self, worker: usize, n_workers: usize) -> Self {
        self.rows = share(&self.rows, worker, n_workers);
        self
    }
}
