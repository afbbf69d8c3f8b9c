//! The progress of a trainer: written with a checkpoint, and read to find where it continues.

use std::collections::BTreeMap;
use std::fs;

use program::Program;

use super::checkpoint::{Checkpoints, NewestCheckpoint};
use super::distributed::JobScope;
use crate::error::{Error, Result};
use crate::remote::JobStart;
use crate::scope::Scope;

/// The written fields: the pass, the step in it, and steps in all.
const EPOCH: &str = "epoch_id";
const STEP: &str = "step_id";
const N_STEPS: &str = "n_steps";

/// How far a trainer is in its data, and after which steps it writes a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepsDone {
    /// The pass and the step up to which a checkpoint has seen the data.
    pub done: Option<(u64, u64)>,
    /// Steps after that which the checkpoint has seen too.
    pub n_more: u64,
    /// Steps that were trained, those before the checkpoint among them.
    pub n_steps: u64,
    /// A checkpoint is written in every so manieth pass,
    pub epochs: u64,
    /// after every so manieth step of it.
    pub steps: u64,
}

impl StepsDone {
    /// The pass to go on with.
    pub fn first_epoch(&self) -> u64 {
        self.done.map_or(0, |(epoch, _)| epoch)
    }

    /// Whether the next step is to be trained; the checkpoint has seen the others.
    pub fn takes(&mut self, epoch: u64, step: u64) -> bool {
        if self.done.is_some_and(|done| (epoch, step) <= done) {
            return false;
        }
        let is_new = self.n_more == 0;
        self.n_more = self.n_more.saturating_sub(1);
        self.n_steps += u64::from(is_new);
        is_new
    }

    /// Whether a checkpoint is written after this step. Both count from 0, and 0 counts.
    pub fn is_due(&self, epoch: u64, step: u64) -> bool {
        epoch.is_multiple_of(self.epochs.max(1)) && step.is_multiple_of(self.steps.max(1))
    }

    /// The fields to write with a checkpoint after this step.
    pub fn arguments(&self, epoch: u64, step: u64) -> Vec<(String, String)> {
        let named = [(EPOCH, epoch), (STEP, step), (N_STEPS, self.n_steps)];
        named.map(|(name, value)| (name.to_string(), value.to_string())).into()
    }
}

/// The state that a process found when it started.
#[derive(Debug, Default)]
pub struct Resumed {
    /// The checkpoint that it continues from; none: it begins.
    pub serial: Option<u64>,
    /// How far a trainer was then.
    pub progress: StepsDone,
    /// The faults of newer checkpoints.
    pub errors: Vec<Error>,
}

/// A trainer's fields of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    at: (u64, u64),
    /// Older versions, and Fluid, did not count.
    n_steps: Option<u64>,
}

impl Mark {
    fn from(arguments: &BTreeMap<String, String>) -> Option<Self> {
        let number = |name: &str| arguments.get(name)?.parse().ok();
        Some(Self { at: (number(EPOCH)?, number(STEP)?), n_steps: number(N_STEPS) })
    }
}

impl Checkpoints {
    /// Loads the newest whole checkpoint into a program, if there is one, and returns where a trainer continues; a server is not
    /// a trainer. Trainer 0 removes the remains of a newer one that was never complete.
    pub fn resume(
        &self,
        scope: &Scope,
        program: &Program,
        trainer: Option<usize>,
    ) -> Result<Resumed> {
        self.resume_from(self.newest()?, scope, program, trainer)
    }

    /// Like [`Checkpoints::resume`]; the newest was looked for before.
    pub fn resume_from(
        &self,
        newest: NewestCheckpoint,
        scope: &Scope,
        program: &Program,
        trainer: Option<usize>,
    ) -> Result<Resumed> {
        let NewestCheckpoint { serial, errors } = newest;
        let Some(serial) = serial else {
            return match errors.into_iter().next() {
                // To begin anew would remove what somebody may still want to repair.
                Some(error) => Err(error),
                None => Ok(Resumed::default()),
            };
        };
        self.load(scope, program, Some(serial))?;
        // Trainers without servers add up their gradients in each step.
        let meets =
            |program: &Program| program.block(0).ops.iter().any(|op| op.kind == "gen_nccl_id");
        let together = match &program.distributed {
            Some(job) => job.mode.waits_for_all(),
            None => meets(program),
        };
        let progress = trainer.map(|trainer| self.progress(serial, trainer, together));
        let progress = progress.transpose()?.unwrap_or_default();
        if trainer == Some(0) {
            self.remove_incomplete_after(serial);
        }
        Ok(Resumed { serial: Some(serial), progress, errors })
    }

    /// Like [`Checkpoints::resume`], for a trainer of a job. In a job that recovers, a restarted trainer
    /// continues from the checkpoint that it first began from: everything after that is in the journal.
    pub fn resume_trainer(
        &self,
        newest: Option<NewestCheckpoint>,
        of: JobScope<'_>,
        program: &Program,
    ) -> Result<Resumed> {
        let JobScope { trainer, scope, job } = of;
        trainer.join(job);
        let (mut resumed, mut newest) = (Resumed::default(), newest);
        let words = trainer.decides(&self.folder_name(), &mut || {
            let newest = newest.take().map_or_else(|| self.newest(), Ok)?;
            resumed = self.resume_from(newest, scope, program, Some(job.trainer_id))?;
            Ok(words_of(&resumed))
        })?;
        (resumed.serial, resumed.progress) = from_words(&words);
        Ok(resumed)
    }

    /// The start that the other processes of a job must share, if this is the newest here.
    pub fn start(&self, serial: Option<u64>) -> JobStart {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let folder = std::path::absolute(self.folder_name()).unwrap_or_default();
        JobStart { serial, place: format!("{}:{}", host.trim(), folder.display()) }
    }

    /// Where a trainer continues after a checkpoint. Trainers that step `together` have all done as many steps
    /// as trainer 0 had when it saved the model; what a trainer wrote itself, at another time, only saves it
    /// from counting them from the beginning. Otherwise a trainer continues after its own last record.
    pub fn progress(&self, serial: u64, trainer: usize, together: bool) -> Result<StepsDone> {
        let model = Mark::from(&self.arguments(serial, 0)?);
        let counted = model.and_then(|model| model.n_steps).filter(|_| together && trainer > 0);
        let Some(n_steps) = counted else {
            let own = self.marks(trainer, |of| of <= serial)?.pop().or(model);
            let n_steps = own.and_then(|own| own.n_steps).unwrap_or(0);
            return Ok(StepsDone { done: own.map(|own| own.at), n_steps, ..StepsDone::default() });
        };
        let n_own = |mark: &Mark| mark.n_steps.filter(|&n| n <= n_steps);
        let marks = self.marks(trainer, |_| true)?;
        let own = marks.iter().filter_map(|mark| Some((n_own(mark)?, mark.at))).max();
        let n_more = n_steps - own.map_or(0, |(n, _)| n);
        Ok(StepsDone { done: own.map(|(_, at)| at), n_more, n_steps, ..StepsDone::default() })
    }

    /// A trainer's records of checkpoints, the newest last.
    fn marks(&self, trainer: usize, is_wanted: impl Fn(u64) -> bool) -> Result<Vec<Mark>> {
        let serials = self.serials().into_iter().filter(|&serial| is_wanted(serial));
        let marks = serials.map(|serial| Ok(Mark::from(&self.arguments(serial, trainer)?)));
        marks.filter_map(Result::transpose).collect()
    }
}

/// The decision of a trainer, for its journal.
fn words_of(Resumed { serial, progress, .. }: &Resumed) -> Vec<String> {
    let Some(serial) = serial else { return Vec::new() };
    let (epoch, step) = progress.done.unzip();
    let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    let counted = [progress.n_more, progress.n_steps].map(Some);
    [&[Some(*serial), epoch, step], &counted[..]].concat().into_iter().map(number).collect()
}

fn from_words(words: &[String]) -> (Option<u64>, StepsDone) {
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let (n_more, n_steps) = (number(3).unwrap_or(0), number(4).unwrap_or(0));
    (
        number(0),
        StepsDone { done: number(1).zip(number(2)), n_more, n_steps, ..StepsDone::default() },
    )
}
