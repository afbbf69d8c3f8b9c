//! One pass over a dataset: threads take batches and run a program on each (Fluid:
//! `train_from_dataset`).
//!
//! Each thread has its own temporaries; parameters are everybody's. With several threads an op borrows
//! the parameters while it runs ([`crate::cell`]); where servers want the threads of a trainer to
//! step together ([`together`]), gradients are averaged in thread order and sent once.

mod act;
mod answer;
mod bar;
mod batches;
mod course;
mod cutting;
mod progress;
mod shared;
mod shuffle;
mod text;
mod together;
mod tour;
mod whole;
mod worker;

use std::time::Duration;

use data::Dataset;
use program::Program;
use tensor::Tensor;

pub use bar::Bar;
pub use progress::{Progress, Report};
pub use shuffle::global_shuffle;
pub use text::{debug_text, fetched_text};
pub use whole::Whole;

use crate::error::{Error, Result};
use crate::executor::Executor;
use crate::scope::Scope;

/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// What a pass runs, and what somebody wants to see of it.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Variables of the first thread to show.
    pub fetch: Vec<String>,
    /// They are shown every so many batches of the first thread; 0: never.
    pub fetch_every: u64,
    /// Variables of the first thread to show every so often.
    pub watch: Vec<String>,
    /// How often.
    pub watch_every: Duration,
    /// Measures the time of each op on the first thread, and shows it every 100 batches.
    pub debug: bool,
    /// Nothing is sent to servers.
    pub infers: bool,
}

impl Default for Pass {
    fn default() -> Self {
        let (fetch, watch) = (Vec::new(), Vec::new());
        let watch_every = Duration::from_secs(60);
        Self { fetch, fetch_every: 100, watch, watch_every, debug: false, infers: false }
    }
}

/// Somebody who looks on; called on the thread that called for the pass.
pub trait Audience {
    /// [`Pass::fetch`] on the first thread, as of one batch.
    fn fetched(&mut self, values: &[Tensor]);

    /// [`Pass::watch`] on the first thread; `None` where there is no value.
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

impl Executor {
    /// Runs a program on every batch of a dataset, with as many threads as the dataset has.
    ///
    /// In a job that goes on after deaths, this is one event of the script: a script that was started
    /// again gets the report of a pass that is over, and goes on in the middle of one that is not.
    pub fn run_dataset(
        &mut self,
        (program, scope): (&Program, &Scope),
        dataset: &mut Dataset,
        pass: &Pass,
        audience: &mut dyn Audience,
    ) -> Result<Report> {
        check_shown(program, pass)?;
        act::run(self, (program, scope), dataset, (pass, audience))
    }
}

fn check_shown(program: &Program, pass: &Pass) -> Result<()> {
    let unknown = |name: &&String| program.find_var(0, name).is_none();
    match pass.fetch.iter().chain(&pass.watch).find(unknown) {
        Some(var) => Err(Error::fetch_unknown(var, program)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
