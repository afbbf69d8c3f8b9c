//! Actors of a Ray cluster. For each process of the job our supervisor runs a stand-in on this machine
//! (`paddlewheel/_ray.py`), which runs the process in an actor, prints its output and ends as it does.
//! So logs, restarts and exit codes are those of every job.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use base::{Endpoint, ProcessGroup};

use crate::error::{Error, Result};
use crate::launch::console::Console;
use crate::launch::options::{PsOptions, ScriptCommand};
use crate::launch::plan::Host;
use crate::launch::{begin_log, run_ps};

/// The module that talks to Ray, beside the alias of `paddle`.
const MODULE: &str = "_ray.py";
/// How long the cluster may take to find room for the job.
const PLACING: Duration = Duration::from_secs(300);

/// Runs a job with servers on Ray, with so many processors for each process; returns the exit code.
pub fn launch(
    mut options: PsOptions,
    cpus: usize,
    host: &Host,
    console: &mut Console,
) -> Result<i32> {
    begin_log(options.log_format)?;
    let n_servers = options.n_servers.unwrap_or(2);
    let module = module(host)?;
    let place =
        PlaceRequest { host, module: &module, n_servers, n_trainers: options.n_trainers, cpus };
    let placed = place.reserve()?;
    let list: Vec<_> = placed.servers.iter().map(Endpoint::to_string).collect();
    console.say(&format!("Ray has room for the job; its servers will be {}", list.join(",")));
    options.endpoints = placed.servers.clone();
    options.n_servers = Some(n_servers);
    options.is_placed = true;
    options.script = stand_in(&options, n_servers, module);
    run_ps(options, host, console)
}

/// The command of a stand-in: the module, and the command of the actor. It is the same for every launch of
/// the job, so that snapshots are known as the job's; the reservation has the number of this process.
fn stand_in(options: &PsOptions, n_servers: usize, module: PathBuf) -> ScriptCommand {
    let script = &options.script;
    let path = std::path::absolute(&script.path).unwrap_or_else(|_| script.path.clone());
    let words = ["run".to_string(), n_servers.to_string()];
    let own = words.into_iter().chain([path.to_string_lossy().into_owned()]);
    ScriptCommand { path: module, arguments: own.chain(script.arguments.clone()).collect() }
}

fn module(host: &Host) -> Result<PathBuf> {
    let beside = host.alias.as_ref().and_then(|alias| alias.parent());
    let module = beside.map(|folder| folder.join(MODULE)).filter(|path| path.is_file());
    let program = host.python.clone();
    let said = "Ray needs the Python package; install it with pip".to_string();
    module.ok_or(Error::Tool { program, said })
}

/// Room for the job that is asked of the cluster.
struct PlaceRequest<'a> {
    host: &'a Host,
    module: &'a PathBuf,
    n_servers: usize,
    n_trainers: usize,
    cpus: usize,
}

/// Room that is ours as long as this lives.
struct Placed {
    servers: Vec<Endpoint>,
    _group: ProcessGroup,
    keeper: Child,
}

impl Drop for Placed {
    fn drop(&mut self) {
        // It gives the room back when its input ends.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

impl PlaceRequest<'_> {
    fn reserve(&self) -> Result<Placed> {
        let (program, name) =
            (self.host.python.clone(), format!("paddlewheel-{}", std::process::id()));
        let failed = |source| Error::Start {
            name: "the reservation on Ray".to_string(),
            program: program.clone(),
            source,
        };
        let group = ProcessGroup::new().map_err(failed)?;
        let numbers = [self.n_servers, self.n_trainers, self.cpus].map(|n| n.to_string());
        let limit = PLACING.as_secs().to_string();
        let mut command = Command::new(&program);
        command.arg("-u").arg(self.module).arg("place").arg(&name).args(numbers).arg(limit);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = group.spawn(&mut command).map_err(failed)?;
        let (send, lines) = mpsc::channel();
        if let Some(out) = keeper.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(out).lines().map_while(|line| line.ok());
                lines.for_each(|line| drop(send.send(line)));
            });
        }
        let mut placed = Placed { servers: Vec::new(), _group: group, keeper };
        loop {
            // It has a deadline of its own, and says more than we would.
            let said =
                |words: &str| Error::Tool { program: program.clone(), said: words.to_string() };
            match lines.recv_timeout(PLACING * 2) {
                Ok(line) if line == "ready" => return Ok(placed),
                Ok(line) => match line.strip_prefix("server ") {
                    Some(endpoint) => placed.servers.push(endpoint.parse()?),
                    None => return Err(said(&line)),
                },
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(said(
                        "Ray could not be reached; is it installed, and is RAY_ADDRESS right?",
                    ));
                }
                Err(RecvTimeoutError::Timeout) => return Err(said("Ray does not answer")),
            }
        }
    }
}
