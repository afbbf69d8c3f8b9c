//! `fluid.profiler`: how long ops take.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;
use pyo3::prelude::*;
use train::Trainer;
use train::executor::{OpRun, OpTime};

static MEASURES: AtomicBool = AtomicBool::new(false);
static MEASURED: Mutex<Measured> =
    Mutex::new(Measured { begin: None, times: Vec::new(), runs: Vec::new() });

/// Times since measuring began.
struct Measured {
    begin: Option<Instant>,
    times: Vec<OpTime>,
    runs: Vec<OpRun>,
}

/// Adds the functions to the module `_core`.
pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(profiler_start, m)?)?;
    m.add_function(wrap_pyfunction!(profiler_reset, m)?)?;
    m.add_function(wrap_pyfunction!(profiler_stop, m)?)
}

/// Whether executors measure.
pub(crate) fn measures() -> bool {
    MEASURES.load(Ordering::Relaxed)
}

/// Keeps what a run measured.
pub(crate) fn keep(trainer: &mut Trainer) {
    if measures() {
        let mut measured = MEASURED.lock().even_if_poisoned();
        measured.runs.extend(trainer.take_op_runs());
        measured.times.extend(trainer.take_profile());
    }
}

/// Lets executors measure their ops from now on.
#[pyfunction]
fn profiler_start() {
    profiler_reset();
    MEASURES.store(true, Ordering::Relaxed);
}

/// Forgets what was measured.
#[pyfunction]
fn profiler_reset() {
    let begin = Some(Instant::now());
    *MEASURED.lock().even_if_poisoned() = Measured { begin, times: Vec::new(), runs: Vec::new() };
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Of an op: its type, how often it ran, and the milliseconds of all runs, of the shortest and of the longest.
type OpRow = (String, u64, f64, f64, f64);

/// Of a run of an op: its type, when it began, and how long it took, in milliseconds.
type RunRow = (String, f64, f64);

/// Ends measuring; returns the times of ops, and of their runs.
#[pyfunction]
fn profiler_stop() -> (Vec<OpRow>, Vec<RunRow>) {
    MEASURES.store(false, Ordering::Relaxed);
    let empty = Measured { begin: None, times: Vec::new(), runs: Vec::new() };
    let measured = std::mem::replace(&mut *MEASURED.lock().even_if_poisoned(), empty);
    let row = |time: OpTime| {
        let [total, min, max] = [time.total, time.min, time.max].map(milliseconds);
        (time.op, time.calls, total, min, max)
    };
    let begin = measured.begin.unwrap_or_else(Instant::now);
    let run = |run: OpRun| {
        let since = run.start.saturating_duration_since(begin);
        (run.op, milliseconds(since), milliseconds(run.time))
    };
    (measured.times.into_iter().map(row).collect(), measured.runs.into_iter().map(run).collect())
}
