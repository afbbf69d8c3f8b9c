//! Checkpoints: Fluid's functions over `train::io::Checkpoints`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use base::EvenIfPoisoned;
use pyo3::prelude::*;
use train::io::{self, Checkpoint, Checkpoints, JobScope, NewestCheckpoint, StepsDone};
use transpile::server_op;

use crate::error::{detached, from_train};
use crate::framework::variable::PyVariable;
use crate::io::{program_arg, scope_of};
use crate::trainer_job::{tell, trainer_job};

/// Adds to the module `_core.io`, which is there.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = &parent.getattr("io")?.cast_into::<PyModule>()?;
    m.add_class::<PyCheckpoints>()?;
    m.add_class::<PyStepsDone>()?;
    m.add_function(wrap_pyfunction!(is_checkpoint_var, m)?)
}

/// Whether a checkpoint holds a variable.
#[pyfunction]
fn is_checkpoint_var(var: &PyVariable) -> PyResult<bool> {
    var.read(io::is_checkpoint_var)
}

/// How far a trainer is in its data, and after which steps it writes a checkpoint.
#[pyclass(name = "StepsDone", module = "paddlewheel._core")]
struct PyStepsDone(StepsDone);

#[pymethods]
impl PyStepsDone {
    #[new]
    fn new(epochs: u64, steps: u64) -> Self {
        Self(StepsDone { epochs, steps, ..StepsDone::default() })
    }

    /// The pass and the step up to which a checkpoint has seen the data, or None.
    fn done(&self) -> Option<(u64, u64)> {
        self.0.done
    }

    /// The pass to continue with.
    fn first_epoch(&self) -> u64 {
        self.0.first_epoch()
    }

    /// Whether the next step is to be trained; the checkpoint has seen the others.
    fn takes(&mut self, epoch: u64, step: u64) -> bool {
        self.0.takes(epoch, step)
    }

    /// Whether a checkpoint is written after this step.
    fn is_due(&self, epoch: u64, step: u64) -> bool {
        self.0.is_due(epoch, step)
    }

    /// The arguments that are written with a checkpoint after this step.
    fn arguments(&self, epoch: u64, step: u64) -> BTreeMap<String, String> {
        self.0.arguments(epoch, step).into_iter().collect()
    }
}

/// The checkpoints of a folder.
#[pyclass(name = "Checkpoints", module = "paddlewheel._core", frozen)]
struct PyCheckpoints {
    points: Checkpoints,
    /// The newest whole one, if it was looked for.
    newest: Mutex<Option<NewestCheckpoint>>,
}

#[pymethods]
impl PyCheckpoints {
    #[new]
    fn new(dir: PathBuf) -> Self {
        Self { points: Checkpoints::new(&dir), newest: Mutex::default() }
    }

    /// The numbers of all, ascending.
    fn serials(&self) -> Vec<u64> {
        self.points.serials()
    }

    /// The number of the newest complete one; -1 if there is none.
    fn latest(&self) -> i64 {
        self.points.complete().last().map_or(-1, |&serial| serial as i64)
    }

    /// Writes the next one and removes old ones; returns its number. None: a job that has just begun, and can
    /// recover, leaves it out.
    fn save(
        &self,
        executor: &Bound<'_, PyAny>,
        program: Option<&Bound<'_, PyAny>>,
        trainer_id: usize,
        arguments: Vec<(String, String)>,
        n_kept: usize,
        time: &str,
    ) -> PyResult<Option<u64>> {
        let (py, scope) = (executor.py(), scope_of(executor)?);
        let program = program_arg(py, program)?.get().shared();
        let (scope, program) = (&scope.get().0, &*program);
        let arguments = &arguments;
        let what = Checkpoint { scope, program, trainer_id, arguments, n_kept, time };
        let saved = match &program.distributed {
            Some(job) => {
                let trainer = trainer_job()?;
                detached(py, || self.points.save_of_job(&what, trainer, job))
            }
            None => detached(py, || self.points.save(&what).map(Some)),
        };
        let saved = saved?;
        if saved.is_none() {
            tell("no checkpoint is written before the job has kept its first cut");
        }
        Ok(saved)
    }

    /// Loads one, or the newest that is whole; returns its number. Newer ones that are not whole are told.
    #[pyo3(signature = (executor, program, serial=None))]
    fn load(
        &self,
        executor: &Bound<'_, PyAny>,
        program: Option<&Bound<'_, PyAny>>,
        serial: Option<u64>,
    ) -> PyResult<u64> {
        let (py, scope) = (executor.py(), scope_of(executor)?);
        let program = program_arg(py, program)?.get().shared();
        let scope = &scope.get().0;
        let (serial, errors) = detached(py, || self.points.load(scope, &program, serial))?;
        tell_of(&errors);
        Ok(serial)
    }

    /// Looks for the newest that is whole, and tells the other processes of the job: all must begin from the same.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let newest = detached(py, || self.points.newest())?;
        let start = self.points.start(newest.serial);
        trainer_job()?.configure(|settings| settings.start = Some(start));
        *self.newest.lock().even_if_poisoned() = Some(newest);
        Ok(())
    }

    /// Loads the newest that is whole, if there is one; returns its number. `progress` learns where this
    /// trainer continues.
    fn resume(
        &self,
        executor: &Bound<'_, PyAny>,
        program: &Bound<'_, PyAny>,
        trainer_id: usize,
        progress: &mut PyStepsDone,
    ) -> PyResult<Option<u64>> {
        let (py, scope) = (executor.py(), scope_of(executor)?);
        let program = program_arg(py, Some(program))?.get().shared();
        let scope = &scope.get().0;
        let newest = self.newest.lock().even_if_poisoned().take();
        let find =
            |newest: Option<NewestCheckpoint>| newest.map_or_else(|| self.points.newest(), Ok);
        let points = &self.points;
        let resumed = match (&program.distributed, server_op(&program)) {
            (Some(job), None) => {
                let trainer = trainer_job()?;
                let of = JobScope { trainer, scope, job };
                detached(py, || points.resume_trainer(newest, of, &program))
            }
            (job, _) => detached(py, || {
                let trainer = job.is_none().then_some(trainer_id);
                points.resume_from(find(newest)?, scope, &program, trainer)
            }),
        };
        let resumed = resumed?;
        tell_of(&resumed.errors);
        let (epochs, steps) = (progress.0.epochs, progress.0.steps);
        progress.0 = StepsDone { epochs, steps, ..resumed.progress };
        Ok(resumed.serial)
    }

    /// The arguments that a trainer saved with a checkpoint, by name.
    fn arguments(&self, serial: u64, trainer_id: usize) -> PyResult<BTreeMap<String, String>> {
        self.points.arguments(serial, trainer_id).map_err(from_train)
    }

    /// Removes all, and the folder if asked to and empty.
    fn clean(&self, trainer_id: usize, delete_dir: bool) {
        self.points.clean(trainer_id, delete_dir);
    }
}

/// Says why the newest was not taken.
fn tell_of(errors: &[train::Error]) {
    for error in errors {
        tell(&format!("a checkpoint is not whole, an older one is taken: {error}"));
    }
}
