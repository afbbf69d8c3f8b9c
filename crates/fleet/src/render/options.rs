//! A job to be printed.

use std::path::PathBuf;
use std::time::Duration;

use logging::LogFormat;

use super::pods::{PodOptions, refuse};
use crate::env::{self, LOG_FORMAT};
use crate::error::{Result, Usage};
use crate::safety::SafetyOptions;
use crate::script::ScriptCommand;

/// The kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A Job and a disk for each server, an indexed Job for trainers and a headless Service.
    Kubernetes,
    /// A JobSet.
    JobSet,
    /// A batch script.
    Slurm,
}

/// The description of the job.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderOptions {
    /// The container image with paddlewheel and the script; Slurm needs none.
    pub image: Option<String>,
    /// The name of the job.
    pub name: String,
    /// Servers.
    pub n_servers: usize,
    /// Trainers.
    pub n_trainers: usize,
    /// Port of the servers; none: the usual one, on Slurm one made of the number of the job.
    pub port: Option<u16>,
    /// Processors of each process.
    pub cpus: usize,
    /// Memory of each process.
    pub memory: String,
    /// Disk for the snapshots of a server.
    pub storage: String,
    /// The class of that disk; that of the cluster without one.
    pub storage_class: Option<String>,
    /// How often snapshots are written.
    pub snapshot_every: Duration,
    /// How often a process is started again; on Slurm, the job.
    pub max_restarts: usize,
    /// How long processes may take to end after SIGTERM.
    pub grace: Duration,
    /// The limit of the job on Slurm.
    pub time: String,
    /// Where it runs on Slurm; where the cluster says without one.
    pub partition: Option<String>,
    /// The script and its arguments.
    pub script: ScriptCommand,
    /// Where snapshots go, if not to the usual place.
    pub snapshot_dir: Option<PathBuf>,
    /// The command that runs scripts.
    pub program: Vec<String>,
    /// Access to the job.
    pub safety: SafetyOptions,
    /// The form of lines in logs.
    pub log_format: Option<LogFormat>,
    /// How pods are made.
    pub pods: PodOptions,
    /// More variables of all processes.
    pub variables: Vec<(&'static str, String)>,
}

impl RenderOptions {
    /// The defaults, for this script.
    pub fn new(script: ScriptCommand) -> Self {
        let stem = script.path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
        Self {
            image: None,
            name: stem.unwrap_or_default().replace(['_', '.', ' '], "-"),
            n_servers: 2,
            n_trainers: 2,
            port: None,
            cpus: 1,
            memory: "2Gi".to_string(),
            storage: "10Gi".to_string(),
            storage_class: None,
            snapshot_every: Duration::from_secs(10),
            max_restarts: 5,
            grace: Duration::from_secs(60),
            time: "1-00:00:00".to_string(),
            partition: None,
            script,
            snapshot_dir: None,
            program: vec!["paddlewheel".to_string()],
            safety: SafetyOptions::default(),
            log_format: None,
            pods: PodOptions::default(),
            variables: Vec::new(),
        }
    }

    /// The port of servers, where they have one.
    pub(crate) fn port(&self) -> u16 {
        self.port.unwrap_or(env::PORT)
    }

    pub(crate) fn snapshot_secs(&self) -> f64 {
        self.snapshot_every.as_secs_f64()
    }

    /// Variables of all processes, except those of roles and of access.
    pub(crate) fn words(&self) -> Vec<(&'static str, String)> {
        let format = self.log_format.map(|format| (LOG_FORMAT[0], format.name().to_string()));
        format.into_iter().chain(self.variables.iter().cloned()).collect()
    }

    /// Engines count whole seconds.
    pub(crate) fn grace_secs(&self) -> u64 {
        self.grace.as_secs()
    }

    /// Refuses settings that the engine would refuse.
    pub(crate) fn check(&self, engine: Engine) -> Result<()> {
        let counts =
            [(self.n_servers, "server"), (self.n_trainers, "trainer"), (self.cpus, "processor")];
        if let Some((_, what)) = counts.into_iter().find(|(n, _)| *n == 0) {
            return Err(Usage::Nobody(what).into());
        }
        if engine != Engine::Slurm && self.image.is_none() {
            return Err(Usage::NoImage.into());
        }
        self.safety.variables()?;
        self.safety.certificate()?;
        check_name(&self.name)?;
        self.pods.check()?;
        check_size("--memory", &self.memory)?;
        check_size("--storage", &self.storage)?;
        check_word("--time", &self.time)?;
        check_word("--partition", self.partition.as_deref().unwrap_or_default())
    }
}

/// A name that every engine takes: one label of a host name, with room for the endings that are added to it.
fn check_name(name: &str) -> Result<()> {
    let is_label = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && name.len() <= 40;
    refuse(
        "--name",
        name,
        is_label,
        "small letters, digits and hyphens, at most 40, a letter first",
    )
}

/// An amount of bytes, as Kubernetes writes it.
fn check_size(option: &'static str, text: &str) -> Result<()> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let is_number = digits.parse::<u64>().is_ok_and(|number| number > 0);
    let is_size = is_number && ["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&unit);
    refuse(option, text, is_size, "a number of bytes, such as 500Mi or 2Gi")
}

/// A value that goes into a line of `#SBATCH`.
fn check_word(option: &'static str, text: &str) -> Result<()> {
    let is_word = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_:,.".contains(c));
    refuse(option, text, is_word, "letters, digits, and - _ : , .")
}
