//! `paddlewheel.Predictor` and `paddlewheel serve`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use predict::{Column, ModelFiles, Predictor};
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use tensor::{DType, Tensor};

use crate::array::{PlainArray, copy_array, exact_array, look_at, to_numpy};
use crate::ctr::frame_from_py;
use crate::error::{detached_as, from_ctr, from_tensor, from_train};
use crate::feed::warn;
use crate::tensor::PyTensor;

/// An error of a prediction as Python knows such errors.
pub(crate) fn from_predict(error: predict::Error) -> PyErr {
    let text = error.to_string();
    match error {
        predict::Error::Train(error) => from_train(error),
        predict::Error::Table(error) => from_ctr(error),
        predict::Error::UnknownSlot { .. } | predict::Error::MissingSlot { .. } => {
            PyKeyError::new_err(text)
        }
        predict::Error::WrongType { .. } => PyTypeError::new_err(text),
        predict::Error::Listen { .. } => PyOSError::new_err(text),
        predict::Error::System { .. } => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Predicts with a saved model, from any number of threads.
///
/// `predict({"C1": ids, …})` takes arrays, lists or a DataFrame. An array of ids has one id for each
/// sample; a list of lists has a sequence for each. A model that `CTR.save` wrote takes what it was trained on.
#[pyclass(name = "Predictor", module = "paddlewheel", frozen)]
pub(crate) struct PyPredictor(Predictor);

#[pymethods]
impl PyPredictor {
    #[new]
    #[pyo3(signature = (dirname, model_filename=None, params_filename=None, *, threads=None))]
    fn new(
        py: Python<'_>,
        dirname: PathBuf,
        model_filename: Option<String>,
        params_filename: Option<String>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let files = ModelFiles { model: model_filename, params: params_filename };
        let loaded = detached_as(py, from_predict, || Predictor::load_files(&dirname, files))?;
        match threads {
            Some(0) => return Err(PyValueError::new_err("threads is at least 1")),
            Some(n) => loaded.set_threads(n),
            None => {}
        }
        Ok(Self(loaded))
    }

    /// The inputs of the model: names with type, shape of a sample, and whether samples are
    /// sequences.
    #[getter]
    fn slots<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for slot in self.0.slots().iter() {
            let about = (slot.dtype.name(), slot.dims.clone(), slot.is_sequence());
            dict.set_item(&slot.name, about)?;
        }
        Ok(dict)
    }

    /// The names of what it predicts.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.0.outputs()
    }

    /// Bytes of the parameters.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.n_bytes()
    }

    /// The kinds of the columns of a table (`category`, `count`, `number`), if `CTR.save` wrote the model, else
    /// None.
    #[getter]
    fn columns(&self) -> Option<BTreeMap<String, &'static str>> {
        let encoding = self.0.encoding()?;
        let features = encoding.features.into_iter();
        Some(features.map(|feature| (feature.name.clone(), feature.kind().name())).collect())
    }

    /// Predicts for all samples: an array, or a list of them if the model has several outputs. A model that
    /// `CTR.save` wrote takes the columns of a table as they were in training.
    fn predict(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let outputs = match self.0.encoding() {
            Some(encoding) => {
                let frame = frame_from_py(data, Some(&encoding))?;
                if let Some(text) = self.0.warning(&frame) {
                    warn(py, &text)?;
                }
                detached_as(py, from_predict, || self.0.predict_table(&frame))
            }
            None => {
                let mut batch = self.batch(data)?;
                detached_as(py, from_predict, || self.0.predict(&mut batch))
            }
        };
        let outputs = outputs?;
        let mut arrays = outputs.iter().map(|output| to_numpy(py, output));
        match (arrays.next(), outputs.len()) {
            (Some(first), 1) => first,
            (first, _) => {
                let all: PyResult<Vec<Py<PyAny>>> = first.into_iter().chain(arrays).collect();
                Ok(PyList::new(py, all?)?.into_any().unbind())
            }
        }
    }

    /// Takes over the model that is in the folder now. If it cannot be loaded, the old one stays.
    fn reload(&self, py: Python<'_>) -> PyResult<()> {
        detached_as(py, from_predict, || self.0.reload())
    }

    /// From now on newer models in the folder are taken over; it is looked at once in `every` seconds.
    #[pyo3(signature = (every=1.0))]
    fn follow(&self, every: f64) -> PyResult<()> {
        let every = seconds("every", every)?;
        self.0.follow(every).map_err(from_predict)
    }

    /// How many models were loaded, and why the last attempt failed, or None.
    #[getter]
    fn loads(&self) -> (u64, Option<String>) {
        self.0.loads()
    }

    fn __repr__(&self) -> String {
        let n_bytes = self.0.n_bytes();
        let takes = match self.0.encoding() {
            Some(encoding) => format!("{} columns", encoding.features.len()),
            None => format!("{} slots", self.0.slots().len()),
        };
        format!("Predictor({}, {takes}, {n_bytes} bytes)", self.0.dir().display())
    }
}

impl PyPredictor {
    /// The samples of a dictionary, or of anything else with columns by name.
    fn batch(&self, data: &Bound<'_, PyAny>) -> PyResult<predict::Samples> {
        if let Some(columns) = columns_of_rows(data)? {
            return self.batch(columns.as_any());
        }
        let names = match (data.getattr_opt("keys")?, data.getattr_opt("column_names")?) {
            (Some(keys), _) => keys.call0()?,
            (None, Some(names)) => names,
            (None, None) => {
                let kind = data.get_type().name()?;
                let text = format!("expected a dict of columns or a DataFrame, not {kind}");
                return Err(PyTypeError::new_err(text));
            }
        };
        let (mut batch, mut given) = (self.0.batch(), BTreeSet::new());
        for name in names.try_iter()? {
            let key = name?;
            let name: String = key.str()?.extract()?;
            fill(&mut batch, &name, &data.get_item(&key)?)?;
            if !given.insert(name.clone()) {
                return Err(wrong(&name, "it is given twice"));
            }
        }
        Ok(batch)
    }
}

/// A list of samples, each a dictionary with a value for each slot, as a dictionary of lists; `None` if it is something else.
fn columns_of_rows<'py>(data: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Ok(rows) = data.cast::<PyList>() else { return Ok(None) };
    let columns = PyDict::new(data.py());
    for (at, row) in rows.iter().enumerate() {
        let Ok(row) = row.cast_into::<PyDict>() else { return Ok(None) };
        for (name, value) in row.iter() {
            let column = match columns.get_item(&name)? {
                Some(column) => column.cast_into::<PyList>()?,
                None => {
                    let column = PyList::empty(data.py());
                    columns.set_item(&name, &column)?;
                    column
                }
            };
            if column.len() != at {
                return Err(wrong(
                    &name.str()?.to_string(),
                    "it is not given in the samples before",
                ));
            }
            column.append(value)?;
        }
    }
    for (name, column) in columns.iter() {
        if column.len()? != rows.len() {
            return Err(wrong(&name.str()?.to_string(), "it is not given in all samples"));
        }
    }
    Ok(Some(columns).filter(|columns| !columns.is_empty()))
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    let wrong = || PyValueError::new_err(format!("{name} is a number of seconds, not {value}"));
    if value <= 0.0 {
        Err(wrong())
    } else {
        Duration::try_from_secs_f64(value).map_err(|_| wrong())
    }
}

/// Gives a slot its values, in whatever form Python has them.
fn fill(batch: &mut predict::Samples, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if fill_plain(batch, name, value)? {
        return Ok(());
    }
    if let Ok(tensor) = value.cast::<PyTensor>() {
        return tensor.get().read(|given| batch.set_tensor(name, given)).map_err(from_predict);
    }
    let array =
        if value.hasattr("to_numpy")? { value.call_method0("to_numpy")? } else { value.clone() };
    let is_objects = array.getattr_opt("dtype")?.is_some_and(|dtype| {
        dtype
            .getattr("kind")
            .and_then(|kind| kind.extract::<String>())
            .is_ok_and(|kind| kind == "O")
    });
    let array = if is_objects { array.call_method0("tolist")? } else { array };
    if let Some((values, lengths)) = sequences(batch, name, &array)? {
        return set(batch, name, &values, Some(&lengths));
    }
    let array = exact_array(&array);
    let array = array.map_err(|_| wrong(name, "a sample has another length than others"))?;
    set(batch, name, &array, None)
}

/// An array of int64 or float32 without gaps is read where it lies; false if it is something else.
fn fill_plain(
    batch: &mut predict::Samples,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let filled = look_at(value, |array, shape| match array {
        PlainArray::Integers(values) => set_shaped(batch, name, Column::Integers(values), shape),
        PlainArray::Numbers(values) => set_shaped(batch, name, Column::Numbers(values), shape),
    });
    filled.transpose().map(|filled| filled.is_some())
}

fn set_shaped(
    batch: &mut predict::Samples,
    name: &str,
    column: Column<'_>,
    shape: &[usize],
) -> PyResult<()> {
    batch.set_shaped(name, column, shape).map_err(from_predict)
}

fn wrong(name: &str, problem: &str) -> PyErr {
    PyValueError::new_err(format!("slot `{name}`: {problem}"))
}

/// All values of a list of lists, and the length of each; `None` if it is none, or no slot of sequences.
fn sequences<'py>(
    batch: &predict::Samples,
    name: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<(Bound<'py, PyAny>, Vec<usize>)>> {
    let slot = batch.slots().iter().find(|slot| slot.name == name);
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if !is_list || !slot.is_some_and(|slot| slot.is_sequence()) {
        return Ok(None);
    }
    let is_sequence =
        |item: &Bound<'_, PyAny>| !item.is_instance_of::<PyString>() && item.len().is_ok();
    let items: Vec<Bound<'py, PyAny>> = value.try_iter()?.collect::<PyResult<_>>()?;
    if items.is_empty() || !items.iter().all(is_sequence) {
        return Ok(None);
    }
    let numpy = value.py().import("numpy")?;
    let lengths = items.iter().map(|item| item.len()).collect::<PyResult<Vec<usize>>>()?;
    let filled: Vec<&Bound<'py, PyAny>> =
        items.iter().zip(&lengths).filter(|(_, n)| **n > 0).map(|(item, _)| item).collect();
    let whole = if filled.is_empty() {
        numpy.call_method1("zeros", (0, "int64"))?
    } else {
        let bits = |item: &&Bound<'py, PyAny>| {
            let array = exact_array(item)?;
            let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
            // Beside numbers with a sign, those without would become floats.
            if kind == "u" { array.call_method1("astype", ("int64",)) } else { Ok(array) }
        };
        let arrays = filled.iter().map(bits).collect::<PyResult<Vec<_>>>()?;
        numpy.call_method1("concatenate", (arrays,))?
    };
    Ok(Some((whole, lengths)))
}

/// Gives a slot the numbers of an array.
fn set(
    batch: &mut predict::Samples,
    name: &str,
    array: &Bound<'_, PyAny>,
    lengths: Option<&[usize]>,
) -> PyResult<()> {
    let mut tensor = Tensor::default();
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    // Unsigned and short integers, truth values: numpy widens them.
    let widened = match kind.as_str() {
        "u" | "b" | "i" => array.call_method1("astype", ("int64",))?,
        "f" => array.call_method1("astype", ("float32",))?,
        _ => {
            let dtype = array.getattr("dtype")?;
            let slot = batch.slots().iter().find(|slot| slot.name == name);
            let takes = slot.map_or("numbers", |slot| slot.dtype.name());
            let text = format!("slot `{name}` takes {takes}, but got {dtype}");
            return Err(PyTypeError::new_err(text));
        }
    };
    if !copy_array(&widened, &mut tensor)? {
        return Err(wrong(name, "it is not an array"));
    }
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let column = match (tensor.dtype(), lengths) {
        (DType::I64, None) => {
            let values = tensor.data().map_err(from_tensor)?;
            return set_shaped(batch, name, Column::Integers(values), &shape);
        }
        (DType::I64, Some(lengths)) => {
            Column::Sequences { values: tensor.data().map_err(from_tensor)?, lengths }
        }
        (_, None) => {
            let values = tensor.data().map_err(from_tensor)?;
            return set_shaped(batch, name, Column::Numbers(values), &shape);
        }
        (_, Some(lengths)) => {
            Column::NumberSequences { values: tensor.data().map_err(from_tensor)?, lengths }
        }
    };
    batch.set(name, column).map_err(from_predict)
}

/// Adds the predictor to `_core`.
pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyPredictor>()
}
