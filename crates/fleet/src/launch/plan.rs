//! The processes of a job on this machine, and the variables of each.

use std::path::{Path, PathBuf};

use base::Endpoint;
use monitor::job::Board;

use super::options::{CollectiveOptions, PsOptions, ScriptCommand};
use super::ports::{METRICS_START, Ports, START};
use super::restarts::Policy;
use super::secret::SecretVars;
use crate::env::{EnvVars, LAST_STATE, METRICS_PORT, PROXIES};
use crate::error::{Result, Usage};
use crate::role::RoleKind;
use crate::watching::HERE;

/// The programs that run scripts.
#[derive(Clone, Debug)]
pub struct Host {
    /// The interpreter of `.py` scripts.
    pub python: PathBuf,
    /// A folder that goes before all others in `PYTHONPATH`: there, `paddle` is ours.
    pub alias: Option<PathBuf>,
    /// The command that is `paddlewheel`, where an engine starts processes.
    pub program: Vec<String>,
}

/// A process to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its name in messages: `server 0`, `worker 1`.
    pub(crate) name: String,
    /// Its role.
    pub(crate) kind: RoleKind,
    /// Its number among those that do the same, on all machines.
    pub(crate) id: usize,
    /// Variables that are set for it.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// The file of its output.
    pub(crate) log: Option<PathBuf>,
}

impl Process {
    /// Sets a variable, to another value if it has one.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.to_string()));
    }
}

/// The default number of servers of a job.
pub(crate) const N_SERVERS: usize = 2;

/// All that is started on this machine.
#[derive(Debug)]
pub(crate) struct Job {
    /// Servers first, then trainers.
    pub(crate) processes: Vec<Process>,
    /// Servers on all machines.
    pub(crate) n_servers: usize,
    /// Servers that it was started with, if their number was changed while it ran.
    pub(crate) n_began: Option<usize>,
    /// Trainers on all machines.
    pub(crate) n_trainers: usize,
    /// The script of each of them.
    pub(crate) script: ScriptCommand,
    /// Whether other machines are part of it: then servers outlive the trainers of this one.
    pub(crate) is_wide: bool,
    /// Whether it continues without trainers that fail, as long as there are others.
    pub(crate) tolerates_lost_trainers: bool,
    /// The reaction to the death of a process.
    pub(crate) policy: Policy,
    /// The folder of snapshots, if there is one.
    pub(crate) snapshots: Option<PathBuf>,
    /// The other machines that have servers.
    pub(crate) server_nodes: Vec<String>,
    /// Why it cannot get another number of servers while it runs, if so.
    pub(crate) fixed_size: Option<&'static str>,
    /// The variables of access, for all processes.
    pub(crate) shared: SecretVars,
    /// The board with the states of processes, if the job is monitored.
    pub(crate) board: Option<Board>,
    /// The lines to print at the start.
    pub(crate) lines: Vec<String>,
    /// The ports, ours until the job is over.
    pub(crate) _ports: Ports,
}

/// Variables that would contradict those that are set, and proxies.
pub(crate) fn unset() -> impl Iterator<Item = &'static str> {
    let roles =
        ["PADDLE_TRAINER_ID", "PADDLE_PSERVER_ID", "PADDLE_PORT", "POD_IP", "PADDLE_RESTARTS"];
    roles.into_iter().chain(PROXIES.iter().copied())
}

/// The program and arguments that run a script: Python for `.py`, anything else by itself.
pub(crate) fn command(script: &ScriptCommand, host: &Host) -> (PathBuf, Vec<String>) {
    let path = script.path.to_string_lossy().into_owned();
    if script.is_python() {
        let arguments = ["-u".to_string(), path].into_iter();
        return (host.python.clone(), arguments.chain(script.arguments.iter().cloned()).collect());
    }
    // Without a slash, the system would look for it in PATH instead of here.
    let is_bare = script.path.components().count() == 1;
    let path = if is_bare { Path::new(".").join(&script.path) } else { script.path.clone() };
    (path, script.arguments.clone())
}

/// The machines of a job, and which of them this is.
struct Nodes {
    all: Vec<String>,
    own: usize,
}

impl Nodes {
    fn new(all: Vec<String>, own: Option<String>) -> Result<Self> {
        let own = match (own, all.as_slice()) {
            (Some(own), _) => own,
            (None, []) => "127.0.0.1".to_string(),
            (None, [only]) => only.clone(),
            (None, _) => "127.0.0.1".to_string(),
        };
        let all = if all.is_empty() { vec![own.clone()] } else { all };
        let at = all.iter().position(|node| *node == own);
        let own = at.ok_or_else(|| Usage::NotANode { node: own, nodes: all.clone() })?;
        Ok(Self { all, own })
    }

    fn own(&self) -> &str {
        &self.all[self.own]
    }

    fn is_wide(&self) -> bool {
        self.all.len() > 1
    }
}

/// Plans a job with parameter servers.
pub(crate) fn ps(options: PsOptions) -> Result<Job> {
    let mut ports = Ports::default();
    let mut lines = Vec::new();
    let is_listed = !options.endpoints.is_empty();
    let hosts = || unique(options.endpoints.iter().map(|endpoint| endpoint.host.clone()));
    let nodes = match (options.nodes.is_empty(), &options.node) {
        (true, Some(_)) if is_listed => hosts(),
        _ => options.nodes.clone(),
    };
    let nodes = Nodes::new(nodes, options.node.clone())?;
    check_unique(&options.endpoints)?;
    // A list of end points without a word about machines is all for this one, as in Fluid.
    let is_whole = options.node.is_none() && !nodes.is_wide();
    let servers = if is_listed {
        options.endpoints.clone()
    } else {
        endpoints(&options, &nodes, &mut ports, &mut lines)?
    };
    let is_here = |server: &Endpoint| is_whole || server.host == nodes.own();
    let own: Vec<_> = (0..servers.len()).filter(|&at| is_here(&servers[at])).collect();
    if is_listed && !options.is_placed {
        if options.n_servers.is_some_and(|n| n != own.len()) {
            let (n_servers, n_endpoints) = (options.n_servers.unwrap_or(0), own.len());
            return Err(Usage::ServerCount { n_servers, n_endpoints }.into());
        }
        let own: Vec<_> = own.iter().map(|&at| servers[at].clone()).collect();
        ports.take(&own, "--endpoints")?;
    }
    let n_trainers = nodes.all.len() * options.n_trainers;
    if n_trainers == 0 || servers.is_empty() {
        return Err(Usage::Nobody(if n_trainers == 0 { "trainer" } else { "server" }).into());
    }
    let list = joined(&servers);
    if options.is_verbose {
        let logs = options.log_dir.display();
        lines.push(format!(
            "servers {list}, {n_trainers} trainers; here {} servers and {} trainers, logs in {logs}",
            own.len(),
            options.n_trainers
        ));
    }
    let fixed_size = match (is_listed, nodes.is_wide()) {
        (_, true) => Some("it runs on several machines; stop it and start it again with --resume"),
        (true, _) => {
            Some("--endpoints lists its servers; stop it and start it again with --resume")
        }
        (false, false) => None,
    };
    let whole = WholeJob { nodes: &nodes, servers: &servers, n_trainers };
    let processes = whole.processes(&options, &own);
    Ok(Job {
        processes,
        n_servers: servers.len(),
        n_began: None,
        n_trainers,
        script: options.script.clone(),
        is_wide: nodes.is_wide(),
        tolerates_lost_trainers: false,
        policy: Policy::default(),
        snapshots: None,
        server_nodes: unique(servers.iter().map(|server| server.host.clone()))
            .into_iter()
            .filter(|host| !is_whole && host != nodes.own())
            .collect(),
        fixed_size,
        shared: SecretVars::default(),
        board: None,
        lines,
        _ports: ports,
    })
}

/// Other servers for a job on this machine: as many as `n`, at ports of their own, started for the
/// `turn`-th change of their number.
pub(crate) fn other_servers(job: &Job, n: usize, turn: usize) -> Result<OtherServers> {
    let is_server = |process: &&Process| process.kind == RoleKind::Server;
    let like = job.processes.iter().find(is_server).ok_or(Usage::Nobody("server"))?;
    let host = like.variables.iter().find(|(name, _)| *name == "POD_IP");
    let host = host.map_or("127.0.0.1", |(_, host)| host.as_str()).to_string();
    let mut ports = Ports::default();
    let start = ports.choose(&host, START, n)?;
    let all: Vec<_> =
        (0..n).map(|at| Endpoint { host: host.clone(), port: start + at as u16 }).collect();
    let metrics = job.board.as_ref().and_then(|_| ports.choose(HERE, METRICS_START, n).ok());
    let list = joined(&all);
    let server = |(at, endpoint): (usize, &Endpoint)| {
        let mut process = Process { name: format!("server {at}"), id: at, ..like.clone() };
        let log = |log: &PathBuf| log.with_file_name(format!("serverlog.{at}.{turn}"));
        process.log = like.log.as_ref().map(log);
        process.set("PADDLE_PSERVERS_IP_PORT_LIST", &list);
        process.set("PADDLE_PORT", &endpoint.port.to_string());
        process.set("PADDLE_PSERVER_ID", &at.to_string());
        process.set("FLAGS_standby", "1");
        if let Some(folder) = &job.snapshots {
            process.set("FLAGS_resume", &folder.to_string_lossy());
        }
        // Otherwise two processes would answer at one port.
        process.variables.retain(|(name, _)| *name != METRICS_PORT[0] && *name != LAST_STATE[0]);
        if let Some(first) = metrics {
            process.set(METRICS_PORT[0], &(first + at as u16).to_string());
        }
        process
    };
    let processes = all.iter().enumerate().map(server).collect();
    let endpoints = all.iter().map(Endpoint::to_string).collect();
    Ok(OtherServers { processes, endpoints, ports })
}

/// Servers that take the place of others.
#[derive(Debug)]
pub(crate) struct OtherServers {
    pub(crate) processes: Vec<Process>,
    /// Where each of them listens.
    pub(crate) endpoints: Vec<String>,
    /// The ports, theirs until the job is over.
    pub(crate) ports: Ports,
}

/// All machines, servers and trainers of a job.
struct WholeJob<'a> {
    nodes: &'a Nodes,
    servers: &'a [Endpoint],
    n_trainers: usize,
}

impl WholeJob<'_> {
    /// The processes of this machine: these servers, and its trainers.
    fn processes(&self, options: &PsOptions, own: &[usize]) -> Vec<Process> {
        let (list, n_trainers) = (joined(self.servers), self.n_trainers);
        let shared = |kind: &str| {
            let kind = kind.to_string();
            vec![
                ("PADDLE_PSERVERS_IP_PORT_LIST", list.clone()),
                ("PADDLE_TRAINERS_NUM", n_trainers.to_string()),
                ("TRAINING_ROLE", kind.clone()),
                ("PADDLE_TRAINING_ROLE", kind),
            ]
        };
        let server = |&at: &usize| {
            let mut variables = shared("PSERVER");
            variables.push(("PADDLE_PORT", self.servers[at].port.to_string()));
            variables.push(("POD_IP", self.servers[at].host.clone()));
            variables.push(("PADDLE_PSERVER_ID", at.to_string()));
            let log = Some(options.log_dir.join(format!("serverlog.{at}")));
            Process { name: format!("server {at}"), kind: RoleKind::Server, id: at, variables, log }
        };
        let trainer = |at: usize| {
            let id = self.nodes.own * options.n_trainers + at;
            let mut variables = shared("TRAINER");
            variables.push(("PADDLE_TRAINER_ID", id.to_string()));
            let log = Some(options.log_dir.join(format!("workerlog.{id}")));
            Process { name: format!("worker {id}"), kind: RoleKind::Trainer, id, variables, log }
        };
        let mut processes: Vec<_> = own.iter().map(server).collect();
        processes.extend((0..options.n_trainers).map(trainer));
        processes
    }
}

/// Two servers cannot listen on one port.
fn check_unique(endpoints: &[Endpoint]) -> Result<()> {
    let twice = (1..endpoints.len()).find(|&at| endpoints[..at].contains(&endpoints[at]));
    twice.map_or(Ok(()), |at| Err(Usage::EndpointTwice(endpoints[at].clone()).into()))
}

/// The servers of all machines, from the same port on each. On several machines, all launchers must
/// come to the same list, so the port is not theirs to choose.
fn endpoints(
    options: &PsOptions,
    nodes: &Nodes,
    ports: &mut Ports,
    lines: &mut Vec<String>,
) -> Result<Vec<Endpoint>> {
    let n = options.n_servers.unwrap_or(N_SERVERS);
    let option = PortOption { name: "--start_port", value: options.start_port };
    let start = first_port(option, nodes, n, ports, lines)?;
    Ok(spread(nodes, start, n))
}

/// An option that says the first port.
#[derive(Clone, Copy)]
struct PortOption {
    name: &'static str,
    /// Nothing if the user has not given it.
    value: Option<u16>,
}

/// The first of `n` ports on this machine.
fn first_port(
    option: PortOption,
    nodes: &Nodes,
    n: usize,
    ports: &mut Ports,
    lines: &mut Vec<String>,
) -> Result<u16> {
    if let Some(start) = option.value.or(nodes.is_wide().then_some(START)) {
        if usize::from(start) + n > 1 + usize::from(u16::MAX) {
            let (value, expected) = (start.to_string(), "low enough for a port each");
            return Err(Usage::BadValue { option: option.name, value, expected }.into());
        }
        let own = Nodes { all: vec![nodes.own().to_string()], own: 0 };
        ports.take(&spread(&own, start, n), option.name)?;
        return Ok(start);
    }
    let start = ports.choose(nodes.own(), START, n)?;
    if start != START {
        lines.push(format!("port {START} is taken, using {start} and those behind it"));
    }
    Ok(start)
}

/// `n` end points on each machine.
fn spread(nodes: &Nodes, start: u16, n: usize) -> Vec<Endpoint> {
    let on = |host: &String| {
        let host = host.clone();
        (0..n).map(move |at| Endpoint { host: host.clone(), port: start + at as u16 })
    };
    nodes.all.iter().flat_map(on).collect()
}

/// Plans a job of trainers alone.
pub(crate) fn collective(
    options: CollectiveOptions,
    var: &dyn Fn(&str) -> Option<String>,
) -> Result<Job> {
    let (mut ports, mut lines) = (Ports::default(), Vec::new());
    let (all, own) = if options.is_cloud {
        cloud_nodes(EnvVars(var))?
    } else {
        (options.nodes.clone(), options.node.clone())
    };
    let nodes = Nodes::new(all, own)?;
    let n = options.n_processes;
    if n == 0 {
        return Err(Usage::Nobody("trainer").into());
    }
    let option = PortOption { name: "--started_port", value: options.start_port };
    let start = first_port(option, &nodes, n, &mut ports, &mut lines)?;
    let endpoints = spread(&nodes, start, n);
    let list = joined(&endpoints);
    if options.is_verbose {
        lines.push(format!("trainers {list}; here {n}"));
    }
    let trainer = |at: usize| {
        let id = nodes.own * n + at;
        let gpu = options.gpus.get(at).cloned().unwrap_or_else(|| at.to_string());
        let mut variables = vec![
            ("FLAGS_selected_gpus", gpu),
            ("PADDLE_TRAINER_ID", id.to_string()),
            ("PADDLE_CURRENT_ENDPOINT", endpoints[id].to_string()),
            ("PADDLE_TRAINERS_NUM", endpoints.len().to_string()),
            ("PADDLE_TRAINER_ENDPOINTS", list.clone()),
            ("TRAINING_ROLE", "TRAINER".to_string()),
            ("PADDLE_TRAINING_ROLE", "TRAINER".to_string()),
        ];
        if options.max_restarts > 0 {
            variables.push(("FLAGS_max_restarts", options.max_restarts.to_string()));
        }
        let log = options.log_dir.as_ref().map(|folder| folder.join(format!("workerlog.{at}")));
        Process { name: format!("worker {id}"), kind: RoleKind::Trainer, id, variables, log }
    };
    let processes = (0..n).map(trainer).collect();
    Ok(Job {
        processes,
        n_servers: 0,
        n_began: None,
        n_trainers: endpoints.len(),
        script: options.script.clone(),
        is_wide: nodes.is_wide(),
        tolerates_lost_trainers: false,
        policy: Policy { max_restarts: options.max_restarts, ..Policy::default() },
        snapshots: None,
        server_nodes: Vec::new(),
        fixed_size: Some("it has no servers"),
        shared: SecretVars::default(),
        board: None,
        lines,
        _ports: ports,
    })
}

/// The machines that the platform says there are.
fn cloud_nodes(vars: EnvVars<'_>) -> Result<(Vec<String>, Option<String>)> {
    let all = vars.need(&["PADDLE_TRAINERS"])?;
    let own = vars.need(&["POD_IP"])?;
    let items = all.value.split(',').map(|item| item.trim().to_string());
    Ok((items.filter(|item| !item.is_empty()).collect(), Some(own.value)))
}

fn unique(items: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

fn joined(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
