//! The fleet of a process, from `init` to `stop_worker`, for servers and for trainers.
//!
//! One script, two roles: every process builds the same net and minimizes the same loss; then a
//! trainer's programs speak to servers, and a server has programs of its own. Fluid:
//! `…parameter_server.distribute_transpiler.fleet`.

use std::path::Path;
use std::sync::Arc;

use program::backward::{Limits, ParamGrad};
use program::optimizer::Optimizer;
use program::{Builder, Distributed, OpDesc, Program, Var};
use server::Serving;
use train::io::{self, Fitted, JobScope, SaveInference};
use train::remote::{Log, usual_log};
use train::{Executor, Feed, Scope, TrainerJob};
use transpile::{Dispatch, Job, Transpiled};

use crate::access;
use crate::error::{Error, Result};
use crate::flags::Flags;
use crate::lines;
use crate::logging;
use crate::ready::{self, Watch};
use crate::role::{Role, RoleKind};
use crate::signals::{self, Signals};
use crate::strategy::Strategy;
use crate::watching;

/// A process of a job with parameter servers.
pub struct Fleet {
    role: Role,
    flags: Flags,
    trainer: TrainerJob,
    /// How a server behaves.
    serving: Serving,
    split: Option<SplitJob>,
    is_started: bool,
    log: Log,
    _numbers: LastNumbers,
}

/// The last numbers of this process are written whatever way it ends in order.
struct LastNumbers;

impl Drop for LastNumbers {
    fn drop(&mut self) {
        watching::end();
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fleet of {:?} {}", self.role.kind, self.role.id)
    }
}

/// The programs of a job, once a loss has been minimized.
#[derive(Debug)]
pub(crate) struct SplitJob {
    strategy: Strategy,
    /// The main program before it was split.
    origin: Program,
    pub(crate) job: Arc<Distributed>,
    server: Option<ServerPrograms>,
}

/// The programs of a server.
#[derive(Debug)]
pub struct ServerPrograms {
    /// The one that serves.
    pub main: Program,
    /// The one that gives its variables their first values.
    pub startup: Program,
}

/// The loss to minimize, and the way to do it.
#[derive(Debug)]
pub struct Minimize<'a> {
    /// Changes the parameters.
    pub optimizer: &'a mut Optimizer,
    /// The variable that is minimized.
    pub loss: &'a Var,
    /// The variables that the backward pass leaves out.
    pub limits: &'a Limits,
    /// The mode of the job and its settings.
    pub strategy: Strategy,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// All trainers have completed.
    Completed,
    /// SIGTERM or SIGINT came: the process should end in order.
    Signalled {
        /// With this exit code. A server that keeps snapshots is not through before its trainers are:
        /// engines must start it again. Without snapshots it ends with 0, as Fluid's servers do.
        code: i32,
    },
}

impl std::fmt::Display for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Served::Completed => "all trainers have completed",
            Served::Signalled { .. } => "told to end",
        })
    }
}

impl Fleet {
    /// Takes part in a job. `trainer` is the part of a trainer in it; those that run its programs must
    /// share it ([`train::Trainer::set_job`]).
    pub fn init(role: Role, flags: Flags, trainer: TrainerJob) -> Self {
        if let Err(error) = logging::begin() {
            net::lines::Line::error("trainer", error.to_string()).say();
        }
        logging::identify(&role);
        watching::begin(Some(&role));
        trainer.configure(|settings| {
            settings.patience = flags.patience();
            settings.redo_bytes = flags.recovery_memory();
            settings.journal_bytes = flags.journal_bytes();
            settings.request_bytes_max = flags.request_memory();
            settings.ends = Some(Arc::new(signals::wants_end));
            settings.locate = flags.locate().or_else(|| settings.locate.take());
        });
        let mut serving = Serving::default();
        flags.configure(&mut serving);
        let split = None;
        let is_started = false;
        let log = usual_log();
        let _numbers = LastNumbers;
        Self { role, flags, trainer, serving, split, is_started, log, _numbers }
    }

    /// Its flags.
    pub(crate) fn flags(&self) -> &Flags {
        &self.flags
    }

    /// Sends the log lines of this process there instead of stderr.
    pub fn set_log(&mut self, log: Log) {
        self.serving.log = log.clone();
        self.log = log;
    }

    /// The role of this process.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The part of this process in its job.
    pub fn trainer_job(&self) -> &TrainerJob {
        &self.trainer
    }

    /// Adds everything that training needs, and splits the programs for this process.
    pub fn minimize(
        &mut self,
        b: &mut Builder<'_>,
        what: Minimize<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<OpDesc>, Vec<ParamGrad>)> {
        let Minimize { optimizer, loss, limits, strategy } = what;
        let done = optimizer.minimize(b, loss, limits).map_err(train::Error::from)?;
        let dispatch = &mut transpile::RoundRobin::default();
        self.distribute(b.main, b.startup, strategy, dispatch)?;
        self.wait_for_servers(watch)?;
        Ok(done)
    }

    /// Splits programs that hold the ops of an optimizer already. A trainer's are rewritten in
    /// place; a server leaves them alone and gets its own. Returns warnings for the user.
    pub fn distribute(
        &mut self,
        main: &mut Program,
        startup: &mut Program,
        strategy: Strategy,
        dispatch: &mut dyn Dispatch,
    ) -> Result<Vec<String>> {
        watching::tell();
        let (job, config) = (self.job(), &strategy.program);
        config.check()?;
        let access = access::current()?;
        self.trainer.configure(|settings| settings.access = access);
        let origin = main.clone();
        let (split, server) = match self.role.endpoint() {
            None => (transpile::transpile(main, startup, config, &job, dispatch)?, None),
            Some(own) => {
                let (main, startup) = (&mut main.clone(), &mut startup.clone());
                let split = transpile::transpile(main, startup, config, &job, dispatch)?;
                let programs = server_programs(&split, &own.to_string(), &strategy)?;
                (split, Some(programs))
            }
        };
        self.serving.go_on = strategy.server.tolerate_lost_trainers;
        let warnings = split.warnings().to_vec();
        let job = Arc::new(split.job().clone());
        self.split = Some(SplitJob { strategy, origin, job, server });
        Ok(warnings)
    }

    fn job(&self) -> Job {
        let endpoints = self.role.servers.iter().map(ToString::to_string).collect();
        Job {
            trainer_id: if self.role.is_trainer() { self.role.id as usize } else { 0 },
            n_trainers: self.role.n_trainers as usize,
            endpoints,
            current_endpoint: self.role.endpoint().map(ToString::to_string),
        }
    }

    /// A trainer waits until all servers listen. A server does not wait.
    pub fn wait_for_servers(&self, watch: &mut Watch<'_>) -> Result<()> {
        match self.role.kind {
            RoleKind::Server => Ok(()),
            RoleKind::Trainer => {
                let timeout = self.flags.wait_server_ready_timeout();
                let locate = self.flags.locate();
                ready::wait_server_ready(&self.role.servers, locate.as_ref(), timeout, watch)
            }
        }
    }

    pub(crate) fn split(&self, what: &'static str) -> Result<&SplitJob> {
        self.split.as_ref().ok_or(Error::NotMinimized(what))
    }

    /// The programs of this server.
    pub fn server_programs(&self) -> Option<&ServerPrograms> {
        self.split.as_ref()?.server.as_ref()
    }

    /// The main program as it was before it was split.
    pub fn origin(&self) -> Option<&Program> {
        self.split.as_ref().map(|split| &split.origin)
    }

    pub(crate) fn need(&self, wanted: RoleKind, what: &'static str) -> Result<()> {
        let name = |kind| if kind == RoleKind::Server { "server" } else { "worker" };
        if self.role.kind == wanted {
            Ok(())
        } else {
            Err(Error::WrongRole { actual: name(self.role.kind), wanted: name(wanted), what })
        }
    }

    /// Fills this server's parameters, from a model if there is one to continue from. An empty path
    /// means no model, for scripts that read the path from a configuration.
    pub fn init_server(&mut self, scope: &Scope, model_dir: Option<&Path>) -> Result<()> {
        self.start_server(scope, model_dir, io::load_slices).map(|_| ())
    }

    /// Like [`Fleet::init_server`], with the part that fits of a model that may have other variables or
    /// other sizes.
    pub fn fit_server(&mut self, scope: &Scope, model_dir: Option<&Path>) -> Result<Fitted> {
        Ok(self.start_server(scope, model_dir, io::fit_slices)?.unwrap_or_default())
    }

    fn start_server<T>(
        &mut self,
        scope: &Scope,
        model_dir: Option<&Path>,
        load: impl Fn(&Distributed, &Scope, &Path) -> train::Result<T>,
    ) -> Result<Option<T>> {
        let model_dir = model_dir.filter(|dir| !dir.as_os_str().is_empty());
        let split = self.split.as_ref().ok_or(Error::NotMinimized("startup_program"))?;
        self.need(RoleKind::Server, "init_server")?;
        let ServerPrograms { main, startup } =
            split.server.as_ref().ok_or(Error::NotMinimized("startup_program"))?;
        let missing = model_dir.filter(|dir| !dir.is_dir());
        if let Some(missing) = missing {
            return Err(Error::NoDirectory(missing.to_path_buf()));
        }
        // A server takes no steps.
        Executor::new().run(startup, scope, &mut Feed::new(), &[])?;
        match (model_dir, &main.distributed) {
            (Some(dir), Some(job)) => Ok(Some(load(job, scope, dir)?)),
            _ => Ok(None),
        }
    }

    /// Serves until all trainers have completed, the job failed, or a signal came.
    pub fn run_server(&self, scope: &Scope) -> Result<Served> {
        let split = self.split.as_ref().ok_or(Error::NotMinimized("main_program"))?;
        self.need(RoleKind::Server, "run_server")?;
        let programs = split.server.as_ref().ok_or(Error::NotMinimized("main_program"))?;
        let (keeping, access) = (self.flags.keeping()?, access::current()?);
        // Trainers would refuse a job with another server that needs a secret.
        access::check_all(&access, &self.role.servers)?;
        let serving = Serving { keeping, access, ..self.serving.clone() };
        serve(&programs.main, scope, &serving)
    }

    /// Gets a trainer ready to send: prints its settings and starts the sender of modes that send
    /// in the background. `false` if that was done before.
    pub fn init_worker(&mut self, print: &mut dyn FnMut(&str)) -> Result<bool> {
        self.need(RoleKind::Trainer, "init_worker")?;
        let split = self.split.as_mut().ok_or(Error::NotMinimized("main_program"))?;
        if self.is_started {
            return Ok(false);
        }
        self.is_started = true;
        self.trainer.join(&split.job);
        // Fluid's oldest sync speaks to servers from the program alone.
        if !split.job.via_communicator {
            return Ok(true);
        }
        let (settings, warnings) = split.strategy.trainer.communicator_flags();
        warnings.iter().for_each(|line| print(line));
        print(&lines::overview(&settings));
        lines::initialized(split.job.mode).for_each(|line| (self.log)(&line));
        if split.job.mode.sends_in_background() {
            let config = split.strategy.trainer.communicator();
            self.trainer.start_communicator(&split.job, config);
        } else {
            // The others send in step with the program, but the line is waited for.
            (self.log)(&net::lines::communicator_starts());
        }
        Ok(true)
    }

    /// This trainer is done: sends its queue, and tells the servers. Scripts call it in every
    /// process; a server has nothing to stop.
    pub fn stop_worker(&mut self, scope: &Scope) -> Result<()> {
        if self.role.kind == RoleKind::Server {
            return Ok(());
        }
        let split = self.split.as_ref().ok_or(Error::NotMinimized("main_program"))?;
        self.trainer.join(&split.job);
        self.trainer.stop_and_complete(scope)?;
        self.is_started = false;
        watching::end();
        Ok(())
    }

    /// Counters of every server, among them how stale gradients were.
    pub fn server_stats(&self) -> Result<Vec<wire::message::Stats>> {
        self.need(RoleKind::Trainer, "server_stats")?;
        self.trainer.join(&self.split("main_program")?.job);
        Ok(self.trainer.stats()?)
    }

    /// Saves a trainer's program, with the parameters that the servers have now. Trainer 0 also
    /// saves variables that only servers hold.
    pub fn save_persistables(&self, scope: &Scope, dir: &Path, program: &Program) -> Result<()> {
        let job = program.distributed.as_deref();
        let job = job.ok_or(Error::LocalProgram("save_persistables"))?;
        self.trainer.saves(&dir.to_string_lossy(), &mut || {
            JobScope { trainer: &self.trainer, scope, job }
                .save_persistables(dir, program, None)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Saves a model for inference: the program as it was before it was split, with the parameters
    /// that the servers have now. Returns the names to fetch.
    pub fn save_inference_model(
        &self,
        scope: &Scope,
        dir: &Path,
        options: &SaveInference<'_>,
    ) -> Result<Vec<String>> {
        let split = self.split("main_program")?;
        let vars = JobScope { trainer: &self.trainer, scope, job: &split.job };
        Ok(self.trainer.saves(&dir.to_string_lossy(), &mut || {
            vars.save_inference_model(dir, &split.origin, options)
        })?)
    }
}

/// Runs a server's program until all trainers have completed, the job failed, or a signal came.
pub fn serve(main: &Program, scope: &Scope, serving: &Serving) -> Result<Served> {
    watching::tell();
    let signals = Signals::watch()?;
    let mut last = None;
    // Each signal is a wish of its own: the second one means it.
    let stops = || {
        let signal = signals.take();
        last = signal.or(last);
        signal.is_some()
    };
    let served = server::serve(main, scope, serving, stops);
    watching::end();
    match (served, last) {
        (Ok(()), _) => Ok(Served::Completed),
        (Err(server::Error::Train(train::Error::Interrupted { .. })), Some(signal)) => {
            lines::signalled(&signals::name_of(signal)).say();
            let is_kept = serving.keeping.is_some();
            Ok(Served::Signalled { code: if is_kept { 128 + signal } else { 0 } })
        }
        (Err(error), _) => Err(error.into()),
    }
}

fn server_programs(
    split: &Transpiled,
    endpoint: &str,
    strategy: &Strategy,
) -> Result<ServerPrograms> {
    let main = split.server_main(endpoint, strategy.server.threads())?;
    Ok(ServerPrograms { main, startup: split.server_startup(endpoint, None)? })
}
