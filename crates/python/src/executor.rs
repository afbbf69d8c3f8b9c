//! The executor as Python sees it.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use tensor::Tensor;
use train::executor::Interrupt;
use train::{Executor, Feed};

use crate::context;
use crate::convert::{copy_array, to_numpy};
use crate::error::from_train;
use crate::program::PyProgram;
use crate::tensor::{PyScope, PyTensor};
use crate::variable::PyVariable;

/// Runs programs.
#[pyclass(name = "Executor", module = "paddlewheel._core", frozen, subclass)]
pub(crate) struct PyExecutor {
    state: Mutex<State>,
    interrupt: Interrupt,
}

/// Kept between runs so that their memory is.
struct State {
    executor: Executor,
    feed: Feed,
    fetched: Vec<Tensor>,
    closed: bool,
}

#[pymethods]
impl PyExecutor {
    #[new]
    #[pyo3(signature = (place = None))]
    fn new(place: Option<&Bound<'_, PyAny>>) -> Self {
        let _ = place;
        let executor = Executor::new();
        let interrupt = executor.interrupt();
        let (feed, fetched) = (Feed::new(), Vec::new());
        let state = Mutex::new(State { executor, feed, fetched, closed: false });
        Self { state, interrupt }
    }

    /// Runs all operators of a program in a scope; `feed` and `fetch` are already plain names and
    /// tensors. `run` in `executor.py` has Fluid's signature.
    #[pyo3(signature = (program, scope, feed, fetch, return_numpy))]
    fn run_program(
        &self,
        py: Python<'_>,
        program: Py<PyProgram>,
        scope: Py<PyScope>,
        feed: Option<&Bound<'_, PyAny>>,
        fetch: Option<&Bound<'_, PyAny>>,
        return_numpy: bool,
    ) -> PyResult<Py<PyList>> {
        let names = fetch_names(fetch)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { executor, feed: held, fetched, closed } = &mut *state;
        if *closed {
            return Err(PyRuntimeError::new_err("Attempted to use a closed Executor"));
        }
        fill(held, feed)?;
        let fetch: Vec<&str> = names.iter().map(String::as_str).collect();
        self.run_detached(py, || {
            let program = program.get().lock();
            executor.run_into(&program, &scope.get().0, held, &fetch, fetched)
        })?;
        results(py, fetched, return_numpy)
    }

    /// Ends this executor: it runs nothing any more.
    fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
    }

    /// Fails as soon as an operator writes a number that is not finite (`FLAGS_check_nan_inf`).
    fn _set_check_nan_inf(&self, check: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.executor.options_mut().check_nan_inf = check;
    }
}
