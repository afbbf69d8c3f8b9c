//! `fluid.metrics` and `fluid.average`: arrays in, figures out.

use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyIndexError, PyValueError, PyZeroDivisionError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use tensor::{Shape, Tensor};
use train::metrics::{Answers, Auc, Chunks, EditDistances, WeightedMean};

use crate::array::{copy_array, to_numpy};
use crate::convert::Whole;
use crate::error::{from_tensor, from_train};
use crate::quality::{PyQuality, PyScoredSamples};

/// Adds the module `_core.metrics`.
pub(crate) fn add(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = PyModule::new(parent.py(), "metrics")?;
    m.add_class::<PyMean>()?;
    m.add_class::<PyAnswers>()?;
    m.add_class::<PyAuc>()?;
    m.add_class::<PyChunks>()?;
    m.add_class::<PyDistances>()?;
    m.add_class::<PyQuality>()?;
    m.add_class::<PyScoredSamples>()?;
    parent.add_submodule(&m)
}

/// Numbers, and the shape they had if they were an array.
type NumbersWithShape = (Vec<f64>, Option<Vec<i64>>);

/// A number or an array as numbers and a shape; `None` if it is neither.
fn numbers(object: &Bound<'_, PyAny>) -> PyResult<Option<NumbersWithShape>> {
    let mut tensor = Tensor::default();
    if copy_array(object, &mut tensor)? {
        let values = (0..tensor.len()).map(|at| tensor.get_f64(at)).collect();
        return Ok(Some((values, Some(tensor.shape().to_i64()))));
    }
    if object.is_instance_of::<PyString>() {
        return Ok(None);
    }
    Ok(object.extract::<f64>().ok().map(|number| (vec![number], None)))
}

/// An array of numbers, or the error that says which argument is none.
fn array(object: &Bound<'_, PyAny>, argument: &str) -> PyResult<Vec<f64>> {
    if !object.is_instance_of::<PyUntypedArray>() {
        return Err(PyValueError::new_err(format!("The '{argument}' must be a numpy ndarray.")));
    }
    Ok(numbers(object)?.map(|(values, _)| values).unwrap_or_default())
}

/// A number, also as an array of one.
fn number(object: &Bound<'_, PyAny>, text: &str) -> PyResult<f64> {
    match numbers(object)? {
        Some((values, _)) if values.len() == 1 => Ok(values[0]),
        _ => Err(PyValueError::new_err(text.to_string())),
    }
}

fn hold<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().even_if_poisoned()
}

/// A weighted mean of numbers or arrays.
#[pyclass(name = "WeightedMean", module = "paddlewheel._core", frozen)]
#[derive(Default)]
struct PyMean(Mutex<(WeightedMean, Option<Vec<i64>>)>);

#[pymethods]
impl PyMean {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds a value that counts `weight` times.
    fn add(&self, value: &Bound<'_, PyAny>, weight: &Bound<'_, PyAny>) -> PyResult<()> {
        let wrong = "The 'value' must be a number(int, float) or a numpy ndarray.";
        let (values, shape) =
            numbers(value)?.ok_or_else(|| PyValueError::new_err(wrong.to_string()))?;
        let weight = number(weight, "The 'weight' must be a number(int, float).")?;
        let mut held = hold(&self.0);
        held.0.add(&values, weight).map_err(from_train)?;
        if shape.as_ref().is_some_and(|shape| shape.len() >= held.1.as_ref().map_or(0, Vec::len)) {
            held.1 = shape;
        }
        Ok(())
    }

    /// Adds a value, unless its weight is negative.
    fn add_positive(&self, value: &Bound<'_, PyAny>, weight: &Bound<'_, PyAny>) -> PyResult<()> {
        if number(weight, "The 'weight' must be a number(int, float).")? < 0.0 {
            return Err(PyValueError::new_err("The 'weight' can not be negative"));
        }
        self.add(value, weight)
    }

    /// Whether anything was added.
    #[getter]
    fn is_used(&self) -> bool {
        !hold(&self.0).0.sum().is_empty()
    }

    /// Forgets everything.
    fn reset(&self) {
        *hold(&self.0) = Default::default();
    }

    /// The sum of value times weight.
    #[getter]
    fn sum(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let held = hold(&self.0);
        shaped(py, held.0.sum(), held.1.as_deref())
    }

    /// The sum of the weights.
    #[getter]
    fn weight(&self) -> f64 {
        hold(&self.0).0.weight()
    }

    /// The mean: a float, or an array if arrays were added.
    fn mean(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let held = hold(&self.0);
        let zero = || PyZeroDivisionError::new_err("the weights sum to zero");
        shaped(py, &held.0.mean().ok_or_else(zero)?, held.1.as_deref())
    }
}

fn shaped(py: Python<'_>, values: &[f64], shape: Option<&[i64]>) -> PyResult<Py<PyAny>> {
    let Some(shape) = shape else {
        return Ok(values.first().copied().unwrap_or(0.0).into_pyobject(py)?.into_any().unbind());
    };
    let shape = Shape::from_dims(shape).map_err(from_tensor)?;
    to_numpy(py, &Tensor::new(shape, values).map_err(from_tensor)?)
}

/// Right and wrong answers of a classifier.
#[pyclass(name = "Answers", module = "paddlewheel._core", frozen)]
#[derive(Default)]
struct PyAnswers(Mutex<Answers>);

#[pymethods]
impl PyAnswers {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Counts a batch of predictions.
    fn update(&self, preds: &Bound<'_, PyAny>, labels: &Bound<'_, PyAny>) -> PyResult<()> {
        let (preds, labels) = (array(preds, "preds")?, array(labels, "labels")?);
        hold(&self.0).update(&preds, &labels).map_err(from_train)
    }

    /// Starts to count anew.
    fn reset(&self) {
        *hold(&self.0) = Answers::default();
    }

    /// Positives taken for positives.
    #[getter]
    fn tp(&self) -> u64 {
        hold(&self.0).true_positives
    }

    /// Negatives taken for positives.
    #[getter]
    fn fp(&self) -> u64 {
        hold(&self.0).false_positives
    }

    /// Positives taken for negatives.
    #[getter]
    fn r#fn(&self) -> u64 {
        hold(&self.0).false_negatives
    }

    /// The share of what was called positive that is.
    fn precision(&self) -> f64 {
        hold(&self.0).precision()
    }

    /// The share of the positives that was found.
    fn recall(&self) -> f64 {
        hold(&self.0).recall()
    }
}

/// The area under the ROC curve.
#[pyclass(name = "Auc", module = "paddlewheel._core", frozen)]
struct PyAuc(Mutex<Auc>);

#[pymethods]
impl PyAuc {
    #[new]
    fn new(num_thresholds: Whole) -> PyResult<Self> {
        let num_thresholds: usize = num_thresholds.fit("num_thresholds")?;
        /// More would be a slip of the finger, and gigabytes.
        const MAX: usize = 1 << 24;
        if num_thresholds > MAX {
            let text = format!("num_thresholds of Auc must be {MAX} at most, got {num_thresholds}");
            return Err(PyValueError::new_err(text));
        }
        Ok(Self(Mutex::new(Auc::new(num_thresholds))))
    }

    /// Counts a batch: a row of probabilities per example, of which column 1 is the positive's.
    fn update(&self, preds: &Bound<'_, PyAny>, labels: &Bound<'_, PyAny>) -> PyResult<()> {
        let (values, labels) = (array(preds, "preds")?, array(labels, "labels")?);
        let dims: Vec<usize> = preds.getattr("shape")?.extract()?;
        let &[_, width @ (2..)] = dims.as_slice() else {
            let text = format!("preds must have a row of two probabilities each, got {dims:?}");
            return Err(PyIndexError::new_err(text));
        };
        let positives: Vec<f64> = values.chunks_exact(width).map(|row| row[1]).collect();
        hold(&self.0).update(&positives, &labels).map_err(from_train)
    }

    /// Starts to count anew.
    fn reset(&self) {
        let mut held = hold(&self.0);
        *held = Auc::new(held.positives().len() - 1);
    }

    /// The area so far.
    fn area(&self) -> f64 {
        hold(&self.0).area()
    }

    /// Positives by predicted value.
    #[getter]
    fn stat_pos(&self) -> Vec<u64> {
        hold(&self.0).positives().to_vec()
    }

    /// Negatives by predicted value.
    #[getter]
    fn stat_neg(&self) -> Vec<u64> {
        hold(&self.0).negatives().to_vec()
    }
}

/// Counts of chunks.
#[pyclass(name = "Chunks", module = "paddlewheel._core", frozen)]
#[derive(Default)]
struct PyChunks(Mutex<Chunks>);

#[pymethods]
impl PyChunks {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds the counts of a batch.
    fn update(
        &self,
        num_infer_chunks: &Bound<'_, PyAny>,
        num_label_chunks: &Bound<'_, PyAny>,
        num_correct_chunks: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let count = |object: &Bound<'_, PyAny>, name: &str| {
            number(object, &format!("The '{name}' must be a number(int) or a numpy ndarray."))
        };
        let inferred = count(num_infer_chunks, "num_infer_chunks")?;
        let labelled = count(num_label_chunks, "num_label_chunks")?;
        let correct = count(num_correct_chunks, "num_correct_chunks")?;
        hold(&self.0).update(inferred, labelled, correct);
        Ok(())
    }

    /// Starts to count anew.
    fn reset(&self) {
        *hold(&self.0) = Chunks::default();
    }

    /// Inferred, labelled and correct chunks so far.
    fn counts(&self) -> (f64, f64, f64) {
        let held = hold(&self.0);
        (held.inferred, held.labelled, held.correct)
    }

    /// Precision, recall and their harmonic mean.
    fn scores(&self) -> (f64, f64, f64) {
        let scores = hold(&self.0).scores();
        (scores.precision, scores.recall, scores.f1)
    }
}

/// Edit distances of sequences.
#[pyclass(name = "EditDistances", module = "paddlewheel._core", frozen)]
#[derive(Default)]
struct PyDistances(Mutex<EditDistances>);

#[pymethods]
impl PyDistances {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds the distances of a batch.
    fn update(&self, distances: &Bound<'_, PyAny>, seq_num: &Bound<'_, PyAny>) -> PyResult<()> {
        let distances = array(distances, "distances")?;
        let sequences = number(seq_num, "The 'seq_num' must be a number(int, float).")?;
        hold(&self.0).update(&distances, sequences);
        Ok(())
    }

    /// Starts to count anew.
    fn reset(&self) {
        *hold(&self.0) = EditDistances::default();
    }

    /// Total distance, sequences, wrong sequences so far.
    fn counts(&self) -> (f64, f64, f64) {
        let held = hold(&self.0);
        (held.total, held.sequences, held.wrong)
    }

    /// The mean distance and the share of wrong sequences; None before there is a sequence.
    fn scores(&self) -> Option<(f64, f64)> {
        hold(&self.0).scores().map(|scores| (scores.mean, scores.wrong))
    }
}
