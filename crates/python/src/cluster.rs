//! The parameter servers of this process: one set of connections, shared by all executors.

use std::sync::{Arc, LazyLock, OnceLock, PoisonError};

use pyo3::prelude::*;
use train::Cluster;
use train::remote::usual_log;

use crate::error::from_fleet;
use crate::executor::{Raised, signalled};

static CLUSTER: OnceLock<Cluster> = OnceLock::new();
static RAISED: LazyLock<Raised> = LazyLock::new(Raised::default);

/// The parameter servers that all executors of this process talk to.
pub(crate) fn cluster() -> PyResult<&'static Cluster> {
    if let Some(cluster) = CLUSTER.get() {
        return Ok(cluster);
    }
    let flags = fleet::flags::current().map_err(from_fleet)?;
    let cluster = Cluster::new(flags.patience(), usual_log());
    cluster.set_stops(Arc::new(|| signalled(&RAISED)));
    Ok(CLUSTER.get_or_init(|| cluster))
}

/// What a signal handler raised while a thread waited for servers.
pub(crate) fn raised_in_wait() -> Option<PyErr> {
    RAISED.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Python ends: tells servers that this trainer goes, if it never said that its job is done.
#[pyfunction]
pub(crate) fn leave_cluster(py: Python<'_>, in_order: bool) {
    if let Some(cluster) = CLUSTER.get().filter(|cluster| in_order && cluster.is_connected()) {
        py.detach(|| cluster.leave());
    }
}
