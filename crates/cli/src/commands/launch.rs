//! `paddlewheel launch`: a job of trainers alone.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use fleet::launch::options::{CollectiveOptions, LogFormat};
use fleet::launch::{self, Console};

use super::job::{Safety, Script, Watching};
use crate::caller::Caller;
use crate::error::Result;
use crate::values::{self, CommaList};

/// Starts trainers that work without servers, and waits for them.
///
/// They add up their gradients directly. On several machines, start a launcher on each of them. Exit codes: 0 if
/// the job has finished, 1 if a process failed, 128 and the signal if the job was asked to end.
#[derive(Args)]
#[command(
    rename_all = "snake_case",
    after_help = "\
Examples:
  paddlewheel launch --nproc_per_node 4 --log_dir logs train.py
  paddlewheel launch --nproc_per_node 4 --max_restarts 5 train.py"
)]
pub(crate) struct Launch {
    #[command(flatten)]
    script: Script,
    /// Processes on this machine [default: 1, or one for each of --selected_gpus]
    #[arg(long, value_name = "N", value_parser = values::count)]
    nproc_per_node: Option<usize>,
    /// All machines of the job, ip,ip; start a launcher on each of them
    #[arg(long, value_name = "IPS", value_parser = values::names)]
    cluster_node_ips: Option<CommaList<String>>,
    /// This machine
    #[arg(long, value_name = "IP")]
    node_ip: Option<String>,
    /// First port of the processes [default: 6170, or others if that is taken]
    #[arg(long, value_name = "P", value_parser = values::port)]
    started_port: Option<u16>,
    /// How many there are is how many processes are started, unless --nproc_per_node is given
    #[arg(long, value_name = "LIST", value_parser = values::names)]
    selected_gpus: Option<CommaList<String>>,
    /// Where workerlog.N go [default: to this terminal]
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// The form of lines in logs [default: text]
    #[arg(long, value_name = "FORM", value_parser = values::log_format())]
    log_format: Option<LogFormat>,
    /// Accepted, as Fluid's launcher does; lines of this launcher have no levels
    #[arg(long, value_name = "N", value_parser = values::count)]
    log_level: Option<usize>,
    /// How often a process that died is started again within 10 minutes
    ///
    /// The others wait for it, and the job continues as if nothing had happened.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::count)]
    max_restarts: usize,
    /// Machines from PADDLE_TRAINERS, this one from POD_IP
    #[arg(long)]
    use_paddlecloud: bool,
    /// Say what is started: True or False
    #[arg(long, value_name = "BOOL", default_value = "True", action = ArgAction::Set, value_parser = values::truth)]
    print_config: bool,
    #[command(flatten)]
    safety: Safety,
    #[command(flatten)]
    watching: Watching,
}

impl Launch {
    pub(crate) fn run(self: Box<Self>, caller: &Caller) -> Result<i32> {
        let options = self.options();
        let host = caller.host(&options.script)?;
        Ok(launch::launch(options, &host, &mut Console::stderr())?)
    }

    pub(super) fn options(self: Box<Self>) -> CollectiveOptions {
        let gpus = self.selected_gpus.map_or(Vec::new(), |list| list.0);
        CollectiveOptions {
            n_processes: self.nproc_per_node.unwrap_or(gpus.len().max(1)),
            nodes: self.cluster_node_ips.map_or(Vec::new(), |list| list.0),
            node: self.node_ip,
            start_port: self.started_port,
            gpus,
            log_dir: self.log_dir,
            log_format: self.log_format,
            max_restarts: self.max_restarts,
            is_cloud: self.use_paddlecloud,
            is_verbose: self.print_config,
            safety: self.safety.options(None),
            watch: self.watching.options(false),
            script: self.script.command(),
        }
    }
}
