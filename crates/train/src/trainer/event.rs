//! A run as an event of a job that recovers.

use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;
use program::distributed::route::{Route, Servers};
use program::op::collective::{members, mode_of};
use program::{OpDesc, Program, role};
use tensor::Value;

use super::answer::RunAnswer;
use super::{JobRunner, Trainer};
use crate::error::{Error, Result};
use crate::executor::{Feed, Options, RunRequest};
use crate::recover::{
    ByteReader, ByteWriter, EventKind, EventPrint, ReadValues, Repeat, Uses, digest, digest_tensor,
};
use crate::remote::{EventTrainers, Links, ScriptEvent, TrainerJob, program_sum};
use crate::scope::Scope;

/// Programs that are remembered; the oldest goes when there are more.
const PROGRAMS_MAX: usize = 32;
/// Feeds whose memory is kept for those to come.
const SPARE_MAX: usize = 64;
/// Bytes of names that a message shows.
const LABEL_BYTES: usize = 300;

/// What is needed to run things again, kept from run to run.
#[derive(Debug)]
pub(crate) struct Again<Runner> {
    programs: Vec<(u64, u64, Arc<PastProgram>)>,
    /// Runs what is run again, when that is necessary.
    pub(crate) runner: Arc<Mutex<Option<Runner>>>,
    spare: Spare,
}

impl<Runner> Default for Again<Runner> {
    fn default() -> Self {
        Self { programs: Vec::new(), runner: Arc::default(), spare: Spare::default() }
    }
}

/// Memory of feeds that nobody needs any more.
type Spare = Arc<Mutex<Vec<Feed>>>;

/// A program as it was when it ran.
#[derive(Debug)]
pub(crate) struct PastProgram {
    pub(crate) program: Program,
    /// Something is different after a run: on servers, or in a variable that lives on; or other trainers need it.
    pub(crate) changes: bool,
    /// The op that takes batches from somewhere else than the feed.
    reads_inside: Option<String>,
}

impl PastProgram {
    fn new(program: &Program, links: &Links) -> Self {
        let ops = || program.blocks().iter().flat_map(|block| &block.ops);
        let lives_on = |name: &str| program.find_var(0, name).is_some_and(|var| var.persistable);
        let is_among_trainers = mode_of(program).is_some_and(|mode| !mode.has_servers());
        let changes =
            talks(program, links) || is_among_trainers || ops().any(|op| op.writes().any(lives_on));
        let reads =
            ops().find(|op| op.traits().has_side_effect && !op.input_names("Reader").is_empty());
        let reads_inside = reads.map(|op| op.kind.clone());
        Self { program: program.clone(), changes, reads_inside }
    }

    /// That it can be run again.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.reads_inside {
            Some(op) => Err(Error::ReadsInside { op: op.clone() }),
            None => Ok(()),
        }
    }
}

/// Whether a program talks to servers.
pub(crate) fn talks(program: &Program, links: &Links) -> bool {
    let (job, joined) = (program.distributed.as_deref(), links.servers());
    if job.is_none() && joined.endpoints.is_empty() {
        return false;
    }
    let endpoints = job.map_or(&joined.endpoints, |job| &job.endpoints);
    let servers = Servers { job, endpoints, vars: job.map_or(&joined.vars, |job| &job.vars) };
    let mut ops = program.blocks().iter().flat_map(|block| &block.ops);
    ops.any(|op| Route::read(op, &servers).is_ok_and(|route| route.is_some()))
}

impl<Runner> Again<Runner> {
    /// The program as it is now.
    pub(crate) fn kept(&mut self, program: &Program, links: &Links) -> Arc<PastProgram> {
        let (id, version) = (program.id(), program.version());
        let known = self.programs.iter().find(|known| (known.0, known.1) == (id, version));
        if let Some((_, _, kept)) = known {
            return kept.clone();
        }
        if self.programs.len() == PROGRAMS_MAX {
            self.programs.remove(0);
        }
        let kept = Arc::new(PastProgram::new(program, links));
        self.programs.push((id, version, kept.clone()));
        kept
    }

    /// What was fed, to be fed again.
    pub(crate) fn copy(&self, feed: &Feed) -> Fed {
        let mut copy = self.spare.lock().even_if_poisoned().pop().unwrap_or_default();
        if copy.layout() == feed.layout() {
            let pairs = copy.tensors_mut().zip(feed.tensors());
            pairs.for_each(|(copy, tensor)| copy.copy_from(tensor));
        } else {
            copy = feed.iter().map(|(name, tensor)| (name, tensor.clone())).collect();
        }
        Fed { feed: copy, spare: self.spare.clone() }
    }
}

/// A feed that is kept; its memory is used again.
#[derive(Debug)]
pub(crate) struct Fed {
    pub(crate) feed: Feed,
    spare: Spare,
}

impl Fed {
    pub(crate) fn n_bytes(&self) -> usize {
        self.feed.tensors().map(|tensor| tensor.bytes().len()).sum()
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        let mut spare = self.spare.lock().even_if_poisoned();
        if spare.len() < SPARE_MAX {
            spare.push(std::mem::take(&mut self.feed));
        }
    }
}

/// What a run is: its program and names, and what it is fed.
pub(crate) fn print<'a>(
    program: &Program,
    fetch: &[&str],
    feeds: impl Iterator<Item = &'a Feed>,
) -> EventPrint {
    // Those that talk to servers, or cut and join for them, depend on how many servers there are.
    let is_own = |op: &&OpDesc| op.role() & (role::RPC | role::DIST) == 0;
    let ops = program.blocks().iter().flat_map(|block| &block.ops);
    let n_ops = ops.filter(is_own).filter(|op| !joins_pieces(op)).count();
    let (mut names, mut values) = (digest(n_ops as u64, b"run"), 0);
    names = fetch.iter().fold(names, |sum, name| digest(sum, name.as_bytes()));
    for feed in feeds {
        for (name, tensor) in feed.iter() {
            names = digest(names, name.as_bytes());
            values = digest_tensor(values, tensor);
        }
        names = digest(names, b"fed");
    }
    EventPrint { kind: EventKind::Run, names, values }
}

/// Whether an op makes a parameter whole that came from servers in pieces.
fn joins_pieces(op: &OpDesc) -> bool {
    let (parts, whole) = (op.input_names("X"), op.output_names("Out").first());
    let is_piece = |part: &String| {
        whole.is_some_and(|whole| part.strip_prefix(whole.as_str()).is_some_and(is_block))
    };
    op.kind == "concat" && !parts.is_empty() && parts.iter().all(is_piece)
}

fn is_block(suffix: &str) -> bool {
    suffix.strip_prefix(".block").is_some_and(|number| number.parse::<usize>().is_ok())
}

/// The names of a run, as a message shows them.
pub(crate) fn label(fetch: &[&str], feed: Option<&Feed>) -> String {
    let fed: Vec<&str> = feed.map(|feed| feed.names().collect()).unwrap_or_default();
    let mut text = format!("fed {}, fetches {}", listed(&fed), listed(fetch));
    text.truncate(text.floor_char_boundary(LABEL_BYTES));
    text
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "nothing".to_string() } else { names.join(" ") }
}

/// A run that may be an event.
pub(super) struct RunEvent<'a, F> {
    pub(super) trainer: &'a mut Trainer,
    pub(super) asked: RunRequest<'a, F>,
}

impl<F: RunAnswer> ScriptEvent for RunEvent<'_, F> {
    fn talks(&self) -> bool {
        talks(self.asked.program, self.trainer.job().links())
    }

    fn meets(&self) -> Option<EventTrainers> {
        let program = self.asked.program;
        let mut ops = program.blocks().iter().flat_map(|block| &block.ops);
        let members = ops.find_map(|op| members(op).ok().flatten())?;
        Some(EventTrainers { members, sum: program_sum(program) })
    }

    fn print(&self) -> EventPrint {
        print(self.asked.program, self.asked.fetch, std::iter::once(&*self.asked.feed))
    }

    fn label(&self) -> String {
        label(self.asked.fetch, Some(self.asked.feed))
    }

    fn uses(&self) -> Option<Uses<'_>> {
        let job = self.asked.program.distributed.as_ref();
        Some(Uses { scope: self.asked.scope, job, devices: None })
    }

    fn check(&mut self) -> Result<()> {
        let Trainer { again, runner, .. } = &mut *self.trainer;
        again.kept(self.asked.program, runner.job().links()).check()
    }

    fn perform(&mut self, _: Option<&[u8]>) -> Result<Vec<u8>> {
        let RunRequest { program, scope, feed, fetch, fetched } = &mut self.asked;
        let asked = RunRequest { program, scope, feed, fetch, fetched: &mut **fetched };
        self.trainer.runner.run_plain(asked)?;
        let mut answer = ByteWriter::default();
        if self.trainer.job().recovers() {
            answer.count(fetched.len());
            fetched.iter().for_each(|fetched| fetched.write(&mut answer));
        }
        Ok(answer.0)
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        let values = ByteReader::new(answer).values()?;
        let RunRequest { fetch, fetched, .. } = &mut self.asked;
        fetched.resize_with(values.len(), F::default);
        for (at, (mut value, fetched)) in values.into_iter().zip(fetched.iter_mut()).enumerate() {
            if !fetched.take(&mut value, true) {
                let var = fetch.get(at).map_or(String::new(), |name| name.to_string());
                return Err(Error::FetchKind { var, actual: value.kind() });
            }
        }
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>> {
        let Trainer { again, runner, .. } = &mut *self.trainer;
        let kept = again.kept(self.asked.program, runner.job().links());
        if !kept.changes {
            return None;
        }
        Some(Box::new(RunAgain {
            kept,
            scope: self.asked.scope.clone(),
            fed: again.copy(self.asked.feed),
            fetch: self.asked.fetch.iter().map(|name| name.to_string()).collect(),
            options: *runner.options_mut(),
            runner: again.runner.clone(),
        }))
    }
}

/// A run that was.
struct RunAgain {
    kept: Arc<PastProgram>,
    scope: Scope,
    fed: Fed,
    fetch: Vec<String>,
    options: Options,
    runner: Arc<Mutex<Option<JobRunner>>>,
}

impl Repeat<TrainerJob> for RunAgain {
    fn repeat(&mut self, job: &TrainerJob, _: Option<&[u8]>) -> Result<()> {
        let mut runner = self.runner.lock().even_if_poisoned();
        let runner = runner.get_or_insert_with(JobRunner::default);
        *runner.options_mut() = self.options;
        runner.set_job(job.clone());
        let fetch: Vec<&str> = self.fetch.iter().map(String::as_str).collect();
        let ran = runner.run_plain(RunRequest {
            program: &self.kept.program,
            scope: &self.scope,
            feed: &mut self.fed.feed,
            fetch: &fetch,
            fetched: &mut Vec::<Value>::new(),
        });
        // It must not keep the connections alive that know of it.
        runner.set_job(TrainerJob::default());
        ran
    }

    fn n_bytes(&self) -> usize {
        self.fed.n_bytes()
    }
}
