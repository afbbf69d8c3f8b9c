//! A job on Kubernetes: `kubectl apply`, then the state of the trainers' Job and the logs of all pods.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base::ProcessGroup;

use super::job::EngineJob;
use crate::error::{Error, Result};
use crate::launch::console::Console;
use crate::render::{self, RenderOptions};
use crate::safety::full;
use crate::signals::{UNFINISHED, name_of};
use crate::tool;

/// How often the cluster is asked.
const ASK_EVERY: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the cluster may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// The query: conditions of the Job, and the numbers of its pods that run, succeeded and failed.
const QUESTION: &str = "jsonpath={range .status.conditions[?(@.status==\"True\")]}{.type} {.reason}{\"\\n\"}{end}\
                        pods {.status.active} {.status.succeeded} {.status.failed}";

/// Submits the job and follows it; returns the exit code.
pub(super) fn run(job: &EngineJob, console: &mut Console) -> Result<i32> {
    let name = &job.options.name;
    let file = job.write(".yaml", &render::kubernetes_objects(&job.options)?)?;
    let file = file.to_string_lossy().into_owned();
    make_secrets(&job.options, console)?;
    let said = tool::output(kubectl(&job.options).args(["apply", "-f", &file]))?;
    said.lines().for_each(|line| console.say(line));
    let end = follow(job, console);
    // Disks stay, with the snapshots and the files that the script has saved.
    let removed = tool::output(kubectl(&job.options).args([
        "delete",
        "job,service",
        "--ignore-not-found",
        "--wait=false",
        &format!("--selector=app={name}"),
    ]));
    let end = end?;
    console.say(&format!("job {name} of Kubernetes: {}", end.words));
    removed?;
    Ok(end.code)
}

/// The command, for the namespace of the job.
fn kubectl(options: &RenderOptions) -> Command {
    let mut command = Command::new("kubectl");
    if let Some(namespace) = &options.pods.namespace {
        command.arg(format!("--namespace={namespace}"));
    }
    command
}

/// Creates the credentials of pods: the secret of the job, and certificates if there are any.
fn make_secrets(options: &RenderOptions, console: &mut Console) -> Result<()> {
    let (name, safety) = (&options.name, &options.safety);
    match &safety.secret_file {
        Some(path) => {
            let name = format!("{name}-secret");
            apply_secret(options, &name, &[("secret", path)], console)?;
        }
        None if safety.insecure => {}
        None => make_secret(options, console)?,
    }
    let files = safety.certificate()?;
    let files: Vec<_> = files.iter().map(|file| (file.key, file.path)).collect();
    if files.is_empty() {
        Ok(())
    } else {
        apply_secret(options, &format!("{name}-tls"), &files, console)
    }
}

/// Files as a Secret of the cluster. One of this name that is there gets their contents: they may be newer.
fn apply_secret(
    options: &RenderOptions,
    name: &str,
    files: &[(&str, impl AsRef<Path>)],
    console: &mut Console,
) -> Result<()> {
    let mut make = kubectl(options);
    make.args(["create", "secret", "generic", name, "--dry-run=client", "--output=yaml"]);
    for (key, path) in files {
        make.arg(format!("--from-file={key}={}", full(path.as_ref())?));
    }
    let made = tool::output(&mut make)?;
    let said = tool::output_of(kubectl(options).args(["apply", "-f", "-"]), &made)?;
    said.lines().for_each(|line| console.say(line));
    Ok(())
}

/// A secret that is made for the job. One that is there is kept.
fn make_secret(options: &RenderOptions, console: &mut Console) -> Result<()> {
    let name = format!("{}-secret", options.name);
    let mut find = kubectl(options);
    find.args(["get", "secret", &name, "--ignore-not-found", "--output=name"]);
    if !tool::output(&mut find)?.trim().is_empty() {
        return Ok(());
    }
    let mut make = kubectl(options);
    make.args(["create", "secret", "generic", &name, "--from-file=secret=/dev/stdin"]);
    let said = tool::output_of(&mut make, &net::Secret::random_text()?)?;
    said.lines().for_each(|line| console.say(line));
    Ok(())
}

/// How a job ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JobEnd {
    pub(super) words: String,
    pub(super) code: i32,
}

/// The state of the trainers' Job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JobState {
    Runs(String),
    Over(JobEnd),
}

impl JobState {
    /// Reads the answer to [`QUESTION`].
    pub(super) fn from_text(text: &str) -> Self {
        let mut pods = String::new();
        for line in text.lines() {
            let (kind, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            match kind {
                "Complete" => {
                    let words = "complete".to_string();
                    return JobState::Over(JobEnd { words, code: 0 });
                }
                "Failed" => {
                    let words = format!("failed ({rest})");
                    return JobState::Over(JobEnd { words, code: 1 });
                }
                "pods" => {
                    // A number that is zero is left out; then the words cannot be told apart.
                    let n: Vec<&str> = rest.split(' ').collect();
                    if let [active, done, failed] = n[..] {
                        let or_none =
                            |n: &str| if n.is_empty() { "0".into() } else { n.to_string() };
                        let [active, done, failed] = [active, done, failed].map(or_none);
                        pods =
                            format!("{active} trainers run, {done} have finished, {failed} failed");
                    }
                }
                _ => {}
            }
        }
        JobState::Runs(pods)
    }
}

fn ask(options: &RenderOptions) -> Result<JobState> {
    let job = format!("job/{}-trainer", options.name);
    let said = tool::output(kubectl(options).args(["get", &job, "-o", QUESTION]))?;
    Ok(JobState::from_text(&said))
}

/// The logs of all pods, as they come. `kubectl` ends when a pod does: then it is started again.
struct PodLogs<'a> {
    options: &'a RenderOptions,
    n: usize,
    group: ProcessGroup,
    child: Option<Child>,
}

impl PodLogs<'_> {
    fn keep(&mut self) -> Result<()> {
        let is_over = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if self.child.as_mut().is_some_and(|child| !is_over(child)) {
            return Ok(());
        }
        let again = self.child.is_some();
        let mut command = kubectl(self.options);
        command.args(["logs", "--follow", "--prefix", "--ignore-errors"]);
        command.arg(format!("--selector=app={}", self.options.name));
        command.arg(format!("--max-log-requests={}", self.n));
        // Lines that were printed before are skipped.
        if again {
            command.arg("--since=2s");
        }
        command.stdin(Stdio::null()).stdout(std::io::stderr()).stderr(Stdio::null());
        let (name, program) = ("kubectl logs".to_string(), "kubectl".into());
        let failed = |source| Error::Start { name, program, source };
        self.child = Some(self.group.spawn(&mut command).map_err(failed)?);
        Ok(())
    }
}

fn follow(job: &EngineJob, console: &mut Console) -> Result<JobEnd> {
    let options = &job.options;
    let n = options.n_servers + options.n_trainers;
    let (name, program) = ("the keeper".to_string(), "/bin/sh".into());
    let group = ProcessGroup::new().map_err(|source| Error::Start { name, program, source })?;
    let mut logs = PodLogs { options, n, group, child: None };
    let (mut said, mut answered) = (String::new(), Instant::now());
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(signal) = job.signals.take() {
            let words = format!("got {}, the job is removed; its disks stay", name_of(signal));
            return Ok(JobEnd { words, code: UNFINISHED });
        }
        if asked.is_none_or(|at| at.elapsed() >= ASK_EVERY) {
            asked = Some(Instant::now());
            logs.keep()?;
            match ask(options) {
                Ok(JobState::Over(end)) => return Ok(end),
                Ok(JobState::Runs(words)) => {
                    answered = Instant::now();
                    if words != said && !words.is_empty() {
                        console.say(&words);
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
