//! Options that both launchers have.

use std::path::PathBuf;

use clap::Args;
use fleet::ScriptCommand;
use fleet::launch::options::{SafetyOptions, WatchOptions};

use crate::values;

/// The first of these options that is given.
pub(crate) fn first_given(options: &[(bool, &'static str)]) -> Option<&'static str> {
    options.iter().find(|(is_given, _)| *is_given).map(|(_, option)| *option)
}

/// The script of the processes of a job.
#[derive(Args)]
pub(crate) struct Script {
    /// A Python script (.py) or any executable, and its own arguments
    #[arg(value_name = "SCRIPT", required = true, num_args = 1.., trailing_var_arg = true)]
    script: Vec<String>,
}

impl Script {
    pub(crate) fn command(self) -> ScriptCommand {
        let mut words = self.script.into_iter();
        // clap has checked that there is one.
        let path = words.next().unwrap_or_default().into();
        ScriptCommand { path, arguments: words.collect() }
    }
}

/// Access to a job.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "Access")]
pub(crate) struct Safety {
    /// The secret of the job, for all its machines; made for the job if it runs on one
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Speak to other machines without a secret
    #[arg(long)]
    insecure: bool,
    /// Encrypt connections between machines, with keys that are made for the job
    #[arg(long)]
    tls: bool,
    /// Encrypt them with certificates: that of this process (PEM)
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The authorities whose certificates are taken (PEM)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The name that all certificates have [default: the host of each server]
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
}

impl Safety {
    pub(crate) fn options(self, save_root: Option<String>) -> SafetyOptions {
        SafetyOptions {
            secret_file: self.secret_file,
            insecure: self.insecure,
            save_root,
            tls: self.tls,
            tls_cert: self.tls_cert,
            tls_key: self.tls_key,
            tls_ca: self.tls_ca,
            tls_name: self.tls_name,
        }
    }
}

/// Monitoring of a job.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "Watching")]
pub(crate) struct Watching {
    /// Show the job on a page, at 127.0.0.1:8790 or another port if that is taken
    #[arg(
        long,
        value_name = "HOST:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = values::address
    )]
    web: Option<String>,
    /// Write numbers for TensorBoard there
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// Let processes say what they do, each at a port of its own: True or False
    ///
    /// Unless said otherwise, those of launch_ps do, and those of launch with --web or --tensorboard.
    #[arg(long, value_name = "BOOL", value_parser = values::truth)]
    metrics: Option<bool>,
    /// The address of these ports [default: 127.0.0.1]
    #[arg(long, value_name = "HOST")]
    metrics_host: Option<String>,
}

impl Watching {
    /// The first option that is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.web.is_some(), "--web"),
            (self.tensorboard.is_some(), "--tensorboard"),
            (self.metrics.is_some(), "--metrics"),
            (self.metrics_host.is_some(), "--metrics_host"),
        ];
        first_given(&given)
    }

    /// Processes answer by default, or if an option needs their answers.
    pub(crate) fn options(self, is_usual: bool) -> WatchOptions {
        let is_wanted = is_usual || self.web.is_some() || self.tensorboard.is_some();
        WatchOptions {
            is_on: self.metrics.unwrap_or(is_wanted),
            host: self.metrics_host,
            web: self.web,
            tensorboard: self.tensorboard,
        }
    }
}
