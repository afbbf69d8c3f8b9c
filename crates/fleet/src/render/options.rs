//! The command line of `render`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tensor::DidYouMean;

use crate::env;
use crate::error::{Result, Usage};
use crate::given::{ABOVE_ZERO, FROM_ZERO, Given, ScriptCommand};

/// What `render --help` says.
pub const USAGE: &str = "\
usage: render k8s|jobset|slurm [options] script [arguments]
  --image IMAGE      k8s, jobset: the container image with paddlewheel and the script
  --name NAME        of the job (the script's)
  --server_num N     servers (2)
  --worker_num N     trainers (2)
  --port P           port of the servers (6174; slurm: one made of the number of the job)
  --cpus N           processors of each process (1)
  --memory SIZE      memory of each process (2Gi)
  --storage SIZE     k8s, jobset: disk for the snapshots of a server (10Gi)
  --storage_class C  k8s, jobset: the class of that disk (that of the cluster)
  --snapshot_secs S  how often snapshots are written (10)
  --max_restarts N   how often a process (slurm: the job) is started again (5)
  --grace_secs S     how long processes may take to end after SIGTERM (60)
  --time TIME        slurm: the limit of the job (1-00:00:00)
  --partition NAME   slurm: where it runs (that of the cluster)
k8s prints a StatefulSet for servers, an indexed Job for trainers and a headless Service; jobset a JobSet; slurm a
batch script. Submit it with `kubectl apply -f FILE` or `sbatch FILE`.";

/// What is to be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Kubernetes,
    JobSet,
    Slurm,
}

/// Its options; each has a value.
pub(crate) const OPTIONS: &[&str] = &[
    "--image",
    "--name",
    "--server_num",
    "--worker_num",
    "--port",
    "--cpus",
    "--memory",
    "--storage",
    "--storage_class",
    "--snapshot_secs",
    "--max_restarts",
    "--grace_secs",
    "--time",
    "--partition",
];

const ENGINES: &[(&str, Engine)] =
    &[("k8s", Engine::Kubernetes), ("jobset", Engine::JobSet), ("slurm", Engine::Slurm)];

/// What the job should be.
#[derive(Clone, Debug)]
pub(crate) struct RenderOptions {
    pub(crate) image: String,
    pub(crate) name: String,
    pub(crate) n_servers: usize,
    pub(crate) n_trainers: usize,
    pub(crate) port: u16,
    /// Whether the port was asked for.
    pub(crate) is_port_given: bool,
    pub(crate) cpus: usize,
    pub(crate) memory: String,
    pub(crate) storage: String,
    pub(crate) storage_class: Option<String>,
    pub(crate) snapshot_secs: f64,
    pub(crate) max_restarts: usize,
    pub(crate) grace_secs: u64,
    pub(crate) time: String,
    pub(crate) partition: Option<String>,
    /// Where snapshots go, if not to the usual place.
    pub(crate) snapshot_dir: Option<PathBuf>,
    /// The command that runs scripts.
    pub(crate) program: Vec<String>,
    pub(crate) script: ScriptCommand,
}

/// Reads the command line; None when it asks for help.
pub(super) fn read(arguments: &[String]) -> Result<Option<(Engine, RenderOptions)>> {
    let Some(word) = arguments.first().filter(|word| *word != "-h" && *word != "--help") else {
        return if arguments.is_empty() { Err(Usage::NoEngine.into()) } else { Ok(None) };
    };
    let Some((_, engine)) = ENGINES.iter().find(|(name, _)| name == word) else {
        let near = DidYouMean::among(word, ENGINES.iter().map(|(name, _)| *name));
        return Err(Usage::UnknownEngine { engine: word.clone(), near }.into());
    };
    let Some(given) = Given::read(&arguments[1..], OPTIONS, &[])? else { return Ok(None) };
    Ok(Some((*engine, made(*engine, given)?)))
}

pub(crate) fn made(engine: Engine, given: Given) -> Result<RenderOptions> {
    let count = |name, usual, what| -> Result<usize> {
        match given.number(name)?.unwrap_or(usual) {
            0 => Err(Usage::Nobody(what).into()),
            n => Ok(n),
        }
    };
    let image = given.value("--image").map(str::to_string);
    let seconds = |name, rule, usual| -> Result<Duration> {
        Ok(given.seconds(name, rule)?.unwrap_or(Duration::from_secs(usual)))
    };
    Ok(RenderOptions {
        image: match (engine, image) {
            (_, Some(image)) => image,
            (Engine::Slurm, None) => String::new(),
            (_, None) => return Err(Usage::NoImage.into()),
        },
        name: name(&given)?,
        n_servers: count("--server_num", 2, "server")?,
        n_trainers: count("--worker_num", 2, "trainer")?,
        port: given.port("--port")?.unwrap_or(env::PORT),
        is_port_given: given.port("--port")?.is_some(),
        cpus: count("--cpus", 1, "processor")?,
        memory: size(&given, "--memory", "2Gi")?,
        storage: size(&given, "--storage", "10Gi")?,
        storage_class: given.value("--storage_class").map(str::to_string),
        snapshot_secs: seconds("--snapshot_secs", ABOVE_ZERO, 10)?.as_secs_f64(),
        max_restarts: given.number("--max_restarts")?.unwrap_or(5),
        grace_secs: seconds("--grace_secs", FROM_ZERO, 60)?.as_secs(),
        time: word(&given, "--time")?.unwrap_or("1-00:00:00".to_string()),
        partition: word(&given, "--partition")?,
        snapshot_dir: None,
        program: vec!["paddlewheel".to_string()],
        script: given.script,
    })
}

/// A name that every engine takes: one label of a host name, with room for what is added to it.
fn name(given: &Given) -> Result<String> {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
    let usual = stem(&given.script.path).unwrap_or_default().replace(['_', '.', ' '], "-");
    let name = given.value("--name").map_or(usual, str::to_string);
    let is_label = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && name.len() <= 40;
    let expected = "small letters, digits and hyphens, at most 40, a letter first";
    match is_label {
        true => Ok(name),
        false => Err(Usage::BadValue { option: "--name", value: name, expected }.into()),
    }
}

/// An amount of bytes, as Kubernetes writes it.
fn size(given: &Given, option: &'static str, usual: &str) -> Result<String> {
    let text = given.value(option).unwrap_or(usual).to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let is_number = digits.parse::<u64>().is_ok_and(|number| number > 0);
    if is_number && ["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&unit) {
        return Ok(text);
    }
    let expected = "a number of bytes, such as 500Mi or 2Gi";
    Err(Usage::BadValue { option, value: text, expected }.into())
}

/// A value that goes into a line of `#SBATCH`.
fn word(given: &Given, option: &'static str) -> Result<Option<String>> {
    let Some(text) = given.value(option) else { return Ok(None) };
    let is_word = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_:,.".contains(c));
    let expected = "letters, digits, and - _ : , .";
    match is_word {
        true => Ok(Some(text.to_string())),
        false => Err(Usage::BadValue { option, value: text.to_string(), expected }.into()),
    }
}
