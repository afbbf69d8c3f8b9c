//! A living trainer turns to other servers: those of its job were replaced by another number of them.
//!
//! The servers end after a cut, others load it, and a list says where they are. For a trainer this is a
//! death of all servers, with one difference: before it joins a term again, it splits its programs for
//! the new servers. Programs of the script stay as they are; what is run in their stead is found here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use program::distributed::Origin;
use program::{Distributed, Program};
use transpile::{Original, TrainerPrograms};

use super::links::Links;
use super::locks::{Ordered, OrderedGuard, Rank};
use super::recovery_lines;
use crate::error::{Error, Result};

/// Where a trainer's servers went.
pub(crate) struct Moves {
    /// How often this trainer turned to other servers in this job.
    n_moves: AtomicU64,
    now: Ordered<MovesNow>,
}

impl Default for Moves {
    fn default() -> Self {
        let now = Ordered::new(Rank::Moves, MovesNow::default());
        Self { n_moves: AtomicU64::default(), now }
    }
}

#[derive(Default)]
struct MovesNow {
    /// Where servers are now, if they are others.
    endpoints: Vec<String>,
    /// Jobs as programs know them, and as they are now.
    jobs: Vec<Followed>,
    /// Programs of the script, and what is run in their stead.
    programs: Vec<FollowedProgram>,
}

/// The program that runs instead of the script's.
struct FollowedProgram {
    id: u64,
    version: u64,
    anew: Arc<Program>,
}

/// A job for the servers that there are now.
#[derive(Clone)]
struct Followed {
    /// The job as programs of the script know it.
    digest: String,
    job: Arc<Distributed>,
    main: Arc<Program>,
    startup: Arc<Program>,
}

impl Moves {
    fn inner(&self) -> OrderedGuard<'_, MovesNow> {
        self.now.lock()
    }

    fn any(&self) -> bool {
        self.n_moves.load(Ordering::Relaxed) > 0
    }

    /// Another job begins.
    pub(super) fn forget(&self) {
        self.n_moves.store(0, Ordering::Relaxed);
        *self.inner() = MovesNow::default();
    }

    /// Whether a job of the script is the one that this trainer takes part in, with other servers.
    pub(super) fn has_followed(&self, job: &Distributed) -> bool {
        if !self.any() {
            return false;
        }
        let inner = self.inner();
        inner.jobs.iter().any(|known| known.digest == job.digest || known.job.digest == job.digest)
    }

    fn is_elsewhere(&self, job: &Distributed) -> bool {
        self.any() && job.endpoints != self.inner().endpoints
    }

    /// A job of the script, with the servers that there are now.
    pub(super) fn followed(&self, job: &Arc<Distributed>) -> Result<Arc<Distributed>> {
        if self.is_elsewhere(job) {
            return Ok(self.inner().followed(&job.digest, &job.origin)?.job);
        }
        Ok(job.clone())
    }

    /// The same, for a caller without a share of it.
    pub(crate) fn followed_copy(&self, job: &Distributed) -> Result<Arc<Distributed>> {
        if self.is_elsewhere(job) {
            return Ok(self.inner().followed(&job.digest, &job.origin)?.job);
        }
        Ok(Arc::new(job.clone()))
    }

    /// The program that runs instead of the script's, because its servers are others now.
    pub(crate) fn followed_program(&self, program: &Program) -> Result<Option<Arc<Program>>> {
        let Some(job) = program.distributed.as_ref().filter(|_| self.any()) else {
            return Ok(None);
        };
        let inner = &mut *self.inner();
        if job.endpoints == inner.endpoints {
            return Ok(None);
        }
        let (id, version) = (program.id(), program.version());
        let is_it = |known: &&FollowedProgram| (known.id, known.version) == (id, version);
        if let Some(known) = inner.programs.iter().find(is_it) {
            return Ok(Some(known.anew.clone()));
        }
        let followed = inner.followed(&job.digest, &job.origin)?;
        let before = Original::of_origin(&job.origin).and_then(Original::before);
        let anew = match before {
            Some(before) if before.main == *program => followed.main,
            Some(before) if before.startup == *program => followed.startup,
            _ => {
                let why = "a program that talks to servers was changed after it was split";
                return Err(cannot_follow(&inner.endpoints, why));
            }
        };
        inner.programs.push(FollowedProgram { id, version, anew: anew.clone() });
        Ok(Some(anew))
    }
}

impl MovesNow {
    /// A job for the servers that there are now, split if it was not.
    fn followed(&mut self, digest: &str, origin: &Origin) -> Result<Followed> {
        if let Some(known) = self.jobs.iter().find(|known| known.digest == digest) {
            return Ok(known.clone());
        }
        let cannot = |why: &str| cannot_follow(&self.endpoints, why);
        let Some(original) = Original::of_origin(origin) else {
            return Err(cannot("its script chooses servers by itself"));
        };
        let programs = original.resplit(&self.endpoints).map_err(|why| cannot(&why.to_string()))?;
        let TrainerPrograms { main, startup } = programs;
        let job = main.distributed.clone().ok_or_else(|| cannot("its program has no job"))?;
        let (main, startup) = (Arc::new(main), Arc::new(startup));
        let followed = Followed { digest: digest.to_string(), job, main, startup };
        self.jobs.push(followed.clone());
        Ok(followed)
    }
}

fn cannot_follow(endpoints: &[String], why: &str) -> Error {
    Error::CannotFollow { servers: endpoints.join(", "), why: why.to_string() }
}

impl Links {
    /// Asks whether the servers are others than these.
    pub(super) fn moved_from(
        &self,
        endpoints: &[String],
    ) -> impl Fn() -> bool + Send + Sync + use<> {
        let (locate, endpoints) = (self.settings().locate.clone(), endpoints.to_vec());
        move || {
            let now = locate.as_ref().and_then(|locate| locate());
            now.is_some_and(|now| now != endpoints)
        }
    }

    /// Whether the servers are others than those that this trainer turns to.
    pub(super) fn must_follow(&self) -> bool {
        self.moved_from(&self.endpoints())()
    }

    /// Turns to the servers that there are now, if they are others. All have been left before.
    pub(super) fn follow(&self) -> Result<()> {
        let locate = self.settings().locate.clone();
        let Some(endpoints) = locate.and_then(|locate| locate()) else { return Ok(()) };
        let Some(me) = self.state().me.clone() else { return Ok(()) };
        if me.endpoints == endpoints {
            return Ok(());
        }
        let followed = {
            let mut inner = self.moves.inner();
            // The job by which programs know it: it may have moved before.
            let known = inner.jobs.iter().find(|known| known.job.digest == me.digest);
            let digest = known.map_or(me.digest.clone(), |known| known.digest.clone());
            inner.endpoints = endpoints.clone();
            (inner.jobs, inner.programs) = (Vec::new(), Vec::new());
            inner.followed(&digest, &me.origin)?
        };
        self.moves.n_moves.fetch_add(1, Ordering::Relaxed);
        self.turn_to(&followed.job);
        (self.log())(&recovery_lines::follows(&endpoints));
        Ok(())
    }
}
