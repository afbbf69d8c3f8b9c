//! A batch job of Slurm: `sbatch`, then its state from `scontrol`. The job does not depend on this
//! process.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::job::EngineJob;
use super::tail::Tail;
use crate::error::{Error, Result};
use crate::launch::console::Console;
use crate::render;
use crate::signals::{UNFINISHED, name_of};
use crate::tool;

/// How often Slurm is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long Slurm may be silent: its controller may be started again.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// How long Slurm takes to end a job, beside the grace of the processes.
const CANCEL: Duration = Duration::from_secs(60);

/// Submits the job and follows it; returns the exit code.
pub(super) fn run(job: &EngineJob, console: &mut Console) -> Result<i32> {
    let script = job.write(".sbatch", &render::slurm_script(&job.options)?)?;
    let mut submit = Command::new("sbatch");
    submit.args(["--parsable", "--requeue", "--open-mode=append"]);
    submit.arg(format!("--output={}", job.file(".log").display())).arg(&script);
    let mut log = Tail::new(job.file(".log"));
    let said = tool::output(&mut submit)?;
    let id = said.trim().split(';').next().unwrap_or_default().to_string();
    console.say(&format!("Slurm has this as job {id}; its log is {}", job.file(".log").display()));
    let mut is_asked = false;
    let end = follow(job, &id, &mut log, &mut is_asked, console)?;
    log.last_lines().iter().for_each(|line| console.pass(line));
    console.say(&format!("job {id} of Slurm: {}", end.words()));
    // Its processes had the time to end in order; at worst it resumes from the last snapshot.
    Ok(if is_asked && end.code() != 0 { UNFINISHED } else { end.code() })
}

/// The state of a job in Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobView {
    pub(super) state: String,
    pub(super) reason: String,
    pub(super) nodes: String,
    pub(super) exit: i32,
    pub(super) n_restarts: u32,
}

impl JobView {
    /// Reads the output of `scontrol show job`.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let word = |name: &str| {
            let found = text.split_whitespace().find_map(|word| word.strip_prefix(name));
            found.unwrap_or_default().to_string()
        };
        let state = word("JobState=");
        let exit = word("ExitCode=");
        let mut exit = exit.split(':').map(|part| part.parse().unwrap_or(0));
        let (code, signal) = (exit.next().unwrap_or(0), exit.next().unwrap_or(0));
        let exit = if signal > 0 { 128 + signal } else { code };
        let n_restarts = word("Restarts=").parse().unwrap_or(0);
        let (reason, nodes) = (word("Reason="), word("NodeList="));
        (!state.is_empty()).then_some(Self { state, reason, nodes, exit, n_restarts })
    }

    pub(super) fn is_over(&self) -> bool {
        let goes_on = [
            "PENDING",
            "RUNNING",
            "COMPLETING",
            "CONFIGURING",
            "REQUEUED",
            "REQUEUE_HOLD",
            "REQUEUE_FED",
            "SUSPENDED",
            "STOPPED",
            "SIGNALING",
            "STAGE_OUT",
            "RESIZING",
            "SPECIAL_EXIT",
        ];
        !goes_on.contains(&self.state.as_str())
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        let again = match self.n_restarts {
            0 => String::new(),
            n => format!(", put into the queue again {n} times by Slurm"),
        };
        match self.state.as_str() {
            "PENDING" => format!("waits in the queue ({}){again}", self.reason),
            "RUNNING" => format!("runs on {}{again}", self.nodes),
            state => format!("{}{again}", state.to_lowercase().replace('_', " ")),
        }
    }

    fn code(&self) -> i32 {
        match (self.state.as_str(), self.exit) {
            ("COMPLETED", _) => 0,
            (_, 0) => 1,
            (_, code) => code,
        }
    }
}

fn ask(id: &str) -> Result<JobView> {
    let said = tool::output(Command::new("scontrol").args(["show", "job", id]))?;
    let unknown = || Error::Tool { program: "scontrol".into(), said: said.trim().to_string() };
    JobView::from_text(&said).ok_or_else(unknown)
}

/// Prints the output of the job until it is over. A signal ends the job; a second one only this process.
fn follow(
    job: &EngineJob,
    id: &str,
    log: &mut Tail,
    is_asked: &mut bool,
    console: &mut Console,
) -> Result<JobView> {
    let mut said = String::new();
    let mut answered = Instant::now();
    let mut asked = None;
    let mut give_up: Option<Instant> = None;
    loop {
        log.lines().iter().for_each(|line| console.pass(line));
        if let Some(signal) = job.signals.take() {
            console.say(&format!("got {}, ending job {id} of Slurm", name_of(signal)));
            if give_up.is_some() {
                return Err(Error::Unfollowed { job: format!("job {id} of Slurm") });
            }
            tool::output(Command::new("scancel").arg(id))?;
            *is_asked = true;
            let grace = job.options.grace;
            give_up = Some(Instant::now() + grace + CANCEL);
        }
        if give_up.is_some_and(|at| Instant::now() > at) {
            return Err(Error::Unfollowed { job: format!("job {id} of Slurm") });
        }
        if asked.is_none_or(|at: Instant| at.elapsed() >= ASK_EVERY) {
            asked = Some(Instant::now());
            match ask(id) {
                Ok(view) => {
                    answered = Instant::now();
                    if view.is_over() {
                        return Ok(view);
                    }
                    let words = view.words();
                    if words != said {
                        console.say(&format!("job {id} of Slurm {words}"));
                        said = words;
                    }
                }
                Err(error) if answered.elapsed() > SILENCE_MAX => return Err(error),
                Err(_) => {}
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}
