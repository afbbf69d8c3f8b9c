//! The job of a trainer, as the ops of one run find it.

use program::op::Host;
use program::remote::Remote;
use program::trainers::Trainers;
use program::{Program, Result};

use crate::executor::{KnownServers, RunHost};
use crate::remote::{Exchanging, JobServers, Links, Prefetch, ProgramSums, Session, TrainerJob};
use crate::scope::Scope;

/// What a trainer keeps from run to run beside its executor.
#[derive(Debug, Default)]
pub(super) struct RunMemory {
    /// What is known of the batch that comes next.
    pub(super) prefetch: Prefetch,
    /// What trainers without servers compare of their programs.
    pub(super) sums: ProgramSums,
}

/// The host of a run in a job.
pub(super) struct JobHost<'a> {
    links: &'a Links,
    session: Session<'a>,
    trainers: Exchanging<'a>,
    /// The run is a part of a step, in a scope of its own: what servers send is not for that scope.
    is_part: bool,
}

impl<'a> JobHost<'a> {
    pub(super) fn new(
        job: &'a TrainerJob,
        program: &'a Program,
        memory: &'a mut RunMemory,
        is_part: bool,
    ) -> Self {
        let RunMemory { prefetch, sums } = memory;
        let session = Session::new(job, program.distributed.clone(), prefetch);
        let trainers = Exchanging::new(job, program, sums);
        Self { links: job.links(), session, trainers, is_part }
    }
}

impl Host for JobHost<'_> {
    fn remote(&mut self) -> Result<&mut dyn Remote> {
        Ok(&mut self.session)
    }

    fn trainers(&mut self) -> Result<&mut dyn Trainers> {
        Ok(&mut self.trainers)
    }
}

impl RunHost for JobHost<'_> {
    fn job_number(&self) -> u64 {
        self.links.n_joined()
    }

    fn servers(&self) -> KnownServers {
        let JobServers { endpoints, vars } = self.links.servers();
        KnownServers { endpoints, vars }
    }

    fn begin(&mut self, scope: &Scope) {
        if !self.is_part {
            self.session.start(scope);
        }
    }

    fn end(&mut self, scope: &Scope) -> crate::error::Result<()> {
        self.session.finish(scope)
    }
}
