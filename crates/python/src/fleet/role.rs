//! The role of a process.

use std::time::Duration;

use base::Endpoint;
use fleet::ready::Watch;
use fleet::role::{self, UserDefined};
use fleet::{Identity, JobMembers, Role, RoleKind, engine, env, flags, stores};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyString};

use crate::convert::Whole;
use crate::error::{from_data, from_fleet};
use crate::signals::{Raised, signalled, taken};
use crate::trainer_job::tell;

pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyRole>()?;
    m.add_function(wrap_pyfunction!(role_from_environment, m)?)?;
    m.add_function(wrap_pyfunction!(role_in_a_job, m)?)?;
    m.add_function(wrap_pyfunction!(unsaid_trainer_id, m)?)?;
    m.add_function(wrap_pyfunction!(general_role, m)?)?;
    m.add_function(wrap_pyfunction!(mpi_role, m)?)?;
    m.add_function(wrap_pyfunction!(user_defined_role, m)?)?;
    m.add_function(wrap_pyfunction!(user_defined_collective_role, m)?)
}

/// The role of a process, and the addresses of the others.
#[pyclass(name = "Role", module = "paddlewheel._core", frozen)]
pub(crate) struct PyRole(pub(crate) Role);

#[pymethods]
impl PyRole {
    /// Whether it trains.
    fn is_worker(&self) -> bool {
        self.0.is_trainer()
    }

    /// Whether it keeps parameters.
    fn is_server(&self) -> bool {
        self.0.is_server()
    }

    /// Whether it is the trainer that does what only one may do.
    fn is_first_worker(&self) -> bool {
        self.0.is_first_trainer()
    }

    /// Which of the trainers or servers it is.
    fn index(&self) -> u32 {
        self.0.id
    }

    /// How many trainers there are.
    fn worker_num(&self) -> u32 {
        self.0.n_trainers
    }

    /// Where trainers are, when they speak to one another.
    fn worker_endpoints(&self) -> Vec<String> {
        texts(&self.0.trainers)
    }

    /// Where servers are.
    fn server_endpoints(&self) -> Vec<String> {
        texts(&self.0.servers)
    }

    /// Everything in a line.
    #[pyo3(name = "to_string")]
    fn text(&self) -> String {
        self.0.to_string()
    }

    /// The files that are this trainer's. Patterns stand for the files that they match, sorted.
    fn split_files(&self, files: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyAny>>> {
        let text = "files should be a list of file need to be read.";
        let files = files.cast::<PyList>().map_err(|_| PyTypeError::new_err(text))?;
        let mut all: Vec<Bound<'_, PyAny>> = files.iter().collect();
        let names: PyResult<Vec<String>> = all.iter().map(|file| file.extract()).collect();
        if let Ok(names) = names
            && names.iter().any(|name| data::is_pattern(name))
        {
            let stores = stores::stores(&env::process);
            let found = files.py().detach(|| data::expand(&names, &stores)).map_err(from_data)?;
            all = found.iter().map(|name| PyString::new(files.py(), name).into_any()).collect();
        }
        Ok(self.0.split(&all).iter().map(|file| file.clone().unbind()).collect())
    }
}

fn texts(endpoints: &[Endpoint]) -> Vec<String> {
    endpoints.iter().map(Endpoint::to_string).collect()
}

/// The role that a PaddleCloud job's variables give this process.
#[pyfunction]
#[pyo3(signature = (is_collective = false))]
fn role_from_environment(py: Python<'_>, is_collective: bool) -> PyResult<PyRole> {
    let members = if is_collective { JobMembers::Trainers } else { JobMembers::Both };
    found(py, engine::identity(&env::process, members))
}

/// The role of an identity; meets the other processes where it must.
fn found(py: Python<'_>, identity: fleet::Result<Identity>) -> PyResult<PyRole> {
    let identity = identity.map_err(from_fleet)?;
    let limit = flags::current().map_err(from_fleet)?.wait_server_ready_timeout();
    let raised = Raised::default();
    let role = py.detach(|| {
        let mut stops = || signalled(&raised);
        let mut watch = Watch { on_line: &mut tell, stops: &mut stops };
        engine::role_of(identity, limit.unwrap_or(Duration::MAX), &mut watch)
    });
    match taken(&raised) {
        Some(error) => Err(error),
        None => role.map(PyRole).map_err(from_fleet),
    }
}

/// The role that the variables give this process, or None if it runs alone.
#[pyfunction]
fn role_in_a_job() -> PyResult<Option<PyRole>> {
    Ok(role::in_a_job(&env::process).map_err(from_fleet)?.map(PyRole))
}

/// Which trainer this is when its script does not say so.
#[pyfunction]
fn unsaid_trainer_id(n_trainers: Whole) -> PyResult<u32> {
    let n_trainers = n_trainers.fit("n_trainers")?;
    role::unsaid_trainer_id(&env::process, n_trainers).map_err(from_fleet)
}

/// The role that the variables give when trainers have end points too.
#[pyfunction]
fn general_role() -> PyResult<PyRole> {
    role::general_from_environment(&env::process).map(PyRole).map_err(from_fleet)
}

/// The role that `mpirun` gives this process.
#[pyfunction]
fn mpi_role(py: Python<'_>) -> PyResult<PyRole> {
    found(py, engine::mpi_identity(&env::process))
}

/// The role that a user describes.
#[pyfunction]
fn user_defined_role(
    current_id: &Bound<'_, PyAny>,
    role: &Bound<'_, PyAny>,
    worker_num: &Bound<'_, PyAny>,
    server_endpoints: &Bound<'_, PyAny>,
) -> PyResult<PyRole> {
    let servers = strings(server_endpoints, "server_endpoints")?;
    let kind = match role.extract::<i64>() {
        Ok(1) => RoleKind::Trainer,
        Ok(2) => RoleKind::Server,
        _ => return Err(PyTypeError::new_err("role must be as Role")),
    };
    let current_id = int(current_id, "current_id")?;
    let n_trainers = int(worker_num, "worker_num")?;
    let wanted = UserDefined { current_id, kind, n_trainers, servers };
    role::user_defined(&wanted).map(PyRole).map_err(from_fleet)
}

/// The role of a trainer among trainers that a user describes.
#[pyfunction]
fn user_defined_collective_role(
    current_id: &Bound<'_, PyAny>,
    worker_endpoints: &Bound<'_, PyAny>,
) -> PyResult<PyRole> {
    let trainers = strings(worker_endpoints, "worker_endpoints")?;
    let current_id = int(current_id, "current_id")?;
    role::user_defined_collective(current_id, &trainers).map(PyRole).map_err(from_fleet)
}

fn strings(list: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<String>> {
    let bad = |text: String| PyTypeError::new_err(text);
    let list = list.cast::<PyList>();
    let list = list.map_err(|_| bad(format!("{name} must be as string list")))?;
    let text = |item: Bound<'_, PyAny>| match item.cast::<PyString>() {
        Ok(text) => text.extract(),
        Err(_) => Err(bad(format!("every element in {name} list must be as string"))),
    };
    list.iter().map(text).collect()
}

fn int(value: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    match value.cast::<PyInt>() {
        Ok(value) => value.extract(),
        Err(_) => Err(PyTypeError::new_err(format!("{name} must be as int"))),
    }
}
