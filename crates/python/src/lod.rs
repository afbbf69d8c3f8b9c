//! Tensors that hold sequences, made from nested lists or arrays.

use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tensor::{Lod, Tensor};

use crate::array::{copy_array, copy_number, exact_array};
use crate::convert::dtype_from_py;
use crate::error::EnforceNotMet;
use crate::tensor::PyTensor;

/// Takes nested lists apart: their lengths level by level, and the leaves in order.
pub(crate) struct Nested<'py> {
    pub(crate) leaves: Bound<'py, PyList>,
    pub(crate) lengths: Vec<Vec<usize>>,
}

impl<'py> Nested<'py> {
    pub(crate) fn new(py: Python<'py>, n_levels: usize) -> Self {
        Self { leaves: PyList::empty(py), lengths: vec![Vec::new(); n_levels] }
    }

    /// Adds one value that has lists down to the last level.
    pub(crate) fn add(&mut self, value: &Bound<'py, PyAny>, level: usize) -> PyResult<()> {
        if level == self.lengths.len() {
            return self.leaves.append(value);
        }
        self.lengths[level].push(value.len()?);
        value.try_iter()?.try_for_each(|item| self.add(&item?, level + 1))
    }
}

/// A tensor with the numbers of an array and sequences of these lengths.
pub(crate) fn ragged(array: &Bound<'_, PyAny>, lengths: &[Vec<usize>]) -> PyResult<PyTensor> {
    let mut tensor = Tensor::default();
    copy_array(array, &mut tensor)?;
    if !lengths.is_empty() {
        let lod = Lod::from_recursive_lengths(lengths);
        lod.check(tensor.dims().first().copied().unwrap_or(0)).map_err(|_| {
            EnforceNotMet::new_err("the provided recursive_sequence_lengths info is invalid")
        })?;
        tensor.set_lod(lod);
    }
    Ok(PyTensor::own(tensor))
}

/// A tensor of sequences from an array, another tensor, or a list of lists.
///
/// `recursive_seq_lens` has the lengths of the sequences, outermost level first. Lists become a
/// column: one row for each of their elements.
#[pyfunction]
#[pyo3(signature = (data, recursive_seq_lens, place = None))]
pub(crate) fn create_lod_tensor(
    data: &Bound<'_, PyAny>,
    recursive_seq_lens: Vec<Vec<usize>>,
    place: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTensor> {
    let _ = place;
    let py = data.py();
    let numpy = py.import("numpy")?;
    if data.is_instance_of::<PyTensor>() {
        return ragged(&numpy.call_method1("array", (data,))?, &recursive_seq_lens);
    }
    if data.is_instance(&numpy.getattr("ndarray")?)? {
        return ragged(data, &recursive_seq_lens);
    }
    if !data.is_instance_of::<PyList>() {
        let text = "data should be either a LoDTensor, a Numpy array or a list";
        return Err(PyTypeError::new_err(text));
    }
    let mut nested = Nested::new(py, recursive_seq_lens.len());
    for item in data.try_iter()? {
        nested.add(&item?, 0)?;
    }
    if nested.lengths != recursive_seq_lens {
        return Err(PyAssertionError::new_err("data and recursive_seq_lens do not match"));
    }
    let array = exact_array(nested.leaves.as_any())?;
    let column = numpy.call_method1("expand_dims", (array, -1))?;
    ragged(&column, &recursive_seq_lens)
}

/// A feed as a tensor: an array, or a number in the type it is wanted in.
#[pyfunction]
#[pyo3(signature = (data, place = None, dtype = None))]
pub(crate) fn as_lodtensor(
    data: &Bound<'_, PyAny>,
    place: Option<&Bound<'_, PyAny>>,
    dtype: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyTensor> {
    let _ = place;
    let mut tensor = Tensor::default();
    if copy_array(data, &mut tensor)? {
        return Ok(PyTensor::own(tensor));
    }
    let wanted = dtype.map(dtype_from_py).transpose()?;
    if copy_number(data, wanted.unwrap_or_default(), &mut tensor)? {
        let text = "the dtype should be given when a number is fed";
        return match wanted {
            Some(_) => Ok(PyTensor::own(tensor)),
            None => Err(PyAssertionError::new_err(text)),
        };
    }
    Err(PyRuntimeError::new_err(
        "Some of your feed data hold LoD information or are Python lists: feed a numpy array, or a \
         LoDTensor made by fluid.create_lod_tensor",
    ))
}

/// A tensor of sequences of random whole numbers, `low` and `high` included.
#[pyfunction]
pub(crate) fn create_random_int_lodtensor(
    py: Python<'_>,
    recursive_seq_lens: Vec<Vec<usize>>,
    base_shape: &Bound<'_, PyAny>,
    place: Option<&Bound<'_, PyAny>>,
    low: i64,
    high: i64,
) -> PyResult<PyTensor> {
    let _ = place;
    if !base_shape.is_instance_of::<PyList>() {
        return Err(PyAssertionError::new_err("base_shape should be a list"));
    }
    let n_rows: usize = recursive_seq_lens.last().map_or(0, |lengths| lengths.iter().sum());
    let mut shape = vec![n_rows];
    shape.extend(base_shape.extract::<Vec<usize>>()?);
    let random = py.import("numpy")?.getattr("random")?;
    let array = random.call_method1("randint", (low, high.saturating_add(1), shape, "int64"))?;
    ragged(&array, &recursive_seq_lens)
}
