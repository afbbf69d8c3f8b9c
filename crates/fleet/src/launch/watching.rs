//! Lets the processes of a job report their work, and shows it: on a page, in files, and in words at the end.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base::EvenIfPoisoned;
use monitor::job::{
    Board, Collector, CollectorSettings, Condition, ScrapeTarget, TargetFile, Told,
};

use super::console::Console;
use super::options::{WatchOptions, WatchedProcesses};
use super::plan::{Job, Process};
use super::ports::{METRICS_START, Ports};
use crate::env::{LAST_STATE, METRICS_HOST, METRICS_PORT, OWN_IP};
use crate::error::Result;
use crate::role::RoleKind;
use crate::signals::Signals;
use crate::watching::HERE;

/// Where the page is, without a word about it.
pub(super) const PAGE: &str = "127.0.0.1:8790";
/// The file of numbers, in the folder of logs.
const NUMBERS: &str = "metrics.jsonl";
/// The file that says where processes answer, in the folder of logs.
const TARGETS: &str = "targets.json";

/// The monitor of a job, as long as it runs.
#[derive(Debug)]
pub(super) struct JobWatch {
    collector: Collector,
    targets: Option<Mutex<TargetFile>>,
    /// The ports of processes, theirs until the job is over.
    _ports: Ports,
}

impl JobWatch {
    /// Gives each process a port, and begins to ask them. A job that cannot be watched is told so and runs
    /// all the same.
    pub(super) fn start(
        job: &mut Job,
        options: &WatchOptions,
        logs: Option<&Path>,
        console: &mut Console,
    ) -> Option<Self> {
        if !options.is_on {
            return None;
        }
        let ports = match give_ports(job, options, logs) {
            Ok(ports) => ports,
            Err(error) => {
                console.say(&format!("the job continues without monitoring: {error}"));
                return None;
            }
        };
        let board = Board::new(job.processes.iter().map(told).collect());
        job.board = Some(board.clone());
        let script = job.script.path.file_name().unwrap_or_default();
        let targets = logs.map(|logs| {
            let file = TargetFile::new(logs.join(TARGETS), &script.to_string_lossy());
            console
                .say(&format!("where processes answer /metrics: {}", logs.join(TARGETS).display()));
            Mutex::new(file)
        });
        let numbers = logs.map(|logs| logs.join(NUMBERS));
        // Clears the numbers of another job, if there are any, unless this one resumes it.
        if let Some(file) = numbers.as_ref().filter(|_| !job.policy.resumes) {
            let _ = std::fs::remove_file(file);
        }
        let settings = CollectorSettings {
            title: script.to_string_lossy().into_owned(),
            board,
            web: options.web.clone(),
            any_port: false,
            jsonl: numbers,
            tensorboard: options.tensorboard.clone(),
        };
        let collector = open(settings, console);
        Some(Self { collector, targets, _ports: ports })
    }

    /// Where these processes answer, for programs that collect numbers.
    pub(super) fn set_targets<'a>(&self, processes: impl Iterator<Item = &'a Process>) {
        let Some(file) = &self.targets else { return };
        let targets: Vec<ScrapeTarget> = processes.filter_map(target).collect();
        // A full disk, say, is not a reason to end a job; the next look tries again.
        let _ = file.lock().even_if_poisoned().set(&targets);
    }

    /// The progress of the job; problems go to the console.
    pub(super) fn line(&self, console: &mut Console) -> Option<String> {
        self.collector.take_problems().iter().for_each(|problem| console.say(problem));
        self.collector.line()
    }

    /// The share of the pass that is done, if it is known.
    pub(super) fn share(&self) -> Option<f64> {
        self.collector.share()
    }

    /// Prints the work of each process.
    pub(super) fn sum_up(&self, console: &mut Console) {
        // Processes that have ended have written their last numbers.
        self.collector.look();
        let lines = self.collector.summary().lines;
        if !lines.is_empty() {
            console.say("--- work of each process");
            lines.iter().for_each(|line| console.say(line));
        }
    }
}

/// Starts a collector, and prints the address of its page. If the port is the default one and it is
/// taken, any other one will do.
fn open(mut settings: CollectorSettings, console: &mut Console) -> Collector {
    if settings.web.as_deref() == Some("") {
        (settings.web, settings.any_port) = (Some(PAGE.to_string()), true);
    }
    let (collector, problems) = Collector::start(settings);
    problems.iter().for_each(|problem| console.say(&format!("{problem}; the job continues")));
    if let Some(address) = collector.address() {
        console.say(&format!("the page of this job: http://{address}/"));
    }
    collector
}

/// Each process gets a port and a file for its last numbers.
fn give_ports(job: &mut Job, options: &WatchOptions, logs: Option<&Path>) -> Result<Ports> {
    let mut ports = Ports::default();
    let first = ports.choose(HERE, METRICS_START, job.processes.len())?;
    for (port, process) in (first..).zip(&mut job.processes) {
        process.set(METRICS_PORT[0], &port.to_string());
        if let Some(host) = &options.host {
            process.set(METRICS_HOST[0], host);
        }
        if let Some(file) = logs.and_then(|logs| last_state(process, logs)) {
            // It is of another job, if it is there.
            let _ = std::fs::remove_file(&file);
            process.set(LAST_STATE[0], &file.to_string_lossy());
        }
    }
    Ok(ports)
}

/// The file of last numbers, beside the log.
fn last_state(process: &Process, logs: &Path) -> Option<PathBuf> {
    let name = process.log.as_ref()?.file_name()?.to_string_lossy().into_owned();
    let logs = std::path::absolute(logs).ok()?;
    Some(logs.join(format!("{name}.state")))
}

/// Forgets the last numbers of a process that is started again.
pub(super) fn forget(process: &Process) {
    if let Some(file) = find(process, LAST_STATE[0]) {
        let _ = std::fs::remove_file(file);
    }
}

fn find(process: &Process, name: &str) -> Option<String> {
    let found = process.variables.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value.clone())
}

/// Where others reach the numbers of a process.
fn target(process: &Process) -> Option<ScrapeTarget> {
    let port = find(process, METRICS_PORT[0])?;
    let host = match find(process, METRICS_HOST[0]).as_deref() {
        // It answers at all addresses of this machine, and this is the one that the job knows.
        Some("0.0.0.0" | "::") => find(process, OWN_IP[0]).unwrap_or(HERE.to_string()),
        Some(host) => host.to_string(),
        None => HERE.to_string(),
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let role = if process.kind == RoleKind::Server { "server" } else { "trainer" };
    Some(ScrapeTarget { address: format!("{host}:{port}"), role, id: process.id })
}

/// A process as it is planned.
pub(super) fn told(process: &Process) -> Told {
    let find = |name: &str| find(process, name);
    // Wherever else it answers, it does so here.
    let host = find(METRICS_HOST[0]).filter(|host| host != "0.0.0.0" && host != "::");
    let host = host.unwrap_or(HERE.to_string());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Told {
        name: Some(process.name.clone()),
        address: find(METRICS_PORT[0]).map_or(String::new(), |port| format!("{host}:{port}")),
        last_state: find(LAST_STATE[0]).map(PathBuf::from),
        condition: Condition::Running,
        ..Told::default()
    }
}

/// Watches processes that others have started, until a signal comes.
pub(super) fn watch(processes: &WatchedProcesses, console: &mut Console) -> Result<i32> {
    let WatchedProcesses { addresses, watch: options, jsonl } = processes;
    let signals = Signals::watch()?;
    let settings = CollectorSettings {
        title: format!("{} processes", addresses.len()),
        board: Board::new(addresses.iter().map(|address| Told::at(address)).collect()),
        web: Some(options.web.clone().unwrap_or_default()),
        any_port: false,
        jsonl: jsonl.clone(),
        tensorboard: options.tensorboard.clone(),
    };
    let collector = open(settings, console);
    if collector.address().is_none() {
        return Ok(1);
    }
    collector.look();
    for problem in collector.unheard() {
        console.say(&format!(
            "{problem}. Is that the PADDLEWHEEL_METRICS_PORT of a process that runs? The page shows it when it answers"
        ));
    }
    while signals.take().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(100));
        collector.take_problems().iter().for_each(|problem| console.say(problem));
    }
    Ok(0)
}
