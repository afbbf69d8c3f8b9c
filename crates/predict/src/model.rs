//! A model in memory, with the state of each thread that runs it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;
use ctr::{EncodedModel, Encoding};
use data::DataFrame;
use program::Program;
use program::op::computes_by_sample;
use tensor::{Tensor, Value};
use train::{Executor, Feed, PackedWeights, Scope};

use crate::batch::Samples;
use crate::cores::Cores;
use crate::error::{Error, Result};
use crate::files::ModelFiles;
use crate::fold::fold_constants;
use crate::slot::Slot;

/// One prepared program, parameters that all threads read, and a worker for each thread that predicts at
/// the same time.
pub(crate) struct Model {
    program: Program,
    slots: Arc<[Slot]>,
    fetches: Vec<String>,
    /// The names of the results.
    outputs: Vec<String>,
    /// The user knows of columns that are not read.
    has_warned: AtomicBool,
    /// The encoding of the columns of a table, if CTR saved the model.
    encoding: Option<Encoding>,
    /// The batch that others are copies of, so that their names are compared by address.
    empty: Samples,
    params: Vec<(String, Value)>,
    packed: PackedWeights,
    /// Samples may be computed together with others, or apart from them.
    by_sample: bool,
    cores: Cores,
    idle: Mutex<Vec<ModelWorker>>,
    /// Batches that are put together from several, or parts of one; kept for their memory.
    joined: Mutex<Vec<Samples>>,
}

/// The state of one prediction at a time.
struct ModelWorker {
    executor: Executor,
    scope: Scope,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Model with {} slots, {} parameters", self.slots.len(), self.params.len())
    }
}

impl Model {
    /// Loads a model that `n_threads` compute with at the same time.
    pub(crate) fn load(
        dir: &Path,
        files: &ModelFiles,
        n_threads: Arc<AtomicUsize>,
    ) -> Result<Self> {
        let files = files.found_in(dir);
        let loaded = EncodedModel::load(dir, files.model.as_deref(), files.params.as_deref())
            .map_err(|error| match error {
                ctr::Error::Train(error) => Error::Train(error),
                error => Error::Table(error),
            })?;
        let EncodedModel { scope, mut model, encoding } = loaded;
        // Another model may have been saved over one of CTR, whose encoding is still there.
        let encoding = encoding.filter(|encoding| encoding.fits(&model.feeds));
        fold_constants(&mut model.program, &scope);
        let slots: Arc<[Slot]> = Slot::all(&model)?.into();
        let shared = |name: String| {
            let value = scope.write(&name, |value| {
                value.share();
                value.clone()
            });
            (name, value)
        };
        let params = scope.names().into_iter().map(shared).collect();
        let (program, fetches) = (model.program, model.fetches);
        let is_plain = slots.iter().all(|slot| slot.width().is_ok());
        let by_sample = is_plain && computes_by_sample(&program, &model.feeds, &fetches);
        Ok(Self {
            packed: PackedWeights::new(&program, &scope),
            by_sample,
            cores: Cores::new(n_threads),
            program,
            empty: Samples::new(slots.clone()),
            slots,
            outputs: match (&encoding, fetches.len()) {
                (Some(encoding), 1) => vec![encoding.target.name.clone()],
                _ => fetches.clone(),
            },
            fetches,
            has_warned: AtomicBool::new(false),
            encoding,
            params,
            idle: Mutex::default(),
            joined: Mutex::default(),
        })
    }

    pub(crate) fn slots(&self) -> &Arc<[Slot]> {
        &self.slots
    }

    /// The names of its predictions, in the order of the results: the target if CTR saved the model.
    pub(crate) fn outputs(&self) -> &[String] {
        &self.outputs
    }

    /// The variables that are fetched.
    pub(crate) fn fetched_vars(&self) -> &[String] {
        &self.fetches
    }

    /// The encoding of the columns of a table, if CTR saved the model.
    pub(crate) fn encoding(&self) -> Option<&Encoding> {
        self.encoding.as_ref()
    }

    /// A sentence about columns of a table that the model does not read, the first time that there are some.
    pub(crate) fn warning(&self, frame: &DataFrame) -> Option<String> {
        self.warning_once(self.encoding.as_ref()?.warning(frame))
    }

    /// Says the first time that a request has columns that the model does not read.
    pub(crate) fn warn_of(&self, unread: &[String]) {
        if let Some(text) = self.warning_once(Encoding::warning_of(unread)) {
            tracing::warn!(target: "paddlewheel::data", "{text}");
        }
    }

    fn warning_once(&self, text: Option<String>) -> Option<String> {
        let text = text?;
        (!self.has_warned.swap(true, Ordering::Relaxed)).then_some(text)
    }

    /// The rows of a table as a batch.
    pub(crate) fn encode(&self, encoding: &Encoding, frame: &DataFrame) -> Result<Samples> {
        if let Some(text) = self.warning(frame) {
            tracing::warn!(target: "paddlewheel::data", "{text}");
        }
        let mut batch = self.batch();
        for (name, tensor) in encoding.feed(frame)?.iter() {
            batch.set_tensor(name, tensor)?;
        }
        Ok(batch)
    }

    /// Bytes of the parameters.
    pub(crate) fn n_bytes(&self) -> usize {
        let bytes = |value: &Value| match value {
            Value::Keyed(table) => table.n_bytes(),
            value => value.tensor().map_or(0, |tensor| tensor.bytes().len()),
        };
        let params: usize = self.params.iter().map(|(_, value)| bytes(value)).sum();
        params + self.packed.n_bytes()
    }

    /// An empty batch.
    pub(crate) fn batch(&self) -> Samples {
        self.empty.clone()
    }

    /// Whether each sample is computed alone, whatever is beside it.
    pub(crate) fn computes_by_sample(&self) -> bool {
        self.by_sample
    }

    pub(crate) fn cores(&self) -> &Cores {
        &self.cores
    }

    /// A batch that samples of others are copied into.
    pub(crate) fn take_joined(&self) -> Samples {
        self.joined.lock().even_if_poisoned().pop().unwrap_or_else(|| self.batch())
    }

    pub(crate) fn keep_joined(&self, batch: Samples) {
        self.joined.lock().even_if_poisoned().push(batch);
    }

    /// Runs on tensors as they are.
    pub(crate) fn run(&self, feed: &mut Feed) -> Result<Vec<Tensor>> {
        let mut worker = self.take_worker();
        let fetches: Vec<&str> = self.fetches.iter().map(String::as_str).collect();
        let ModelWorker { executor, scope } = &mut worker;
        let ran = executor.run(&self.program, scope, feed, &fetches);
        // A run that failed leaves the worker usable.
        self.idle.lock().even_if_poisoned().push(worker);
        ran.map_err(blame)
    }

    fn take_worker(&self) -> ModelWorker {
        if let Some(worker) = self.idle.lock().even_if_poisoned().pop() {
            return worker;
        }
        let scope = Scope::new();
        for (name, value) in &self.params {
            scope.set(name, value.clone());
        }
        let mut executor = Executor::new();
        executor.set_packed(self.packed.clone());
        ModelWorker { executor, scope }
    }
}

/// An id that a table does not have is the request's fault, whatever op found it.
fn blame(error: train::Error) -> Error {
    if let train::Error::Program(inner) = &error
        && let program::Error::IdOutOfRange { var, id, height, .. } = inner.root()
    {
        return Error::IdOutOfRange { slot: var.clone(), id: *id, height: *height };
    }
    Error::Train(error)
}

#[cfg(test)]
mod tests {
    use program::Net;
    use program::layers::{self, Data};
    use tensor::DType;
    use train::io::{SaveInference, save_inference_model};
    use train::{Executor, Feed, Scope};

    use super::*;
    use crate::batch::Column;

    /// `norm` drops sequences: two callers with no id and two ids are two samples and two rows, both of the second.
    #[test]
    fn rows_that_lost_their_sequences_stay_with_their_caller() {
        let mut net = Net::with_seed(1);
        let b = &mut net.builder();
        let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
        let ids = layers::data(b, "ids", &[1], ids).unwrap();
        let rows = layers::embedding(b, &ids, [10, 4], Default::default()).unwrap();
        let out = layers::l2_normalize(b, &rows, Some(1), 1e-12, None).unwrap();
        let scope = Scope::new();
        Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let targets = [out.name()];
        let options =
            SaveInference { feeds: &["ids"], targets: &targets, ..SaveInference::default() };
        save_inference_model(&scope, dir.path(), &net.main, &options).unwrap();
        let model = Model::load(dir.path(), &ModelFiles::default(), Arc::default()).unwrap();
        assert!(model.computes_by_sample());
        for (lengths, is_known) in [([0, 2], false), ([2, 0], false), ([1, 1], true)] {
            let callers = [&[3, 4][..lengths[0]], &[5, 6][..lengths[1]]].map(|values| {
                let mut batch = model.batch();
                let lengths = &[values.len()];
                batch.set("ids", Column::Sequences { values, lengths }).unwrap();
                batch
            });
            let mut whole = model.batch();
            whole.join(callers.iter());
            let outputs = model.run(whole.feed_mut()).unwrap();
            assert_eq!(outputs[0].dims(), [2, 4]);
            assert_eq!(whole.can_be_split(&outputs, 2), is_known, "{lengths:?}");
        }
    }

    /// Requests of several callers are computed as one batch, whatever functions of one number a model has.
    #[test]
    fn a_model_with_an_arc_cosine_shares_batches() {
        let mut net = Net::with_seed(1);
        let b = &mut net.builder();
        let x = layers::data(b, "x", &[2], Data::default()).unwrap();
        let x = layers::acos(b, &x, None).unwrap();
        let out = layers::soft_relu(b, &x, Default::default()).unwrap();
        let scope = Scope::new();
        Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let targets = [out.name()];
        let options =
            SaveInference { feeds: &["x"], targets: &targets, ..SaveInference::default() };
        save_inference_model(&scope, dir.path(), &net.main, &options).unwrap();
        let model = Model::load(dir.path(), &ModelFiles::default(), Arc::default()).unwrap();
        assert!(model.computes_by_sample());
    }
}
