//! `paddlewheel watch`: the page of a job that others have started.

use std::path::PathBuf;

use base::Endpoint;
use clap::Args;
use fleet::launch::options::{WatchOptions, WatchedProcesses};
use fleet::launch::{self, Console};

use crate::error::Result;
use crate::values;

/// Shows a running job on a page.
///
/// For jobs that our launcher has not started; launch_ps --web shows its own. Ends with Ctrl-C.
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel watch 10.0.0.1:7170 10.0.0.2:7170
  paddlewheel watch --web 0.0.0.0:8790 --jsonl metrics.jsonl 127.0.0.1:7170")]
pub(crate) struct WatchCommand {
    /// Processes of a job that answer HTTP (PADDLEWHEEL_METRICS_PORT)
    #[arg(value_name = "HOST:PORT", required = true, value_parser = values::endpoint)]
    processes: Vec<Endpoint>,
    /// Where the page is [default: 127.0.0.1:8790, or another port if that is taken]
    #[arg(long, value_name = "HOST:PORT", value_parser = values::address)]
    web: Option<String>,
    /// Write numbers for TensorBoard there
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// Write numbers there, a line for each time
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
}

impl WatchCommand {
    pub(crate) fn run(self) -> Result<i32> {
        Ok(launch::watch(&self.options(), &mut Console::stderr())?)
    }

    pub(super) fn options(self) -> WatchedProcesses {
        let (web, tensorboard) = (self.web, self.tensorboard);
        WatchedProcesses {
            addresses: self.processes.iter().map(Endpoint::to_string).collect(),
            watch: WatchOptions { is_on: true, host: None, web, tensorboard },
            jsonl: self.jsonl,
        }
    }
}
