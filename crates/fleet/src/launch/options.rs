//! The launchers' command lines: Fluid's options before the script, the script's own after it.

use std::path::PathBuf;
use std::time::Duration;

use ps::Endpoint;
use tell::LogFormat;

use crate::error::{Error, Result, Usage};
use crate::given::{ABOVE_ZERO, FROM_ZERO, Given, TLS, WEB};

pub use crate::given::ScriptCommand;

/// What `launch_ps --help` says.
pub const PS_USAGE: &str = "\
usage: launch_ps [options] script [arguments]
  --worker_num N          trainers on this machine (2)
  --server_num N          servers on this machine (2)
  --start_port P          first port of the servers (6170, or others if that is taken)
  --endpoints LIST        the servers, ip:port,ip:port
  --log_dir DIR           where serverlog.N and workerlog.N go (a new folder in logs for each job, with
                          links from logs/latest and logs/workerlog.N to the newest; in DIR, into
                          job.PID, while another job writes there)
  --log_format FORM       text, or json: one object a line (text)
  --cluster_node_ips IPS  all machines of the job, ip,ip; start a launcher on each of them
  --node_ip IP            this machine
  --print_config BOOL     say what is started (True)
  --snapshot_dir DIR      where snapshots of the job go; a launcher that is started again with the same
                          folder goes on where the job was (DIR/snapshots of logs if only
                          --snapshot_secs or --max_restarts is given)
  --snapshot_secs S       how often snapshots are written (1)
  --resume DIR            go on from the snapshots in DIR, also with other numbers of processes
  --max_restarts N        how often a process that died is started again within 10 minutes (5 with
                          snapshots, otherwise 0: the job ends)
  --grace_secs S          how long processes may take to end after SIGTERM (30 with snapshots,
                          otherwise 3)
  --secret_file FILE      the secret of the job, for all its machines (made for the job if it runs on one)
  --insecure              speak to other machines without a secret
  --tls                   encrypt connections between machines, with keys that are made for the job
  --tls_cert, --tls_key, --tls_ca FILE
                          encrypt them with certificates (PEM) of the authorities in the last file
  --tls_name NAME         the name that all certificates have (otherwise the host of each server)
  --save_root DIRS        folders below which servers save, DIR:DIR (the working directory, DIR of
                          snapshots, the one for temporary files)
  --web [HOST:PORT]       show the job on a page (127.0.0.1:8790, or another port if that is taken)
  --tensorboard DIR       write numbers for TensorBoard there
  --metrics BOOL          let processes say what they do, each at a port of its own (True)
  --metrics_host HOST     the address of these ports (127.0.0.1)
  --on ENGINE             run the job on slurm, mpi, ray or k8s instead (--on ENGINE --help says more)
The script is a Python script (.py) or any executable.";

/// What `launch --help` says.
pub const COLLECTIVE_USAGE: &str = "\
usage: launch [options] script [arguments]
  --nproc_per_node N      processes on this machine (1, or one for each of --selected_gpus)
  --cluster_node_ips IPS  all machines of the job, ip,ip; start a launcher on each of them
  --node_ip IP            this machine
  --started_port P        first port of the processes (6170, or others if that is taken)
  --selected_gpus LIST    accepted: how many there are is how many processes are started
  --log_dir DIR           where workerlog.N go (otherwise to this terminal)
  --log_format FORM       text, or json: one object a line (text)
  --log_level N           accepted
  --max_restarts N        how often a process that died is started again within 10 minutes (0); the
                          others wait for it, and the job goes on as if nothing had happened
  --use_paddlecloud       machines from PADDLE_TRAINERS, this one from POD_IP
  --print_config BOOL     say what is started (True)
  --secret_file FILE      the secret of the job, for all its machines (made for the job if it runs on one)
  --insecure              speak to other machines without a secret
  --tls                   encrypt connections between machines, with keys that are made for the job
  --tls_cert, --tls_key, --tls_ca FILE
                          encrypt them with certificates (PEM) of the authorities in the last file
  --tls_name NAME         the name that all certificates have (otherwise the host of each server)
  --web [HOST:PORT], --tensorboard DIR, --metrics BOOL, --metrics_host HOST
                          as for launch_ps; without one of the first two, --metrics is False
The script is a Python script (.py) or any executable.";

/// What `watch --help` says.
pub const WATCH_USAGE: &str = "\
usage: watch [options] HOST:PORT [HOST:PORT …]
  HOST:PORT               processes of a job that answer HTTP (PADDLEWHEEL_METRICS_PORT)
  --web HOST:PORT         where the page is (127.0.0.1:8790, or another port if that is taken)
  --tensorboard DIR       write numbers for TensorBoard there
  --jsonl FILE            write numbers there, a line for each time
Ends with Ctrl-C.";

/// What `scale --help` says.
pub const SCALE_USAGE: &str = "\
usage: scale DIR --servers N [--wait_secs S]
  DIR            the folder of snapshots (--snapshot_dir) of a job that runs on this machine
  --servers N    how many servers it should have from now on
  --wait_secs S  how long to wait for that (900)";

/// How long a job may take to change its size.
const SCALE_PATIENCE: Duration = Duration::from_secs(900);

/// What `launch_ps` was asked for. None: not asked.
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
    /// Nobody has named a folder: the job has one of its own in that one.
    pub own_logs: bool,
    /// The form of lines.
    pub log_format: Option<LogFormat>,
    /// All machines of the job.
    pub nodes: Vec<String>,
    /// This machine.
    pub node: Option<String>,
    /// Say what is started.
    pub is_verbose: bool,
    /// What happens when a process dies.
    pub recovery: RecoveryOptions,
    /// Who may take part.
    pub safety: SafetyOptions,
    /// Who may see what the job does.
    pub watch: WatchOptions,
    /// What to start.
    pub script: ScriptCommand,
}

/// What happens when a process dies, as far as the command line says it. None: not said.
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

/// Who may take part in a job, and where its servers write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SafetyOptions {
    /// The file with the secret.
    pub secret_file: Option<PathBuf>,
    /// Other machines are spoken to without a secret.
    pub insecure: bool,
    /// The folders below which servers save.
    pub save_root: Option<String>,
    /// Connections are encrypted with keys that are made for the job.
    pub tls: bool,
    /// The certificate of each process.
    pub tls_cert: Option<PathBuf>,
    /// Its private key.
    pub tls_key: Option<PathBuf>,
    /// The authorities whose certificates are taken.
    pub tls_ca: Option<PathBuf>,
    /// The name that all certificates have.
    pub tls_name: Option<String>,
}

/// Who may see what a job does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Processes say what they do.
    pub is_on: bool,
    /// Where; this machine only without it.
    pub host: Option<String>,
    /// Where the page is, if there is one; empty: at its usual place.
    pub web: Option<String>,
    /// Where numbers for TensorBoard go.
    pub tensorboard: Option<PathBuf>,
}

/// What `watch` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedProcesses {
    /// Where they answer.
    pub addresses: Vec<String>,
    /// How they are shown.
    pub watch: WatchOptions,
    /// Where numbers go.
    pub jsonl: Option<PathBuf>,
}

/// What `launch` was asked for. None: not asked.
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
    /// Say what is started.
    pub is_verbose: bool,
    /// Who may take part.
    pub safety: SafetyOptions,
    /// Who may see what the job does.
    pub watch: WatchOptions,
    /// What to start.
    pub script: ScriptCommand,
}

/// What `scale` was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleOptions {
    /// The folder of snapshots of the job.
    pub folder: PathBuf,
    /// Servers it should have.
    pub n_servers: usize,
    /// How long to wait for it.
    pub patience: Duration,
}

/// Reads the command line of `scale`; None when it asks for help.
pub fn scale(arguments: &[String]) -> Result<Option<ScaleOptions>> {
    // Options may be on both sides of the folder.
    let at = arguments.iter().position(|argument| !argument.starts_with('-'));
    let arguments = match at {
        Some(0) => [&arguments[1..], &arguments[..1]].concat(),
        _ => arguments.to_vec(),
    };
    let read = Given::read(&arguments, &["--servers", "--wait_secs"], &[]);
    let missing = |error| match error {
        Error::Usage(Usage::NoScript) => Usage::NoFolder.into(),
        other => other,
    };
    let Some(given) = read.map_err(missing)? else { return Ok(None) };
    if let Some(surplus) = given.script.arguments.first() {
        return Err(Usage::Surplus(surplus.clone()).into());
    }
    let n_servers = given.number("--servers")?.ok_or(Usage::NoValue("--servers".to_string()))?;
    if n_servers == 0 {
        return Err(Usage::Nobody("server").into());
    }
    let patience = given.seconds("--wait_secs", ABOVE_ZERO)?.unwrap_or(SCALE_PATIENCE);
    Ok(Some(ScaleOptions { folder: given.script.path, n_servers, patience }))
}

/// Reads the command line of `launch_ps`; None when it asks for help.
pub fn ps(arguments: &[String]) -> Result<Option<PsOptions>> {
    let names = [
        "--worker_num",
        "--server_num",
        "--start_port",
        "--endpoints",
        "--log_dir",
        "--log_format",
        "--cluster_node_ips",
        "--node_ip",
        "--print_config",
        "--snapshot_dir",
        "--snapshot_secs",
        "--resume",
        "--max_restarts",
        "--grace_secs",
        "--secret_file",
        "--save_root",
        "--tls_cert",
        "--tls_key",
        "--tls_ca",
        "--tls_name",
        "--tensorboard",
        "--metrics",
        "--metrics_host",
    ];
    let Some(given) = Given::read(arguments, &names, &["--insecure", TLS, WEB])? else {
        return Ok(None);
    };
    let endpoints = given.items("--endpoints");
    let endpoints: ps::Result<Vec<Endpoint>> = endpoints.iter().map(|text| text.parse()).collect();
    Ok(Some(PsOptions {
        n_trainers: given.number("--worker_num")?.unwrap_or(2),
        n_servers: given.number("--server_num")?,
        start_port: given.port("--start_port")?,
        endpoints: endpoints?,
        is_placed: false,
        log_dir: given.value("--log_dir").unwrap_or("logs").into(),
        own_logs: given.value("--log_dir").is_none(),
        log_format: given.log_format()?,
        nodes: given.items("--cluster_node_ips"),
        node: given.value("--node_ip").map(str::to_string),
        is_verbose: given.is_true("--print_config")?,
        recovery: RecoveryOptions {
            max_restarts: given.number("--max_restarts")?,
            snapshot_dir: given.value("--snapshot_dir").map(PathBuf::from),
            snapshot_every: given.seconds("--snapshot_secs", ABOVE_ZERO)?,
            resume: given.value("--resume").map(PathBuf::from),
            grace: given.seconds("--grace_secs", FROM_ZERO)?,
        },
        safety: given.safety(),
        watch: given.watch(true)?,
        script: given.script,
    }))
}

/// Reads the command line of `launch`; None when it asks for help.
pub fn collective(arguments: &[String]) -> Result<Option<CollectiveOptions>> {
    let names = [
        "--nproc_per_node",
        "--cluster_node_ips",
        "--node_ip",
        "--started_port",
        "--selected_gpus",
        "--log_dir",
        "--log_format",
        "--log_level",
        "--max_restarts",
        "--print_config",
        "--secret_file",
        "--tls_cert",
        "--tls_key",
        "--tls_ca",
        "--tls_name",
        "--tensorboard",
        "--metrics",
        "--metrics_host",
    ];
    let switches = ["--use_paddlecloud", "--insecure", TLS, WEB];
    let Some(given) = Given::read(arguments, &names, &switches)? else {
        return Ok(None);
    };
    let gpus = given.items("--selected_gpus");
    let _: Option<usize> = given.number("--log_level")?;
    Ok(Some(CollectiveOptions {
        n_processes: given.number("--nproc_per_node")?.unwrap_or(gpus.len().max(1)),
        nodes: given.items("--cluster_node_ips"),
        node: given.value("--node_ip").map(str::to_string),
        start_port: given.port("--started_port")?,
        gpus,
        log_dir: given.value("--log_dir").map(PathBuf::from),
        log_format: given.log_format()?,
        max_restarts: given.number("--max_restarts")?.unwrap_or(0),
        is_cloud: given.value("--use_paddlecloud").is_some(),
        is_verbose: given.is_true("--print_config")?,
        safety: given.safety(),
        watch: given.watch(false)?,
        script: given.script,
    }))
}

/// Reads the command line of `watch`; None when it asks for help.
pub fn watch(arguments: &[String]) -> Result<Option<WatchedProcesses>> {
    let names = ["--tensorboard", "--jsonl"];
    let read = Given::read(arguments, &names, &[WEB]);
    let missing = |error| match error {
        Error::Usage(Usage::NoScript) => Usage::NoProcess.into(),
        other => other,
    };
    let Some(given) = read.map_err(missing)? else { return Ok(None) };
    let first = given.script.path.to_string_lossy().into_owned();
    let addresses = std::iter::once(&first).chain(&given.script.arguments);
    let addresses: Vec<String> = addresses
        .map(|text| text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()))
        .collect::<ps::Result<_>>()?;
    let jsonl = given.value("--jsonl").map(PathBuf::from);
    Ok(Some(WatchedProcesses { addresses, watch: given.watch(true)?, jsonl }))
}

impl Given {
    fn log_format(&self) -> Result<Option<LogFormat>> {
        let (option, expected) = ("--log_format", "text or json");
        let Some(value) = self.value(option) else { return Ok(None) };
        let bad = || Usage::BadValue { option, value: value.to_string(), expected };
        Ok(Some(LogFormat::named(value).ok_or_else(bad)?))
    }

    fn safety(&self) -> SafetyOptions {
        SafetyOptions {
            secret_file: self.value("--secret_file").map(PathBuf::from),
            insecure: self.value("--insecure").is_some(),
            save_root: self.value("--save_root").map(str::to_string),
            tls: self.value(TLS).is_some(),
            tls_cert: self.value("--tls_cert").map(PathBuf::from),
            tls_key: self.value("--tls_key").map(PathBuf::from),
            tls_ca: self.value("--tls_ca").map(PathBuf::from),
            tls_name: self.value("--tls_name").map(str::to_string),
        }
    }

    /// Who may see what a job does.
    fn watch(&self, is_usual: bool) -> Result<WatchOptions> {
        let web = self.value(WEB).map(str::to_string);
        let bad = |value: &String| Usage::BadValue {
            option: WEB,
            value: value.clone(),
            expected: "HOST:PORT",
        };
        if let Some(address) = web.as_ref().filter(|address| !address.is_empty()) {
            address.parse::<Endpoint>().map_err(|_| bad(address))?;
        }
        let tensorboard = self.value("--tensorboard").map(PathBuf::from);
        let is_wanted = is_usual || web.is_some() || tensorboard.is_some();
        let is_on = match self.value("--metrics") {
            Some(_) => self.is_true("--metrics")?,
            None => is_wanted,
        };
        let host = self.value("--metrics_host").map(str::to_string);
        Ok(WatchOptions { is_on, host, web, tensorboard })
    }
}

#[cfg(test)]
mod tests;
