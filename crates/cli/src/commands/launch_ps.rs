//! `paddlewheel launch_ps`: a job with parameter servers.

use std::path::PathBuf;
use std::time::Duration;

use base::Endpoint;
use clap::Args;
use fleet::launch::options::{LogFormat, PsOptions, RecoveryOptions};
use fleet::launch::{self, Console, EngineOptions, Target};
use fleet::render::RenderOptions;

use super::job::{Safety, Script, Watching};
use super::on::{Engine, EngineOption, OnEngine};
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::values::{self, CommaList};

/// The default folder of logs.
const LOGS: &str = "logs";

/// Starts parameter servers and trainers, and waits for them.
///
/// Every process runs the same script; variables of its environment tell its role. With snapshots, processes
/// that die are started again and resume where they were. On several machines, start a launcher on each of
/// them with the same options. Exit codes: 0 if the job has finished, 1 if a process failed, 75 if the job
/// was asked to end (SIGTERM, Ctrl-C) and the same command resumes it, 128 and the signal if there is nothing
/// to resume from.
#[derive(Args)]
#[command(
    rename_all = "snake_case",
    after_help = "\
Examples:
  paddlewheel launch_ps --worker_num 2 --server_num 2 train.py --epochs 3
  paddlewheel launch_ps --snapshot_dir snapshots --web train.py
  paddlewheel launch_ps --cluster_node_ips 10.0.0.1,10.0.0.2 --node_ip 10.0.0.1 train.py
  paddlewheel launch_ps --on slurm --worker_num 8 --memory 4Gi train.py"
)]
pub(crate) struct LaunchPs {
    #[command(flatten)]
    script: Script,
    /// Trainers on this machine; with --on, trainers of the job
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = values::count)]
    worker_num: usize,
    /// Servers on this machine; with --on, servers of the job [default: 2]
    #[arg(long, value_name = "N", value_parser = values::count)]
    server_num: Option<usize>,
    /// First port of the servers [default: 6170, or others if that is taken]
    #[arg(long, value_name = "P", value_parser = values::port)]
    start_port: Option<u16>,
    /// The servers, ip:port,ip:port
    #[arg(long, value_name = "LIST", value_parser = values::endpoints)]
    endpoints: Option<CommaList<Endpoint>>,
    /// Where serverlog.N and workerlog.N go [default: a new folder in logs for each job]
    ///
    /// logs/latest and logs/workerlog.N lead to the newest. In DIR, into job.PID while another job writes there.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// The form of lines in logs [default: text]
    #[arg(long, value_name = "FORM", value_parser = values::log_format())]
    log_format: Option<LogFormat>,
    /// All machines of the job, ip,ip; start a launcher on each of them
    #[arg(long, value_name = "IPS", value_parser = values::names)]
    cluster_node_ips: Option<CommaList<String>>,
    /// This machine
    #[arg(long, value_name = "IP")]
    node_ip: Option<String>,
    /// Say what is started: True or False [default: True]
    #[arg(long, value_name = "BOOL", value_parser = values::truth)]
    print_config: Option<bool>,
    /// Folders below which servers save, DIR:DIR
    ///
    /// Unless said otherwise: the working directory, that of snapshots, and the one for temporary files.
    #[arg(long, value_name = "DIRS")]
    save_root: Option<String>,
    #[command(flatten)]
    recovery: WhenDead,
    #[command(flatten)]
    safety: Safety,
    #[command(flatten)]
    watching: Watching,
    #[command(flatten)]
    engine: Engine,
}

/// The reaction to the death of a process.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "When a process dies")]
struct WhenDead {
    /// Where snapshots of the job go
    ///
    /// A launcher that is started again with the same folder resumes the job. The folder snapshots in that of logs if only
    /// --snapshot_secs or --max_restarts is given; with --on, NAME-snapshots, on a disk that all machines share.
    #[arg(long, value_name = "DIR")]
    snapshot_dir: Option<PathBuf>,
    /// How often snapshots are written [default: 1; with --on: 10]
    #[arg(long, value_name = "S", value_parser = values::some_seconds)]
    snapshot_secs: Option<Duration>,
    /// Resume from the snapshots in DIR, also with other numbers of processes
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// How often a process that died is started again within 10 minutes [default: 5 with snapshots, otherwise 0]
    #[arg(long, value_name = "N", value_parser = values::count)]
    max_restarts: Option<usize>,
    /// How long processes may take to end after SIGTERM [default: 30 with snapshots, otherwise 3; with --on: 60]
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    grace_secs: Option<Duration>,
}

impl LaunchPs {
    pub(crate) fn run(self: Box<Self>, caller: &Caller) -> Result<i32> {
        let console = &mut Console::stderr();
        let Some(on) = self.engine.on else {
            if let Some(option) = self.engine.of_pods() {
                return Err(Error::NotOn { option, engine: "this machine" });
            }
            let options = self.options();
            let host = caller.host(&options.script)?;
            return Ok(launch::launch_ps(options, &host, console)?);
        };
        if let Some(option) = self.not_taken(on) {
            return Err(Error::NotOn { option, engine: on.name() });
        }
        let Some(target) = self.engine_target() else {
            let (cpus, host) = (self.engine.cpus(), caller.python_host()?);
            return Ok(launch::launch_on_ray(self.options(), cpus, &host, console)?);
        };
        let options = self.engine_options(target);
        let host = caller.host(&options.job.script)?;
        Ok(launch::launch_on(options, &host, console)?)
    }

    /// The engine that starts the processes, if it is not us.
    pub(super) fn engine_target(&self) -> Option<Target> {
        self.engine.on.and_then(OnEngine::target)
    }

    /// The first option that is given and that this engine does not take.
    fn not_taken(&self, on: OnEngine) -> Option<&'static str> {
        use OnEngine::{K8s, Mpi, Ray, Slurm};
        let recovery = &self.recovery;
        let all = [
            EngineOption::new("--start_port", &[], self.start_port.is_some()),
            EngineOption::new("--endpoints", &[], self.endpoints.is_some()),
            EngineOption::new("--cluster_node_ips", &[], self.cluster_node_ips.is_some()),
            EngineOption::new("--node_ip", &[], self.node_ip.is_some()),
            EngineOption::new("--print_config", &[Ray], self.print_config.is_some()),
            EngineOption::new("--resume", &[Ray], recovery.resume.is_some()),
            // Each server has a disk of its own there.
            EngineOption::new(
                "--snapshot_dir",
                &[Slurm, Mpi, Ray],
                recovery.snapshot_dir.is_some(),
            ),
        ];
        let of_watching = match on {
            Ray => None,
            Slurm | Mpi | K8s => self.watching.given(),
        };
        EngineOption::not_taken(&all, &on).or(of_watching).or(self.engine.not_taken(on))
    }

    /// The job that an engine other than Ray is to run.
    pub(super) fn engine_options(self: Box<Self>, target: Target) -> EngineOptions {
        let (recovery, mut job) = (self.recovery, RenderOptions::new(self.script.command()));
        job.n_servers = self.server_num.unwrap_or(job.n_servers);
        job.n_trainers = self.worker_num;
        job.snapshot_every = recovery.snapshot_secs.unwrap_or(job.snapshot_every);
        job.max_restarts = recovery.max_restarts.unwrap_or(job.max_restarts);
        job.grace = recovery.grace_secs.unwrap_or(job.grace);
        job.log_format = self.log_format;
        job.safety = self.safety.options(self.save_root);
        let options = self.engine.apply(target, job);
        EngineOptions {
            own_logs: self.log_dir.is_none(),
            log_dir: self.log_dir.unwrap_or(LOGS.into()),
            snapshot_dir: recovery.snapshot_dir,
            ..options
        }
    }

    pub(super) fn options(self: Box<Self>) -> PsOptions {
        let recovery = self.recovery;
        PsOptions {
            n_trainers: self.worker_num,
            n_servers: self.server_num,
            start_port: self.start_port,
            endpoints: self.endpoints.map_or(Vec::new(), |list| list.0),
            is_placed: false,
            own_logs: self.log_dir.is_none(),
            log_dir: self.log_dir.unwrap_or(LOGS.into()),
            log_format: self.log_format,
            nodes: self.cluster_node_ips.map_or(Vec::new(), |list| list.0),
            node: self.node_ip,
            is_verbose: self.print_config.unwrap_or(true),
            recovery: RecoveryOptions {
                max_restarts: recovery.max_restarts,
                snapshot_dir: recovery.snapshot_dir,
                snapshot_every: recovery.snapshot_secs,
                resume: recovery.resume,
                grace: recovery.grace_secs,
            },
            safety: self.safety.options(self.save_root),
            watch: self.watching.options(true),
            script: self.script.command(),
        }
    }
}
