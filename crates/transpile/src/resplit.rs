//! Splits the programs of a job again when its servers are others.

use std::fmt;
use std::sync::Arc;

use program::distributed::Origin;
use program::{Distributed, Program};

use super::config::{Config, Job};
use super::split::SharedDispatch;
use super::transpile;
use crate::error::Result;

/// The programs of a trainer.
#[derive(Clone, Debug)]
pub struct TrainerPrograms {
    /// What it runs for each batch.
    pub main: Program,
    /// What it runs once.
    pub startup: Program,
}

impl TrainerPrograms {
    /// Copies that belong to no job: what a job has must not hold the job.
    fn copy(main: &Program, startup: &Program) -> Self {
        let copy = |program: &Program| {
            let mut copy = program.clone();
            copy.distributed = None;
            copy
        };
        Self { main: copy(main), startup: copy(startup) }
    }
}

/// What a job was split from.
pub struct Original {
    whole: TrainerPrograms,
    /// What was made of it.
    before: Option<TrainerPrograms>,
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
    /// What is about to be split.
    pub(super) fn new(
        main: &Program,
        startup: &Program,
        config: &Config,
        job: &Job,
        dispatch: SharedDispatch,
    ) -> Self {
        let (config, job) = (config.clone(), job.clone());
        let whole = TrainerPrograms::copy(main, startup);
        Self { whole, before: None, config, job, dispatch }
    }

    /// This was made of it.
    pub(super) fn became(self, main: &Program, startup: &Program) -> Origin {
        let before = Some(TrainerPrograms::copy(main, startup));
        Origin(Some(Arc::new(Self { before, ..self })))
    }

    /// What a job was split from, if that can be done again.
    pub fn of(job: &Distributed) -> Option<&Self> {
        Self::of_origin(&job.origin)
    }

    /// What an origin holds, if a program was split and that can be done again.
    pub fn of_origin(origin: &Origin) -> Option<&Self> {
        origin.0.as_ref()?.downcast_ref()
    }

    /// A trainer's programs as they were split before. They belong to no job.
    pub fn before(&self) -> Option<&TrainerPrograms> {
        self.before.as_ref()
    }

    /// A trainer's programs for the servers at these end points.
    pub fn resplit(&self, endpoints: &[String]) -> Result<TrainerPrograms> {
        let mut programs = self.whole.clone();
        let job = Job { endpoints: endpoints.to_vec(), ..self.job.clone() };
        let TrainerPrograms { main, startup } = &mut programs;
        transpile(main, startup, &self.config, &job, &mut *(self.dispatch)())?;
        Ok(programs)
    }
}
