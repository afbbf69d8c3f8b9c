//! A table that servers kept by rows, as Python sees it.

use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use tensor::{DType, KeyedTable, ReadRows, Shape, Tensor};

use crate::array::{array_of, copy_array, to_numpy};

/// A table of which only some rows exist, to be read. `table[ids]` gives rows, also those that do not
/// exist: they are what the rule of the table says.
#[pyclass(name = "KeyedTable", module = "paddlewheel._core", frozen)]
pub(crate) struct PyKeyedTable(pub(crate) Arc<KeyedTable>);

#[pymethods]
impl PyKeyedTable {
    /// The ids of the rows that exist.
    #[getter]
    fn ids(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let ids = self.0.ids();
        let ids = Tensor::new([ids.len()], ids).map_err(crate::error::from_tensor)?;
        to_numpy(py, &ids)
    }

    /// The rows that exist, in the order of `ids`.
    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        to_numpy(py, self.0.value())
    }

    /// Rows and columns of the whole table.
    #[getter]
    fn shape(&self) -> (i64, usize) {
        (self.0.height(), self.0.width())
    }

    /// How many rows exist.
    fn __len__(&self) -> usize {
        self.0.ids().len()
    }

    fn __getitem__(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let wanted = array_of(ids, DType::I64)?;
        let mut ids = Tensor::default();
        if !copy_array(&wanted, &mut ids)? {
            return Err(PyTypeError::new_err("ids of a table are integers"));
        }
        let (width, mut out) = (self.0.width(), Tensor::default());
        let ids = ids.data::<i64>().map_err(crate::error::from_tensor)?;
        let read = ReadRows { padding: None, is_test: false, stride: width, offset: 0 };
        let rows = out.resize::<f32>(Shape::from([ids.len(), width]));
        self.0.gather(ids, read, rows).map_err(|position| {
            let (id, height) = (ids[position], self.0.height());
            PyIndexError::new_err(format!("{id} is not a row of a table of {height} rows"))
        })?;
        let mut shape: Vec<usize> = wanted.getattr("shape")?.extract()?;
        shape.push(width);
        to_numpy(py, &out)?.call_method1(py, "reshape", (shape,))
    }

    fn __repr__(&self) -> String {
        let (height, width) = self.shape();
        format!("KeyedTable({} of {height} rows of {width})", self.0.ids().len())
    }
}
