//! `paddlewheel render`: manifests and scripts for a cluster.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fleet::launch::options::LogFormat;
use fleet::render::{Engine, RenderOptions, render};

use super::job::{Safety, Script};
use super::on::EngineOption;
use super::pods::Pods;
use super::print;
use crate::error::{Error, Result};
use crate::values;

/// The kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Manifest {
    /// A Job and a disk for each server, an indexed Job for trainers and a headless Service
    K8s,
    /// A JobSet
    Jobset,
    /// A batch script
    Slurm,
}

/// Prints what to submit to a cluster, and changes nothing.
///
/// Submit it with `kubectl apply -f FILE` or `sbatch FILE`. `launch_ps --on` submits and follows a job.
#[derive(Args)]
#[command(
    rename_all = "snake_case",
    after_help = "\
Examples:
  paddlewheel render k8s --image registry/ctr:1 --worker_num 8 train.py > job.yaml
  paddlewheel render slurm --worker_num 8 --time 2:00:00 train.py > job.sh"
)]
pub(crate) struct Render {
    /// For which cluster
    #[arg(value_name = "ENGINE")]
    engine: Manifest,
    #[command(flatten)]
    script: Script,
    /// k8s, jobset: the container image with paddlewheel and the script
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Name of the job [default: that of the script]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Servers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = values::count)]
    server_num: usize,
    /// Trainers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = values::count)]
    worker_num: usize,
    /// Port of the servers [default: 6174; slurm: one made of the number of the job]
    #[arg(long, value_name = "P", value_parser = values::port)]
    port: Option<u16>,
    /// Processors of each process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::count)]
    cpus: usize,
    /// Memory of each process
    #[arg(long, value_name = "SIZE", default_value = "2Gi")]
    memory: String,
    /// k8s, jobset: disk for the snapshots of a server [default: 10Gi]
    #[arg(long, value_name = "SIZE")]
    storage: Option<String>,
    /// k8s, jobset: the class of that disk [default: that of the cluster]
    #[arg(long, value_name = "CLASS")]
    storage_class: Option<String>,
    /// How often snapshots are written
    #[arg(long, value_name = "S", default_value = "10", value_parser = values::some_seconds)]
    snapshot_secs: Duration,
    /// How often a process (slurm: the job) is started again
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = values::count)]
    max_restarts: usize,
    /// How long processes may take to end after SIGTERM
    #[arg(long, value_name = "S", default_value = "60", value_parser = values::seconds)]
    grace_secs: Duration,
    /// slurm: the limit of the job [default: 1-00:00:00]
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// slurm: where it runs [default: that of the cluster]
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// The form of lines in logs [default: text]
    #[arg(long, value_name = "FORM", value_parser = values::log_format())]
    log_format: Option<LogFormat>,
    #[command(flatten)]
    pods: Pods,
    #[command(flatten)]
    safety: Safety,
}

impl Manifest {
    fn name(self) -> &'static str {
        match self {
            Manifest::K8s => "k8s",
            Manifest::Jobset => "jobset",
            Manifest::Slurm => "slurm",
        }
    }
}

impl Render {
    pub(crate) fn run(self: Box<Self>) -> Result<i32> {
        if let Some(option) = self.not_taken() {
            return Err(Error::NotOn { option, engine: self.engine.name() });
        }
        let engine = match self.engine {
            Manifest::K8s => Engine::Kubernetes,
            Manifest::Jobset => Engine::JobSet,
            Manifest::Slurm => Engine::Slurm,
        };
        print(&render(engine, &self.options())?)
    }

    /// The first option that is given and that is for another cluster.
    fn not_taken(&self) -> Option<&'static str> {
        use Manifest::{Jobset, K8s, Slurm};
        let all = [
            EngineOption::new("--image", &[K8s, Jobset], self.image.is_some()),
            EngineOption::new("--storage", &[K8s, Jobset], self.storage.is_some()),
            EngineOption::new("--storage_class", &[K8s, Jobset], self.storage_class.is_some()),
            EngineOption::new("--time", &[Slurm], self.time.is_some()),
            EngineOption::new("--partition", &[Slurm], self.partition.is_some()),
        ];
        let of_pods = self.pods.given().filter(|_| self.engine == Slurm);
        EngineOption::not_taken(&all, &self.engine).or(of_pods)
    }

    pub(super) fn options(self: Box<Self>) -> RenderOptions {
        let usual = RenderOptions::new(self.script.command());
        RenderOptions {
            image: self.image,
            name: self.name.unwrap_or_else(|| usual.name.clone()),
            n_servers: self.server_num,
            n_trainers: self.worker_num,
            port: self.port,
            cpus: self.cpus,
            memory: self.memory,
            storage: self.storage.unwrap_or_else(|| usual.storage.clone()),
            storage_class: self.storage_class,
            snapshot_every: self.snapshot_secs,
            max_restarts: self.max_restarts,
            grace: self.grace_secs,
            time: self.time.unwrap_or_else(|| usual.time.clone()),
            partition: self.partition,
            log_format: self.log_format,
            pods: self.pods.options(),
            safety: self.safety.options(None),
            ..usual
        }
    }
}
