//! `paddlewheel scale`: another number of servers for a job that runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fleet::Usage;
use fleet::launch::options::ScaleOptions;
use fleet::launch::{self, Console};

use crate::error::{Error, Result};
use crate::values;

/// Gives a running job another number of servers.
///
/// The job runs on this machine and writes snapshots (launch_ps --snapshot_dir). Its rows move to the new
/// servers while it trains.
#[derive(Args)]
#[command(
    rename_all = "snake_case",
    after_help = "\
Examples:
  paddlewheel scale snapshots --servers 4"
)]
pub(crate) struct Scale {
    /// The folder of snapshots of the job
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How many servers it should have from now on
    #[arg(long, value_name = "N", required = true, value_parser = values::count)]
    servers: usize,
    /// How long to wait for that
    #[arg(long, value_name = "S", default_value = "900", value_parser = values::some_seconds)]
    wait_secs: Duration,
}

impl Scale {
    pub(crate) fn run(self) -> Result<i32> {
        launch::scale(&self.options()?, &mut Console::stderr())?;
        Ok(0)
    }

    pub(super) fn options(self) -> Result<ScaleOptions> {
        let folder = self.folder;
        let n_servers = self.servers;
        let patience = self.wait_secs;
        match n_servers {
            0 => Err(Error::Fleet(Usage::Nobody("server").into())),
            _ => Ok(ScaleOptions { folder, n_servers, patience }),
        }
    }
}
