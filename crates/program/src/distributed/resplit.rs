//! How the programs of a job are made anew when its servers are others.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use crate::program::Program;

/// The programs of a trainer.
#[derive(Clone, Debug)]
pub struct TrainerPrograms {
    /// What it runs for each batch.
    pub main: Program,
    /// What it runs once.
    pub startup: Program,
}

/// Splits the programs of a job again, for other servers.
pub trait Resplit: Debug + Send + Sync {
    /// A trainer's programs as they were split before. They belong to no job.
    fn before(&self) -> &TrainerPrograms;

    /// A trainer's programs for the servers at these end points.
    fn resplit(
        &self,
        endpoints: &[String],
    ) -> Result<TrainerPrograms, Box<dyn Error + Send + Sync>>;
}

/// What a job was split from, if that can be done again. No part of what a job is: all are equal.
#[derive(Clone, Debug, Default)]
pub struct Origin(pub Option<Arc<dyn Resplit>>);

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}
