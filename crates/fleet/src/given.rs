//! Command lines with options before a script, as Fluid's launchers have them.

use std::path::PathBuf;
use std::time::Duration;

use ps::Endpoint;
use tensor::DidYouMean;

use crate::error::{Result, Usage};

/// A rule for times.
pub(crate) const FROM_ZERO: &str = "a number of seconds, 0 or more";
/// Another rule for times.
pub(crate) const ABOVE_ZERO: &str = "a number of seconds above 0";
/// Encrypts with keys that are made for the job.
pub(crate) const TLS: &str = "--tls";
/// Has an address or none.
pub(crate) const WEB: &str = "--web";

/// What to start, and with which arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCommand {
    /// The script or executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// Options as they were written, and the script behind them.
pub(crate) struct Given {
    values: Vec<(&'static str, String)>,
    pub(crate) script: ScriptCommand,
}

impl Given {
    pub(crate) fn read(
        arguments: &[String],
        names: &[&'static str],
        switches: &[&'static str],
    ) -> Result<Option<Self>> {
        let (mut values, mut rest) = (Vec::new(), arguments.iter());
        let path = loop {
            let argument = rest.next().ok_or(Usage::NoScript)?;
            if argument == "-h" || argument == "--help" {
                return Ok(None);
            }
            if argument == "--" {
                break rest.next().ok_or(Usage::NoScript)?;
            }
            if !argument.starts_with('-') {
                break argument;
            }
            if let Some(switch) = switches.iter().find(|switch| *switch == argument) {
                let next = rest.clone().next().filter(|_| *switch == WEB);
                let address = next.filter(|next| next.parse::<Endpoint>().is_ok());
                if address.is_some() {
                    rest.next();
                }
                values.push((*switch, address.cloned().unwrap_or_default()));
                continue;
            }
            if let Some(address) = argument.strip_prefix("--web=")
                && switches.contains(&WEB)
            {
                values.push((WEB, address.to_string()));
                continue;
            }
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (argument.as_str(), None),
            };
            let known = names.iter().find(|known| **known == name);
            let known = known.ok_or_else(|| {
                let near = DidYouMean::among(name, names.iter().chain(switches).copied());
                Usage::UnknownOption { option: name.to_string(), near }
            })?;
            let value = value.or_else(|| rest.next().cloned());
            values.push((known, value.ok_or_else(|| Usage::NoValue(name.to_string()))?));
        };
        let script = ScriptCommand { path: path.into(), arguments: rest.cloned().collect() };
        Ok(Some(Self { values, script }))
    }

    /// What was given last; an empty value is none, as for Fluid's `--endpoints ""`.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let found = self.values.iter().rev().find(|(known, _)| *known == name);
        let is_switch = ["--use_paddlecloud", "--insecure", TLS, WEB].contains(&name);
        found.map(|(_, value)| value.as_str()).filter(|value| is_switch || !value.is_empty())
    }

    pub(crate) fn items(&self, name: &str) -> Vec<String> {
        let items = self.value(name).unwrap_or("").split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).map(str::to_string).collect()
    }

    pub(crate) fn number(&self, name: &'static str) -> Result<Option<usize>> {
        /// More processes than any machine runs is a slip of the finger.
        const MAX: usize = 10_000;
        let Some(value) = self.value(name) else { return Ok(None) };
        let expected = "a number from 0 to 10000";
        match value.parse() {
            Ok(number) if number <= MAX => Ok(Some(number)),
            _ => Err(Usage::BadValue { option: name, value: value.into(), expected }.into()),
        }
    }

    /// A time; `expected` is one of the two rules for it.
    pub(crate) fn seconds(
        &self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<Option<Duration>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let seconds = value.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
        match seconds.filter(|time| expected == FROM_ZERO || !time.is_zero()) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(Usage::BadValue { option: name, value: value.into(), expected }.into()),
        }
    }

    pub(crate) fn port(&self, name: &'static str) -> Result<Option<u16>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let expected = "a port from 1 to 65535";
        match value.parse() {
            Ok(port) if port > 0 => Ok(Some(port)),
            _ => Err(Usage::BadValue { option: name, value: value.into(), expected }.into()),
        }
    }

    pub(crate) fn is_true(&self, name: &'static str) -> Result<bool> {
        match self.value(name).unwrap_or("True") {
            "True" | "true" | "1" => Ok(true),
            "False" | "false" | "0" => Ok(false),
            other => {
                let expected = "True or False";
                Err(Usage::BadValue { option: name, value: other.into(), expected }.into())
            }
        }
    }
}
