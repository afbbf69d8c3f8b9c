//! Starts the processes of a job, watches them, and ends them together.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::console::Console;
use super::group::Group;
use super::plan::{self, Host, Job, Process};
use crate::error::{Error, Result};
use crate::lines;
use crate::pipes;
use crate::role::Part;
use crate::signals::{Signals, is_from_outside, name_of};

/// How often processes are looked after.
const GLANCE: Duration = Duration::from_millis(20);
/// How long servers may take to notice that their trainers are through, before they are told.
const NOTICE: Duration = Duration::from_millis(300);
/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);
/// How much of a failed process's log is shown.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: u64 = 16 << 10;

/// Runs a job to its end; returns the exit code of the launcher.
pub(super) fn run(job: &Job, host: &Host, console: &mut Console) -> Result<i32> {
    let signals = Signals::watch()?;
    check(&job.script.path)?;
    for line in &job.lines {
        console.say(line);
    }
    let mut processes = Processes::start(job, host)?;
    let end = processes.watch(job, &signals, console);
    let has_servers = processes.members.iter().any(|member| member.process.part == Part::Server);
    match &end {
        End::Done if has_servers => {
            console.say(lines::WORKERS_EXIT);
            processes.wait(NOTICE, &signals);
        }
        End::Done => {}
        End::Failed(who) => {
            processes.blame(*who, console);
            console.say("ending the other processes");
        }
        End::Signal(signal) => console.say(&format!("got {}, ending the job", name_of(*signal))),
    }
    processes.end(&signals);
    match end {
        End::Done => {
            if has_servers {
                console.say(lines::SERVERS_KILLED);
            }
            Ok(0)
        }
        End::Failed(_) => Ok(1),
        End::Signal(signal) => Ok(128 + signal),
    }
}

fn check(script: &Path) -> Result<()> {
    let found = fs::metadata(script).map(|_| ());
    found.map_err(|source| Error::File { what: "find", path: script.to_path_buf(), source })
}

/// How a job came to its end.
enum End {
    /// All trainers are through.
    Done,
    /// This process failed.
    Failed(usize),
    /// Somebody wants it to end.
    Signal(i32),
}

/// A process of the job.
struct Member<'a> {
    process: &'a Process,
    child: Child,
    status: Option<ExitStatus>,
    /// A server that ended in order, but because it was told to, and not by this launcher.
    was_told: bool,
}

impl Member<'_> {
    fn has_failed(&self) -> bool {
        self.was_told || self.status.is_some_and(|status| !status.success())
    }

    /// Whether the job goes on without it, if it has failed.
    fn is_expendable(&self, job: &Job) -> bool {
        job.tolerates_lost_trainers && self.process.part == Part::Trainer
    }
}

/// All processes of the job on this machine.
struct Processes<'a> {
    members: Vec<Member<'a>>,
    group: Group,
    start: Instant,
}

impl<'a> Processes<'a> {
    fn start(job: &'a Job, host: &Host) -> Result<Self> {
        let (program, arguments) = plan::command(&job.script, host);
        let failed = |name: &str, program: &Path, source| Error::Start {
            name: name.to_string(),
            program: program.to_path_buf(),
            source,
        };
        let group = Group::new().map_err(|e| failed("the keeper", Path::new("/bin/sh"), e))?;
        let mut processes = Self { members: Vec::new(), group, start: Instant::now() };
        for process in &job.processes {
            let mut command = Command::new(&program);
            command.args(&arguments).stdin(Stdio::null());
            dress(&mut command, process, host)?;
            let child = processes.group.spawn(&mut command);
            let child = child.map_err(|source| failed(&process.name, &program, source))?;
            processes.members.push(Member { process, child, status: None, was_told: false });
        }
        Ok(processes)
    }

    /// Notes who has ended. A process that cannot be asked counts as running; its end will come.
    fn look(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.status.is_none()) {
            member.status = member.child.try_wait().unwrap_or(None);
            let is_well = member.status.is_some_and(|status| status.success());
            let log = member.process.log.as_deref().filter(|_| is_well);
            let is_told = |line: &String| line.contains(lines::SIGNALLED);
            member.was_told = member.process.part == Part::Server
                && log.is_some_and(|log| tail(log).iter().any(is_told));
        }
    }

    /// Waits until trainers are through, somebody fails, or somebody wants an end.
    fn watch(&mut self, job: &Job, signals: &Signals, console: &mut Console) -> End {
        let mut is_told = false;
        let mut mourned = BTreeSet::new();
        loop {
            self.look();
            if let Some(signal) = signals.get() {
                return End::Signal(signal);
            }
            let trainers_done = self.are_through(job, Part::Trainer);
            // A server may fail when its last trainer is gone; then the job is done all the same.
            if trainers_done && !job.is_wide {
                return End::Done;
            }
            for who in self.expendable(job) {
                if mourned.insert(who) {
                    self.blame(who, console);
                    console.say("the others go on without it");
                }
            }
            if let Some(who) = self.culprit(job) {
                return End::Failed(who);
            }
            if trainers_done && self.are_through(job, Part::Server) {
                return End::Done;
            }
            if trainers_done && !is_told {
                is_told = true;
                console
                    .say("the workers of this machine are through; its servers serve the others");
            }
            console.progress(|| self.progress());
            thread::sleep(GLANCE);
        }
    }

    /// Whether all of a kind have ended well. Of those that a job can do without one is enough.
    fn are_through(&self, job: &Job, part: Part) -> bool {
        let is_well = |m: &Member<'_>| m.status.is_some_and(|status| status.success());
        let those = || self.members.iter().filter(|member| member.process.part == part);
        let is_lost = |m: &Member<'_>| m.has_failed() && m.is_expendable(job);
        let any = those().next().is_none() || those().any(is_well);
        any && those().all(|member| is_well(member) || is_lost(member))
    }

    /// Who has failed without ending the job: some, but not all.
    fn expendable(&self, job: &Job) -> Vec<usize> {
        let (mut lost, mut n_left) = (Vec::new(), 0);
        for (at, member) in self.members.iter().enumerate() {
            match member.has_failed() {
                true if member.is_expendable(job) => lost.push(at),
                false if member.is_expendable(job) => n_left += 1,
                _ => {}
            }
        }
        if n_left == 0 { Vec::new() } else { lost }
    }

    /// Who failed first. Of several found at once, one that was killed explains the others, and a
    /// server explains its trainers.
    fn culprit(&self, job: &Job) -> Option<usize> {
        let expendable = self.expendable(job);
        let failed = (0..self.members.len())
            .filter(|at| self.members[*at].has_failed() && !expendable.contains(at));
        failed.min_by_key(|&at| {
            let status = self.members[at].status;
            let is_killed = status.is_some_and(|status| status.signal().is_some());
            (!is_killed && !self.members[at].was_told, at)
        })
    }

    /// Says who failed, how, and what it said last.
    fn blame(&self, who: usize, console: &mut Console) {
        let Member { process, child, status, was_told } = &self.members[who];
        let outside = "from outside of this job (somebody's kill, a scheduler, too little memory)";
        let how = match status.map(|status| (status.code(), status.signal())) {
            Some((Some(_), _)) if *was_told => format!("was ended by a signal {outside}"),
            Some((Some(code), _)) => format!("failed with exit code {code}"),
            Some((None, Some(signal))) if is_from_outside(signal) => {
                format!("was killed by {} {outside}", name_of(signal))
            }
            Some((None, Some(signal))) => format!("was killed by {}", name_of(signal)),
            _ => "failed".to_string(),
        };
        let who = format!("{} (pid {}) {how}", process.name, child.id());
        let Some(log) = &process.log else { return console.say(&who) };
        let lines = tail(log);
        if lines.is_empty() {
            return console.say(&format!("{who}; {} is empty", log.display()));
        }
        console.say(&format!("{who}; the last lines of {}:", log.display()));
        for line in lines {
            console.say(&format!("  | {line}"));
        }
    }

    /// Ends all: politely, and after a while not.
    fn end(&mut self, signals: &Signals) {
        signals.forget();
        self.group.terminate();
        // Whoever asks twice means it.
        self.wait(GRACE, signals);
        self.group.kill();
        for member in &mut self.members {
            let _ = member.child.wait();
        }
    }

    /// Waits until all have ended by themselves, but not long, nor against a signal.
    fn wait(&mut self, limit: Duration, signals: &Signals) {
        let deadline = Instant::now() + limit;
        while self.members.iter().any(|member| member.status.is_none()) {
            self.look();
            if Instant::now() >= deadline || signals.get().is_some() {
                break;
            }
            thread::sleep(GLANCE);
        }
    }

    fn progress(&self) -> String {
        let running = |part| {
            let is_running = |m: &&Member<'_>| m.status.is_none() && m.process.part == part;
            self.members.iter().filter(is_running).count()
        };
        let (servers, workers) = (running(Part::Server), running(Part::Trainer));
        let seconds = self.start.elapsed().as_secs();
        let mut trainers = self.members.iter().filter(|m| m.process.part == Part::Trainer);
        let log = trainers.next().and_then(|member| member.process.log.as_deref());
        let last = log.and_then(|log| tail(log).pop()).unwrap_or_default();
        let clock = format!("{:02}:{:02}", seconds / 60, seconds % 60);
        format!("{clock} {servers} servers, {workers} workers | {last}")
    }
}

impl Drop for Processes<'_> {
    /// Whatever way the launcher leaves: the group goes first, then nobody is left to wait for.
    fn drop(&mut self) {
        self.group.kill();
        for member in &mut self.members {
            let _ = member.child.wait();
        }
    }
}

/// Sets variables, interpreter path and output of a process.
fn dress(command: &mut Command, process: &Process, host: &Host) -> Result<()> {
    for name in plan::unset() {
        command.env_remove(name);
    }
    // Readers make ids with Python's `hash`, and all processes of a job must make the same.
    command.envs(pipes::hash_seed(&crate::env::process));
    command.envs(process.variables.iter().map(|(name, value)| (name, value)));
    if let Some(alias) = &host.alias {
        let mut path = alias.clone().into_os_string();
        if let Some(inherited) = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty()) {
            path.push(":");
            path.push(inherited);
        }
        command.env("PYTHONPATH", path);
    }
    let Some(log) = &process.log else { return Ok(()) };
    let failed = |source| Error::File { what: "write", path: log.clone(), source };
    fs::create_dir_all(log.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    let file = File::create(log).map_err(failed)?;
    command.stderr(file.try_clone().map_err(failed)?).stdout(file);
    Ok(())
}

/// The last lines of a file; none of one that cannot be read.
fn tail(path: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
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
        assert_eq!(tail(&path), Vec::<String>::new());
        let long: Vec<String> = (0..30_000).map(|at| format!("line {at}")).collect();
        fs::write(&path, long.join("\n")).unwrap();
        let last = tail(&path);
        assert_eq!((last.len(), last[0].as_str()), (20, "line 29980"));
        fs::write(&path, b"caf\xe9\n").unwrap();
        assert_eq!(tail(&path), ["caf\u{fffd}"]);
    }
}
