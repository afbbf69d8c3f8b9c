//! The launchers' command lines: Fluid's options before the script, the script's own after it.

use std::path::PathBuf;
use std::time::Duration;

use ps::Endpoint;
use tensor::DidYouMean;

use crate::error::{Error, Result, Usage};

/// What `launch_ps --help` says.
pub const PS_USAGE: &str = "\
usage: launch_ps [options] script [arguments]
  --worker_num N          trainers on this machine (2)
  --server_num N          servers on this machine (2)
  --start_port P          first port of the servers (6170, or others if that is taken)
  --endpoints LIST        the servers, ip:port,ip:port
  --log_dir DIR           where serverlog.N and workerlog.N go (logs; inside of it, into job.PID, while
                          another job writes there)
  --cluster_node_ips IPS  all machines of the job, ip,ip; start a launcher on each of them
  --node_ip IP            this machine
  --print_config BOOL     say what is started (True)
  --snapshot_dir DIR      where snapshots of the job go; a launcher that is started again with the same
                          folder goes on where the job was (LOG_DIR/snapshots if only
                          --snapshot_secs or --max_restarts is given)
  --snapshot_secs S       how often snapshots are written (1)
  --resume DIR            go on from the snapshots in DIR, also with other numbers of processes
  --max_restarts N        how often a process that died is started again within 10 minutes (5 with
                          snapshots, otherwise 0: the job ends)
  --grace_secs S          how long processes may take to end after SIGTERM (30 with snapshots,
                          otherwise 3)
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
  --log_level N           accepted
  --max_restarts N        how often a process that died is started again within 10 minutes (0); all
                          processes end when one dies, so the script must go on from a checkpoint
  --use_paddlecloud       machines from PADDLE_TRAINERS, this one from POD_IP
  --print_config BOOL     say what is started (True)
The script is a Python script (.py) or any executable.";

/// What `scale --help` says.
pub const SCALE_USAGE: &str = "\
usage: scale DIR --servers N [--wait_secs S]
  DIR            the folder of snapshots (--snapshot_dir) of a job that runs on this machine
  --servers N    how many servers it should have from now on
  --wait_secs S  how long to wait for that (120)";

/// How long a job may take to change its size.
const SCALE_PATIENCE: Duration = Duration::from_secs(120);

/// A rule for times.
pub(crate) const FROM_ZERO: &str = "a number of seconds, 0 or more";
/// Another rule for times.
pub(crate) const ABOVE_ZERO: &str = "a number of seconds above 0";

/// What to start, and with which arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCommand {
    /// The script or executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

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
    /// All machines of the job.
    pub nodes: Vec<String>,
    /// This machine.
    pub node: Option<String>,
    /// Say what is started.
    pub is_verbose: bool,
    /// What happens when a process dies.
    pub recovery: RecoveryOptions,
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
    /// How often a process that died is started again.
    pub max_restarts: usize,
    /// Machines from the platform's variables.
    pub is_cloud: bool,
    /// Say what is started.
    pub is_verbose: bool,
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
        "--cluster_node_ips",
        "--node_ip",
        "--print_config",
        "--snapshot_dir",
        "--snapshot_secs",
        "--resume",
        "--max_restarts",
        "--grace_secs",
    ];
    let Some(given) = Given::read(arguments, &names, &[])? else { return Ok(None) };
    let endpoints = given.items("--endpoints");
    let endpoints: ps::Result<Vec<Endpoint>> = endpoints.iter().map(|text| text.parse()).collect();
    Ok(Some(PsOptions {
        n_trainers: given.number("--worker_num")?.unwrap_or(2),
        n_servers: given.number("--server_num")?,
        start_port: given.port("--start_port")?,
        endpoints: endpoints?,
        is_placed: false,
        log_dir: given.value("--log_dir").unwrap_or("logs").into(),
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
        "--log_level",
        "--max_restarts",
        "--print_config",
    ];
    let Some(given) = Given::read(arguments, &names, &["--use_paddlecloud"])? else {
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
        max_restarts: given.number("--max_restarts")?.unwrap_or(0),
        is_cloud: given.value("--use_paddlecloud").is_some(),
        is_verbose: given.is_true("--print_config")?,
        script: given.script,
    }))
}

/// Options as they were written, and the script behind them.
pub(crate) struct Given {
    values: Vec<(&'static str, String)>,
    pub(crate) script: ScriptCommand,
}

impl Given {
    pub(crate) fn read(
        arguments: &[String],
        names: &[&'static str],
        switches: &[&'static str],
    ) -> Result<Option<Self>> {
        let (mut values, mut rest) = (Vec::new(), arguments.iter());
        let path = loop {
            let argument = rest.next().ok_or(Usage::NoScript)?;
            if argument == "-h" || argument == "--help" {
                return Ok(None);
            }
            if argument == "--" {
                break rest.next().ok_or(Usage::NoScript)?;
            }
            if !argument.starts_with('-') {
                break argument;
            }
            if let Some(switch) = switches.iter().find(|switch| *switch == argument) {
                values.push((*switch, String::new()));
                continue;
            }
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (argument.as_str(), None),
            };
            let known = names.iter().find(|known| **known == name);
            let known = known.ok_or_else(|| {
                let near = DidYouMean::among(name, names.iter().chain(switches).copied());
                Usage::UnknownOption { option: name.to_string(), near }
            })?;
            let value = value.or_else(|| rest.next().cloned());
            values.push((known, value.ok_or_else(|| Usage::NoValue(name.to_string()))?));
        };
        let script = ScriptCommand { path: path.into(), arguments: rest.cloned().collect() };
        Ok(Some(Self { values, script }))
    }

    /// What was given last; an empty value is none, as for Fluid's `--endpoints ""`.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().rev().find(|(known, _)| *known == name);
        let is_switch = name == "--use_paddlecloud";
        found.map(|(_, value)| value.as_str()).filter(|value| is_switch || !value.is_empty())
    }

    pub(crate) fn items(&self, name: &str) -> Vec<String> {
        let items = self.value(name).unwrap_or("").split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).map(str::to_string).collect()
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<Option<usize>> {
        /// More processes than any machine runs is a slip of the finger.
        const MAX: usize = 10_000;
        let Some(value) = self.value(name) else { return Ok(None) };
        let expected = "a number from 0 to 10000";
        match value.parse() {
            Ok(number) if number <= MAX => Ok(Some(number)),
            _ => Err(Usage::BadValue { option: name, value: value.into(), expected }.into()),
        }
    }

    /// A time; `expected` is one of the two rules for it.
    pub(crate) fn seconds(
        &self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<Option<Duration>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let seconds = value.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
        match seconds.filter(|time| expected == FROM_ZERO || !time.is_zero()) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(Usage::BadValue { option: name, value: value.into(), expected }.into()),
        }
    }

    pub(crate) fn port(&self, name: &'static str) -> Result<Option<u16>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let expected = "a port from 1 to 65535";
        match value.parse() {
            Ok(port) if port > 0 => Ok(Some(port)),
            _ => Err(Usage::BadValue { option: name, value: value.into(), expected }.into()),
        }
    }

    fn is_true(&self, name: &'static str) -> Result<bool> {
        match self.value(name).unwrap_or("True") {
            "True" | "true" | "1" => Ok(true),
            "False" | "false" | "0" => Ok(false),
            other => {
                let expected = "True or False";
                Err(Usage::BadValue { option: name, value: other.into(), expected }.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn defaults_are_fluids() {
        let options = ps(&words("train.py --is_cloud=1 --worker_num 9")).unwrap().unwrap();
        assert_eq!((options.n_trainers, options.n_servers, options.start_port), (2, None, None));
        assert_eq!(options.log_dir, PathBuf::from("logs"));
        assert!(options.is_verbose && options.nodes.is_empty() && options.node.is_none());
        assert_eq!(options.script.path, PathBuf::from("train.py"));
        assert_eq!(options.script.arguments, ["--is_cloud=1", "--worker_num", "9"]);
    }

    #[test]
    fn options_in_both_spellings() {
        let line = "--worker_num=3 --server_num 1 --endpoints a:1,b:2 --start_port 7000 \
                    --cluster_node_ips 10.0.0.1,10.0.0.2 --node_ip=10.0.0.2 --log_dir /tmp/l \
                    --print_config False ./train";
        let options = ps(&words(line)).unwrap().unwrap();
        assert_eq!((options.n_trainers, options.n_servers), (3, Some(1)));
        assert_eq!(options.start_port, Some(7000));
        assert_eq!(options.endpoints[1].to_string(), "b:2");
        assert_eq!(options.nodes, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(options.node.as_deref(), Some("10.0.0.2"));
        assert!(!options.is_verbose);
        let all = "--nproc_per_node 2 --selected_gpus=0,1,2 --use_paddlecloud --log_level 20 x.py";
        let options = collective(&words(all)).unwrap().unwrap();
        assert_eq!((options.n_processes, options.gpus.len(), options.is_cloud), (2, 3, true));
        let gpus = collective(&words("--selected_gpus 0,1 x.py")).unwrap().unwrap();
        assert_eq!((gpus.n_processes, gpus.log_dir), (2, None));
    }

    #[test]
    fn what_happens_when_a_process_dies() {
        let none = ps(&words("x.py")).unwrap().unwrap().recovery;
        assert_eq!(none, RecoveryOptions::default());
        let line = "--snapshot_dir s --snapshot_secs 0.5 --resume=r --max_restarts 7 \
                    --grace_secs 0 x.py";
        let all = RecoveryOptions {
            max_restarts: Some(7),
            snapshot_dir: Some("s".into()),
            snapshot_every: Some(Duration::from_millis(500)),
            resume: Some("r".into()),
            grace: Some(Duration::ZERO),
        };
        assert_eq!(ps(&words(line)).unwrap().unwrap().recovery, all);
    }

    #[test]
    fn a_job_is_scaled_by_its_folder() {
        let wanted =
            ScaleOptions { folder: "snap".into(), n_servers: 3, patience: Duration::from_secs(7) };
        for line in ["snap --servers 3 --wait_secs 7", "--servers=3 --wait_secs 7 snap"] {
            assert_eq!(scale(&words(line)).unwrap().unwrap(), wanted, "{line}");
        }
        assert_eq!(scale(&words("-h")).unwrap(), None);
        let refused = |line: &str| match scale(&words(line)) {
            Err(Error::Usage(usage)) => usage,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(refused("--servers 3"), Usage::NoFolder);
        assert_eq!(refused("snap"), Usage::NoValue("--servers".into()));
        assert_eq!(refused("snap --servers 0"), Usage::Nobody("server"));
        assert_eq!(refused("--servers 2 snap more"), Usage::Surplus("more".into()));
    }

    #[test]
    fn help_is_no_job() {
        assert_eq!(ps(&words("--help")).unwrap(), None);
        assert_eq!(collective(&words("-h")).unwrap(), None);
    }

    #[test]
    fn refusals_name_the_option() {
        let check = |line: &str, expected: Usage| match ps(&words(line)) {
            Err(Error::Usage(usage)) => assert_eq!(usage, expected),
            other => panic!("{line}: {other:?}"),
        };
        check("", Usage::NoScript);
        check("--worker_num 2", Usage::NoScript);
        check("--worker_num", Usage::NoValue("--worker_num".into()));
        let unknown = |option: &str, near: Option<&str>| {
            let near = DidYouMean(near.map(str::to_string));
            Usage::UnknownOption { option: option.into(), near }
        };
        check("--threads 2 x.py", unknown("--threads", None));
        check("--woker_num 2 x.py", unknown("--woker_num", Some("--worker_num")));
        let bad = |option, value: &str, expected| Usage::BadValue {
            option,
            value: value.into(),
            expected,
        };
        let number = "a number from 0 to 10000";
        check("--worker_num two x.py", bad("--worker_num", "two", number));
        check("--server_num 99999 x.py", bad("--server_num", "99999", number));
        check("--start_port 0 x.py", bad("--start_port", "0", "a port from 1 to 65535"));
        check("--print_config maybe x.py", bad("--print_config", "maybe", "True or False"));
        check("--max_restarts -1 x.py", bad("--max_restarts", "-1", number));
        check("--snapshot_secs -1 x.py", bad("--snapshot_secs", "-1", ABOVE_ZERO));
        check("--snapshot_secs 0 x.py", bad("--snapshot_secs", "0", ABOVE_ZERO));
        check("--grace_secs nan x.py", bad("--grace_secs", "nan", FROM_ZERO));
        check("--max_restart 1 x.py", unknown("--max_restart", Some("--max_restarts")));
        assert!(matches!(ps(&words("--endpoints a x.py")), Err(Error::Endpoint(_))));
    }
}
