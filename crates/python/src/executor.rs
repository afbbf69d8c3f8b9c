//! The executor as Python sees it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use fleet::flags::checks_nan_inf;
use fleet::lifecycle::{self, Served};
use program::Program;
use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PySystemExit};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyList;
use server::Serving;
use tensor::{Value, within_memory};
use train::{Feed, Scope, Trainer};

use crate::convert::Whole;
use crate::error::{from_fleet, from_tensor, from_train};
use crate::feed::{fetch_names, fill, from_readers, keep, program_arg, results, warn_if_empty};
use crate::framework::context;
use crate::from_dataset::{self, ShownOptions};
use crate::parallel::{self, Call, ExecutorSettings};
use crate::profiler;
use crate::pruning::{Pruned, Targets};
use crate::signals::{Raised, SIGNALS_EVERY, signalled, taken};
use crate::tensor::PyScope;
use crate::trainer_job;

/// Runs programs in a scope.
#[pyclass(name = "Executor", module = "paddlewheel._core", frozen, subclass)]
pub(crate) struct PyExecutor {
    state: Mutex<Runner>,
    closed: AtomicBool,
}

/// Kept between runs so that their memory is.
struct Runner {
    trainer: Trainer,
    feed: Feed,
    fetched: Vec<Value>,
    /// Parts of programs that runs needed.
    pruned: Pruned,
    /// The exception of a signal handler during the run.
    raised: Raised,
}

impl Runner {
    /// Ends a run when a signal handler of Python's raises.
    fn heed_signals(&mut self) {
        let asked = self.raised.clone();
        self.trainer.poll(SIGNALS_EVERY, move || signalled(&asked));
    }

    /// Serves trainers. As in Fluid a signal to end ends the process, in order.
    fn serve(py: Python<'_>, program: &Program, scope: &Scope) -> PyResult<()> {
        let flags = fleet::flags::current().map_err(from_fleet)?;
        let keeping = flags.keeping().map_err(from_fleet)?;
        let access = fleet::access::current().map_err(from_fleet)?;
        let start = trainer_job::trainer_job()?.settings().start;
        let mut serving = Serving { keeping, access, start, ..Serving::default() };
        flags.configure(&mut serving);
        let served = py.detach(|| lifecycle::serve(program, scope, &serving));
        match served.map_err(from_fleet)? {
            Served::Completed => Ok(()),
            Served::Signalled { code } => {
                // It has been heeded.
                let _ = py.check_signals();
                Err(PySystemExit::new_err(code))
            }
        }
    }
}

/// Batches, samples, seconds, and the seconds that each thread waited for data.
type PassCounts = (u64, u64, f64, Vec<f64>);

/// The counts of a pass, the fetched values by name, and its AUC.
type PassParts = (PassCounts, Vec<String>, Py<PyList>, Option<f64>);

#[pymethods]
impl PyExecutor {
    #[new]
    #[pyo3(signature = (place = None))]
    fn new(place: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let _ = place;
        fleet::logging::begin().map_err(from_fleet)?;
        fleet::watching::begin(None);
        let (mut trainer, raised) = (Trainer::new(), Raised::default());
        trainer.set_job(trainer_job::trainer_job()?.clone());
        let feed = Feed::new();
        let fetched = Vec::new();
        let pruned = Pruned::default();
        let mut state = Runner { trainer, feed, fetched, pruned, raised };
        state.heed_signals();
        Ok(Self { state: Mutex::new(state), closed: AtomicBool::new(false) })
    }

    /// Runs all operators of a program and returns the variables asked for.
    #[pyo3(signature = (program=None, feed=None, fetch_list=None, feed_var_name="feed",
        fetch_var_name="fetch", scope=None, return_numpy=true, use_program_cache=false,
        return_merged=true, use_prune=false))]
    fn run(
        &self,
        py: Python<'_>,
        program: Option<&Bound<'_, PyAny>>,
        feed: Option<&Bound<'_, PyAny>>,
        fetch_list: Option<&Bound<'_, PyAny>>,
        feed_var_name: &str,
        fetch_var_name: &str,
        scope: Option<Py<PyScope>>,
        return_numpy: bool,
        use_program_cache: bool,
        return_merged: bool,
        use_prune: bool,
    ) -> PyResult<Py<PyList>> {
        let _ = (feed_var_name, fetch_var_name, use_program_cache);
        fleet::watching::tell();
        if self.closed.load(Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err("Attempted to use a closed Executor"));
        }
        let targets = Targets::read(fetch_list, use_prune)?;
        if let Some(program) = program {
            let scope = scope.as_ref().map(|scope| scope.clone_ref(py));
            let targets = &targets;
            let call = Call { program, feed, targets, scope, return_numpy, return_merged };
            if let Some(fetched) = parallel::run(py, call, &self.settings(py)?)? {
                return Ok(fetched);
            }
        }
        let program = program_arg(py, program)?;
        let scope = match scope {
            Some(scope) => scope,
            None => context::global_scope(py)?,
        };
        let read = from_readers(py, &program, feed)?;
        // The program as it is now: later changes are not seen, and nothing is locked.
        let program = program.get().shared();
        warn_if_empty(py, &program)?;
        let mut state = self.ready(py)?;
        if transpile::server_op(&program).is_some() {
            Runner::serve(py, &program, &scope.get().0)?;
            return Ok(PyList::empty(py).unbind());
        }
        let Runner { trainer, feed: held, fetched, pruned, raised } = &mut *state;
        let feed = read.as_ref().or(feed);
        let program = pruned.of(program, &targets, feed)?;
        fill(&program, held, feed)?;
        keep(&program, held, &scope.get().0);
        let fetch: Vec<&str> = targets.names.iter().map(String::as_str).collect();
        let scope = &scope.get().0;
        let mut run = || trainer.run_values(&program, scope, held, &fetch, fetched);
        let ran = py.detach(|| within_memory(&mut run)).map_err(from_tensor)?;
        profiler::keep(trainer);
        let raised = taken(raised);
        let raised = raised.or_else(trainer_job::raised_in_wait).filter(|_| ran.is_err());
        ran.map_err(|error| raised.unwrap_or_else(|| from_train(error)))?;
        results(py, fetched, return_numpy)
    }

    /// Runs a program on all batches of a dataset; returns how many batches and samples there were,
    /// the seconds it took, those that each thread waited for data, and what a pass that infers has
    /// fetched, as of the whole pass.
    #[pyo3(signature = (program, dataset, scope, fetch_list, fetch_info, print_period, debug,
        fetch_handler, infers))]
    fn _run_dataset(
        &self,
        py: Python<'_>,
        program: Option<&Bound<'_, PyAny>>,
        dataset: &Bound<'_, PyAny>,
        scope: Option<Py<PyScope>>,
        fetch_list: Option<&Bound<'_, PyAny>>,
        fetch_info: Option<&Bound<'_, PyAny>>,
        print_period: Whole,
        debug: bool,
        fetch_handler: Option<Bound<'_, PyAny>>,
        infers: bool,
    ) -> PyResult<PassParts> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err("Attempted to use a closed Executor"));
        }
        let program = program_arg(py, program)?.get().shared();
        let scope = match scope {
            Some(scope) => scope,
            None => context::global_scope(py)?,
        };
        let labels =
            fetch_info.map(|info| info.try_iter()?.map(|label| label?.extract()).collect());
        let labels: Option<Vec<String>> = labels.transpose()?;
        let fetch = fetch_names(fetch_list)?;
        if labels.as_ref().is_some_and(|labels| labels.len() != fetch.len()) {
            return Err(PyAssertionError::new_err("fetch_list and fetch_info differ in length"));
        }
        let (print_period, handler) = (print_period.fit("print_period")?, fetch_handler);
        let names = fetch.clone();
        let wanted = ShownOptions { fetch, labels, print_period, debug, infers, handler };
        let mut state = self.ready(py)?;
        let Runner { trainer, raised, .. } = &mut *state;
        let scope = &scope.get().0;
        let report = from_dataset::run(py, trainer, raised, &program, scope, dataset, wanted)?;
        let mut fetched = Vec::with_capacity(report.fetched.len());
        for whole in report.fetched {
            // Sequences are not arrays.
            let return_numpy = whole.value.lod().is_empty();
            fetched.extend(
                results(py, &mut [Value::Tensor(whole.value)], return_numpy)?.bind(py).iter(),
            );
        }
        let counts = (report.n_batches, report.n_samples, report.seconds, report.waited);
        Ok((counts, names, PyList::new(py, fetched)?.unbind(), report.auc))
    }

    /// Ends this executor: it does not run anything after that. Parameter servers learn that this
    /// trainer's job is done.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let job = trainer_job::trainer_job()?;
        py.detach(|| job.complete()).map_err(from_train)
    }
}

impl PyExecutor {
    /// The state for a run, with the flags as they are now.
    fn ready(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Runner>> {
        let mut state = self.state.lock_py_attached(py).even_if_poisoned();
        state.trainer.options_mut().check_nan_inf = checks_nan_inf().map_err(from_fleet)?;
        state.trainer.options_mut().profile = profiler::measures();
        Ok(state)
    }

    /// The settings that runs on several places share with this executor.
    fn settings(&self, py: Python<'_>) -> PyResult<ExecutorSettings> {
        let mut state = self.ready(py)?;
        let check_nan_inf = state.trainer.options_mut().check_nan_inf;
        Ok(ExecutorSettings { job: state.trainer.job().clone(), check_nan_inf })
    }
}
