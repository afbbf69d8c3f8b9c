//! `launch_ps --on ENGINE`: the same job, started by an engine.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fleet::launch::{EngineOptions, Target};
use fleet::render::RenderOptions;

use super::pods::Pods;
use crate::values::{self, CommaList, CommandWords};

/// The engine that starts the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnEngine {
    Slurm,
    Mpi,
    Ray,
    K8s,
}

impl OnEngine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            OnEngine::Slurm => "slurm",
            OnEngine::Mpi => "mpi",
            OnEngine::Ray => "ray",
            OnEngine::K8s => "k8s",
        }
    }

    /// The engine, if it starts the processes itself; on Ray our launcher does.
    pub(crate) fn target(self) -> Option<Target> {
        match self {
            OnEngine::Slurm => Some(Target::Slurm),
            OnEngine::Mpi => Some(Target::Mpi),
            OnEngine::K8s => Some(Target::Kubernetes),
            OnEngine::Ray => None,
        }
    }
}

/// An option that some engines take.
pub(crate) struct EngineOption<'a, E> {
    option: &'static str,
    engines: &'a [E],
    is_given: bool,
}

impl<'a, E: PartialEq> EngineOption<'a, E> {
    pub(crate) fn new(option: &'static str, engines: &'a [E], is_given: bool) -> Self {
        Self { option, engines, is_given }
    }

    /// The first option that is given and that this engine does not take.
    pub(crate) fn not_taken(all: &[Self], engine: &E) -> Option<&'static str> {
        let is_wrong = |one: &&Self| one.is_given && !one.engines.contains(engine);
        all.iter().find(is_wrong).map(|one| one.option)
    }
}

/// Options of engines.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "On an engine")]
pub(crate) struct Engine {
    /// Submit the job to an engine and follow it: prints what its processes say, ends with its exit code
    ///
    /// SIGINT and SIGTERM end the job, and this command with exit code 75: the same command resumes it. On
    /// ray, RAY_ADDRESS says which cluster. Options of another engine, and those above about this machine,
    /// are refused; on all but ray, so are those about watching.
    #[arg(long, value_name = "ENGINE")]
    pub(crate) on: Option<OnEngine>,
    /// slurm, mpi, k8s: name of the job [default: that of the script]
    #[arg(long, value_name = "NAME", requires = "on")]
    name: Option<String>,
    /// slurm, ray, k8s: processors of each process [default: 1]
    #[arg(long, value_name = "N", requires = "on", value_parser = values::count)]
    cpus: Option<usize>,
    /// slurm, k8s: port of the servers; mpi: the first of each machine, or where ranks meet
    #[arg(long, value_name = "P", requires = "on", value_parser = values::port)]
    port: Option<u16>,
    /// mpi: the machines, host,host
    #[arg(long, value_name = "LIST", requires = "on", value_parser = values::names)]
    hosts: Option<CommaList<String>>,
    /// mpi: which mpirun [default: mpirun]
    #[arg(long, value_name = "PROGRAM", requires = "on")]
    mpirun: Option<PathBuf>,
    /// mpi: options for mpirun, such as "--oversubscribe --map-by node"; may be given several times
    #[arg(
        long,
        value_name = "WORDS",
        requires = "on",
        allow_hyphen_values = true,
        value_parser = values::command_words
    )]
    mpi_args: Vec<CommandWords>,
    /// slurm, k8s: memory of each process [default: 2Gi]
    #[arg(long, value_name = "SIZE", requires = "on")]
    memory: Option<String>,
    /// slurm: the limit of the job [default: 1-00:00:00]
    #[arg(long, value_name = "TIME", requires = "on")]
    time: Option<String>,
    /// slurm: where it runs [default: that of the cluster]
    #[arg(long, value_name = "NAME", requires = "on")]
    partition: Option<String>,
    /// k8s: the container image with paddlewheel and the script
    #[arg(long, value_name = "IMAGE", requires = "on")]
    image: Option<String>,
    /// k8s: disk for the snapshots of a server [default: 10Gi]
    #[arg(long, value_name = "SIZE", requires = "on")]
    storage: Option<String>,
    /// k8s: the class of that disk [default: that of the cluster]
    #[arg(long, value_name = "CLASS", requires = "on")]
    storage_class: Option<String>,
    #[command(flatten)]
    pods: Pods,
}

impl Engine {
    /// The first option that is given and that this engine does not take.
    pub(crate) fn not_taken(&self, on: OnEngine) -> Option<&'static str> {
        use OnEngine::{K8s, Mpi, Ray, Slurm};
        let all = [
            EngineOption::new("--name", &[Slurm, Mpi, K8s], self.name.is_some()),
            EngineOption::new("--cpus", &[Slurm, Ray, K8s], self.cpus.is_some()),
            EngineOption::new("--port", &[Slurm, Mpi, K8s], self.port.is_some()),
            EngineOption::new("--hosts", &[Mpi], self.hosts.is_some()),
            EngineOption::new("--mpirun", &[Mpi], self.mpirun.is_some()),
            EngineOption::new("--mpi_args", &[Mpi], !self.mpi_args.is_empty()),
            EngineOption::new("--memory", &[Slurm, K8s], self.memory.is_some()),
            EngineOption::new("--time", &[Slurm], self.time.is_some()),
            EngineOption::new("--partition", &[Slurm], self.partition.is_some()),
            EngineOption::new("--image", &[K8s], self.image.is_some()),
            EngineOption::new("--storage", &[K8s], self.storage.is_some()),
            EngineOption::new("--storage_class", &[K8s], self.storage_class.is_some()),
        ];
        EngineOption::not_taken(&all, &on).or(self.pods.given().filter(|_| on != K8s))
    }

    /// The first option about pods that is given.
    pub(crate) fn of_pods(&self) -> Option<&'static str> {
        self.pods.given()
    }

    /// Processors of each process.
    pub(crate) fn cpus(&self) -> usize {
        self.cpus.unwrap_or(1)
    }

    /// A job with these options instead of the usual ones.
    pub(crate) fn apply(self, target: Target, mut job: RenderOptions) -> EngineOptions {
        job.cpus = self.cpus();
        job.image = self.image;
        job.port = self.port;
        job.storage_class = self.storage_class;
        job.partition = self.partition;
        job.pods = self.pods.options();
        job.name = self.name.unwrap_or(job.name);
        job.memory = self.memory.unwrap_or(job.memory);
        job.storage = self.storage.unwrap_or(job.storage);
        job.time = self.time.unwrap_or(job.time);
        EngineOptions {
            target,
            job,
            log_dir: "logs".into(),
            own_logs: true,
            snapshot_dir: None,
            hosts: self.hosts.map_or(Vec::new(), |list| list.0),
            mpirun: self.mpirun.unwrap_or("mpirun".into()),
            mpi_args: self.mpi_args.into_iter().flat_map(|words| words.0).collect(),
        }
    }
}
