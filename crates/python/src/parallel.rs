//! Programs for several places as Python sees them.

use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;
use program::Program;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyList, PyTuple};
use tensor::{Tensor, Value, within_memory};
use train::parallel::{LossScale, Parallel, join, split};
use train::{Feed, TrainerJob};

use crate::convert::Whole;
use crate::error::{EOFException, from_tensor, from_train};
use crate::feed::{fill, next_batch, program_arg, results, warn_if_empty};
use crate::framework::context;
use crate::framework::program::PyProgram;
use crate::pruning::{Pruned, Targets};
use crate::signals::{Raised, SIGNALS_EVERY, signalled, taken};
use crate::tensor::{PyScope, PyTensor};

/// The devices of a compiled program: gradients are added up over them, parameters change once.
#[pyclass(name = "DataParallel", module = "paddlewheel._core", frozen)]
pub(crate) struct PyParallel {
    state: Mutex<Interruptible>,
    n_places: usize,
}

struct Interruptible {
    parallel: Parallel,
    /// Parts of the program that runs needed.
    pruned: Pruned,
    /// The exception of a signal handler during the run.
    raised: Raised,
}

/// The settings of a run that come from its executor.
pub(crate) struct ExecutorSettings {
    pub(crate) job: TrainerJob,
    pub(crate) check_nan_inf: bool,
}

/// The arguments of one run.
pub(crate) struct Call<'a, 'py> {
    pub(crate) program: &'a Bound<'py, PyAny>,
    pub(crate) feed: Option<&'a Bound<'py, PyAny>>,
    pub(crate) targets: &'a Targets,
    pub(crate) scope: Option<Py<PyScope>>,
    pub(crate) return_numpy: bool,
    pub(crate) return_merged: bool,
}

#[pymethods]
impl PyParallel {
    /// Devices that train if `scale` says what the gradient of the loss starts with: the name of
    /// one of Fluid's `GradientScaleStrategy`. With `reduces` they count into the same counters; in
    /// `async_mode` they do, too, and what is fetched is the first one's.
    #[new]
    #[pyo3(signature = (n_places, scale = None, share = None, reduces = false, async_mode = false))]
    fn new(
        n_places: Whole,
        scale: Option<&str>,
        share: Option<&Self>,
        reduces: bool,
        async_mode: bool,
    ) -> PyResult<Self> {
        let scale = match scale {
            None => None,
            Some("CoeffNumDevice") => Some(LossScale::PerDevice),
            Some("One") => Some(LossScale::One),
            Some("Customized") => Some(LossScale::Fed),
            Some(other) => {
                return Err(PyValueError::new_err(format!("there is no gradient scale `{other}`")));
            }
        };
        let n_places = n_places.fit("n_places")?;
        let mut parallel = Parallel::new(n_places, scale);
        if reduces {
            parallel.count_together();
        }
        if async_mode {
            parallel.fetch_first();
        }
        if let Some(other) = share {
            if other.n_places != n_places {
                let text = format!(
                    "the program to share variables with has {} places, this one {n_places}",
                    other.n_places
                );
                return Err(PyValueError::new_err(text));
            }
            let other = other.state.lock().even_if_poisoned();
            parallel.share(other.parallel.replicas());
        }
        let raised = Raised::default();
        let asked = raised.clone();
        parallel.poll(SIGNALS_EVERY, move || signalled(&asked));
        let pruned = Pruned::default();
        Ok(Self { state: Mutex::new(Interruptible { parallel, pruned, raised }), n_places })
    }

    /// Adds up gradients with other trainers, without servers: this is trainer `trainer_id` of
    /// `num_trainers`.
    fn among_trainers(&self, trainer_id: i64, num_trainers: i64) -> PyResult<()> {
        let mut state = self.state.lock().even_if_poisoned();
        state.parallel.among_trainers(trainer_id, num_trainers).map_err(from_train)
    }

    /// How many places there are.
    #[getter]
    fn n_places(&self) -> usize {
        self.n_places
    }
}

/// Runs a program compiled for several places; None if it was not.
pub(crate) fn run(
    py: Python<'_>,
    call: Call<'_, '_>,
    settings: &ExecutorSettings,
) -> PyResult<Option<Py<PyList>>> {
    let compiled = call.program;
    if compiled.is_instance_of::<PyProgram>() || !compiled.hasattr("_devices")? {
        return Ok(None);
    }
    let scope = match call.scope {
        Some(scope) => scope,
        None => context::global_scope(py)?,
    };
    let program = program_arg(py, Some(compiled))?;
    // A server has one scope, however many places its trainers have.
    if transpile::server_op(&program.get().shared()).is_some() {
        return Ok(None);
    }
    let feed = call.feed.filter(|feed| !feed.is_none());
    let n_feeds = match feed {
        Some(feed) if is_list(feed) => Some(feed.len()?),
        _ => None,
    };
    let devices = compiled.call_method1("_devices", (n_feeds, &scope))?;
    let Ok(devices) = devices.cast_into::<PyParallel>() else { return Ok(None) };
    let devices = devices.get();
    let read = from_readers(py, &program, devices, feed)?;
    let program = program.get().shared();
    warn_if_empty(py, &program)?;
    let mut state = devices.state.lock_py_attached(py).even_if_poisoned();
    let Interruptible { parallel, pruned, raised } = &mut *state;
    let feed = read.as_ref().or(feed);
    let program = pruned.of(program, call.targets, feed)?;
    let mut feeds = feeds(&program, parallel, feed)?;
    let names = &call.targets.names;
    let fetch: Vec<&str> = names.iter().map(String::as_str).collect();
    let scope = &scope.get().0;
    parallel.check_nan_inf(settings.check_nan_inf);
    parallel.set_job(&settings.job);
    let run = || parallel.run(&program, scope, &mut feeds, &fetch);
    let ran = py.detach(|| within_memory(run)).map_err(from_tensor)?;
    let raised = taken(raised);
    let fetched = ran.map_err(|error| raised.unwrap_or_else(|| from_train(error)))?;
    answer(py, names, fetched, call.return_merged, call.return_numpy).map(Some)
}

fn is_list(feed: &Bound<'_, PyAny>) -> bool {
    feed.is_instance_of::<PyList>() || feed.is_instance_of::<PyTuple>()
}

/// One feed for each place: as given, or a dict cut into parts.
fn feeds(
    program: &Arc<Program>,
    parallel: &Parallel,
    feed: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Feed>> {
    let n = parallel.n_devices();
    let list = feed.filter(|feed| is_list(feed));
    if let Some(list) = list {
        let n_feeds = list.len()?;
        let fewer =
            0 < n_feeds && n_feeds < n && parallel.allows_idle(program) && from_loader(list)?;
        if n_feeds != n && !fewer {
            let text = "Feed a list of tensor, the list should be the same size as places";
            return Err(PyValueError::new_err(text));
        }
        return list.try_iter()?.map(|part| feed_of_place(program, &part?)).collect();
    }
    let mut whole = Feed::new();
    fill(program, &mut whole, feed)?;
    let is_state = |name: &str| program.find_var(0, name).is_some_and(|var| var.persistable);
    split(&whole, n, parallel.allows_idle(program), is_state).map_err(from_train)
}

/// Whether a list of feeds is what loaders give: tensors only. Their last ones may be fewer.
fn from_loader(list: &Bound<'_, PyAny>) -> PyResult<bool> {
    for part in list.try_iter()? {
        let part = part?;
        let Ok(part) = part.cast::<PyDict>() else { return Ok(false) };
        if part.values().iter().any(|value| !value.is_instance_of::<PyTensor>()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The feed of one place. Names that the program does not know are left out.
fn feed_of_place(program: &Program, part: &Bound<'_, PyAny>) -> PyResult<Feed> {
    let Ok(part) = part.cast::<PyDict>() else {
        return Err(PyTypeError::new_err("Each element of feed list should be a dict"));
    };
    let known = PyDict::new(part.py());
    for (name, value) in part.iter() {
        if program.find_var(0, &name.extract::<String>()?).is_some() {
            known.set_item(name, value)?;
        }
    }
    let mut feed = Feed::new();
    fill(program, &mut feed, Some(known.as_any()))?;
    Ok(feed)
}

/// The next batches of the program's readers, one for each place, with what else is fed. The last
/// ones of a pass may be fewer, if the readers keep them and places may stay idle.
fn from_readers<'py>(
    py: Python<'py>,
    program: &Py<PyProgram>,
    devices: &PyParallel,
    feed: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let readers = program.get().readers(py);
    if readers.is_empty() {
        return Ok(None);
    }
    let mut parts: Vec<Bound<'py, PyDict>> = Vec::new();
    for place in 0..devices.n_places {
        let own = match feed {
            Some(list) if is_list(list) => Some(list.get_item(place)?),
            other => other.cloned(),
        };
        let fed = own.as_ref().and_then(|own| own.cast::<PyDict>().ok());
        let all = match next_batch(py, program, &readers, fed) {
            Err(error) if !parts.is_empty() && error.is_instance_of::<EOFException>(py) => {
                let dropped = readers.iter().map(|reader| reader.getattr(py, "_drop_last"));
                let dropped = dropped.map(|drop| drop?.bind(py).is_truthy());
                let kept = !dropped.collect::<PyResult<Vec<_>>>()?.contains(&true);
                let state = devices.state.lock_py_attached(py).even_if_poisoned();
                if kept && state.parallel.allows_idle(&program.get().shared()) {
                    break;
                }
                if kept {
                    state.parallel.say_left_out(parts.len());
                }
                return Err(error);
            }
            all => all?,
        };
        if let Some(own) = &own {
            all.update(own.cast::<pyo3::types::PyMapping>()?)?;
        }
        parts.push(all);
    }
    Ok(Some(PyList::new(py, parts)?.into_any()))
}

/// For each variable its values on all places, put together or in a list.
fn answer(
    py: Python<'_>,
    names: &[String],
    fetched: Vec<Vec<Tensor>>,
    merged: bool,
    numpy: bool,
) -> PyResult<Py<PyList>> {
    if merged {
        let whole = names.iter().zip(&fetched);
        let whole = whole.map(|(name, parts)| join(name, parts).map(Value::Tensor));
        let mut whole = whole.collect::<train::Result<Vec<Value>>>().map_err(from_train)?;
        return results(py, &mut whole, numpy);
    }
    let lists = fetched.into_iter().map(|parts| {
        let mut parts: Vec<Value> = parts.into_iter().map(Value::Tensor).collect();
        results(py, &mut parts, numpy)
    });
    Ok(PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)?.unbind())
}
