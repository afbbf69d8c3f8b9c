//! Options of launchers.

use std::path::PathBuf;
use std::time::Duration;

use base::Endpoint;

pub use crate::safety::SafetyOptions;
pub use crate::script::ScriptCommand;
pub use logging::LogFormat;

/// Options of `launch_ps`. None: not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PsOptions {
    /// Trainers on this machine.
    pub n_trainers: usize,
    /// Servers on this machine.
    pub n_servers: Option<usize>,
    /// First port of the servers.
    pub start_port: Option<u16>,
    /// The servers.
    pub endpoints: Vec<Endpoint>,
    /// An engine runs the processes on other machines, where it has found room for them.
    pub is_placed: bool,
    /// Where logs go.
    pub log_dir: PathBuf,
    /// The user has not named a folder: the job gets its own inside that one.
    pub own_logs: bool,
    /// The form of lines.
    pub log_format: Option<LogFormat>,
    /// All machines of the job.
    pub nodes: Vec<String>,
    /// This machine.
    pub node: Option<String>,
    /// Print the processes that are started.
    pub is_verbose: bool,
    /// The reaction to the death of a process.
    pub recovery: RecoveryOptions,
    /// Access to the job.
    pub safety: SafetyOptions,
    /// Monitoring of the job.
    pub watch: WatchOptions,
    /// The script and its arguments.
    pub script: ScriptCommand,
}

impl PsOptions {
    /// The defaults, for this script.
    pub fn new(script: ScriptCommand) -> Self {
        Self {
            n_trainers: 2,
            n_servers: None,
            start_port: None,
            endpoints: Vec::new(),
            is_placed: false,
            log_dir: "logs".into(),
            own_logs: true,
            log_format: None,
            nodes: Vec::new(),
            node: None,
            is_verbose: true,
            recovery: RecoveryOptions::default(),
            safety: SafetyOptions::default(),
            watch: WatchOptions { is_on: true, host: None, web: None, tensorboard: None },
            script,
        }
    }
}

/// The reaction to the death of a process, from the command line. None: not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryOptions {
    /// How often a process is started again.
    pub max_restarts: Option<usize>,
    /// Where snapshots go.
    pub snapshot_dir: Option<PathBuf>,
    /// How often they are written.
    pub snapshot_every: Option<Duration>,
    /// Snapshots to continue from.
    pub resume: Option<PathBuf>,
    /// How long processes may take to end when they are asked to.
    pub grace: Option<Duration>,
}

/// Monitoring of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Processes report their work.
    pub is_on: bool,
    /// Where; this machine only without it.
    pub host: Option<String>,
    /// Where the page is, if there is one; empty: at its usual place.
    pub web: Option<String>,
    /// Where numbers for TensorBoard go.
    pub tensorboard: Option<PathBuf>,
}

/// Options of `watch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedProcesses {
    /// Where they answer.
    pub addresses: Vec<String>,
    /// How they are shown.
    pub watch: WatchOptions,
    /// Where numbers go.
    pub jsonl: Option<PathBuf>,
}

/// Options of `launch`. None: not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveOptions {
    /// Processes on this machine.
    pub n_processes: usize,
    /// All machines of the job.
    pub nodes: Vec<String>,
    /// This machine.
    pub node: Option<String>,
    /// First port of the processes.
    pub start_port: Option<u16>,
    /// The cards that scripts are given.
    pub gpus: Vec<String>,
    /// Where logs go; this terminal without one.
    pub log_dir: Option<PathBuf>,
    /// The form of lines.
    pub log_format: Option<LogFormat>,
    /// How often a process that died is started again.
    pub max_restarts: usize,
    /// Machines from the platform's variables.
    pub is_cloud: bool,
    /// Print the processes that are started.
    pub is_verbose: bool,
    /// Access to the job.
    pub safety: SafetyOptions,
    /// Monitoring of the job.
    pub watch: WatchOptions,
    /// The script and its arguments.
    pub script: ScriptCommand,
}

impl CollectiveOptions {
    /// The defaults, for this script.
    pub fn new(script: ScriptCommand) -> Self {
        Self {
            n_processes: 1,
            nodes: Vec::new(),
            node: None,
            start_port: None,
            gpus: Vec::new(),
            log_dir: None,
            log_format: None,
            max_restarts: 0,
            is_cloud: false,
            is_verbose: true,
            safety: SafetyOptions::default(),
            watch: WatchOptions { is_on: false, host: None, web: None, tensorboard: None },
            script,
        }
    }
}

/// Options of `scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleOptions {
    /// The folder of snapshots of the job.
    pub folder: PathBuf,
    /// Servers it should have.
    pub n_servers: usize,
    /// How long to wait for it.
    pub patience: Duration,
}
