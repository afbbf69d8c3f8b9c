//! Turns one program into the programs of a job: one for trainers and one for each server.
//!
//! Programs in, programs out: the manifest has no crate that does I/O or knows a protocol. The main and startup programs are rewritten in
//! place for the trainer. The servers' programs are made from copies of the originals, so both can
//! be made at any time.

mod collective;
mod config;
mod entries;
mod error;
mod geo;
mod lookups;
mod make;
mod mt19937;
mod numbers;
mod on_touch;
mod pieces;
mod plan;
mod resplit;
mod server;
mod split;
mod startup;
mod table;
mod trainer;

use std::sync::Arc;

use program::{Distributed, Program};

pub use collective::{CollectiveJob, CollectiveMode, add_up_gradients, transpile_collective};
pub use config::{Config, Job};
pub use error::{Error, Result};
pub use on_touch::{ROW_ENTRY, ROW_INIT};
pub use resplit::{Original, TrainerPrograms};
pub use server::{Threads, server_op};
pub use split::{Dispatch, HashName, MIN_BLOCK_SIZE, RoundRobin, SharedDispatch, slice_variable};

use self::plan::JobPlan;

/// A job's programs, once they have been split.
#[derive(Debug)]
pub struct Transpiled {
    plan: JobPlan,
    main: Program,
    startup: Program,
}

/// Splits a program: `main` and `startup` become the trainer's. The result gives the servers'.
pub fn transpile(
    main: &mut Program,
    startup: &mut Program,
    config: &Config,
    job: &Job,
    dispatch: &mut dyn Dispatch,
) -> Result<Transpiled> {
    let again = dispatch.again();
    let original = again.map(|again| Original::new(main, startup, config, job, again));
    let mut plan = JobPlan::new(main, startup, config, job, dispatch)?;
    let (mut new_main, mut new_startup) = (main.clone(), startup.clone());
    if plan.is_geo() {
        plan.rewrite_geo(&mut new_main)?;
        plan.rewrite_geo_startup(&mut new_startup)?;
    } else {
        plan.rewrite_main(&mut new_main)?;
        plan.rewrite_startup(&mut new_startup)?;
    }
    if let Some(original) = original {
        plan.job.origin = original.became(&new_main, &new_startup);
    }
    let distributed = Arc::new(plan.job.clone());
    // A program keeps its identity: every owner of it now has the trainer's program.
    let original = (main.replace(new_main), startup.replace(new_startup));
    main.distributed = Some(Arc::clone(&distributed));
    startup.distributed = Some(distributed);
    Ok(Transpiled { plan, main: original.0, startup: original.1 })
}

impl Transpiled {
    /// The members of the job, and which variable is where.
    pub fn job(&self) -> &Distributed {
        &self.plan.job
    }

    /// What the user should be told.
    pub fn warnings(&self) -> &[String] {
        &self.plan.warnings
    }

    /// A server's program.
    pub fn server_main(&self, endpoint: &str, threads: Threads) -> Result<Program> {
        let mut main = self.plan.server_main(&self.main, endpoint, threads)?;
        self.plan.tell_entries(&mut main, endpoint);
        let startup = self.plan.server_startup(&main, &self.startup, endpoint)?;
        let inits = on_touch::inits(&main, &startup)?;
        on_touch::tell(&mut main, &inits);
        Ok(main)
    }

    /// A server's startup program. `from` is a startup program to start variables as; without it,
    /// or with the one that was split, the original.
    pub fn server_startup(&self, endpoint: &str, from: Option<&Program>) -> Result<Program> {
        let mut main = self.plan.server_main(&self.main, endpoint, Threads::default())?;
        self.plan.tell_entries(&mut main, endpoint);
        if let Some(given) = from.filter(|program| program.distributed.is_none()) {
            return self.plan.server_startup(&main, given, endpoint);
        }
        let mut startup = self.plan.server_startup(&main, &self.startup, endpoint)?;
        let inits = on_touch::inits(&main, &startup)?;
        on_touch::mark(&mut startup, &inits);
        Ok(startup)
    }

    /// Whether a server has nothing to do, as when there are more servers than blocks.
    pub fn is_idle(&self, endpoint: &str) -> bool {
        self.plan.held_by(endpoint).next().is_none()
    }
}
