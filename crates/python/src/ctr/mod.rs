//! `paddlewheel.CTR`: a short way from a table to a model.

mod frame;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use ::ctr::{Architecture, Ctr, CtrModel, FeatureKind, Loss, Trained, Training};
use base::{DidYouMean, EvenIfPoisoned};
use data::DataFrame;
use fleet::ready::Watch;
use fleet::{Fleet, env, flags, role};
use numpy::PyArray1;
use pyo3::exceptions::{PyRuntimeError, PySystemExit, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::convert::Whole;
use crate::error::{detached_as, from_ctr, from_fleet};
use crate::feed::warn;
use crate::framework::program::PyProgram;
use crate::signals::{Raised, SIGNALS_EVERY, signalled, taken};
use crate::tensor::PyScope;
use crate::trainer_job::trainer_job;
pub(crate) use frame::frame_from_py;

/// Adds what the package shows at its top.
pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyCtr>()?;
    m.add_function(wrap_pyfunction!(hash_id, m)?)
}

/// The id below n of a text, as the readers make it; of a slot, if one is named.
#[pyfunction]
#[pyo3(signature = (text, n, slot = None))]
fn hash_id(text: &str, n: Whole, slot: Option<&str>) -> PyResult<i64> {
    let n: u64 = n.positive("n")?;
    Ok(data::hash_id(text, slot, n))
}

/// The job of this process, if a launcher started it as a part of one.
fn job() -> PyResult<Option<Fleet>> {
    let Some(role) = role::in_a_job(&env::process).map_err(from_fleet)? else { return Ok(None) };
    let flags = flags::current().map_err(from_fleet)?;
    Ok(Some(Fleet::init(role, flags, trainer_job()?.clone())))
}

/// Calls something that takes long: its lines are printed, and Ctrl-C ends it.
fn watched<T: Send>(
    py: Python<'_>,
    prints: bool,
    call: impl FnOnce(&mut Watch<'_>) -> ::ctr::Result<T> + Send,
) -> PyResult<T> {
    let (raised, mut asked) = (Raised::default(), Instant::now());
    ::fleet::logging::begin().map_err(from_fleet)?;
    let done = py.detach(|| {
        let mut on_line = |line: &str| {
            if prints {
                print(line);
            }
        };
        let mut stops = || {
            if asked.elapsed() < SIGNALS_EVERY {
                return false;
            }
            asked = Instant::now();
            signalled(&raised)
        };
        call(&mut Watch { on_line: &mut on_line, stops: &mut stops })
    });
    match taken(&raised) {
        Some(error) => Err(error),
        None => done.map_err(from_ctr),
    }
}

/// Python's own `print`, which notebooks show. A closed output is not a reason to end training.
fn print(line: &str) {
    ::fleet::logging::make_room();
    Python::attach(|py| {
        let print = py.import("builtins").and_then(|builtins| builtins.getattr("print"));
        let _ = print.and_then(|print| print.call1((line,)));
    });
}

struct CtrState {
    settings: Ctr,
    verbose: bool,
    fitted: Option<Fitted>,
}

struct Fitted {
    model: CtrModel,
    main: Py<PyProgram>,
    startup: Py<PyProgram>,
    scope: Py<PyScope>,
    /// The user knows of columns that are not read.
    has_warned: bool,
}

impl Fitted {
    fn new(py: Python<'_>, model: CtrModel) -> PyResult<Self> {
        let main = Py::new(py, PyProgram::new_from(model.net().main.clone()))?;
        let startup = Py::new(py, PyProgram::new_from(model.net().startup.clone()))?;
        let scope = Py::new(py, PyScope(model.scope().clone()))?;
        Ok(Self { model, main, startup, scope, has_warned: false })
    }
}

/// A click-through model that is trained from a table: fit, predict, auc, save, load.
#[pyclass(name = "CTR", module = "paddlewheel", frozen)]
pub(crate) struct PyCtr(Mutex<CtrState>);

impl PyCtr {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, CtrState> {
        self.0.lock_py_attached(py).even_if_poisoned()
    }

    /// Rows for the model. The first time that it does not read a column the user is told.
    fn frame(&self, data: &Bound<'_, PyAny>) -> PyResult<DataFrame> {
        let py = data.py();
        let encoding = self.with(py, |fitted| Ok(fitted.model.encoding().clone()))?;
        let frame = frame_from_py(data, Some(&encoding))?;
        if let Some(text) = encoding.warning(&frame)
            && self.with(py, |fitted| Ok(!std::mem::replace(&mut fitted.has_warned, true)))?
        {
            warn(py, &text)?;
        }
        Ok(frame)
    }

    fn with<T>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Fitted) -> PyResult<T>,
    ) -> PyResult<T> {
        match &mut self.lock(py).fitted {
            Some(fitted) => call(fitted),
            None => Err(PyRuntimeError::new_err("the model is not trained yet: call fit first")),
        }
    }
}

#[pymethods]
impl PyCtr {
    #[new]
    #[pyo3(signature = (target, model=None, *, loss=None, positive=None, epochs=None,
        batch_size=None, learning_rate=None, dim=None, hidden=None, l2=None, ids=None,
        validation=None, patience=None, seed=None, columns=None, mode=None, verbose=None, **others),
        text_signature = "(target, model='deepfm', *, loss='log', positive=None, epochs=None, \
        batch_size=None, learning_rate=None, dim=None, hidden=None, l2=None, ids=None, \
        validation=None, patience=None, seed=None, columns=None, mode='sync', verbose=True, **others)")]
    fn new(
        target: &Bound<'_, PyAny>,
        model: Option<&Bound<'_, PyAny>>,
        loss: Option<&Bound<'_, PyAny>>,
        positive: Option<&Bound<'_, PyAny>>,
        epochs: Option<&Bound<'_, PyAny>>,
        batch_size: Option<&Bound<'_, PyAny>>,
        learning_rate: Option<&Bound<'_, PyAny>>,
        dim: Option<&Bound<'_, PyAny>>,
        hidden: Option<&Bound<'_, PyAny>>,
        l2: Option<&Bound<'_, PyAny>>,
        ids: Option<&Bound<'_, PyAny>>,
        validation: Option<&Bound<'_, PyAny>>,
        patience: Option<&Bound<'_, PyAny>>,
        seed: Option<&Bound<'_, PyAny>>,
        columns: Option<&Bound<'_, PyAny>>,
        mode: Option<&Bound<'_, PyAny>>,
        verbose: Option<&Bound<'_, PyAny>>,
        others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        refuse_others(others)?;
        let name = |setting, value: Option<&Bound<'_, PyAny>>| {
            value.map(|value| text(setting, value)).transpose()
        };
        let loss = name("loss", loss)?.map(|loss| Loss::from_name(&loss).map_err(from_ctr));
        let loss = loss.transpose()?.unwrap_or_default();
        let mut settings = Ctr::for_loss(&text("target", target)?, loss);
        if let Some(model) = name("model", model)? {
            settings.architecture = Architecture::from_name(&model).map_err(from_ctr)?;
        }
        if let Some(mode) = name("mode", mode)? {
            settings.mode = ::ctr::mode_from_name(&mode).map_err(from_ctr)?;
        }
        settings.positive = positive.map(positive_of).transpose()?;
        let kinds = columns.map(|value| given("columns", "a dict of names and kinds", value));
        let kinds: BTreeMap<String, String> = kinds.transpose()?.unwrap_or_default();
        for (name, kind) in kinds {
            settings.kinds.insert(name, FeatureKind::from_name(&kind).map_err(from_ctr)?);
        }
        set(&mut settings.epochs, epochs, "epochs")?;
        set(&mut settings.batch_size, batch_size, "batch_size")?;
        set(&mut settings.dim, dim, "dim")?;
        set(&mut settings.patience, patience, "patience")?;
        set(&mut settings.seed, seed, "seed")?;
        let number = |name, value: &Bound<'_, PyAny>| given::<f64>(name, "a number", value);
        if let Some(value) = learning_rate {
            settings.learning_rate = number("learning_rate", value)? as f32;
        }
        if let Some(value) = l2 {
            settings.l2 = number("l2", value)? as f32;
        }
        if let Some(value) = hidden {
            settings.hidden = given("hidden", "a list of whole numbers", value)?;
        }
        settings.n_ids = ids.map(|ids| whole("ids", ids)?.positive("ids")).transpose()?;
        settings.validation = validation.map(|value| number("validation", value)).transpose()?;
        let verbose = verbose.map(|value| given("verbose", "True or False", value));
        let verbose = verbose.transpose()?.unwrap_or(true);
        settings.check().map_err(from_ctr)?;
        Ok(Self(Mutex::new(CtrState { settings, verbose, fitted: None })))
    }

    /// Trains on a DataFrame, a dict of columns or a file; `validation` may be another one. In a job of
    /// launch_ps, servers hold the model and workers share the rows.
    #[pyo3(signature = (data, validation = None))]
    fn fit<'py>(
        slf: Bound<'py, Self>,
        data: &Bound<'py, PyAny>,
        validation: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = slf.py();
        let train = frame_from_py(data, None)?;
        let validation = validation.map(|table| frame_from_py(table, None)).transpose()?;
        let (settings, verbose) = {
            let state = slf.get().lock(py);
            (state.settings.clone(), state.verbose)
        };
        let fleet = job()?;
        let trained = watched(py, verbose, |watch| {
            let what = Training { train: &train, validation: validation.as_ref(), fleet };
            settings.fit_with(what, watch)
        })?;
        match trained {
            Trained::Model(model) => slf.get().lock(py).fitted = Some(Fitted::new(py, *model)?),
            // The script continues in workers only.
            Trained::Served(_) => return Err(PySystemExit::new_err(0)),
        }
        Ok(slf)
    }

    /// A prediction for each row.
    fn predict<'py>(&self, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let (py, frame) = (data.py(), self.frame(data)?);
        let predicted = self.with(py, |fitted| {
            let model = &mut fitted.model;
            detached_as(py, from_ctr, || model.predict(&frame))
        })?;
        Ok(PyArray1::from_vec(py, predicted))
    }

    /// The area under the curve on rows with a target.
    fn auc(&self, data: &Bound<'_, PyAny>) -> PyResult<f64> {
        let (py, frame) = (data.py(), self.frame(data)?);
        self.with(py, |fitted| {
            let model = &mut fitted.model;
            detached_as(py, from_ctr, || model.auc(&frame))
        })
    }

    /// The root of the mean squared error on rows with a target.
    fn rmse(&self, data: &Bound<'_, PyAny>) -> PyResult<f64> {
        let (py, frame) = (data.py(), self.frame(data)?);
        self.with(py, |fitted| {
            let model = &mut fitted.model;
            detached_as(py, from_ctr, || model.rmse(&frame))
        })
    }

    /// Saves the model and its encoding. Of the workers of a job only the first saves.
    fn save(&self, py: Python<'_>, dirname: PathBuf) -> PyResult<()> {
        self.with(py, |fitted| {
            // A model may be moved to another thread, but not shared.
            let model = &mut fitted.model;
            detached_as(py, from_ctr, move || model.save(&dirname))
        })
    }

    /// A model that was saved.
    #[staticmethod]
    fn load(py: Python<'_>, dirname: PathBuf) -> PyResult<Self> {
        let model = detached_as(py, from_ctr, || CtrModel::load(&dirname))?;
        let settings = Ctr::new(&model.encoding().target.name);
        let fitted = Some(Fitted::new(py, model)?);
        Ok(Self(Mutex::new(CtrState { settings, verbose: true, fitted })))
    }

    /// The program that was trained; of a loaded model, the one that predicts.
    #[getter]
    fn main_program(&self, py: Python<'_>) -> PyResult<Py<PyProgram>> {
        self.with(py, |fitted| Ok(fitted.main.clone_ref(py)))
    }

    /// The program that filled the parameters; of a loaded model, an empty one.
    #[getter]
    fn startup_program(&self, py: Python<'_>) -> PyResult<Py<PyProgram>> {
        self.with(py, |fitted| Ok(fitted.startup.clone_ref(py)))
    }

    /// Where the parameters are.
    #[getter]
    fn scope(&self, py: Python<'_>) -> PyResult<Py<PyScope>> {
        self.with(py, |fitted| Ok(fitted.scope.clone_ref(py)))
    }

    /// Column by column what it is: a dict of names and kinds.
    #[getter]
    fn columns(&self, py: Python<'_>) -> PyResult<BTreeMap<String, &'static str>> {
        self.with(py, |fitted| {
            let features = fitted.model.encoding().features.iter();
            Ok(features.map(|feature| (feature.name.clone(), feature.kind().name())).collect())
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = self.lock(py);
        let (target, model) = (&state.settings.target, state.settings.architecture.name());
        match &state.fitted {
            None => format!("CTR(target='{target}', model='{model}'), not trained"),
            Some(fitted) => {
                let n = fitted.model.encoding().features.len();
                format!("CTR(target='{target}'), trained on {n} columns")
            }
        }
    }
}

/// The settings of `CTR`.
const SETTINGS: [&str; 17] = [
    "target",
    "model",
    "loss",
    "positive",
    "epochs",
    "batch_size",
    "learning_rate",
    "dim",
    "hidden",
    "l2",
    "ids",
    "validation",
    "patience",
    "seed",
    "columns",
    "mode",
    "verbose",
];

/// The value of the target that counts as 1, as it is written in a file.
fn positive_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let number = value.py().import("numbers")?.getattr("Real")?;
    let truth = value.py().import("numpy")?.getattr("bool_")?;
    let is_one = value.is_instance_of::<PyString>()
        || value.is_instance(&number)?
        || value.is_instance(&truth)?;
    if is_one {
        return value.str()?.extract();
    }
    Err(wrong_type("positive", "one value of the target, a text or a number", value))
}

fn refuse_others(others: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let Some((name, _)) = others.and_then(|others| others.iter().next()) else { return Ok(()) };
    let name: String = name.extract()?;
    let near = DidYouMean::among(&name, SETTINGS);
    let all = SETTINGS.join(", ");
    Err(PyTypeError::new_err(format!("CTR has no setting `{name}`.{near} There are: {all}")))
}

fn set<T: TryFrom<i64>>(
    setting: &mut T,
    value: Option<&Bound<'_, PyAny>>,
    name: &str,
) -> PyResult<()> {
    if let Some(value) = value {
        *setting = whole(name, value)?.fit(name)?;
    }
    Ok(())
}

fn whole(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Whole> {
    const EXPECTED: &str = "a whole number";
    if value.is_instance_of::<PyBool>() {
        return Err(wrong_type(name, EXPECTED, value));
    }
    given(name, EXPECTED, value)
}

fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    given(name, "a text", value)
}

/// A setting; one of another type is refused by its name.
fn given<'py, T: for<'a> FromPyObject<'a, 'py>>(
    name: &str,
    expected: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<T> {
    value.extract().map_err(|_| wrong_type(name, expected, value))
}

fn wrong_type(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let shown = value.repr().map(|text| text.to_string()).unwrap_or_default();
    let kind = value.get_type();
    PyTypeError::new_err(format!("{name} must be {expected}, not {shown} ({kind})"))
}
