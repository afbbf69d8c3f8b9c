//! The counters of a trainer while a job runs. docs/guides/watching.md lists all names.

use std::sync::{LazyLock, Mutex};

use base::EvenIfPoisoned;
use metrics::{NumberKind, NumberSource, PhaseNumber, Sample};
use tensor::{DType, Tensor, Value};

metrics::counters! {
    /// The work of a trainer.
    pub struct TrainerCounters = "trainer" {
        /// Time that threads waited for batches of a dataset.
        reading_seconds: Seconds,
        /// Time of steps without their waits.
        computing_seconds: Seconds,
        /// Time that threads which step together waited for each other.
        threads_waiting_seconds: Seconds,
        /// Threads that train at the moment.
        threads: Level,
        /// The most threads that trained at the same time.
        threads_max: Level,
        /// Batches that were run.
        batches: Counter,
        /// Samples in them.
        samples: Counter,
        /// Passes over a dataset that were begun.
        passes: Counter,
        /// Number of the last pass over a dataset that trains, from 1, over all processes of this trainer.
        pass_number: Level,
        /// Share of the current pass that is read, from 0 to 1; 0 if that is not known.
        pass_done: Gauge,
        /// How long the current pass has taken, over all processes of this trainer.
        pass_seconds: Gauge,
        /// How long the rest of it takes; 0 if that is not known.
        pass_left_seconds: Gauge,
        /// How often this process went back to a cut, with the others.
        rollbacks: Counter,
        /// Events of the script that were done again after that.
        replayed_events: Counter,
        /// How long that took the last time.
        last_rollback_seconds: Gauge,
        /// Steps whose staleness is known (async).
        aged_steps: Counter,
        /// Steps that were missing in the parameters of these steps, added up.
        staleness_sum: Counter,
    }
}

/// The trainer of this process.
pub static TRAINER: TrainerCounters = TrainerCounters::new();

/// Numbers that are kept; a script that fetches more has others.
const FETCHED_MAX: usize = 32;
/// Steps that a mean is made of at most: the last ones count.
const STEPS: f64 = 50.0;

/// A fetched number.
struct FetchedNumber {
    name: String,
    value: f64,
    n: f64,
}

static FETCHED: Mutex<Vec<FetchedNumber>> = Mutex::new(Vec::new());
/// Waits that no server is named for.
pub(crate) static SENDING: LazyLock<std::sync::Arc<metrics::Seconds>> =
    LazyLock::new(|| protocol::counters::WAITING.of("its sender"));

/// All numbers of this crate.
#[derive(Debug)]
pub struct TrainSource;

impl NumberSource for TrainSource {
    fn samples(&self) -> Vec<Sample> {
        let mut all = TRAINER.samples();
        let fetched = FETCHED.lock().even_if_poisoned();
        all.extend(fetched.iter().map(|one| Sample {
            name: "trainer_fetched",
            help: "What the script fetches, if it is one number: the mean of about the last 50 batches.",
            kind: NumberKind::Gauge,
            label: Some(("name", one.name.clone())),
            value: one.value,
        }));
        all
    }
}

/// A step fetched this. What is not one number is left out. Nobody waits: a thread that finds another one
/// here leaves its own number out.
pub(crate) fn fetched(name: &str, tensor: &Tensor) {
    let is_number = tensor.len() == 1 && matches!(tensor.dtype(), DType::F32 | DType::F64);
    let (true, Ok(mut all)) = (is_number, FETCHED.try_lock()) else { return };
    let value = tensor.get_f64(0);
    if !value.is_finite() {
        return;
    }
    let is_full = all.len() >= FETCHED_MAX;
    match all.iter_mut().find(|one| one.name == name) {
        Some(one) => {
            one.n = (one.n + 1.0).min(STEPS);
            one.value += (value - one.value) / one.n;
        }
        None if !is_full => {
            all.push(FetchedNumber { name: name.to_string(), value, n: 1.0 });
        }
        None => {}
    }
}

/// The means of these numbers, of those that are known.
pub(crate) fn fetched_numbers<'a>(names: impl Iterator<Item = &'a String>) -> Vec<PhaseNumber> {
    let all = FETCHED.lock().even_if_poisoned();
    let known = |name: &String| {
        let value = all.iter().find(|one| one.name == *name)?.value;
        Some(PhaseNumber { name: name.trim().to_string(), value })
    };
    names.filter_map(known).collect()
}

/// The same for a value that may be something else.
pub(crate) fn fetched_value(name: &str, value: &Value) {
    if let Some(tensor) = value.tensor() {
        fetched(name, tensor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetched_numbers_are_means_of_the_last_steps() {
        let number = |value: f32| Tensor::new([1], &[value]).unwrap();
        let of = |name: &str| {
            let samples = TrainSource.samples();
            let is_it =
                |sample: &&Sample| sample.label.as_ref().is_some_and(|(_, own)| own == name);
            samples.iter().find(is_it).map(|sample| sample.value)
        };
        fetched("test_loss", &number(1.0));
        fetched("test_loss", &number(2.0));
        fetched("test_loss", &number(f32::NAN));
        fetched("test_rows", &Tensor::new([2], &[1f32, 2.0]).unwrap());
        assert_eq!((of("test_loss"), of("test_rows")), (Some(1.5), None));
        (0..1000).for_each(|_| fetched("test_loss", &number(4.0)));
        assert!(of("test_loss").is_some_and(|mean| mean > 3.99));
        (0..1000).for_each(|at| fetched(&format!("many_{at}"), &number(0.0)));
        assert_eq!(FETCHED.lock().unwrap().len(), FETCHED_MAX);
    }
}
