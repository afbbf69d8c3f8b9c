//! The trainers that this one exchanges with, where there are no servers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use program::trainers::{Expected, TrainerGroup};
use ps::tcp::{MeshSettings, Stops, half_of_memory};
use tensor::EvenIfPoisoned;

use super::Joined;
use super::recovery::Keeping;
use crate::error::{Error, Result};
use crate::remote::{Cluster, JobStart};

/// The trainers that were met, and what they keep of each other.
#[derive(Debug, Default)]
pub(in crate::remote) struct KnownTrainers {
    pub(super) joined: Option<Joined>,
    pub(super) keeping: Option<Keeping>,
}

impl Cluster {
    /// The trainers that were met, if any were.
    pub(super) fn trainers(&self) -> Option<Joined> {
        self.0.trainers.lock().even_if_poisoned().joined.clone()
    }

    /// The checkpoint that all trainers must begin from. One that was started again in a job that keeps cuts goes on
    /// from these.
    pub(super) fn start_to_compare(&self) -> Option<JobStart> {
        let keeps = self.0.trainers.lock().even_if_poisoned().keeping.is_some();
        self.start().filter(|_| !keeps)
    }

    /// How many trainers there are, where there are no servers; none if nobody was met.
    pub fn n_trainers_joined(&self) -> Option<usize> {
        self.trainers().map(|joined| joined.n_trainers())
    }

    /// Meets other trainers, unless they were met already; `sum` is that of the startup program.
    pub(crate) fn join_trainers(&self, members: &TrainerGroup, sum: Option<u64>) -> Result<()> {
        if self.trainers().is_some_and(|joined| joined.is(members)) {
            return Ok(());
        }
        self.leave_trainers();
        // Nothing is locked meanwhile: it may take long.
        let joined = Joined::new(members, sum, self.mesh_settings())?;
        self.0.trainers.lock().even_if_poisoned().joined = Some(joined);
        Ok(())
    }

    pub(super) fn mesh_settings(&self) -> MeshSettings {
        let state = self.state();
        let (halt, stops) = (self.0.halt.clone(), state.stops.clone());
        let ends = self.ends_soon();
        let stops: Stops = Arc::new(move || halt.load(Ordering::Relaxed) || stops() || ends());
        let (log, access) = (state.log.clone(), state.access.clone());
        let early_bytes_max = state.request_bytes_max.unwrap_or_else(half_of_memory);
        MeshSettings { patience: state.patience, stops, log, access, early_bytes_max }
    }

    /// An error unless the trainers that were met are these.
    pub(crate) fn check_trainers(&self, expected: Expected) -> Result<()> {
        self.trainers().ok_or(Error::NoTrainers)?.check(expected)
    }

    /// Says good-bye to the trainers that were met: this one has ended its part.
    pub fn leave_trainers(&self) {
        let joined = self.0.trainers.lock().even_if_poisoned().joined.take();
        if let Some(joined) = joined {
            joined.leave();
        }
    }
}
