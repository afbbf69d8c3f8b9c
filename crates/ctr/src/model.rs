//! A trained model: it predicts, is judged, saved and loaded.

use std::path::Path;

use data::DataFrame;
use program::{Net, Program};
use train::io::{ExtraFile, SaveInference, save_inference_model};
use train::{Executor, Scope};

use crate::batches::Batches;
use crate::encode::{Encoded, Encoding};
use crate::error::{Error, Result};
use crate::json;
use crate::judge;
use crate::saved::{EncodedModel, read_encoding};

/// Rows that are predicted at once.
const BATCH: usize = 1024;

/// A click-through model and its facts about columns.
#[derive(Debug)]
pub struct CtrModel {
    pub(crate) encoding: Encoding,
    /// The programs that trained it; the main program of a model that was loaded only predicts.
    pub(crate) net: Net,
    pub(crate) predictor: Predict,
    /// Another worker of the job saves it.
    pub(crate) is_copy: bool,
}

/// The program that computes predictions, and its variables.
#[derive(Debug)]
pub(crate) struct Predict {
    pub(crate) program: Program,
    pub(crate) fetch: String,
    pub(crate) scope: Scope,
    pub(crate) executor: Executor,
}

impl Predict {
    /// A prediction for each of these rows.
    pub(crate) fn run(
        &mut self,
        encoding: &Encoding,
        encoded: &Encoded,
        rows: &[usize],
    ) -> Result<Vec<f32>> {
        let mut batches = Batches::new(encoding, encoded, None);
        let (mut predicted, mut fetched) = (Vec::with_capacity(rows.len()), Vec::new());
        for rows in rows.chunks(BATCH) {
            let feed = batches.of(rows)?;
            let Self { program, fetch, scope, executor } = self;
            executor.run_into(program, scope, feed, &[fetch.as_str()], &mut fetched)?;
            predicted.extend_from_slice(fetched[0].data::<f32>()?);
        }
        Ok(predicted)
    }
}

impl CtrModel {
    /// Facts about its columns.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// The main and the startup program.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Where its parameters are.
    pub fn scope(&self) -> &Scope {
        &self.predictor.scope
    }

    /// The variable of the predictions.
    pub fn fetch(&self) -> &str {
        &self.predictor.fetch
    }

    /// A prediction for each row: how likely a click is, or a number. The target may be there; it is not
    /// read.
    pub fn predict(&mut self, frame: &DataFrame) -> Result<Vec<f32>> {
        let encoded = self.encoding.apply(frame)?;
        let rows: Vec<usize> = (0..encoded.n_rows).collect();
        self.predictor.run(&self.encoding, &encoded, &rows)
    }

    /// The area under the curve of true over false positives, exactly.
    pub fn auc(&mut self, frame: &DataFrame) -> Result<f64> {
        let labels = self.encoding.labels(frame)?;
        let predicted = self.predict(frame)?;
        judge::auc(&self.encoding.target, &predicted, &labels)
    }

    /// The root of the mean squared error.
    pub fn rmse(&mut self, frame: &DataFrame) -> Result<f64> {
        let labels = self.encoding.labels(frame)?;
        if labels.is_empty() {
            Err(Error::NoRows)
        } else {
            Ok(judge::rmse(&self.predict(frame)?, &labels))
        }
    }

    /// Saves the model and its encoding: a folder as `save_inference_model` writes it, with `ctr.json`.
    /// Of the workers of a job only the first saves.
    pub fn save(&self, dir: &Path) -> Result<()> {
        if self.is_copy {
            return Ok(());
        }
        let feeds = self.encoding.feeds();
        let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
        let bytes = json::to_bytes(&self.encoding);
        let options = SaveInference {
            feeds: &feeds,
            targets: &[self.fetch()],
            extra: &[ExtraFile { name: json::FILE, bytes: &bytes }],
            ..SaveInference::default()
        };
        save_inference_model(&self.predictor.scope, dir, &self.predictor.program, &options)?;
        Ok(())
    }

    /// Loads a model that [`CtrModel::save`] wrote.
    pub fn load(dir: &Path) -> Result<Self> {
        let refuse = |reason| Error::NotSaved { dir: dir.to_path_buf(), reason };
        let none = || refuse(format!("there is no {}", json::FILE));
        read_encoding(dir)?.ok_or_else(none)?;
        let EncodedModel { scope, model, encoding } = EncodedModel::load(dir, None, None)?;
        let encoding = encoding.ok_or_else(none)?;
        if !encoding.fits(&model.feeds) {
            let reason = format!("its program is fed other columns than {} says", json::FILE);
            return Err(refuse(reason));
        }
        let [fetch] = model.fetches.as_slice() else {
            return Err(refuse("it does not have one prediction".to_string()));
        };
        let (fetch, executor) = (fetch.clone(), Executor::new());
        let net = Net { main: model.program.clone(), ..Net::default() };
        let predictor = Predict { program: model.program, fetch, scope, executor };
        Ok(Self { encoding, net, predictor, is_copy: false })
    }
}
