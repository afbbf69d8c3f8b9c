//! A model in memory, with what each thread needs to run it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use program::Program;
use tensor::{EvenIfPoisoned, Tensor, Value};
use train::io::load_inference_model;
use train::{Executor, Feed, Scope};

use crate::batch::Samples;
use crate::error::{Error, Result};
use crate::slot::Slot;

/// The files of a model, where they do not have their usual names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFiles {
    /// The program, instead of `__model__`.
    pub model: Option<String>,
    /// One file with all parameters.
    pub params: Option<String>,
}

/// One prepared program, parameters that all threads read, and a worker for each thread that predicts at
/// the same time.
pub(crate) struct Model {
    program: Program,
    slots: Arc<[Slot]>,
    fetches: Vec<String>,
    params: Vec<(String, Value)>,
    idle: Mutex<Vec<ModelWorker>>,
}

/// What one prediction at a time needs.
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
    pub(crate) fn load(dir: &Path, files: &ModelFiles) -> Result<Self> {
        let scope = Scope::new();
        let model =
            load_inference_model(&scope, dir, files.model.as_deref(), files.params.as_deref())?;
        let slots = Slot::all(&model)?;
        let shared = |name: String| {
            let value = scope.write(&name, |value| {
                value.share();
                value.clone()
            });
            (name, value)
        };
        let params = scope.names().into_iter().map(shared).collect();
        let (program, fetches) = (model.program, model.fetches);
        Ok(Self { program, slots: slots.into(), fetches, params, idle: Mutex::default() })
    }

    pub(crate) fn slots(&self) -> &Arc<[Slot]> {
        &self.slots
    }

    /// What it predicts, in the order of the results.
    pub(crate) fn fetches(&self) -> &[String] {
        &self.fetches
    }

    /// Bytes of the parameters.
    pub(crate) fn n_bytes(&self) -> usize {
        let bytes = |value: &Value| match value {
            Value::Keyed(table) => table.n_bytes(),
            value => value.tensor().map_or(0, |tensor| tensor.bytes().len()),
        };
        self.params.iter().map(|(_, value)| bytes(value)).sum()
    }

    /// An empty batch.
    pub(crate) fn batch(&self) -> Samples {
        Samples::new(self.slots.clone())
    }

    /// Predicts for all samples of a batch.
    pub(crate) fn predict(&self, batch: &mut Samples) -> Result<Vec<Tensor>> {
        batch.n_samples()?;
        self.run(batch.feed_mut())
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
        ModelWorker { executor: Executor::new(), scope }
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
