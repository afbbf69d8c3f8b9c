//! The trainers that this one exchanges with, in a job without servers.

use std::time::Duration;

use program::trainers::{Expected, TrainerGroup};

use super::Joined;
use super::recovery::{EventTrainers, Keeping};
use crate::error::{Error, Result};
use crate::remote::JobStart;
use crate::remote::exchange::{Direct, Exchange};
use crate::remote::links::Links;
use crate::remote::locks::{Ordered, OrderedGuard, Rank};

/// The trainers that were met, and what they keep of each other.
#[derive(Debug, Default)]
pub(super) struct KnownTrainers {
    pub(super) joined: Option<Joined>,
    pub(super) keeping: Option<Keeping>,
}

/// Exchanges with other trainers (collective).
#[derive(Debug)]
pub struct Group(Ordered<KnownTrainers>);

impl Default for Group {
    fn default() -> Self {
        Self(Ordered::new(Rank::Group, KnownTrainers::default()))
    }
}

impl Exchange for Group {
    fn direct(&self) -> Option<&Direct> {
        None
    }

    /// Leaves the other trainers without a word: they meet again.
    fn forget(&self) {
        let joined = self.known().joined.take();
        joined.into_iter().for_each(|joined| joined.mesh.break_off());
    }
}

impl Group {
    pub(super) fn known(&self) -> OrderedGuard<'_, KnownTrainers> {
        self.0.lock()
    }

    /// The trainers that were met, if any were.
    pub(super) fn joined(&self) -> Option<Joined> {
        self.known().joined.clone()
    }

    /// The checkpoint that all trainers must begin from. A restarted one in a job that keeps cuts continues from these.
    pub(super) fn start_to_compare(&self, links: &Links) -> Option<JobStart> {
        let keeps = self.keeps_cuts();
        links.settings().start.clone().filter(|_| !keeps)
    }

    /// How many trainers there are; none if nobody was met.
    pub fn n_trainers(&self) -> Option<usize> {
        self.joined().map(|joined| joined.n_trainers())
    }

    /// Meets other trainers, unless they were met already; `sum` is that of the startup program.
    pub(super) fn join(
        &self,
        links: &Links,
        members: &TrainerGroup,
        sum: Option<u64>,
    ) -> Result<()> {
        if self.joined().is_some_and(|joined| joined.is(members)) {
            return Ok(());
        }
        self.leave();
        // Nothing is locked meanwhile: it may take long.
        let joined = Joined::new(members, sum, links.mesh_settings())?;
        self.known().joined = Some(joined);
        Ok(())
    }

    /// An error unless the trainers that were met are these.
    pub(crate) fn check(&self, expected: Expected) -> Result<()> {
        self.joined().ok_or(Error::NoTrainers)?.check(expected)
    }

    /// Says good-bye to the trainers that were met: this one has ended its part.
    pub fn leave(&self) {
        let joined = self.known().joined.take();
        joined.into_iter().for_each(|joined| joined.leave());
    }

    /// Lets trainers come back that died and were started again. From the first meeting on, a cut of all trainers is
    /// made about this often, and kept by each.
    pub fn keep_cuts(&self, every: Duration) {
        self.known().keeping = Some(Keeping::new(every));
    }

    /// Whether trainers keep cuts of each other, as soon as they have met.
    pub(in crate::remote) fn keeps_cuts(&self) -> bool {
        self.known().keeping.is_some()
    }

    /// Whether trainers keep cuts of each other, and have met.
    pub(in crate::remote) fn has_met(&self) -> bool {
        self.known().keeping.as_ref().is_some_and(|keeping| keeping.meeting.is_some())
    }

    /// The trainers that keep cuts of each other; whether there are others.
    pub(in crate::remote) fn keep_with(&self, meeting: EventTrainers) -> Result<bool> {
        if meeting.members.endpoints.len() < 2 {
            self.known().keeping = None;
            return Ok(false);
        }
        self.with_keeping(|keeping| keeping.meeting = Some(meeting))?;
        Ok(true)
    }

    pub(super) fn with_keeping<T>(&self, act: impl FnOnce(&mut Keeping) -> T) -> Result<T> {
        self.known().keeping.as_mut().map(act).ok_or(Error::NoTrainers)
    }

    /// Waits until the scripts of all trainers have come to their end.
    pub(in crate::remote) fn wait_for_end(&self) -> Result<()> {
        let joined = self.joined().ok_or(Error::NoTrainers)?;
        joined.gather("the end of all scripts", &[]).map(drop)
    }
}
