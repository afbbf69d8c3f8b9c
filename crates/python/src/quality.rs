//! `paddlewheel.metrics`: figures that Fluid does not have.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::EvenIfPoisoned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensor::{DType, Tensor};
use train::metrics::{Quality, ScoredBatch, ScoredSamples};

use crate::array::copy_array;
use crate::error::from_train;

/// How good predictions are.
#[pyclass(name = "Quality", module = "paddlewheel._core", frozen, get_all)]
pub(crate) struct PyQuality {
    /// How many samples there are.
    samples: u64,
    /// How many of them have the label 1.
    clicks: u64,
    /// The sum of the predictions.
    predicted: f64,
    /// The area under the ROC curve; None while one of the classes is absent.
    auc: Option<f64>,
    /// The mean of the areas of users, weighted by their samples; None without a user that has both classes.
    gauc: Option<f64>,
    /// How many users have both classes.
    users: u64,
    /// The mean of the negative logarithms of what was predicted for what happened.
    log_loss: f64,
    /// The log loss over that of predicting the mean; None while one of the classes is absent.
    normalised_entropy: Option<f64>,
    /// Predicted clicks over observed clicks; None without a click.
    pcoc: Option<f64>,
}

impl From<Quality> for PyQuality {
    fn from(quality: Quality) -> Self {
        let Quality { n, clicks, predicted, auc, gauc, n_users, .. } = quality;
        let Quality { log_loss, normalised_entropy, pcoc, .. } = quality;
        let (samples, users) = (n, n_users);
        Self { samples, clicks, predicted, auc, gauc, users, log_loss, normalised_entropy, pcoc }
    }
}

#[pymethods]
impl PyQuality {
    fn __repr__(&self) -> String {
        let shown =
            |number: Option<f64>| number.map_or("None".to_string(), |it| format!("{it:.6}"));
        format!(
            "Quality(samples={}, clicks={}, auc={}, gauc={}, log_loss={:.6}, normalised_entropy={}, pcoc={})",
            self.samples,
            self.clicks,
            shown(self.auc),
            shown(self.gauc),
            self.log_loss,
            shown(self.normalised_entropy),
            shown(self.pcoc)
        )
    }
}

/// Predictions with what came of them, batch after batch.
#[pyclass(name = "ScoredSamples", module = "paddlewheel._core", frozen)]
#[derive(Default)]
pub(crate) struct PyScoredSamples(pub(crate) Mutex<ScoredSamples>);

#[pymethods]
impl PyScoredSamples {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds a batch. `preds` has a probability per sample, or a row of two of which the second counts.
    #[pyo3(signature = (preds, labels, users=None, slices=None))]
    fn update(
        &self,
        preds: &Bound<'_, PyAny>,
        labels: &Bound<'_, PyAny>,
        users: Option<&Bound<'_, PyAny>>,
        slices: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (preds, labels) = (tensor_of(preds, "preds")?, tensor_of(labels, "labels")?);
        let is_pair = preds.dims().len() == 2 && preds.dims()[1] == 2;
        let number = |tensor: &Tensor, at: usize| tensor.get_f64(at);
        let chosen = (0..preds.len()).filter(|at| !is_pair || at % 2 == 1);
        let predictions: Vec<f64> = chosen.map(|at| number(&preds, at)).collect();
        let labels: Vec<f64> = (0..labels.len()).map(|at| number(&labels, at)).collect();
        let users = users.map(|users| ids_of(users, "users")).transpose()?;
        let slices = slices.map(|slices| ids_of(slices, "slices")).transpose()?;
        let batch = ScoredBatch {
            predictions: &predictions,
            labels: &labels,
            users: users.as_deref(),
            slices: slices.as_deref(),
        };
        self.0.lock().even_if_poisoned().add(&batch).map_err(from_train)
    }

    /// Forgets all samples.
    fn reset(&self) {
        *self.0.lock().even_if_poisoned() = ScoredSamples::default();
    }

    fn __len__(&self) -> usize {
        self.0.lock().even_if_poisoned().len()
    }

    /// How good all predictions are.
    fn quality(&self, py: Python<'_>) -> PyQuality {
        py.detach(|| self.0.lock().even_if_poisoned().quality()).into()
    }

    /// How good the predictions of each slice are.
    fn by_slice(&self, py: Python<'_>) -> BTreeMap<i64, PyQuality> {
        let slices = py.detach(|| self.0.lock().even_if_poisoned().by_slice());
        slices.into_iter().map(|(slice, quality)| (slice, quality.into())).collect()
    }
}

/// An array, a list, or a column of a DataFrame.
fn tensor_of(object: &Bound<'_, PyAny>, argument: &str) -> PyResult<Tensor> {
    let mut tensor = Tensor::default();
    let array = object.py().import("numpy")?.call_method1("asarray", (object,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    if !matches!(kind.as_str(), "b" | "i" | "u" | "f") || !copy_array(&array, &mut tensor)? {
        let dtype = array.getattr("dtype")?;
        let text = format!("{argument} must be an array of numbers, not of {dtype}");
        return Err(PyValueError::new_err(text));
    }
    Ok(tensor)
}

/// Ids, exact to the last digit.
fn ids_of(object: &Bound<'_, PyAny>, argument: &str) -> PyResult<Vec<i64>> {
    let tensor = tensor_of(object, argument)?;
    match tensor.dtype() {
        DType::I64 => Ok(tensor.data::<i64>().map(<[i64]>::to_vec).unwrap_or_default()),
        DType::I32 | DType::I16 | DType::I8 | DType::U8 => {
            Ok((0..tensor.len()).map(|at| tensor.get_f64(at) as i64).collect())
        }
        other => {
            let kind = other.name();
            let text = format!("The '{argument}' must be whole numbers, not {kind}.");
            Err(PyValueError::new_err(text))
        }
    }
}
