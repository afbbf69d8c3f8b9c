//! Starts the processes of a job, watches them, starts them again, and ends them together.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use base::ProcessGroup;

use super::console::{Console, JobProgress};
use super::member::{Member, Starter};
use super::moving::{Moved, Moving};
use super::plan::{Host, Job};
use super::ports::Ports;
use super::relay::Relays;
use super::scale;
use super::snapshots;
use super::watching::JobWatch;
use crate::error::{Error, Result};
use crate::lines;
use crate::logging;
use crate::role::RoleKind;
use crate::signals::{Signals, UNFINISHED, name_of};

/// How often watchers are told how processes are.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// How often processes are looked after.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The time in which servers notice that their trainers have finished, before they are told.
const NOTICE: Duration = Duration::from_millis(300);
/// How long a process may take to end when it is asked to, unless the user says otherwise.
const GRACE: Duration = Duration::from_secs(3);

/// A job that has ended.
pub(super) struct Ended {
    /// The exit code of the launcher.
    pub(super) code: i32,
    /// All trainers came to their end.
    pub(super) is_done: bool,
}

/// Runs a job to its end.
pub(super) fn run(
    job: &Job,
    watched: Option<&JobWatch>,
    host: &Host,
    console: &mut Console,
) -> Result<Ended> {
    let signals = Signals::watch()?;
    for line in &job.lines {
        console.say(line);
    }
    // One that has no output to copy lets its processes find that out themselves.
    let relays = shares_output(job).then(|| Relays::new().ok()).flatten();
    let starter = Starter { job, host, relays: relays.as_ref() };
    let mut processes = Processes::start(starter, watched)?;
    let end = processes.watch(&signals, console);
    console.end_progress();
    let end = end?;
    let has_servers =
        processes.members.iter().any(|member| member.process.kind == RoleKind::Server);
    match &end {
        End::Done if has_servers => {
            console.say(lines::WORKERS_EXIT);
            processes.wait(NOTICE, &signals);
        }
        End::Done => {}
        End::Failed(who) => {
            processes.members[*who].report(console);
            console.say("ending the other processes");
        }
        End::Over => console.say(
            "the job is over: its servers here report that all trainers had finished, and no trainer has come back",
        ),
        End::Signal(signal) => console.say(&format!("got {}, ending the job", name_of(*signal))),
    }
    // A job that is done or failed needs no time for snapshots.
    let grace = job.policy.grace.filter(|_| matches!(end, End::Signal(_)));
    let late = processes.end(grace.unwrap_or(GRACE), &signals);
    relays.iter().for_each(Relays::finish);
    processes.tell_watchers();
    watched.iter().for_each(|watched| watched.sum_up(console));
    if matches!(end, End::Done) && has_servers {
        console.say(lines::SERVERS_KILLED);
    }
    let code = match end {
        End::Done | End::Over => {
            console.say(lines::JOB_FINISHED);
            0
        }
        End::Failed(_) => 1,
        End::Signal(signal) if job.policy.has_snapshots => {
            late.iter().for_each(|name| console.say(&format!("{name} did not end in time")));
            processes.code_when_asked(signal, console)
        }
        End::Signal(signal) => 128 + signal,
    };
    Ok(Ended { code, is_done: matches!(end, End::Done | End::Over) })
}

/// Whether several processes write to the output of this one.
fn shares_output(job: &Job) -> bool {
    job.processes.len() > 1 && job.processes.iter().any(|process| process.log.is_none())
}

/// An error if there is nothing to start.
pub(super) fn check(script: &Path) -> Result<()> {
    let found = fs::metadata(script).map(|_| ());
    found.map_err(|source| Error::File { what: "find", path: script.to_path_buf(), source })
}

/// How a job came to its end.
enum End {
    /// All trainers have finished.
    Done,
    /// This process failed.
    Failed(usize),
    /// It was over when this launcher started: the other machines have finished, too.
    Over,
    /// The user wants it to end.
    Signal(i32),
}

/// All processes of the job on this machine.
struct Processes<'a> {
    members: Vec<Member>,
    starter: Starter<'a>,
    job: &'a Job,
    group: ProcessGroup,
    start: Instant,
    /// Servers of the job.
    n_servers: usize,
    /// Where they are, if they have taken the place of others.
    endpoints: Vec<String>,
    /// Servers that take the place of others.
    moving: Option<Moving>,
    /// The ports of those that did; theirs until the job is over.
    ports: Vec<Ports>,
    watched: Option<&'a JobWatch>,
    /// How far the job is.
    line: Option<String>,
    /// When watchers were told how processes are, and people how far the job is.
    told: Instant,
    noted: Instant,
    note_every: Duration,
}

impl<'a> Processes<'a> {
    fn start(starter: Starter<'a>, watched: Option<&'a JobWatch>) -> Result<Self> {
        let job = starter.job;
        let group = ProcessGroup::new().map_err(no_keeper)?;
        let members = Vec::new();
        let (n_servers, start) = (job.n_servers, Instant::now());
        let (moving, ports) = (None, Vec::new());
        let mut processes = Self {
            members,
            starter,
            job,
            group,
            start,
            n_servers,
            endpoints: Vec::new(),
            moving,
            ports,
            watched,
            line: None,
            told: start,
            noted: start,
            note_every: logging::noted_every(),
        };
        for process in &job.processes {
            processes.members.push(Member::start(starter, process, &processes.group)?);
        }
        processes.tell_watchers();
        Ok(processes)
    }

    fn look(&mut self) {
        let n_running = |members: &[Member]| members.iter().filter(|one| one.is_running()).count();
        let n_before = n_running(&self.members);
        self.members.iter_mut().for_each(Member::look);
        // Their last output comes before the report of their end.
        if n_running(&self.members) < n_before {
            self.starter.relays.iter().for_each(|relays| relays.settle());
        }
    }

    /// Waits until the trainers are done, a process fails and is not started again, or the user
    /// wants the job to end.
    fn watch(&mut self, signals: &Signals, console: &mut Console) -> Result<End> {
        let (mut is_told, mut reported) = (false, BTreeSet::new());
        loop {
            self.look();
            if self.is_done() {
                return Ok(End::Done);
            }
            if let Some(signal) = signals.take() {
                return Ok(End::Signal(signal));
            }
            self.change_size(console)?;
            let trainers_done = self.are_through(RoleKind::Trainer);
            self.members.iter_mut().for_each(|member| member.decide(self.job, console));
            if self.job.policy.has_snapshots && self.members.iter().any(Member::needs_servers) {
                self.members.iter_mut().for_each(|member| member.serve_again(console));
            }
            for who in self.lost() {
                if reported.insert(who) {
                    self.members[who].report(console);
                    console.say("the others continue without it");
                }
            }
            if let Some(who) = self.first_failed() {
                return Ok(End::Failed(who));
            }
            if trainers_done && !is_told {
                is_told = true;
                console
                    .say("the workers of this machine have finished; its servers serve the others");
            }
            if self.was_over() {
                return Ok(End::Over);
            }
            self.group.renew_keeper().map_err(no_keeper)?;
            for member in &mut self.members {
                member.restart(self.starter, &self.group)?;
            }
            self.tell(console);
            console.progress(|| self.progress());
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Gives the job the number of servers that the user wants, if it can have it, and continues with
    /// that.
    fn change_size(&mut self, console: &mut Console) -> Result<()> {
        if let Some(moving) = &mut self.moving {
            match moving.go_on(self.starter, &mut self.members, console)? {
                Moved::NotYet => return Ok(()),
                Moved::GivenUp => console.say("the job keeps its servers"),
                Moved::Done(n) => {
                    console.say(&format!("the job has {n} servers"));
                    self.n_servers = n;
                    self.endpoints = moving.endpoints.clone();
                    self.ports.extend(moving.ports.take());
                }
            }
            self.moving = None;
        }
        let Some(folder) = &self.job.snapshots else { return Ok(()) };
        let Some(request) = scale::wanted(folder) else { return Ok(()) };
        let n = request.n_servers;
        match &self.job.fixed_size {
            _ if n == self.n_servers => {
                return scale::done(folder, &request, &format!("the job has {n} servers"));
            }
            Some(why) => return scale::refuse(folder, &request, why),
            None => {}
        }
        console.say(&format!("the job is to have {n} servers: they are started beside the others"));
        let turn = self.ports.len() + 1;
        match Moving::start(self.starter, &self.group, folder, request.clone(), turn) {
            Ok(moving) => self.moving = Some(moving),
            Err(error) => scale::refuse(folder, &request, &error.to_string())?,
        }
        Ok(())
    }

    /// Whether the job was over when this machine came back to it. Its trainers would wait for the servers
    /// of machines that have ended.
    fn was_over(&self) -> bool {
        let mut servers =
            self.members.iter().filter(|member| member.process.kind == RoleKind::Server).peekable();
        let is_here = servers.peek().is_some();
        self.job.is_wide && is_here && servers.all(Member::found_job_over)
    }

    /// Whether the job has come to its end here. A server may fail when its last trainer is gone; then the job
    /// is done all the same, unless it serves trainers of other machines.
    fn is_done(&self) -> bool {
        let are_servers_done = || !self.job.is_wide || self.are_through(RoleKind::Server);
        self.are_through(RoleKind::Trainer) && are_servers_done()
    }

    /// Whether all of a kind have ended well. Of those that a job can do without one is enough.
    fn are_through(&self, kind: RoleKind) -> bool {
        let those = || self.members.iter().filter(|member| member.process.kind == kind);
        let is_lost = |m: &Member| m.has_failed() && m.is_expendable(self.job);
        let any = those().next().is_none() || those().any(Member::is_well);
        any && those().all(|member| member.is_well() || is_lost(member))
    }

    /// The processes that have failed without ending the job: some, but not all.
    fn lost(&self) -> Vec<usize> {
        let (mut lost, mut n_left) = (Vec::new(), 0);
        for (at, member) in self.members.iter().enumerate() {
            if !member.is_expendable(self.job) {
                continue;
            }
            if member.has_failed() {
                lost.push(at);
            } else {
                n_left += 1;
            }
        }
        if n_left == 0 { Vec::new() } else { lost }
    }

    /// The first failure. Of several found at once, one that was killed explains the others, and a
    /// server explains its trainers.
    fn first_failed(&self) -> Option<usize> {
        let lost = self.lost();
        let failed = (0..self.members.len())
            .filter(|at| self.members[*at].has_failed() && !lost.contains(at));
        failed.min_by_key(|&at| (!self.members[at].was_killed(), at))
    }

    /// Ends all: politely, and after a while not. Returns the names of those that did not end in time.
    fn end(&mut self, grace: Duration, signals: &Signals) -> Vec<String> {
        self.group.terminate();
        // A second signal ends the wait.
        self.wait(grace, signals);
        let late = self.members.iter().filter(|member| member.is_running());
        let late = late.map(|member| member.process.name.clone()).collect();
        self.group.kill();
        self.members.iter_mut().for_each(Member::wait);
        late
    }

    /// The exit code of a job that was asked to end and can be gone on with.
    fn code_when_asked(&self, signal: i32, console: &mut Console) -> i32 {
        if !self.members.iter().all(Member::ended_when_asked) {
            return 128 + signal;
        }
        console.say("all processes have ended in order");
        console.say(&lines::goes_on_later(UNFINISHED));
        UNFINISHED
    }

    /// Waits until all have ended by themselves, but not long, nor against a signal.
    fn wait(&mut self, limit: Duration, signals: &Signals) {
        let deadline = Instant::now() + limit;
        while self.members.iter().any(Member::is_running) {
            self.look();
            if Instant::now() >= deadline || signals.get().is_some() {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Tells watchers how processes are, and people how far the job is: on a terminal at once, in a log
    /// once a minute.
    fn tell(&mut self, console: &mut Console) {
        if self.told.elapsed() < TELL_EVERY {
            return;
        }
        self.told = Instant::now();
        self.keep_files();
        let Some(watched) = self.watched else { return };
        self.tell_watchers();
        self.line = watched.line(console);
        if let Some(line) = &self.line
            && !console.is_terminal()
            && self.noted.elapsed() >= self.note_every
        {
            self.noted = Instant::now();
            console.say(line);
        }
    }

    /// Writes damaged files again: the identity of the job, for the next launcher, and the list of servers, which
    /// waiting trainers read.
    fn keep_files(&self) {
        let Some(folder) = self.job.snapshots.as_ref().filter(|_| !self.job.is_wide) else {
            return;
        };
        snapshots::keep_job(folder);
        let is_moved = !self.endpoints.is_empty() && self.moving.is_none();
        if is_moved && server::server_list::read(folder).is_none() {
            // A disk that takes nothing now is tried again.
            let _ = server::server_list::write(folder, &self.endpoints);
        }
    }

    fn tell_watchers(&self) {
        if let Some(watched) = self.watched {
            let is_there = |member: &&Member| member.is_running() || member.is_due();
            watched.set_targets(self.members.iter().filter(is_there).map(|member| &member.process));
        }
        if let Some(board) = &self.job.board {
            board.set(self.members.iter().map(Member::told).collect());
        }
    }

    fn progress(&self) -> JobProgress {
        let running = |kind| {
            let is_running = |m: &&Member| m.is_running() && m.process.kind == kind;
            self.members.iter().filter(is_running).count()
        };
        let (servers, workers) = (running(RoleKind::Server), running(RoleKind::Trainer));
        let seconds = self.start.elapsed().as_secs();
        let mut trainers = self.members.iter().filter(|m| m.process.kind == RoleKind::Trainer);
        let last = trainers.next().and_then(|member| member.last_lines().pop());
        let clock = format!("{:02}:{:02}", seconds / 60, seconds % 60);
        if let Some(line) = &self.line {
            let share = self.watched.and_then(JobWatch::share);
            return JobProgress { share, words: format!("{clock} {line}") };
        }
        let last = last.unwrap_or_default();
        let words = format!("{clock} {servers} servers, {workers} workers | {last}");
        JobProgress { share: None, words }
    }
}

impl Drop for Processes<'_> {
    /// Kills the group first, whatever way the launcher leaves; the wait for its members is short
    /// then.
    fn drop(&mut self) {
        self.group.kill();
        self.members.iter_mut().for_each(Member::wait);
    }
}

fn no_keeper(source: std::io::Error) -> Error {
    let (name, program) = ("the keeper".to_string(), "/bin/sh".into());
    Error::Start { name, program, source }
}
