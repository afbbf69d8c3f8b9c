//! One process of a job: its starts and restarts, and the report of its end.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use base::ProcessGroup;
use monitor::job::{Condition, Told};
use rustix::process::{Pid, Signal, kill_process};

use signal_hook::consts::SIGKILL;

use super::console::Console;
use super::logs;
use super::memory::{ADVICE, OutOfMemoryKills};
use super::plan::{self, Host, Job, Process};
use super::relay::Relays;
use super::restarts::{Death, Next, Reason, Restarts, WINDOW};
use super::watching;
use crate::env::RESTARTS;
use crate::error::{Error, Result};
use crate::interpreter::python_path;
use crate::lines;
use crate::pipes;
use crate::role::RoleKind;
use crate::signals::{ENDED_EARLY, SIGTERM, is_from_outside, name_of};

/// How much of a failed process's log is shown.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: u64 = 16 << 10;
/// A worker that still runs so long after its servers have ended was not through with them.
const SERVED: Duration = Duration::from_secs(1);

/// A process of the job.
pub(super) struct Member {
    pub(super) process: Process,
    child: Child,
    started: Instant,
    /// Those before it was started.
    kills: OutOfMemoryKills,
    pub(super) status: Option<ExitStatus>,
    /// When that was seen.
    ended: Option<Instant>,
    /// It ended in order, but because it was told to, and not by this launcher.
    was_told: bool,
    /// The place in the log where its output begins.
    log_start: u64,
    restarts: Restarts,
    n_restarts: usize,
    /// How it ended before it was started again.
    last_end: Option<String>,
    /// When it is started again, if it is.
    due: Option<Instant>,
    /// Why it is not.
    given_up: Option<Reason>,
    /// Others have taken its place, or will: its end is not a failure.
    retires: bool,
}

/// The context in which processes are started.
#[derive(Clone, Copy)]
pub(super) struct Starter<'a> {
    pub(super) job: &'a Job,
    pub(super) host: &'a Host,
    /// Passes on the output of processes that share the output of this one.
    pub(super) relays: Option<&'a Relays>,
}

impl Member {
    pub(super) fn start(
        starter: Starter<'_>,
        process: &Process,
        group: &ProcessGroup,
    ) -> Result<Self> {
        let job = starter.job;
        let line = job.policy.resumes.then(|| "a launcher resumes this job".to_string());
        let (child, log_start) = starter.spawn(process, group, 0, line)?;
        Ok(Self {
            process: process.clone(),
            child,
            started: Instant::now(),
            kills: OutOfMemoryKills::now(),
            status: None,
            ended: None,
            was_told: false,
            log_start,
            restarts: Restarts::default(),
            n_restarts: 0,
            last_end: None,
            due: None,
            given_up: None,
            retires: false,
        })
    }

    pub(super) fn is_running(&self) -> bool {
        self.status.is_none()
    }

    /// Whether it is about to be started again.
    pub(super) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    pub(super) fn is_well(&self) -> bool {
        !self.was_told && self.status.is_some_and(|status| status.success())
    }

    /// Whether it has failed and will not be started again.
    pub(super) fn has_failed(&self) -> bool {
        self.status.is_some() && !self.is_well() && self.due.is_none() && !self.retires
    }

    /// Whether it was killed, or told to end: that explains the failure of others.
    pub(super) fn was_killed(&self) -> bool {
        self.was_told || self.status.is_some_and(|status| status.signal().is_some())
    }

    /// Whether it ended as one should that was asked to by the launcher. A trainer need not know the
    /// signal.
    pub(super) fn ended_when_asked(&self) -> bool {
        let is_asked = |status: ExitStatus| {
            let is_trainer = self.process.kind == RoleKind::Trainer;
            ended_in_order(status) || is_trainer && status.signal() == Some(SIGTERM)
        };
        self.due.is_none() && self.status.is_some_and(is_asked)
    }

    /// Whether the job continues without it, if it has failed.
    pub(super) fn is_expendable(&self, job: &Job) -> bool {
        job.tolerates_lost_trainers && self.process.kind == RoleKind::Trainer
    }

    /// Notes that it has ended. A process that cannot be asked counts as running; its end will come.
    pub(super) fn look(&mut self) {
        if self.status.is_some() {
            return;
        }
        self.status = self.child.try_wait().unwrap_or(None);
        self.ended = self.status.map(|_| Instant::now());
        let told = match self.process.kind {
            RoleKind::Server => lines::SIGNALLED,
            RoleKind::Trainer => train::remote::ENDS,
        };
        self.was_told = self.status.is_some_and(ended_in_order)
            && self.last_lines().iter().any(|line| line.contains(told));
    }

    /// Whether it needs servers, because it was started again and has not come to its end.
    pub(super) fn needs_servers(&self) -> bool {
        self.process.kind == RoleKind::Trainer && self.n_restarts > 0 && self.is_running()
    }

    /// Starts a server again that has ended because all trainers had completed: one of them died
    /// after that, and needs the state that the server has kept.
    pub(super) fn serve_again(&mut self, console: &mut Console) {
        let is_over = self.ended.is_some_and(|ended| ended.elapsed() >= SERVED);
        let is_through = self.is_well() && is_over && !self.retires;
        if self.process.kind == RoleKind::Server && is_through && self.due.is_none() {
            self.due = Some(Instant::now());
            let name = &self.process.name;
            console.say(&format!("{name} is started again, for a worker that was"));
        }
    }

    /// Whether it is a server that found the job over when it started, and that no trainer has
    /// connected to.
    pub(super) fn found_job_over(&self) -> bool {
        let is_over = |line: &String| line.contains(protocol::JOB_OVER);
        self.process.kind == RoleKind::Server
            && self.is_well()
            && self.last_lines().iter().any(is_over)
    }

    pub(super) fn wait(&mut self) {
        let _ = self.child.wait();
    }

    /// Asks it to end, because others take its place.
    pub(super) fn retire(&mut self) {
        (self.retires, self.due) = (true, None);
        self.send(Signal::TERM);
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        (self.retires, self.due) = (true, None);
        self.send(Signal::KILL);
    }

    fn send(&self, signal: Signal) {
        // The child has not been reaped: its process ID cannot belong to another process.
        if let (None, Some(pid)) = (self.status, Pid::from_raw(self.child.id().cast_signed())) {
            let _ = kill_process(pid, signal);
        }
    }

    /// The state of the process, for monitors of the job.
    pub(super) fn told(&self) -> Told {
        let condition = match self.status {
            None => Condition::Running,
            Some(_) if self.due.is_some() => Condition::Restarting,
            Some(_) if self.has_failed() => Condition::Failed,
            Some(_) => Condition::Ended,
        };
        let is_dead = matches!(condition, Condition::Restarting | Condition::Failed);
        Told {
            condition,
            pid: self.is_running().then(|| self.child.id()),
            n_restarts: self.n_restarts,
            end: self.status.map(|_| self.end()).or_else(|| self.last_end.clone()),
            lines: if is_dead { self.last_lines() } else { Vec::new() },
            ..watching::told(&self.process)
        }
    }

    /// Tells its next start something else.
    pub(super) fn set(&mut self, name: &'static str, value: &str) {
        self.process.set(name, value);
    }

    /// Decides whether it is started again, if it has failed and the decision is open.
    pub(super) fn decide(&mut self, job: &Job, console: &mut Console) {
        if !self.has_failed() || self.given_up.is_some() {
            return;
        }
        let at = Instant::now();
        let signal = self.status.and_then(|status| status.signal());
        let is_from_outside = self.was_told || signal.is_some_and(is_from_outside);
        let death = Death { at, lived: at.duration_since(self.started), is_from_outside };
        let max = job.policy.max_restarts;
        match self.restarts.after(death, max) {
            Next::Again { number, wait } => {
                self.due = Some(at + wait);
                let end = self.end();
                console.say(&format!("{end}; it is started again ({number} of {max})"));
            }
            Next::Never(reason) => self.given_up = Some(reason),
        }
    }

    /// Starts it again if it is time.
    pub(super) fn restart(&mut self, starter: Starter<'_>, group: &ProcessGroup) -> Result<()> {
        if self.due.is_none_or(|due| Instant::now() < due) {
            return Ok(());
        }
        let end = self.end();
        let line = format!("{end}; it is started again");
        self.last_end = Some(end);
        self.n_restarts += 1;
        watching::forget(&self.process);
        (self.child, self.log_start) =
            starter.spawn(&self.process, group, self.n_restarts, Some(line))?;
        (self.started, self.status, self.due) = (Instant::now(), None, None);
        self.kills = OutOfMemoryKills::now();
        (self.ended, self.was_told) = (None, false);
        Ok(())
    }

    /// Its name and the way it ended.
    fn end(&self) -> String {
        let outside = "from outside of this job (a kill command, a scheduler, too little memory)";
        let how = match self.status.map(|status| (status.code(), status.signal())) {
            Some((Some(_), _)) if self.was_told => format!("was ended by a signal {outside}"),
            Some((Some(0), _)) => "has finished".to_string(),
            Some((None, Some(SIGKILL))) if OutOfMemoryKills::now().is_more_than(&self.kills) => {
                format!("was killed by the kernel (SIGKILL). {ADVICE}")
            }
            Some(_) if self.had_no_memory() => format!("ended without memory. {ADVICE}"),
            Some((Some(code), _)) => format!("failed with exit code {code}"),
            Some((None, Some(signal))) if is_from_outside(signal) => {
                format!("was killed by {} {outside}", name_of(signal))
            }
            Some((None, Some(signal))) => format!("was killed by {}", name_of(signal)),
            _ => "failed".to_string(),
        };
        format!("{} (pid {}) {how}", self.process.name, self.child.id())
    }

    /// Whether it said last that it could not get memory.
    fn had_no_memory(&self) -> bool {
        let words = ["memory allocation of ", "MemoryError", "there is no memory for"];
        let says = |line: &String| words.iter().any(|word| line.contains(word));
        !self.is_well() && self.last_lines().iter().any(says)
    }

    /// Prints that it failed, how, and its last lines.
    pub(super) fn report(&self, console: &mut Console) {
        let end = self.end();
        match &self.process.log {
            None => console.say(&end),
            Some(log) => {
                let (log, lines) = (log.display(), self.last_lines());
                if lines.is_empty() {
                    console.say(&format!("{end}; {log} is empty"))
                } else {
                    console.say(&format!("{end}; the last lines of {log}:"))
                }
                lines.iter().for_each(|line| console.say(&format!("  | {line}")));
            }
        }
        let name = &self.process.name;
        match self.given_up {
            Some(Reason::TooOften(n)) => console.say(&format!(
                "{name} was started again {n} times within {} s, which is as often as it may be \
                 (--max_restarts)",
                WINDOW.as_secs()
            )),
            Some(Reason::AtOnce(n)) => console.say(&format!(
                "{name} failed at once {n} times in a row; starting it again does not help"
            )),
            Some(Reason::NotWanted) | None => {}
        }
    }

    /// The last lines that this process has written.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let log = self.process.log.as_deref();
        log.map_or_else(Vec::new, |log| tail(log, self.log_start))
    }
}

impl Starter<'_> {
    /// Starts a process. With a line, its log is continued with that line; without, the log is
    /// emptied. Also returns where in the log its output begins.
    fn spawn(
        self,
        process: &Process,
        group: &ProcessGroup,
        n_restarts: usize,
        line: Option<String>,
    ) -> Result<(Child, u64)> {
        let (program, arguments) = plan::command(&self.job.script, self.host);
        let mut command = Command::new(&program);
        command.args(&arguments).stdin(Stdio::null());
        set_variables(&mut command, process, self.host);
        command.envs(self.job.shared.iter());
        if self.job.policy.has_snapshots {
            command.env(RESTARTS[0], n_restarts.to_string());
        }
        let log_start = match &process.log {
            None => {
                if self.relays.is_some() {
                    command.stdout(Stdio::piped()).stderr(Stdio::piped());
                }
                0
            }
            Some(log) => {
                let open = || open_log(log, line.as_deref());
                let failed = |source| Error::File { what: "write", path: log.clone(), source };
                let (file, start) = open().map_err(failed)?;
                command.stderr(file.try_clone().map_err(failed)?).stdout(file);
                start
            }
        };
        let name = &process.name;
        let failed = |source| Error::Start { name: name.clone(), program: program.clone(), source };
        let mut child = group.spawn(&mut command).map_err(&failed)?;
        if let Some(relays) = self.relays {
            relays.follow(&mut child).map_err(failed)?;
        }
        Ok((child, log_start))
    }
}

/// Whether a process has come to its end, or to one that SIGTERM asks for.
fn ended_in_order(status: ExitStatus) -> bool {
    status.success() || status.code() == Some(ENDED_EARLY)
}

fn open_log(log: &Path, line: Option<&str>) -> std::io::Result<(File, u64)> {
    fs::create_dir_all(log.parent().unwrap_or(Path::new(".")))?;
    logs::unlink(log);
    let Some(line) = line else { return Ok((File::create(log)?, 0)) };
    let mut file = File::options().create(true).append(true).open(log)?;
    file.write_all(format!("launch_ps: {line}\n").as_bytes())?;
    let start = file.metadata()?.len();
    Ok((file, start))
}

/// Sets the variables and the interpreter path of a process.
fn set_variables(command: &mut Command, process: &Process, host: &Host) {
    for name in plan::unset() {
        command.env_remove(name);
    }
    // Readers make ids with Python's `hash`, and all processes of a job must make the same.
    command.envs(pipes::hash_seed(&crate::env::process));
    command.envs(process.variables.iter().map(|(name, value)| (name, value)));
    let Some(alias) = &host.alias else { return };
    command.env("PYTHONPATH", python_path(alias));
}

/// The last lines of a file behind its first bytes; none of one that cannot be read.
fn tail(path: &Path, from: u64) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(TAIL_BYTES).max(from);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(TAIL_LINES);
    lines[first..].iter().map(|line| line.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert_eq!(tail(&path, 0), Vec::<String>::new());
        let long: Vec<String> = (0..30_000).map(|at| format!("line {at}")).collect();
        fs::write(&path, long.join("\n")).unwrap();
        let last = tail(&path, 0);
        assert_eq!((last.len(), last[0].as_str()), (20, "line 29980"));
        fs::write(&path, b"caf\xe9\n").unwrap();
        assert_eq!(tail(&path, 0), ["caf\u{fffd}"]);
        fs::write(&path, "of another\nmine\n").unwrap();
        assert_eq!(tail(&path, 11), ["mine"]);
    }
}
