//! Ranks of `mpirun`, which ends all of them when one dies. Then it is started again, and they
//! resume from the last snapshot.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base::ProcessGroup;

use super::job::EngineJob;
use super::tail::Tail;
use crate::env::{self, EnvVars, SECRET};
use crate::error::{Error, Result};
use crate::launch::console::Console;
use crate::launch::ports::{Ports, START};
use crate::safety::SafetyOptions;
use crate::signals::{UNFINISHED, name_of};
use crate::tool;

/// The ranks of a job make this file in the folder of snapshots, which all machines share.
const STARTED: &str = "ranks.started";
/// The shell command of a rank: it marks the start and executes the program. A missing program is not
/// marked as started.
const RANK: &str = r#"command -v "$1" > /dev/null && touch "$0"; exec "$@""#;
/// How many lines of `mpirun` are shown if it refuses a job.
const REFUSAL_LINES: usize = 30;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The two families of `mpirun`: their options differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    OpenMpi,
    Hydra,
}

impl Family {
    /// From the output of `mpirun --version`.
    pub(super) fn from_version(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let hydra = ["hydra", "mpich", "intel", "mvapich"];
        if text.contains("open mpi") || text.contains("open-mpi") {
            Some(Family::OpenMpi)
        } else {
            hydra.iter().any(|word| text.contains(word)).then_some(Family::Hydra)
        }
    }

    /// How many ranks, on which machines, with which variables; each line says whose it is.
    pub(super) fn words(self, n: usize, hosts: &[String], variables: &[&str]) -> Vec<String> {
        let mut words = vec!["-np".to_string(), n.to_string()];
        match self {
            Family::OpenMpi => {
                words.push("--tag-output".to_string());
                if !hosts.is_empty() {
                    // As many ranks on each as it takes.
                    let each = n.div_ceil(hosts.len());
                    let hosts: Vec<_> = hosts.iter().map(|host| format!("{host}:{each}")).collect();
                    words.extend(["--host".to_string(), hosts.join(",")]);
                }
                words.extend(variables.iter().flat_map(|name| ["-x".into(), name.to_string()]));
            }
            Family::Hydra => {
                words.push("-prepend-rank".to_string());
                if !hosts.is_empty() {
                    words.extend(["-hosts".to_string(), hosts.join(",")]);
                }
                words.extend(["-genvlist".to_string(), variables.join(",")]);
            }
        }
        words
    }
}

/// Runs the job; returns the exit code.
pub(super) fn run(job: &EngineJob, console: &mut Console) -> Result<i32> {
    let said = tool::output(Command::new(&job.mpirun).arg("--version"))?;
    let unknown = || Error::Tool {
        program: job.mpirun.clone(),
        said: format!("neither Open MPI nor MPICH or a relative of it: {}", said.trim()),
    };
    let family = Family::from_version(&said).ok_or_else(unknown)?;
    let mut ports = Ports::default();
    let variables = variables(job, &mut ports)?;
    let mut log = Tail::new(job.file(".log"));
    console.say(&format!("the log of all ranks is {}", job.file(".log").display()));
    let mut left = job.options.max_restarts;
    loop {
        let mut command = command(job, family, &variables)?;
        let end = follow(job, &mut command, &mut log, console)?;
        let code = match end {
            RunEnd::Asked(status) if status.success() => return Ok(0),
            RunEnd::Asked(_) => return Ok(UNFINISHED),
            RunEnd::Killed(signal) => return Ok(128 + signal),
            RunEnd::Refused { said } => {
                return Err(Error::Refused { program: job.mpirun.clone(), said });
            }
            RunEnd::Status(status) if status.success() => return Ok(0),
            RunEnd::Status(status) => code_of(status),
        };
        console.say(&format!(
            "mpirun failed with exit code {code}; it may be started {left} times more"
        ));
        if left == 0 {
            return Ok(code);
        }
        left -= 1;
    }
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The variables of every rank, beside its rank.
fn variables(job: &EngineJob, ports: &mut Ports) -> Result<Vec<(&'static str, String)>> {
    let options = &job.options;
    let mut variables = vec![
        ("PADDLE_PSERVERS_NUM", options.n_servers.to_string()),
        ("FLAGS_snapshot_secs", options.snapshot_secs().to_string()),
        ("PYTHONUNBUFFERED", "1".to_string()),
    ];
    if let Some(folder) = job.snapshot_dir() {
        variables.push(("FLAGS_snapshot_dir", folder.to_string_lossy().into_owned()));
    }
    variables.extend(options.words());
    variables.extend(secret(&options.safety, &env::process)?);
    match job.hosts.first() {
        // Ranks of several machines do not know where the others are: they meet.
        Some(first) => variables.push(("PADDLE_MASTER", format!("{first}:{}", options.port()))),
        None => {
            let port = match options.port {
                Some(port) => port,
                None => ports.choose("127.0.0.1", START, options.n_servers)?,
            };
            variables.push(("PADDLE_PORT", port.to_string()));
        }
    }
    Ok(variables)
}

/// The secret of the job: from the command line or the environment of this process, or a new one. It is
/// passed by the environment, so that no list of processes shows it.
pub(super) fn secret(
    safety: &SafetyOptions,
    var: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<(&'static str, String)>> {
    let mut all = safety.variables()?;
    if safety.secret_file.is_none() {
        match EnvVars(var).first(SECRET) {
            Some(given) => all.push((SECRET[0], given.value)),
            None if safety.insecure => {}
            None => all.push((SECRET[0], net::Secret::random_text()?)),
        }
    }
    Ok(all)
}

fn command(
    job: &EngineJob,
    family: Family,
    variables: &[(&'static str, String)],
) -> Result<Command> {
    let options = &job.options;
    let path = job.file(".log");
    let failed = |source| Error::File { what: "write", path: path.clone(), source };
    let log = File::options().create(true).append(true).open(&path).map_err(failed)?;
    let mut command = Command::new(&job.mpirun);
    let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
    command.args(family.words(options.n_servers + options.n_trainers, &job.hosts, &names));
    command.args(&job.mpi_args);
    command.args(["sh", "-c", RANK]).arg(started(job));
    command.args(&options.program).arg("run").arg(&options.script.path);
    command.args(&options.script.arguments);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stderr(log.try_clone().map_err(failed)?).stdout(log);
    Ok(command)
}

/// The file that the first rank makes.
fn started(job: &EngineJob) -> PathBuf {
    job.snapshot_dir().map_or_else(|| job.file(".started"), |folder| folder.join(STARTED))
}

enum RunEnd {
    Status(ExitStatus),
    /// `mpirun` has started no rank, and said why.
    Refused {
        said: String,
    },
    /// It was asked to end, and did.
    Asked(ExitStatus),
    /// It was asked to end by this signal, and did not in time.
    Killed(i32),
}

/// Output of `mpirun`. It is held back until a rank has started, because it may explain why none
/// starts.
struct RunOutput<'a> {
    console: &'a mut Console,
    started: PathBuf,
    /// Ranks are on several machines.
    is_wide: bool,
    held: Vec<String>,
    is_started: bool,
}

impl RunOutput<'_> {
    fn pass(&mut self, lines: Vec<String>) {
        // The machines do not share the folder after all: lines of a rank begin with its number.
        let is_said = self.is_wide && lines.iter().any(|line| is_of_rank(line));
        self.held.extend(lines);
        self.is_started = self.is_started || is_said || self.started.exists();
        if self.is_started {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.held.drain(..).for_each(|line| self.console.pass(&line));
    }
}

/// Prints the output of ranks until `mpirun` exits. A signal ends it; a second one at once.
fn follow(
    job: &EngineJob,
    command: &mut Command,
    log: &mut Tail,
    console: &mut Console,
) -> Result<RunEnd> {
    let name = || "mpirun".to_string();
    let failed = |source| Error::Start { name: name(), program: job.mpirun.clone(), source };
    let started = started(job);
    // Of the last run.
    let _ = fs::remove_file(&started);
    let is_wide = !job.hosts.is_empty();
    let held = Vec::new();
    let is_started = false;
    let mut said = RunOutput { console, started, is_wide, held, is_started };
    let group = ProcessGroup::new().map_err(failed)?;
    let mut child = group.spawn(command).map_err(failed)?;
    let (mut asked, mut give_up): (Option<i32>, Option<Instant>) = (None, None);
    let mut is_killed = false;
    let end = loop {
        said.pass(log.lines());
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if let Some(signal) = job.signals.take() {
            said.console.say(&format!("got {}, ending the job", name_of(signal)));
            let is_second = asked.replace(signal).is_some();
            group.terminate();
            let grace = job.options.grace;
            give_up = Some(if is_second { Instant::now() } else { Instant::now() + grace });
        }
        if give_up.is_some_and(|at| Instant::now() >= at) {
            group.kill();
            is_killed = true;
        }
        thread::sleep(LOOK_EVERY);
    };
    said.pass(log.last_lines());
    if asked.is_some() || end.success() {
        said.flush();
    }
    Ok(match asked {
        Some(signal) if is_killed => RunEnd::Killed(signal),
        Some(_) => RunEnd::Asked(end),
        None if said.is_started || end.success() => RunEnd::Status(end),
        None => RunEnd::Refused { said: last_of(&said.held) },
    })
}

/// Whether a line is of a rank: `[1,0]<stdout>:` of Open MPI, `[0]` of the others.
pub(super) fn is_of_rank(line: &str) -> bool {
    let tag = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    tag.is_some_and(|(tag, rest)| match tag.split_once(',') {
        Some((job, rank)) => is_number(job) && is_number(rank) && rest.starts_with("<std"),
        None => is_number(tag) && rest.starts_with(' '),
    })
}

/// The last lines of the output of `mpirun`, without empty ones.
fn last_of(lines: &[String]) -> String {
    let lines: Vec<&str> =
        lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(REFUSAL_LINES)..].join("\n")
}
