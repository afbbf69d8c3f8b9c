//! A run on several devices as an event of a job that recovers.

use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;
use program::Program;
use tensor::Tensor;

use super::{Parallel, Replicas};
use crate::error::Result;
use crate::executor::Feed;
use crate::recover::{ByteReader, ByteWriter, EventPrint, ReadValues, Repeat, Uses, WriteValues};
use crate::remote::{ScriptEvent, TrainerJob};
use crate::scope::Scope;
use crate::trainer::event::{Fed, PastProgram, label, print, talks};

/// A run that may be an event.
pub(super) struct ParallelEvent<'a> {
    pub(super) parallel: &'a mut Parallel,
    pub(super) program: &'a Program,
    pub(super) scope: &'a Scope,
    pub(super) feeds: &'a mut [Feed],
    pub(super) fetch: &'a [&'a str],
    pub(super) fetched: Vec<Vec<Tensor>>,
}

impl ParallelEvent<'_> {
    fn kept(&mut self) -> Arc<PastProgram> {
        let Parallel { again, once, .. } = &mut *self.parallel;
        again.kept(self.program, once.job().links())
    }
}

impl ScriptEvent for ParallelEvent<'_> {
    fn talks(&self) -> bool {
        talks(self.program, self.parallel.once.job().links())
    }

    fn print(&self) -> EventPrint {
        print(self.program, self.fetch, self.feeds.iter())
    }

    fn label(&self) -> String {
        label(self.fetch, self.feeds.first())
    }

    fn uses(&self) -> Option<Uses<'_>> {
        let (job, devices) = (self.program.distributed.as_ref(), Some(&self.parallel.replicas));
        Some(Uses { scope: self.scope, job, devices })
    }

    fn check(&mut self) -> Result<()> {
        self.kept().check()
    }

    fn perform(&mut self, _: Option<&[u8]>) -> Result<Vec<u8>> {
        let Self { parallel, program, scope, feeds, fetch, .. } = self;
        self.fetched = parallel.run_plain(program, scope, feeds, fetch)?;
        let mut answer = ByteWriter::default();
        if self.parallel.once.job().recovers() {
            answer.count(self.fetched.len());
            for parts in &self.fetched {
                answer.count(parts.len());
                parts.iter().for_each(|part| answer.tensor(part));
            }
        }
        Ok(answer.0)
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        let mut reader = ByteReader::new(answer);
        let mut fetched = Vec::new();
        for _ in 0..reader.count()? {
            let parts: Result<Vec<_>> = (0..reader.count()?).map(|_| reader.tensor()).collect();
            fetched.push(parts?);
        }
        self.fetched = fetched;
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>> {
        let kept = self.kept();
        if !kept.changes {
            return None;
        }
        let (again, shared) = (&self.parallel.again, self.parallel.replicas.clone());
        let mut runner = again.runner.lock().even_if_poisoned();
        if !runner.as_ref().is_some_and(|runner| runner.replicas.is(&shared)) {
            *runner = Some(self.parallel.twin());
        }
        Some(Box::new(RunAgain {
            kept,
            scope: self.scope.clone(),
            fed: self.feeds.iter().map(|feed| again.copy(feed)).collect(),
            fetch: self.fetch.iter().map(|name| name.to_string()).collect(),
            replicas: shared,
            runner: again.runner.clone(),
        }))
    }
}

/// A run that was.
struct RunAgain {
    kept: Arc<PastProgram>,
    scope: Scope,
    fed: Vec<Fed>,
    fetch: Vec<String>,
    replicas: Replicas,
    runner: Arc<Mutex<Option<Parallel>>>,
}

impl Repeat<TrainerJob> for RunAgain {
    fn repeat(&mut self, job: &TrainerJob, _: Option<&[u8]>) -> Result<()> {
        let mut runner = self.runner.lock().even_if_poisoned();
        let Some(parallel) = &mut *runner else { return Ok(()) };
        parallel.share(self.replicas.clone());
        parallel.set_job(job);
        let fetch: Vec<&str> = self.fetch.iter().map(String::as_str).collect();
        let mut feeds: Vec<Feed> =
            self.fed.iter_mut().map(|fed| std::mem::take(&mut fed.feed)).collect();
        let ran = parallel.run_plain(&self.kept.program, &self.scope, &mut feeds, &fetch);
        // It must not keep the connections alive that know of it.
        parallel.set_job(&TrainerJob::default());
        self.fed.iter_mut().zip(feeds).for_each(|(fed, feed)| fed.feed = feed);
        ran.map(drop)
    }

    fn n_bytes(&self) -> usize {
        self.fed.iter().map(Fed::n_bytes).sum()
    }
}
