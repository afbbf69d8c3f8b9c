//! One pass over a dataset: threads take batches and run a program on each (Fluid:
//! `train_from_dataset`).
//!
//! Each thread has its own temporaries. All threads share the parameters: with several threads, an
//! op borrows the parameters while it runs ([`crate::cell`]). If the threads of a trainer step
//! together ([`together`]), their gradients are averaged in thread order and sent once.

mod answer;
mod batches;
mod cutting;
mod event;
mod progress;
mod resumable;
mod run;
mod shared;
mod shuffle;
mod size;
mod text;
mod together;
mod values;
mod worker;

use std::time::Duration;

use data::Dataset;
use program::Program;
use tensor::Tensor;

pub use progress::{Progress, Report};
pub use shuffle::global_shuffle;
pub use text::{debug_text, fetched_text};
pub use values::PassValue;

use crate::error::{Error, Result};
use crate::scope::Scope;
use crate::trainer::Trainer;

/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// The work of a pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    /// Runs once for each batch.
    pub program: &'a Program,
    /// Its variables.
    pub scope: &'a Scope,
    /// What it shows meanwhile, and whether it trains.
    pub options: &'a PassOptions,
}

/// What a pass shows, and whether it trains.
#[derive(Clone, Debug)]
pub struct PassOptions {
    /// Variables of the first thread to show.
    pub fetch: Vec<String>,
    /// The names of fetched values on the live page; a value without one has its variable's name.
    pub fetch_names: Vec<String>,
    /// They are shown every this many batches of the first thread; 0: never.
    pub fetch_every: u64,
    /// Variables of the first thread to show at intervals of time.
    pub watch: Vec<String>,
    /// How often.
    pub watch_every: Duration,
    /// Measures the time of each op on the first thread, and shows it every 100 batches.
    pub debug: bool,
    /// Only infers: nothing is sent to servers.
    pub infers: bool,
}

impl Default for PassOptions {
    fn default() -> Self {
        Self {
            fetch: Vec::new(),
            fetch_names: Vec::new(),
            fetch_every: 100,
            watch: Vec::new(),
            watch_every: Duration::from_secs(60),
            debug: false,
            infers: false,
        }
    }
}

/// Is told about a pass while it runs. Called on the thread that started the pass.
pub trait Observer {
    /// [`PassOptions::fetch`] on the first thread, as of one batch.
    fn fetched(&mut self, values: &[Tensor]);

    /// [`PassOptions::watch`] on the first thread; `None` where there is no value.
    fn watched(&mut self, values: Vec<Option<Tensor>>) {
        let _ = values;
    }

    /// Where the time went on the first thread.
    fn measured(&mut self, text: &str) {
        let _ = text;
    }

    /// Called now and then; whether to go on.
    fn goes_on(&mut self, progress: &Progress) -> bool {
        let _ = progress;
        true
    }
}

impl Trainer {
    /// Runs a program on every batch of a dataset, with as many threads as the dataset has.
    ///
    /// In a job that recovers, this is one event of the script. A script that was started again
    /// gets the report of a pass that was finished before, and resumes a pass that was not.
    pub fn run_dataset(
        &mut self,
        pass: Pass<'_>,
        dataset: &mut Dataset,
        observer: &mut dyn Observer,
    ) -> Result<Report> {
        check_shown(pass.program, pass.options)?;
        event::run(self, pass, dataset, observer)
    }
}

fn check_shown(program: &Program, options: &PassOptions) -> Result<()> {
    let unknown = |name: &&String| program.find_var(0, name).is_none();
    match options.fetch.iter().chain(&options.watch).find(unknown) {
        Some(var) => Err(Error::fetch_unknown(var, program)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
