//! Splits the programs of a job again when its servers are others.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use program::Program;
use program::distributed::{Origin, Resplit, TrainerPrograms};

use super::config::{Config, Job};
use super::split::SharedDispatch;
use super::transpile;

/// Two programs that belong together.
#[derive(Clone, Copy)]
pub(super) struct ProgramPair<'a> {
    pub(super) main: &'a Program,
    pub(super) startup: &'a Program,
}

impl ProgramPair<'_> {
    /// A copy that belongs to no job: what a job has must not hold the job.
    fn programs(self) -> TrainerPrograms {
        let copy = |program: &Program| {
            let mut copy = program.clone();
            copy.distributed = None;
            copy
        };
        TrainerPrograms { main: copy(self.main), startup: copy(self.startup) }
    }
}

/// What a job was split from.
pub(super) struct Original {
    whole: TrainerPrograms,
    before: TrainerPrograms,
    config: Config,
    job: Job,
    dispatch: SharedDispatch,
}

impl fmt::Debug for Original {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Original of {:?}", self.job)
    }
}

impl Original {
    /// What `whole` was, and what it became.
    pub(super) fn of(
        whole: ProgramPair<'_>,
        before: ProgramPair<'_>,
        config: &Config,
        job: &Job,
        dispatch: SharedDispatch,
    ) -> Origin {
        let (whole, before) = (whole.programs(), before.programs());
        let (config, job) = (config.clone(), job.clone());
        Origin(Some(Arc::new(Self { whole, before, config, job, dispatch })))
    }
}

impl Resplit for Original {
    fn before(&self) -> &TrainerPrograms {
        &self.before
    }

    fn resplit(
        &self,
        endpoints: &[String],
    ) -> Result<TrainerPrograms, Box<dyn Error + Send + Sync>> {
        let mut programs = self.whole.clone();
        let job = Job { endpoints: endpoints.to_vec(), ..self.job.clone() };
        let TrainerPrograms { main, startup } = &mut programs;
        transpile(main, startup, &self.config, &job, &mut *(self.dispatch)())?;
        Ok(programs)
    }
}
