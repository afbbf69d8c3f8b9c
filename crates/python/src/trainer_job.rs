//! The job of this process: one set of connections, shared by all executors.

use std::sync::{Arc, LazyLock, OnceLock};

use base::Endpoint;
use fleet::ready::{self, Watch};
use net::lines::Line;
use protocol::Severity;
use pyo3::prelude::*;
use train::TrainerJob;

use crate::error::{from_fleet, from_train};
use crate::signals::{Raised, signalled, taken};

static JOB: OnceLock<TrainerJob> = OnceLock::new();
static RAISED: LazyLock<Raised> = LazyLock::new(Raised::default);

/// The job that all executors of this process take part in.
pub(crate) fn trainer_job() -> PyResult<&'static TrainerJob> {
    if let Some(job) = JOB.get() {
        return Ok(job);
    }
    let job = fleet::job_of_process().map_err(from_fleet)?;
    job.configure(|settings| {
        settings.stops = Arc::new(|| signalled(&RAISED));
        settings.wait_ready = Some(Arc::new(|endpoints| Ok(wait_for(endpoints)?)));
    });
    Ok(JOB.get_or_init(|| job))
}

/// A line for the waiting user; stderr is where Fluid's users look.
pub(crate) fn tell(line: &str) {
    Line::said(Severity::Warning, line).say();
}

/// Waits for servers before the first word to them: scripts that run a startup program before they
/// ask for the trainer's program have not waited yet.
fn wait_for(endpoints: &[Endpoint]) -> fleet::Result<()> {
    let flags = fleet::flags::current()?;
    let is_given = flags.given("wait_server_ready_timeout").is_some();
    let timeout = flags.wait_server_ready_timeout().filter(|_| is_given);
    let timeout = timeout.unwrap_or(flags.rpc_deadline());
    let mut watch = Watch { on_line: &mut tell, stops: &mut || signalled(&RAISED) };
    ready::wait_server_ready(endpoints, flags.locate().as_ref(), Some(timeout), &mut watch)
}

/// The exception of a signal handler while a thread waited for servers.
pub(crate) fn raised_in_wait() -> Option<PyErr> {
    taken(&RAISED)
}

/// Does something that a script does once, and returns what came of it: a script that is started again in a job that
/// recovers does not do it again.
#[pyfunction]
pub(crate) fn once_in_job(py: Python<'_>, what: &str, act: Py<PyAny>) -> PyResult<Vec<String>> {
    let job = trainer_job()?;
    let mut raised = None;
    let done = py.detach(|| {
        job.saves(what, &mut || {
            Python::attach(|py| act.call0(py).and_then(|words| words.extract(py))).map_err(
                |error| {
                    let text = std::io::Error::other(error.to_string());
                    raised = Some(error);
                    train::Error::from(program::op::host_error(text))
                },
            )
        })
    });
    raised.map_or(Ok(()), Err)?;
    done.map_err(from_train)
}

/// Python ends: writes the last numbers of this process, and tells servers and other trainers that this trainer
/// goes, if it never said that its job is done.
#[pyfunction]
pub(crate) fn leave_cluster(py: Python<'_>, in_order: bool) {
    py.detach(fleet::watching::end);
    let Some(job) = JOB.get().filter(|_| in_order) else { return };
    py.detach(|| {
        job.leave();
        if let Err(error) = job.end_among_trainers() {
            tell(&error.to_string());
        }
    });
}
