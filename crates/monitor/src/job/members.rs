//! Facts about the processes of a job that are known without asking them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;

/// How a process is, as its launcher sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// It runs, as far as is known.
    #[default]
    Running,
    /// It came to its end.
    Ended,
    /// It died, and will be started again.
    Restarting,
    /// It died.
    Failed,
}

/// A process of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its name in messages, if it is known: `server 0`, `worker 1`.
    pub name: Option<String>,
    /// Where it answers HTTP.
    pub address: String,
    /// How it is.
    pub condition: Condition,
    /// Its number on this machine, if it runs here.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub n_restarts: usize,
    /// How it ended, or its last process, if it was started again.
    pub end: Option<String>,
    /// The last lines that it wrote, if it died.
    pub lines: Vec<String>,
    /// The file that it writes its last numbers to.
    pub last_state: Option<PathBuf>,
}

impl Told {
    /// A process of which only the address is known.
    pub fn at(address: &str) -> Self {
        Self { address: address.to_string(), ..Self::default() }
    }
}

/// The board on which a launcher writes the states of processes, for the collector.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Vec<Told>>>);

impl Board {
    /// A list of processes.
    pub fn new(all: Vec<Told>) -> Self {
        Self(Arc::new(Mutex::new(all)))
    }

    /// From now on these are the processes.
    pub fn set(&self, all: Vec<Told>) {
        *self.0.lock().even_if_poisoned() = all;
    }

    /// All processes.
    pub fn get(&self) -> Vec<Told> {
        self.0.lock().even_if_poisoned().clone()
    }
}
