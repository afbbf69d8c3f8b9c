//! Requests that wait for their predictions, and the threads that make them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use base::EvenIfPoisoned;
use tensor::Tensor;

use super::budget::{Held, NoMemory};
use super::metrics::Metrics;
use crate::batch::Samples;
use crate::compute::rows_of_all;
use crate::error::Error;
use crate::model::Model;

/// The prediction for a request.
#[derive(Debug)]
pub(super) struct Predicted {
    pub(super) outputs: Vec<Tensor>,
    /// The memory of the outputs.
    pub(super) held: Held,
}

/// Why nothing was predicted.
#[derive(Debug)]
pub(super) enum NotPredicted {
    /// Too many samples wait.
    Full,
    /// It took too long.
    Late,
    /// There is no memory for the outputs.
    NoMemory(NoMemory),
    /// The prediction failed.
    Failed(Error),
}

/// Bytes of a batch that is kept to be filled again.
const JOINED_BYTES_MAX: usize = 4 << 20;

type PredictionResult = Result<Predicted, NotPredicted>;

/// Where the thread of a connection waits.
#[derive(Debug, Default)]
struct Reply {
    outcome: Mutex<Option<PredictionResult>>,
    told: Condvar,
}

impl Reply {
    fn tell(&self, outcome: PredictionResult) {
        *self.outcome.lock().even_if_poisoned() = Some(outcome);
        self.told.notify_one();
    }

    fn wait(&self, deadline: Instant) -> PredictionResult {
        let outcome = self.outcome.lock().even_if_poisoned();
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.told.wait_timeout_while(outcome, left, |outcome| outcome.is_none());
        waited.even_if_poisoned().0.take().unwrap_or(Err(NotPredicted::Late))
    }
}

struct Waiting {
    model: Arc<Model>,
    batch: Samples,
    /// The memory of the batch.
    held: Held,
    n_samples: usize,
    deadline: Instant,
    reply: Arc<Reply>,
}

impl Waiting {
    /// Ends the wait. The outputs count as held memory; the batch does not any longer.
    fn tell(self, outcome: Result<Vec<Tensor>, Error>) {
        let Self { batch, mut held, reply, .. } = self;
        reply.tell(match outcome {
            Ok(outputs) => {
                let n_bytes = outputs.iter().map(n_bytes_of).sum();
                let taken = held.take(n_bytes);
                drop(batch);
                held.shrink_to(n_bytes);
                taken.map(|()| Predicted { outputs, held }).map_err(NotPredicted::NoMemory)
            }
            Err(error) => Err(NotPredicted::Failed(error)),
        });
    }
}

fn n_bytes_of(tensor: &Tensor) -> usize {
    let n_offsets: usize = tensor.lod().levels().iter().map(Vec::len).sum();
    tensor.bytes().len() + n_offsets * size_of::<usize>()
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Waiting>,
    n_samples: usize,
    stops: bool,
}

pub(super) struct Queue {
    state: Mutex<QueueState>,
    told: Condvar,
    n_samples_max: usize,
    n_batch_max: usize,
}

impl Queue {
    pub(super) fn new(n_samples_max: usize, n_batch_max: usize) -> Self {
        Self { state: Mutex::default(), told: Condvar::new(), n_samples_max, n_batch_max }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().even_if_poisoned()
    }

    /// Samples that wait.
    pub(super) fn n_samples(&self) -> usize {
        self.lock().n_samples
    }

    /// Whether the first one that waits should have been answered before this time.
    pub(super) fn is_late(&self, time: Instant) -> bool {
        self.lock().waiting.front().is_some_and(|first| first.deadline < time)
    }

    /// Ends the threads that predict.
    pub(super) fn stop(&self) {
        self.lock().stops = true;
        self.told.notify_all();
    }

    /// Waits for the prediction of a batch, which has samples.
    pub(super) fn predict(
        &self,
        model: Arc<Model>,
        batch: Samples,
        held: Held,
        deadline: Instant,
    ) -> PredictionResult {
        let n_samples = batch.n_samples().map_err(NotPredicted::Failed)?;
        let reply = Arc::new(Reply::default());
        {
            let mut state = self.lock();
            // A large request is taken when nothing else waits.
            let is_full = state.n_samples + n_samples > self.n_samples_max;
            if state.stops || is_full && !state.waiting.is_empty() {
                return Err(NotPredicted::Full);
            }
            state.n_samples += n_samples;
            let reply = reply.clone();
            state.waiting.push_back(Waiting { model, batch, held, n_samples, deadline, reply });
        }
        self.told.notify_one();
        reply.wait(deadline)
    }

    /// Predicts until the queue is stopped.
    pub(super) fn work(&self, metrics: &Metrics) {
        let mut joined: Option<Samples> = None;
        loop {
            let Some(mut taken) = self.take() else { return };
            let now = Instant::now();
            taken.retain(|waiting| {
                let is_late = waiting.deadline <= now;
                if is_late {
                    waiting.reply.tell(Err(NotPredicted::Late));
                }
                !is_late
            });
            if !taken.is_empty() {
                metrics.batches.add(1);
                metrics.samples.add(taken.iter().map(|waiting| waiting.n_samples as u64).sum());
                predict_all(taken, &mut joined);
            }
        }
    }

    /// The next requests for one model, as many as are predicted at once; `None` at the end.
    fn take(&self) -> Option<Vec<Waiting>> {
        let state = self.lock();
        let is_idle = |state: &mut QueueState| state.waiting.is_empty() && !state.stops;
        let mut state = self.told.wait_while(state, is_idle).even_if_poisoned();
        let first = state.waiting.pop_front()?;
        let mut n_samples = first.n_samples;
        let mut taken = vec![first];
        while let Some(next) = state.waiting.front() {
            let fits = n_samples + next.n_samples <= self.n_batch_max;
            if !fits || !Arc::ptr_eq(&next.model, &taken[0].model) {
                break;
            }
            n_samples += next.n_samples;
            taken.extend(state.waiting.pop_front());
        }
        state.n_samples -= n_samples;
        if !state.waiting.is_empty() {
            self.told.notify_one();
        }
        Some(taken)
    }
}

/// Predicts for all together if that can be, else for each alone.
fn predict_all(taken: Vec<Waiting>, joined: &mut Option<Samples>) {
    if taken.len() > 1
        && taken[0].model.computes_by_sample()
        && let Some(outputs) = predict_joined(&taken, joined)
    {
        let mut first = 0;
        for waiting in taken {
            let n = waiting.n_samples;
            waiting.tell(Ok(rows_of_all(&outputs, first, n)));
            first += n;
        }
        return;
    }
    for mut waiting in taken {
        let outcome = guarded(&waiting.model, &mut waiting.batch);
        waiting.tell(outcome);
    }
}

/// A bug of ours in one prediction must not end the thread.
fn guarded(model: &Model, batch: &mut Samples) -> Result<Vec<Tensor>, Error> {
    let ran = catch_unwind(AssertUnwindSafe(|| model.predict(batch)));
    ran.unwrap_or_else(|_| {
        let source = std::io::Error::other("a bug; the log has more");
        Err(Error::System { what: "predict", source })
    })
}

/// `None` if there is no result for all of them, or it has no row for each sample.
fn predict_joined(taken: &[Waiting], joined: &mut Option<Samples>) -> Option<Vec<Tensor>> {
    let model = &taken[0].model;
    let n_samples: usize = taken.iter().map(|waiting| waiting.n_samples).sum();
    // Memory of batches of the usual size is used again.
    let is_of_use =
        |batch: &Samples| batch.n_bytes() <= JOINED_BYTES_MAX && *batch.slots() == **model.slots();
    let mut batch = joined.take().filter(is_of_use).unwrap_or_else(|| model.batch());
    batch.join(taken.iter().map(|waiting| &waiting.batch));
    let outputs = guarded(model, &mut batch);
    let outputs = outputs.ok().filter(|outputs| batch.can_be_split(outputs, n_samples));
    *joined = Some(batch).filter(is_of_use);
    outputs
}
