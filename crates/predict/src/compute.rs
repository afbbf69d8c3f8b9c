//! How a batch is computed: with others, in parts, or as it is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::EvenIfPoisoned;
use tensor::{Lod, Shape, Tensor};

use crate::batch::Samples;
use crate::cores::{Entered, JoinedRequest};
use crate::error::Result;
use crate::model::Model;

/// Samples of a part of a large batch: values between layers stay in the cache of a core.
const PART_SAMPLES: usize = 120;

impl Model {
    /// Predicts for all samples of a batch. The prediction of a model that CTR saved is one number for each row.
    pub(crate) fn predict(&self, batch: &mut Samples) -> Result<Vec<Tensor>> {
        let mut outputs = self.compute(batch)?;
        if self.encoding().is_some() {
            for output in outputs.iter_mut().filter(|output| output.dims().len() == 2) {
                if let [n_rows, 1] = *output.dims() {
                    output.reshape(Shape::from([n_rows])).map_err(train::Error::from)?;
                }
            }
        }
        Ok(outputs)
    }

    fn compute(&self, batch: &mut Samples) -> Result<Vec<Tensor>> {
        let n_samples = batch.n_samples()?;
        if !self.computes_by_sample() {
            return self.run(batch.feed_mut());
        }
        match self.cores().enter(batch, n_samples) {
            Entered::Done(outcome) => outcome,
            Entered::Computes(_core, joined) if joined.is_empty() => {
                if n_samples < 2 * PART_SAMPLES {
                    return self.run(batch.feed_mut());
                }
                self.predict_in_parts(batch, n_samples)
            }
            Entered::Computes(_core, joined) => self.predict_with(batch, n_samples, joined),
        }
    }

    /// Predicts for a batch and for the requests of others.
    fn predict_with(
        &self,
        batch: &mut Samples,
        n_own: usize,
        mut joined: Vec<JoinedRequest>,
    ) -> Result<Vec<Tensor>> {
        let n_samples = n_own + joined.iter().map(JoinedRequest::n_samples).sum::<usize>();
        let mut whole = self.take_joined();
        whole.join([&*batch].into_iter().chain(joined.iter().filter_map(JoinedRequest::samples)));
        let outputs = self.run(whole.feed_mut());
        let outputs = outputs.ok().filter(|outputs| whole.can_be_split(outputs, n_samples));
        self.keep_joined(whole);
        let Some(outputs) = outputs else {
            // One request has wrong ids, say: compute each alone.
            for mut request in joined {
                let outcome = request.samples_mut().map(|samples| self.run(samples.feed_mut()));
                request.tell(outcome.unwrap_or_else(|| Ok(Vec::new())));
            }
            return self.run(batch.feed_mut());
        };
        let mut first = n_own;
        for request in joined.drain(..) {
            let n = request.n_samples();
            request.tell(Ok(rows_of_all(&outputs, first, n)));
            first += n;
        }
        Ok(rows_of_all(&outputs, 0, n_own))
    }

    /// Predicts for a large batch: part after part, on the idle cores.
    fn predict_in_parts(&self, batch: &mut Samples, n_samples: usize) -> Result<Vec<Tensor>> {
        let n_parts = n_samples.div_ceil(PART_SAMPLES);
        let part_samples = n_samples.div_ceil(n_parts);
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Result<Vec<Tensor>>>>> =
            (0..n_parts).map(|_| Mutex::default()).collect();
        let work = || {
            let mut part = self.take_joined();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(result) = results.get(at) else { break };
                let first = at * part_samples;
                part.copy_part(batch, first, part_samples.min(n_samples - first));
                *result.lock().even_if_poisoned() = Some(self.run(part.feed_mut()));
            }
            self.keep_joined(part);
        };
        let cores = self.cores().take_idle(n_parts - 1);
        std::thread::scope(|threads| {
            for _ in &cores {
                // A thread that cannot be started is not a loss: the others do its parts.
                let _ = std::thread::Builder::new().spawn_scoped(threads, work);
            }
            work();
        });
        drop(cores);
        let mut parts = Vec::with_capacity(n_parts);
        for result in results {
            match result.into_inner().even_if_poisoned() {
                Some(outputs) => parts.push(outputs?),
                None => return self.run(batch.feed_mut()),
            }
        }
        let n_of_part = |at: usize| part_samples.min(n_samples - at * part_samples);
        let mut have = parts.iter().enumerate().map(|(at, part)| have_rows(part, n_of_part(at)));
        match one_after_another(&parts).filter(|_| have.all(|has| has)) {
            Some(outputs) => Ok(outputs),
            None => self.run(batch.feed_mut()),
        }
    }
}

impl Samples {
    /// Whether it is known which rows of the outputs are of which sample. An output that lost the sequences of a slot
    /// may have as many rows as there are samples by chance: of sequences with none, one and two elements, say.
    pub(crate) fn can_be_split(&self, outputs: &[Tensor], n_samples: usize) -> bool {
        let is_by_chance = |fed: &Tensor| {
            let is_longer = |offsets: &[usize]| lengths(offsets).any(|length| length != 1);
            fed.dims().first() == Some(&n_samples) && fed.lod().last().is_some_and(is_longer)
        };
        let is_lost = outputs.iter().any(|output| output.lod().is_empty());
        have_rows(outputs, n_samples) && !(is_lost && self.feed().tensors().any(is_by_chance))
    }
}

/// Whether each output has a row or a sequence for each sample.
fn have_rows(outputs: &[Tensor], n_samples: usize) -> bool {
    outputs.iter().all(|output| match output.lod().levels() {
        [] => output.dims().first() == Some(&n_samples),
        [offsets] => offsets.len() == n_samples + 1,
        _ => false,
    })
}

/// The rows of each output for `n` samples from `first` on.
pub(crate) fn rows_of_all(outputs: &[Tensor], first: usize, n: usize) -> Vec<Tensor> {
    outputs.iter().map(|whole| rows_of(whole, first, n)).collect()
}

fn rows_of(whole: &Tensor, first: usize, n: usize) -> Tensor {
    let offsets = whole.lod().last();
    let (start, end) =
        offsets.map_or((first, first + n), |offsets| (offsets[first], offsets[first + n]));
    let row_bytes = whole.bytes().len() / whole.dims()[0].max(1);
    let bytes = &whole.bytes()[start * row_bytes..end * row_bytes];
    let shape = whole.shape().with_dim(0, end - start);
    let mut part = Tensor::from_bytes(whole.dtype(), shape, bytes).unwrap_or_default();
    if let Some(offsets) = offsets {
        part.set_lod(Lod::from_lengths(lengths(&offsets[first..=first + n])));
    }
    part
}

fn lengths(offsets: &[usize]) -> impl Iterator<Item = usize> {
    offsets.windows(2).map(|pair| pair[1] - pair[0])
}

/// The outputs of all parts, which have rows for their samples; `None` if they are not alike.
fn one_after_another(parts: &[Vec<Tensor>]) -> Option<Vec<Tensor>> {
    let mut outputs = Vec::new();
    for at in 0..parts.first()?.len() {
        let pieces: Option<Vec<&Tensor>> = parts.iter().map(|part| part.get(at)).collect();
        let pieces = pieces?;
        let first = pieces.first()?;
        let is_alike = |piece: &&Tensor| {
            piece.dims().get(1..) == first.dims().get(1..)
                && piece.dtype() == first.dtype()
                && piece.lod().is_empty() == first.lod().is_empty()
        };
        if !pieces.iter().all(is_alike) {
            return None;
        }
        let n_rows = pieces.iter().map(|piece| piece.dims()[0]).sum();
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes()).copied().collect();
        let shape = first.shape().with_dim(0, n_rows);
        let mut whole = Tensor::from_bytes(first.dtype(), shape, &bytes).ok()?;
        if !first.lod().is_empty() {
            let offsets = pieces.iter().filter_map(|piece| piece.lod().last());
            whole.set_lod(Lod::from_lengths(offsets.flat_map(lengths)));
        }
        outputs.push(whole);
    }
    Some(outputs)
}
