//! A pass that can be resumed: when the job goes back to a cut, the pass continues from there.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Instant;

use data::{Dataset, DatasetKind, Positions};
use program::{Program, role};

use super::batches::Batches;
use super::cutting::{CutMaker, Inside};
use super::run::PassRun;
use super::shared::Shared;
use super::size::PassSize;
use super::values::{CountsBefore, SavedCounters};
use super::{Observer, Pass, Report};
use crate::counters::TRAINER;
use crate::error::Result;
use crate::trainer::Trainer;

/// The data that a pass needs to continue after an interruption.
#[derive(Default)]
pub(super) struct ResumablePass {
    /// Empty before the first try.
    threads: Vec<Batches>,
    /// Where it began; none if the job does not go on after deaths.
    begun: Option<Positions>,
    /// The counts at that time; none if another process began it.
    counted: Option<CountsBefore>,
    shared: Shared,
    /// How much it has to read.
    size: Option<PassSize>,
}

/// Where a pass starts.
pub(super) struct Start<'a> {
    pub(super) dataset: &'a mut Dataset,
    /// Makes cuts of the job, if the job recovers.
    pub(super) cuts: Option<&'a dyn CutMaker>,
    /// The state of the pass at a cut. Without it, the pass starts from its beginning.
    pub(super) inside: Option<&'a [u8]>,
}

impl ResumablePass {
    /// Runs the whole pass, or the part that follows a cut.
    pub(super) fn run(
        &mut self,
        trainer: &mut Trainer,
        pass: Pass<'_>,
        Start { dataset, cuts, inside }: Start<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Report> {
        let infers = pass.options.infers;
        let pass = Pass { program: &runnable(pass.program, infers), ..pass };
        if self.size.is_none() {
            TRAINER.passes.add(1);
        }
        self.size.get_or_insert_with(|| PassSize::of(dataset));
        let inside = self.start(dataset, cuts.is_some(), inside)?;
        let size = self.size.unwrap_or_default();
        let (n_batches, n_samples) = self.counts();
        let waited = inside.as_ref().map(|inside| inside.waited).unwrap_or_default();
        self.shared.begin(n_batches, n_samples, waited);
        let mut runners = std::mem::take(trainer.threads_mut());
        runners.resize_with(self.threads.len().max(runners.len()), || trainer.runner().twin());
        for runner in &mut runners {
            // Rows that were asked for before a death are of a state that is gone.
            *runner.prefetch_mut() = Default::default();
        }
        // A pass that only looks begins to count at zero, and the training's counts come back.
        let aside = infers.then(|| SavedCounters::put(pass.program, pass.scope));
        if n_samples == 0 {
            self.counted = Some(CountsBefore::new(pass.program, pass.scope));
        }
        let shared = &self.shared;
        let counted = self.counted.as_ref();
        let start = Instant::now();
        // A pass that only infers changes nothing: it starts over.
        let (recovers, cuts) = (cuts.is_some(), cuts.filter(|_| !infers));
        let run = PassRun {
            pass,
            runner: trainer.runner(),
            shared,
            recovers,
            cuts,
            counted,
            inside,
            start,
            size,
        };
        let result = run.run(&mut runners, &mut self.threads, observer);
        drop(aside);
        *trainer.threads_mut() = runners;
        result
    }

    /// Batches and samples before the place where threads stand.
    fn counts(&self) -> (u64, u64) {
        let positions = self.threads.iter().map(Batches::position);
        positions
            .fold((0, 0), |sum, position| (sum.0 + position.n_batches, sum.1 + position.n_samples))
    }

    /// Brings readers to where the pass continues. Existing readers go back if they can.
    fn start(
        &mut self,
        dataset: &mut Dataset,
        goes_on: bool,
        from: Option<&[u8]>,
    ) -> Result<Option<Inside>> {
        if !goes_on {
            self.size.iter_mut().for_each(|size| size.begin(dataset, None));
            self.threads = dataset.start(0)?.into_iter().map(Batches::new).collect();
            return Ok(None);
        }
        let from = from.map(Inside::from_bytes).transpose()?;
        let from = from.or_else(|| self.begun.clone().map(Inside::beginning));
        if let Some(from) = &from
            && self.rewind(&from.positions)
        {
            return Ok(Some(from.clone()));
        }
        // Their threads and commands end before others begin.
        self.threads.clear();
        let place = from.as_ref().map(|from| &from.positions);
        self.size.iter_mut().for_each(|size| size.begin(dataset, place));
        let (readers, positions) = dataset.start_at(0, place)?;
        let n = readers.len();
        let batches = |reader| match dataset.kind() {
            DatasetKind::Queue => Batches::kept(reader, n),
            // Samples in memory are there anyway.
            DatasetKind::InMemory => Batches::new(reader),
        };
        self.threads = readers.into_iter().map(batches).collect();
        Ok(Some(from.unwrap_or_else(|| {
            self.begun = Some(positions.clone());
            Inside::beginning(positions)
        })))
    }

    fn rewind(&mut self, positions: &Positions) -> bool {
        let mut threads = self.threads.iter_mut().zip(positions.readers());
        positions.len() == threads.len() && threads.all(|(batches, to)| batches.rewind(to))
    }

    /// The observer is not told about what is done again.
    pub(super) fn hush(&self) {
        self.shared.n_told.store(u64::MAX, Ordering::Relaxed);
    }

    /// Memory of batches that are kept.
    pub(super) fn n_bytes(&self) -> usize {
        self.threads.iter().map(Batches::n_bytes).sum()
    }
}

/// The program without the ops that talk to servers, if the pass sends nothing.
fn runnable(program: &Program, infers: bool) -> Cow<'_, Program> {
    let is_sent = |op: &program::OpDesc| op.role() & role::RPC != 0;
    let sends = infers && program.block(0).ops.iter().any(is_sent);
    if !sends {
        return Cow::Borrowed(program);
    }
    let mut program = program.clone();
    program.block_mut(0).ops.retain(|op| !is_sent(op));
    Cow::Owned(program)
}
