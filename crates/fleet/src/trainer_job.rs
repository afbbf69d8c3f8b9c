//! The job of this process, as its variables and flags describe it.

use std::sync::Arc;

use train::TrainerJob;
use train::remote::usual_log;

use crate::access;
use crate::error::Result;
use crate::flags;
use crate::signals::wants_end;

/// The job that all trainers of this process share. No connection is made yet.
pub fn job_of_process() -> Result<TrainerJob> {
    let flags = flags::current()?;
    let job = TrainerJob::new(flags.patience(), usual_log());
    let access = access::current()?;
    job.configure(|settings| {
        settings.access = access;
        settings.redo_bytes = flags.recovery_memory();
        settings.journal_bytes = flags.journal_bytes();
        settings.request_bytes_max = flags.request_memory();
        settings.ends = Some(Arc::new(wants_end));
        settings.locate = flags.locate();
    });
    if flags.lets_trainers_back() {
        job.group().keep_cuts(flags.snapshot_every()?);
    }
    Ok(job)
}
