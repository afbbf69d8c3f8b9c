//! Passes over datasets as Python calls for them.

use std::time::Duration;

use base::EvenIfPoisoned;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tensor::Tensor;
use train::from_dataset::{Observer, Pass, PassOptions, PassValue, Progress, Report, fetched_text};
use train::{Error, Scope, Trainer};

use crate::array::to_numpy;
use crate::dataset::PyDataset;
use crate::error::{from_data, from_train};
use crate::signals::{Raised, signalled, taken};

/// The output of a pass that a caller wants.
pub(crate) struct ShownOptions<'py> {
    /// Variables to print, and what to print before them.
    pub(crate) fetch: Vec<String>,
    pub(crate) labels: Option<Vec<String>>,
    pub(crate) print_period: u64,
    pub(crate) debug: bool,
    pub(crate) infers: bool,
    /// A `FetchHandler`.
    pub(crate) handler: Option<Bound<'py, PyAny>>,
}

/// Shows what a pass says, by Python's own means: a notebook or a test may have redirected them.
struct Shown {
    fetch: Vec<String>,
    labels: Vec<String>,
    handler: Option<(Py<PyAny>, Vec<String>)>,
    raised: Raised,
}

impl Shown {
    /// Prints the values of the whole pass, except those that have a row for every sample.
    fn whole(&mut self, fetched: &[PassValue]) {
        let values = self.labels.iter().zip(&self.fetch).zip(fetched);
        let values = values.filter(|(_, whole)| !whole.by_sample && !whole.value.is_empty());
        let text: String =
            values.map(|((label, name), whole)| fetched_text(label, name, &whole.value)).collect();
        if !text.is_empty() {
            self.tell(|py, _| write(py, "stdout", &text));
        }
    }

    /// Calls into Python; an exception there ends the pass.
    fn tell(&mut self, call: impl FnOnce(Python<'_>, &Self) -> PyResult<()>) {
        fleet::logging::make_room();
        if let Err(error) = Python::attach(|py| call(py, self)) {
            *self.raised.lock().even_if_poisoned() = Some(error);
        }
    }
}

impl Observer for Shown {
    fn fetched(&mut self, values: &[Tensor]) {
        let shown = self.labels.iter().zip(&self.fetch).zip(values);
        let text: String =
            shown.map(|((label, name), value)| fetched_text(label, name, value)).collect();
        self.tell(|py, _| write(py, "stdout", &text));
    }

    fn watched(&mut self, values: Vec<Option<Tensor>>) {
        self.tell(|py, own| {
            let Some((handler, names)) = &own.handler else { return Ok(()) };
            let by_name = PyDict::new(py);
            for (name, value) in names.iter().zip(values) {
                let array = value.map(|tensor| to_numpy(py, &tensor)).transpose()?;
                by_name.set_item(name, array)?;
            }
            handler.bind(py).call_method1("handler", (by_name,)).map(|_| ())
        });
    }

    fn measured(&mut self, text: &str) {
        self.tell(|py, _| write(py, "stderr", text));
    }

    fn goes_on(&mut self, _: &Progress) -> bool {
        let has_raised = self.raised.lock().even_if_poisoned().is_some();
        !has_raised && !signalled(&self.raised)
    }
}

/// A full disk or a closed pipe ends no training.
fn write(py: Python<'_>, stream: &str, text: &str) -> PyResult<()> {
    let stream = py.import("sys")?.getattr(stream)?;
    let written = stream.call_method1("write", (text,)).and_then(|_| stream.call_method0("flush"));
    match written {
        Err(error) if error.is_instance_of::<PyOSError>(py) => Ok(()),
        written => written.map(|_| ()),
    }
}

/// Variables of a handler: the name it knows and the variable's.
fn watched(handler: &Bound<'_, PyAny>) -> PyResult<(Vec<String>, Vec<String>, Duration)> {
    let vars = handler.getattr("var_dict")?;
    let vars = vars.cast::<PyDict>()?;
    let (mut names, mut watch) = (Vec::new(), Vec::new());
    for (name, var) in vars.iter() {
        names.push(name.extract()?);
        watch.push(match var.cast::<PyString>() {
            Ok(name) => name.to_string(),
            Err(_) => crate::framework::variable::name_of(&var)?,
        });
    }
    let seconds: f64 = handler.getattr("period_secs")?.extract()?;
    if !(seconds.is_finite() && seconds > 0.0) {
        let text = format!("period_secs of a FetchHandler must be above 0, not {seconds}");
        return Err(PyValueError::new_err(text));
    }
    Ok((names, watch, Duration::from_secs_f64(seconds)))
}

/// Runs a program on all batches of a dataset.
pub(crate) fn run(
    py: Python<'_>,
    trainer: &mut Trainer,
    raised: &Raised,
    program: &program::Program,
    scope: &Scope,
    dataset: &Bound<'_, PyAny>,
    wanted: ShownOptions<'_>,
) -> PyResult<Report> {
    let Ok(dataset) = dataset.cast::<PyDataset>() else {
        let kind = dataset.get_type();
        return Err(PyRuntimeError::new_err(format!(
            "dataset is need and should be initialized: make one with \
             fluid.DatasetFactory().create_dataset('QueueDataset'), not {kind}"
        )));
    };
    let ShownOptions { fetch, labels, print_period, debug, infers, handler } = wanted;
    let labels = labels.unwrap_or_else(|| fetch.clone());
    let (names, watch, watch_every) = match &handler {
        Some(handler) => watched(handler)?,
        None => (Vec::new(), Vec::new(), Duration::MAX),
    };
    let (fetched, fetch_every) = (fetch.clone(), print_period);
    let fetch_names = labels.clone();
    let options =
        PassOptions { fetch: fetched, fetch_names, fetch_every, watch, watch_every, debug, infers };
    let pass = Pass { program, scope, options: &options };
    let handler = handler.map(|handler| (handler.unbind(), names));
    let raised = raised.clone();
    let mut shown = Shown { fetch, labels, handler, raised };
    let ran = {
        let mut dataset = dataset.get().lock(py);
        let dataset = &mut *dataset;
        py.detach(|| trainer.run_dataset(pass, dataset, &mut shown))
    };
    if let Ok(report) = &ran
        && !report.is_past
        && options.infers
    {
        shown.whole(&report.fetched);
    }
    // An exception of a handler at the very end is not lost.
    let raised = taken(&shown.raised);
    let raised = raised.or_else(|| crate::trainer_job::raised_in_wait().filter(|_| ran.is_err()));
    match (raised, ran) {
        (Some(raised), _) => Err(raised),
        (None, Ok(report)) => Ok(report),
        (None, Err(Error::Data(error))) => Err(from_data(error)),
        (None, Err(error)) => Err(from_train(error)),
    }
}
