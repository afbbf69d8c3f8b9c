//! `launch_ps --on ENGINE`: the same job, started by an engine.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fleet::launch::{EngineOptions, Target};
use fleet::render::RenderOptions;

use super::job::first_given;
use crate::values::{self, CommaList};

/// Who starts the processes.
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

/// Options of engines.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "On an engine")]
pub(crate) struct Engine {
    /// Submit the job to an engine and follow it: prints what its processes say, ends with its exit code
    ///
    /// SIGINT and SIGTERM end the job. On ray, RAY_ADDRESS says which cluster, and the options above hold; on
    /// the others, those about this machine, about who may take part and about watching do not.
    #[arg(long, value_name = "ENGINE")]
    pub(crate) on: Option<OnEngine>,
    /// Name of the job [default: that of the script]
    #[arg(long, value_name = "NAME", requires = "on")]
    name: Option<String>,
    /// Processors of each process
    #[arg(long, value_name = "N", requires = "on", default_value_t = 1, value_parser = values::count)]
    pub(crate) cpus: usize,
    /// Port of the servers (mpi: the first of each machine, or where ranks meet)
    #[arg(long, value_name = "P", requires = "on", value_parser = values::port)]
    port: Option<u16>,
    /// mpi: the machines, host,host
    #[arg(long, value_name = "LIST", requires = "on", value_parser = values::names)]
    hosts: Option<CommaList<String>>,
    /// mpi: which mpirun [default: mpirun]
    #[arg(long, value_name = "PROGRAM", requires = "on")]
    mpirun: Option<PathBuf>,
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
}

impl Engine {
    /// The first option that is given and that Ray does not take: it is asked for processors only.
    pub(crate) fn not_of_ray(&self) -> Option<&'static str> {
        let given = [
            (self.name.is_some(), "--name"),
            (self.port.is_some(), "--port"),
            (self.hosts.is_some(), "--hosts"),
            (self.mpirun.is_some(), "--mpirun"),
            (self.memory.is_some(), "--memory"),
            (self.time.is_some(), "--time"),
            (self.partition.is_some(), "--partition"),
            (self.image.is_some(), "--image"),
            (self.storage.is_some(), "--storage"),
            (self.storage_class.is_some(), "--storage_class"),
        ];
        first_given(&given)
    }

    /// A job with these options instead of the usual ones.
    pub(crate) fn apply(self, target: Target, mut job: RenderOptions) -> EngineOptions {
        job.image = self.image;
        job.port = self.port;
        job.cpus = self.cpus;
        job.storage_class = self.storage_class;
        job.partition = self.partition;
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
        }
    }
}
