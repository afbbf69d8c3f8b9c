//! Turns samples of a reader into the tensors that a program is fed with.

use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use tensor::DType;

use crate::array::array_of;
use crate::framework::context;
use crate::framework::program::PyProgram;
use crate::framework::variable::PyVariable;
use crate::lod::{Nested, ragged};
use crate::tensor::PyTensor;

/// The type and shape of a data variable.
struct DataVar {
    name: String,
    dtype: DType,
    dims: Vec<i64>,
    lod_level: usize,
}

/// Turns samples into a feed: one tensor for each data variable.
#[pyclass(name = "DataFeeder", module = "paddlewheel._core", frozen, subclass)]
pub(crate) struct PyFeeder {
    fields: Vec<DataVar>,
    place: Option<Py<PyAny>>,
}

#[pymethods]
impl PyFeeder {
    #[new]
    #[pyo3(signature = (feed_list, place = None, program = None))]
    fn new(
        feed_list: &Bound<'_, PyAny>,
        place: Option<Py<PyAny>>,
        program: Option<Py<PyProgram>>,
    ) -> PyResult<Self> {
        let program = match program {
            Some(program) => program,
            None => context::default_main_program(feed_list.py())?,
        };
        let fields = feed_list.try_iter()?.map(|item| field(&program, &item?));
        Ok(Self { fields: fields.collect::<PyResult<_>>()?, place })
    }

    /// The names of the data variables, in the order of a sample's fields.
    #[getter]
    fn feed_names(&self) -> Vec<&str> {
        self.fields.iter().map(|field| field.name.as_str()).collect()
    }

    /// Where the tensors are wanted.
    #[getter]
    fn place(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.place.as_ref().map(|place| place.clone_ref(py))
    }

    /// The feed of a mini-batch, given as an iterable of samples.
    fn feed<'py>(&self, iterable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let py = iterable.py();
        let new = |field: &DataVar| Nested::new(py, field.lod_level);
        let mut columns: Vec<Nested<'py>> = self.fields.iter().map(new).collect();
        for sample in iterable.try_iter()? {
            self.add(&mut columns, &sample?)?;
        }
        let feed = PyDict::new(py);
        for (field, column) in self.fields.iter().zip(columns) {
            feed.set_item(&field.name, Py::new(py, field.tensor(column)?)?)?;
        }
        Ok(feed)
    }
}

impl PyFeeder {
    fn add<'py>(&self, columns: &mut [Nested<'py>], sample: &Bound<'py, PyAny>) -> PyResult<()> {
        let (got, wanted) = (sample.len()?, self.fields.len());
        if got != wanted {
            return Err(PyAssertionError::new_err(format!(
                "The number of fields in data ({got}) does not match len(feed_list) ({wanted})"
            )));
        }
        for (column, value) in columns.iter_mut().zip(sample.try_iter()?) {
            column.add(&value?, 0)?;
        }
        Ok(())
    }
}

/// A data variable, given itself or by name.
fn field(program: &Py<PyProgram>, item: &Bound<'_, PyAny>) -> PyResult<DataVar> {
    let program = program.get().lock();
    let read = |var: &::program::VarDesc| DataVar {
        name: var.name.clone(),
        dtype: var.meta.dtype,
        dims: var.meta.dims.clone(),
        lod_level: usize::try_from(var.meta.lod_level).unwrap_or(0),
    };
    if let Ok(name) = item.cast::<PyString>() {
        let name: String = name.extract()?;
        let var = program.block(0).var(&name);
        return var
            .map(read)
            .ok_or_else(|| PyValueError::new_err(format!("var {name} not in this block")));
    }
    drop(program);
    match item.cast::<PyVariable>() {
        Ok(variable) => variable.get().read(read),
        Err(_) => Err(PyTypeError::new_err("Feed list should contain a list of variable")),
    }
}

impl DataVar {
    /// The values of a batch in the variable's type, and in its shape if their rank is another.
    fn tensor(&self, column: Nested<'_>) -> PyResult<PyTensor> {
        let mut array = array_of(column.leaves.as_any(), self.dtype)?;
        let rank: usize = array.getattr("ndim")?.extract()?;
        if !self.dims.is_empty() && rank != self.dims.len() {
            array = self.reshaped(&array)?;
        }
        ragged(&array, &column.lengths)
    }

    fn reshaped<'py>(&self, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let defined = PyTuple::new(array.py(), &self.dims)?;
        array.call_method1("reshape", (&defined,)).map_err(|_| {
            let received = array.getattr("shape").map(|shape| shape.to_string());
            PyValueError::new_err(format!(
                "Reshape error. What is defined in data layer is {defined}, but receive {}",
                received.unwrap_or_default()
            ))
        })
    }
}
