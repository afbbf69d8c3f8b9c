//! A pass as one event of a script (see [`crate::recover`]).

use data::Dataset;
use program::Program;
use tensor::Tensor;

use super::course::{Course, What};
use super::cutting::Cuts;
use super::{Audience, Pass, Report, answer};
use crate::error::Result;
use crate::executor::event::talks;
use crate::executor::{Executor, Options};
use crate::recover::{Kind, Print, Repeat, Uses, digest};
use crate::remote::{Act, Cluster};
use crate::scope::Scope;

/// Makes a pass.
pub(super) fn run(
    executor: &mut Executor,
    (program, scope): (&Program, &Scope),
    dataset: &mut Dataset,
    (pass, audience): (&Pass, &mut dyn Audience),
) -> Result<Report> {
    // Which samples there are is a part of what the event is.
    dataset.wait_loaded()?;
    let cluster = executor.cluster().clone();
    let what = What { program, scope, pass };
    let (course, report) = (Course::default(), None);
    let mut act = PassAct { executor, what, dataset, audience, course, report };
    cluster.act(&mut act)?;
    Ok(act.report.unwrap_or_default())
}

struct PassAct<'a> {
    executor: &'a mut Executor,
    what: What<'a>,
    dataset: &'a mut Dataset,
    audience: &'a mut dyn Audience,
    course: Course,
    report: Option<Report>,
}

impl Act for PassAct<'_> {
    fn talks(&self) -> bool {
        talks(self.what.program, self.executor.cluster())
    }

    fn print(&self) -> Print {
        let names = digest(u64::from(self.what.pass.infers), self.label().as_bytes());
        Print { kind: Kind::Pass, names, values: self.dataset.digest() }
    }

    fn label(&self) -> String {
        let pass = self.what.pass;
        let verb = if pass.infers { "infer" } else { "train" };
        let (settings, fetch) = (self.dataset.settings(), pass.fetch.join(", "));
        let (n_files, batch_size) = (settings.files.len(), settings.batch_size);
        format!(
            "{verb}_from_dataset of {n_files} files in batches of {batch_size}, fetching [{fetch}]"
        )
    }

    fn uses(&self) -> Option<Uses<'_>> {
        let (scope, job) = (self.what.scope, self.what.program.distributed.as_ref());
        Some(Uses { scope, job, devices: None })
    }

    fn perform(&mut self, from: Option<&[u8]>) -> Result<Vec<u8>> {
        let cluster = self.executor.cluster().clone();
        let cuts = cluster.recovers().then_some(&cluster as &dyn Cuts);
        let Self { executor, what, dataset, audience, course, report } = self;
        let ran = course.run(executor, *what, (dataset, *audience), (cuts, from))?;
        let report = report.insert(ran);
        Ok(if cuts.is_some() { answer::to_bytes(report, dataset) } else { Vec::new() })
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        self.report = Some(answer::read(answer, self.dataset)?);
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<Cluster>>> {
        let What { program, scope, pass } = self.what;
        let pass = Pass { infers: pass.infers, ..Pass::default() };
        Some(Box::new(PassAgain {
            program: program.clone(),
            scope: scope.clone(),
            pass,
            options: *self.executor.options_mut(),
            dataset: self.dataset.twin(),
            course: std::mem::take(&mut self.course),
        }))
    }
}

/// A pass that is over, and may have to be made again.
struct PassAgain {
    program: Program,
    scope: Scope,
    pass: Pass,
    options: Options,
    /// What the script does with its own meanwhile does not matter.
    dataset: Dataset,
    course: Course,
}

impl Repeat<Cluster> for PassAgain {
    fn repeat(&mut self, world: &Cluster, from: Option<&[u8]>) -> Result<()> {
        let mut executor = Executor::with_options(self.options);
        executor.set_cluster(world.clone());
        self.course.hush();
        let (program, scope, pass) = (&self.program, &self.scope, &self.pass);
        let what = What { program, scope, pass };
        let cuts = Some(world as &dyn Cuts);
        let shown = (&mut self.dataset, &mut Nobody as &mut dyn Audience);
        self.course.run(&mut executor, what, shown, (cuts, from))?;
        Ok(())
    }

    fn n_bytes(&self) -> usize {
        self.course.n_bytes()
    }
}

/// Has been told before.
struct Nobody;

impl Audience for Nobody {
    fn fetched(&mut self, _: &[Tensor]) {}
}
