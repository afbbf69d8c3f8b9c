//! Settings that the pods of a job share: their nodes, their user and their disks.

use crate::error::{Result, Usage};

/// The default user of processes: not root.
pub(super) const USER: u32 = 1000;

/// A disk of the cluster, and where pods see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimMount {
    /// The name of its claim.
    pub claim: String,
    /// Where it is in the containers.
    pub path: String,
}

/// Nodes that refuse pods which do not name this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// The key of the taint.
    pub key: String,
    /// Its value; any without one.
    pub value: Option<String>,
    /// The effect on pods; all without one.
    pub effect: Option<String>,
}

/// How the pods of a job are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodOptions {
    /// The namespace of all objects; the one of `kubectl` without one.
    pub namespace: Option<String>,
    /// Labels that nodes must have.
    pub node_selectors: Vec<(String, String)>,
    /// Taints that pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// Secrets with which the image is pulled.
    pub pull_secrets: Vec<String>,
    /// The number of the user that runs processes.
    pub user: Option<u32>,
    /// The disk with the data, which is only read.
    pub data: Option<ClaimMount>,
    /// The disk that the script saves to; one is made for the job without it.
    pub output: Option<ClaimMount>,
}

impl ClaimMount {
    /// `CLAIM` or `CLAIM:PATH`.
    pub fn from_text(text: &str, usual: &str) -> Self {
        let (claim, path) = text.split_once(':').unwrap_or((text, usual));
        Self { claim: claim.to_string(), path: path.to_string() }
    }

    fn check(&self, option: &'static str) -> Result<()> {
        let is_path = self.path.starts_with('/') && self.path.len() > 1 && !self.path.contains(':');
        refuse(option, &self.path, is_path, "CLAIM or CLAIM:PATH, and the path a full one")?;
        refuse(option, &self.claim, is_name(&self.claim), "the name of a claim for a disk")
    }
}

impl Toleration {
    /// `KEY`, `KEY=VALUE`, each with `:EFFECT` behind it or without.
    pub fn from_text(text: &str) -> Self {
        let (taint, effect) = match text.rsplit_once(':') {
            Some((taint, effect)) => (taint, Some(effect.to_string())),
            None => (text, None),
        };
        let (key, value) = match taint.split_once('=') {
            Some((key, value)) => (key, Some(value.to_string())),
            None => (taint, None),
        };
        Self { key: key.to_string(), value, effect }
    }

    /// As the user wrote it.
    fn words(&self) -> String {
        let value = self.value.as_ref().map_or(String::new(), |value| format!("={value}"));
        let effect = self.effect.as_ref().map_or(String::new(), |effect| format!(":{effect}"));
        format!("{}{value}{effect}", self.key)
    }
}

impl PodOptions {
    /// Refuses settings that Kubernetes would refuse.
    pub(super) fn check(&self) -> Result<()> {
        let namespace = self.namespace.as_deref().unwrap_or("default");
        refuse("--namespace", namespace, is_name(namespace), "small letters, digits and hyphens")?;
        for secret in &self.pull_secrets {
            refuse("--image_pull_secret", secret, is_name(secret), "the name of a Secret")?;
        }
        for (key, value) in &self.node_selectors {
            let is_label = is_key(key) && (value.is_empty() || is_value(value));
            refuse("--node_selector", &format!("{key}={value}"), is_label, "a label, KEY=VALUE")?;
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        for toleration in &self.tolerations {
            let Toleration { key, value, effect } = toleration;
            let is_good = is_key(key)
                && value.as_ref().is_none_or(|value| value.is_empty() || is_value(value))
                && effect.as_ref().is_none_or(|effect| effects.contains(&effect.as_str()));
            let expected =
                "KEY, KEY=VALUE or KEY=VALUE:EFFECT with NoSchedule, PreferNoSchedule or NoExecute";
            refuse("--toleration", &toleration.words(), is_good, expected)?;
        }
        let number = self.user.unwrap_or(USER);
        refuse(
            "--run_as_user",
            &number.to_string(),
            number > 0,
            "the number of a user, and not root",
        )?;
        self.data.iter().try_for_each(|disk| disk.check("--data"))?;
        self.output.iter().try_for_each(|disk| disk.check("--output"))
    }
}

fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    !text.is_empty() && text.len() <= 253 && text.chars().all(is_plain)
}

/// The key of a label.
fn is_key(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or_default();
    is_value(name) && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
}

fn is_value(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(is_end)
        && text.ends_with(is_end)
        && text.chars().all(|c| is_end(c) || "-_.".contains(c))
}

/// An error unless a value is one.
pub(super) fn refuse(
    option: &'static str,
    value: &str,
    is_good: bool,
    expected: &'static str,
) -> Result<()> {
    if is_good {
        Ok(())
    } else {
        Err(Usage::BadValue { option, value: value.to_string(), expected }.into())
    }
}
