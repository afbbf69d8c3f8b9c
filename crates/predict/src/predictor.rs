//! A model that many threads predict with, and that takes over newer ones.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock, Weak};
use std::time::Duration;

use base::EvenIfPoisoned;
use ctr::Encoding;
use data::DataFrame;
use tensor::Tensor;
use train::Feed;

use crate::batch::Samples;
use crate::error::{Error, Result};
use crate::files::ModelFiles;
use crate::model::Model;
use crate::slot::Slot;
use crate::stamp::Stamp;

/// Predicts with a saved model. Copies of a predictor share the model.
///
/// ```
/// use predict::{Column, Predictor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use program::Net;
/// # use program::layers::{self, Data, Fc};
/// # use train::io::{SaveInference, save_inference_model};
/// # use train::{Executor, Feed, Scope};
/// # let mut net = Net::with_seed(1);
/// # let b = &mut net.builder();
/// # let x = layers::data(b, "x", &[2], Data::default())?;
/// # let out = layers::fc(b, &[x], 1, Fc::default())?;
/// # let scope = Scope::new();
/// # Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[])?;
/// # let dir = tempfile::tempdir()?;
/// # let (feeds, targets) = (["x"], [out.name()]);
/// # let what = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
/// # save_inference_model(&scope, dir.path(), &net.main, &what)?;
/// // `dir` has a model that was saved, with one input of two numbers.
/// let predictor = Predictor::load(dir.path())?;
/// let mut batch = predictor.batch();
/// batch.set("x", Column::Numbers(&[0.5, 1.0, 0.0, 2.0]))?;
/// let predicted = predictor.predict(&mut batch)?;
/// assert_eq!(predicted[0].dims(), [2, 1]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Predictor(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    files: ModelFiles,
    /// How many compute at the same time.
    n_threads: Arc<AtomicUsize>,
    model: RwLock<Arc<Model>>,
    /// One reload at a time; the state of the folder when the model was read.
    loaded: Mutex<Stamp>,
    state: Mutex<Loads>,
    stop: Arc<FollowStop>,
}

#[derive(Debug, Default)]
struct Loads {
    n_loaded: u64,
    last_error: Option<String>,
    follows: bool,
}

/// Ends the thread that follows the folder.
#[derive(Debug, Default)]
struct FollowStop {
    is_set: Mutex<bool>,
    told: Condvar,
}

impl Drop for Inner {
    fn drop(&mut self) {
        *self.stop.is_set.lock().even_if_poisoned() = true;
        self.stop.told.notify_all();
    }
}

impl Predictor {
    /// Loads the model of a folder.
    pub fn load(dir: &Path) -> Result<Self> {
        Self::load_files(dir, ModelFiles::default())
    }

    /// Loads the model of a folder whose files have other names.
    pub fn load_files(dir: &Path, files: ModelFiles) -> Result<Self> {
        let stamp = Stamp::of(dir);
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        let n_threads = Arc::new(AtomicUsize::new(n_cores));
        let model = RwLock::new(Arc::new(Model::load(dir, &files, n_threads.clone())?));
        Ok(Self(Arc::new(Inner {
            dir: dir.to_path_buf(),
            files,
            n_threads,
            model,
            loaded: Mutex::new(stamp),
            state: Mutex::new(Loads { n_loaded: 1, ..Loads::default() }),
            stop: Arc::default(),
        })))
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    pub(crate) fn model(&self) -> Arc<Model> {
        self.0.model.read().even_if_poisoned().clone()
    }

    /// The inputs of the model.
    pub fn slots(&self) -> Arc<[Slot]> {
        self.model().slots().clone()
    }

    /// The encoding of the columns of a table, if CTR saved the model.
    pub fn encoding(&self) -> Option<Encoding> {
        self.model().encoding().cloned()
    }

    /// Whether it predicts for tables: CTR saved the model.
    pub fn has_encoding(&self) -> bool {
        self.model().encoding().is_some()
    }

    /// The names of its predictions: those of the program, or the target if CTR saved the model.
    pub fn outputs(&self) -> Vec<String> {
        self.model().outputs().to_vec()
    }

    /// The variables that [`Predictor::run`] fetches.
    pub fn fetches(&self) -> Vec<String> {
        self.model().fetched_vars().to_vec()
    }

    /// A sentence about columns of a table that the model does not read, the first time that there are some.
    pub fn warning(&self, frame: &DataFrame) -> Option<String> {
        self.model().warning(frame)
    }

    /// Bytes of the parameters.
    pub fn n_bytes(&self) -> usize {
        self.model().n_bytes()
    }

    /// An empty batch for the model.
    pub fn batch(&self) -> Samples {
        self.model().batch()
    }

    /// From now on at most `n` cores compute at the same time; usually it is all of the machine. Any number
    /// of threads may ask.
    pub fn set_threads(&self, n: usize) {
        self.0.n_threads.store(n.max(1), Ordering::Relaxed);
    }

    /// Predicts for the samples of a batch: a tensor for each output.
    ///
    /// A large batch is computed on all idle cores. Small requests that come while all cores are busy are
    /// computed together. Neither changes a bit of the result. Models that do not compute each sample alone
    /// are left as they are.
    ///
    /// A batch that was made for an earlier model may be used as long as the slots are the same.
    pub fn predict(&self, batch: &mut Samples) -> Result<Vec<Tensor>> {
        let model = self.model();
        if batch.is_of(model.slots()) {
            return model.predict(batch);
        }
        if let Some(slot) = batch.slots().iter().find(|slot| !model.slots().contains(slot)) {
            let (slot, near) = (slot.name.clone(), base::DidYouMean::default());
            let known = model.slots().iter().map(|slot| slot.name.clone()).collect();
            return Err(Error::UnknownSlot { slot, near, known });
        }
        if let Some(slot) = model.slots().iter().find(|slot| !batch.slots().contains(slot)) {
            return Err(Error::MissingSlot { slot: slot.name.clone() });
        }
        model.predict(batch)
    }

    /// Predicts for the rows of a table with the columns that the model was trained on: texts, numbers and
    /// missing values, as they are. This is for models that CTR saved.
    pub fn predict_table(&self, frame: &DataFrame) -> Result<Vec<Tensor>> {
        let model = self.model();
        let Some(encoding) = model.encoding() else {
            return Err(Error::NoEncoding { dir: self.0.dir.clone() });
        };
        model.predict(&mut model.encode(encoding, frame)?)
    }

    /// Runs the model on tensors as they are, with whatever shapes and sequences they have: a tensor for
    /// each output. The tensors are back when the call returns.
    pub fn run(&self, feed: &mut Feed) -> Result<Vec<Tensor>> {
        let model = self.model();
        let slots = model.slots();
        if let Some(name) = feed.names().find(|name| slots.iter().all(|slot| slot.name != *name)) {
            let known: Vec<String> = slots.iter().map(|slot| slot.name.clone()).collect();
            let near = base::DidYouMean::among(name, known.iter().map(String::as_str));
            return Err(Error::UnknownSlot { slot: name.to_string(), near, known });
        }
        if let Some(slot) = slots.iter().find(|slot| feed.get(&slot.name).is_none()) {
            return Err(Error::MissingSlot { slot: slot.name.clone() });
        }
        model.run(feed)
    }

    /// Takes over the model that is in the folder now. If it cannot be loaded, the old one stays.
    pub fn reload(&self) -> Result<()> {
        let mut loaded = self.0.loaded.lock().even_if_poisoned();
        let stamp = Stamp::of(&self.0.dir);
        let taken = Model::load(&self.0.dir, &self.0.files, self.0.n_threads.clone());
        let mut state = self.0.state.lock().even_if_poisoned();
        match taken {
            Ok(model) => {
                state.n_loaded += 1;
                state.last_error = None;
                drop(state);
                // The old model goes with the last request that uses it.
                let old = std::mem::replace(
                    &mut *self.0.model.write().even_if_poisoned(),
                    Arc::new(model),
                );
                drop(old);
                *loaded = stamp;
                Ok(())
            }
            Err(error) => {
                state.last_error = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// Takes over the model in the folder if it has changed; whether it did.
    pub fn reload_if_changed(&self) -> Result<bool> {
        let now = Stamp::of(&self.0.dir);
        if now.is_empty() || *self.0.loaded.lock().even_if_poisoned() == now {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }

    /// How many models were loaded, and why the last attempt failed, if it did.
    pub fn loads(&self) -> (u64, Option<String>) {
        let state = self.0.state.lock().even_if_poisoned();
        (state.n_loaded, state.last_error.clone())
    }

    /// From now on newer models in the folder are taken over, as soon as they are seen. The folder is looked
    /// at once in `every`. This ends with the predictor.
    pub fn follow(&self, every: Duration) -> Result<()> {
        let mut state = self.0.state.lock().even_if_poisoned();
        if state.follows {
            return Ok(());
        }
        let (inner, stop) = (Arc::downgrade(&self.0), self.0.stop.clone());
        let thread = std::thread::Builder::new().name("follow".to_string());
        let started = thread.spawn(move || follow(&inner, &stop, every));
        let source = |source| Error::System { what: "start a thread", source };
        started.map_err(source)?;
        state.follows = true;
        Ok(())
    }
}

fn follow(predictor: &Weak<Inner>, stop: &FollowStop, every: Duration) {
    let mut last_failed = Stamp::default();
    loop {
        let is_set = stop.is_set.lock().even_if_poisoned();
        let waited = stop.told.wait_timeout_while(is_set, every, |is_set| !*is_set);
        if *waited.even_if_poisoned().0 {
            return;
        }
        let Some(inner) = predictor.upgrade() else { return };
        let now = Stamp::of(&inner.dir);
        // A model that could not be loaded is not loaded again before it changes.
        if now == last_failed {
            continue;
        }
        if Predictor(inner).reload_if_changed().is_err() {
            last_failed = now;
        }
    }
}
