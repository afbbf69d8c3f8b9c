//! Functions of Python that programs call (`fluid.layers.py_func`).

use std::sync::Arc;

use program::op::{self, FunctionResult};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor::Tensor;

use crate::tensor::PyTensor;

/// Adds what this file has.
pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_append_python_callable_object_and_return_id, m)?)
}

/// Lets programs call a function of LoDTensors that returns a tuple of them, or of None; gives its number.
#[pyfunction]
fn _append_python_callable_object_and_return_id(callable: Py<PyAny>) -> i32 {
    op::add_function(Arc::new(move |inputs: &[&Tensor]| -> FunctionResult {
        Python::attach(|py| call(py, &callable, inputs).map_err(Into::into))
    }))
}

fn call(py: Python<'_>, callable: &Py<PyAny>, inputs: &[&Tensor]) -> PyResult<Vec<Option<Tensor>>> {
    let tensors = inputs.iter().map(|&tensor| Py::new(py, PyTensor::own(tensor.clone())));
    let arguments = PyTuple::new(py, tensors.collect::<PyResult<Vec<_>>>()?)?;
    let results = callable.bind(py).call1(arguments)?;
    let tensor = |item: PyResult<Bound<'_, PyAny>>| {
        let item = item?;
        if item.is_none() {
            return Ok(None);
        }
        let tensor = item.cast::<PyTensor>()?.get().read(Tensor::clone);
        Ok(Some(tensor))
    };
    results.try_iter()?.map(tensor).collect()
}
