//! A pass as one event of a script (see [`crate::recover`]).

use data::{Dataset, PassFiles};
use program::Program;
use tensor::Tensor;

use super::cutting::{CutMaker, Inside};
use super::resumable::{ResumablePass, Start};
use super::{Observer, Pass, PassOptions, Report, answer};
use crate::error::Result;
use crate::executor::Options;
use crate::recover::{EventKind, EventPrint, Left, Repeat, Uses, digest};
use crate::remote::{ScriptEvent, TrainerJob};
use crate::scope::Scope;
use crate::trainer::Trainer;
use crate::trainer::event::talks;

/// Makes a pass.
pub(super) fn run(
    trainer: &mut Trainer,
    pass: Pass<'_>,
    dataset: &mut Dataset,
    observer: &mut dyn Observer,
) -> Result<Report> {
    // Which samples there are is a part of what the event is.
    dataset.wait_loaded()?;
    let job = trainer.job().clone();
    let state = ResumablePass::default();
    let report = None;
    let number = job.recovery().n_passes();
    let mut event = PassEvent { trainer, pass, dataset, observer, state, report, number };
    let done = job.do_event(&mut event);
    let report = event.report.take().unwrap_or_default();
    // It was for this pass.
    dataset.leave_out(&[]);
    done?;
    if !pass.options.infers {
        job.recovery().next_pass();
    }
    Ok(report)
}

/// Notes with each cut of the job what a pass has read.
struct PassCuts<'a> {
    job: &'a TrainerJob,
    number: u64,
    files: Option<PassFiles>,
}

impl PassCuts<'_> {
    /// The pass is over.
    fn end(&self) {
        self.job.recovery().note_pass(self.number, self.files.as_ref().map(PassFiles::all), true);
    }
}

impl CutMaker for PassCuts<'_> {
    fn is_due(&self) -> bool {
        self.job.is_due()
    }

    fn cut(&self, inside: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<()> {
        CutMaker::cut(self.job, &mut || {
            let bytes = inside()?;
            let positions = Inside::from_bytes(&bytes)?.positions;
            let read = self.files.as_ref().map(|files| files.read_until(&positions));
            self.job.recovery().note_pass(self.number, read, false);
            Ok(bytes)
        })
    }
}

struct PassEvent<'a> {
    trainer: &'a mut Trainer,
    pass: Pass<'a>,
    dataset: &'a mut Dataset,
    observer: &'a mut dyn Observer,
    state: ResumablePass,
    report: Option<Report>,
    /// Among the passes of the script that train.
    number: u64,
}

impl PassEvent<'_> {
    /// Leaves out what trainers before have read; whether nothing is left.
    fn leave_out(&mut self, job: &TrainerJob) -> bool {
        if self.pass.options.infers {
            return false;
        }
        match job.recovery().left_of_pass(self.number, job.links()) {
            Left::Nothing => return true,
            Left::Rest(_) if self.dataset.kind() == data::DatasetKind::InMemory => {}
            Left::Rest(read) => self.dataset.leave_out(&read),
            Left::All | Left::Unknown(_) => {}
        }
        false
    }
}

impl ScriptEvent for PassEvent<'_> {
    fn talks(&self) -> bool {
        talks(self.pass.program, self.trainer.job().links())
    }

    fn print(&self) -> EventPrint {
        let names = digest(u64::from(self.pass.options.infers), self.label().as_bytes());
        EventPrint { kind: EventKind::Pass, names, values: self.dataset.digest() }
    }

    fn label(&self) -> String {
        let options = self.pass.options;
        let verb = if options.infers { "infer" } else { "train" };
        let (settings, fetch) = (self.dataset.settings(), options.fetch.join(", "));
        let (n_files, batch_size) = (settings.files.len(), settings.batch_size);
        format!(
            "{verb}_from_dataset of {n_files} files in batches of {batch_size}, fetching [{fetch}]"
        )
    }

    fn uses(&self) -> Option<Uses<'_>> {
        let (scope, job) = (self.pass.scope, self.pass.program.distributed.as_ref());
        Some(Uses { scope, job, devices: None })
    }

    fn perform(&mut self, from: Option<&[u8]>) -> Result<Vec<u8>> {
        let job = self.trainer.job().clone();
        let is_over = job.recovers() && self.leave_out(&job);
        let Self { trainer, pass, dataset, observer, state, report, number } = self;
        let job = &job;
        let number = *number;
        let files = dataset.pass_files();
        let cuts = job.recovers().then_some(PassCuts { job, number, files });
        let ran = if is_over {
            Report::default()
        } else {
            let cuts = cuts.as_ref().map(|cuts| cuts as &dyn CutMaker);
            let start = Start { dataset, cuts, inside: from };
            state.run(trainer, *pass, start, *observer)?
        };
        let report = report.insert(ran);
        let Some(cuts) = cuts else { return Ok(Vec::new()) };
        if !pass.options.infers {
            cuts.end();
        }
        Ok(answer::to_bytes(report, dataset))
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        self.report = Some(answer::read(answer, self.dataset)?);
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>> {
        let Pass { program, scope, options } = self.pass;
        let options = PassOptions { infers: options.infers, ..PassOptions::default() };
        Some(Box::new(PassAgain {
            program: program.clone(),
            scope: scope.clone(),
            options,
            run_options: *self.trainer.options_mut(),
            dataset: self.dataset.twin(),
            state: std::mem::take(&mut self.state),
            number: self.number,
        }))
    }
}

/// A pass that is over, and may have to be made again.
struct PassAgain {
    program: Program,
    scope: Scope,
    options: PassOptions,
    run_options: Options,
    /// A copy: the script may change its own meanwhile.
    dataset: Dataset,
    state: ResumablePass,
    number: u64,
}

impl Repeat<TrainerJob> for PassAgain {
    fn repeat(&mut self, world: &TrainerJob, from: Option<&[u8]>) -> Result<()> {
        let mut trainer = Trainer::with_options(self.run_options);
        trainer.set_job(world.clone());
        self.state.hush();
        let program = &self.program;
        let scope = &self.scope;
        let options = &self.options;
        let pass = Pass { program, scope, options };
        let (number, files) = (self.number, self.dataset.pass_files());
        let cuts = PassCuts { job: world, number, files };
        let start = Start { dataset: &mut self.dataset, cuts: Some(&cuts), inside: from };
        self.state.run(&mut trainer, pass, start, &mut NoObserver)?;
        if !options.infers {
            cuts.end();
        }
        Ok(())
    }

    fn n_bytes(&self) -> usize {
        self.state.n_bytes()
    }
}

/// Is told nothing: the first run of the pass was observed.
struct NoObserver;

impl Observer for NoObserver {
    fn fetched(&mut self, _: &[Tensor]) {}
}
