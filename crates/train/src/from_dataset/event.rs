//! A pass as one event of a script (see [`crate::recover`]).

use data::Dataset;
use program::Program;
use tensor::Tensor;

use super::cutting::CutMaker;
use super::resumable::{ResumablePass, Start};
use super::{Observer, Pass, PassOptions, Report, answer};
use crate::error::Result;
use crate::executor::event::talks;
use crate::executor::{Executor, Options};
use crate::recover::{EventKind, EventPrint, Repeat, Uses, digest};
use crate::remote::{Cluster, ScriptEvent};
use crate::scope::Scope;

/// Makes a pass.
pub(super) fn run(
    executor: &mut Executor,
    pass: Pass<'_>,
    dataset: &mut Dataset,
    observer: &mut dyn Observer,
) -> Result<Report> {
    // Which samples there are is a part of what the event is.
    dataset.wait_loaded()?;
    let cluster = executor.cluster().clone();
    let (state, report) = (ResumablePass::default(), None);
    let mut event = PassEvent { executor, pass, dataset, observer, state, report };
    cluster.do_event(&mut event)?;
    Ok(event.report.unwrap_or_default())
}

struct PassEvent<'a> {
    executor: &'a mut Executor,
    pass: Pass<'a>,
    dataset: &'a mut Dataset,
    observer: &'a mut dyn Observer,
    state: ResumablePass,
    report: Option<Report>,
}

impl ScriptEvent for PassEvent<'_> {
    fn talks(&self) -> bool {
        talks(self.pass.program, self.executor.cluster())
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
        let cluster = self.executor.cluster().clone();
        let cuts = cluster.recovers().then_some(&cluster as &dyn CutMaker);
        let Self { executor, pass, dataset, observer, state, report } = self;
        let start = Start { dataset, cuts, inside: from };
        let ran = state.run(executor, *pass, start, *observer)?;
        let report = report.insert(ran);
        Ok(if cuts.is_some() { answer::to_bytes(report, dataset) } else { Vec::new() })
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        self.report = Some(answer::read(answer, self.dataset)?);
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<Cluster>>> {
        let Pass { program, scope, options } = self.pass;
        let options = PassOptions { infers: options.infers, ..PassOptions::default() };
        Some(Box::new(PassAgain {
            program: program.clone(),
            scope: scope.clone(),
            options,
            executor_options: *self.executor.options_mut(),
            dataset: self.dataset.twin(),
            state: std::mem::take(&mut self.state),
        }))
    }
}

/// A pass that is over, and may have to be made again.
struct PassAgain {
    program: Program,
    scope: Scope,
    options: PassOptions,
    executor_options: Options,
    /// A copy: the script may change its own meanwhile.
    dataset: Dataset,
    state: ResumablePass,
}

impl Repeat<Cluster> for PassAgain {
    fn repeat(&mut self, world: &Cluster, from: Option<&[u8]>) -> Result<()> {
        let mut executor = Executor::with_options(self.executor_options);
        executor.set_cluster(world.clone());
        self.state.hush();
        let (program, scope, options) = (&self.program, &self.scope, &self.options);
        let pass = Pass { program, scope, options };
        let (dataset, cuts) = (&mut self.dataset, Some(world as &dyn CutMaker));
        let start = Start { dataset, cuts, inside: from };
        self.state.run(&mut executor, pass, start, &mut NoObserver)?;
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
