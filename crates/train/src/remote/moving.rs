//! A living trainer turns to other servers: those of its job were replaced by another number of them.
//!
//! The servers end after a cut, others load it, and a list says where they are. For a trainer this is a
//! death of all servers, with one difference: before it joins a term again, it splits its programs for
//! the new servers. Programs of the script stay as they are; what is run in their stead is found here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use program::distributed::{Origin, ServerId};
use program::{Distributed, Program};
use ps::Endpoint;
use ps::tcp::Client;
use tensor::EvenIfPoisoned;

use super::{Cluster, Me, recovery_lines};
use crate::error::{Error, Result};
use crate::transpile::{Original, TrainerPrograms};

/// Says where the servers of the job are now; nothing if they are where they were at the start.
pub type Locate = Arc<dyn Fn() -> Option<Vec<String>> + Send + Sync>;

/// Where a trainer's servers went.
#[derive(Default)]
pub(super) struct Moves {
    /// How often this trainer turned to other servers in this job.
    n_moves: AtomicU64,
    now: Mutex<MovesNow>,
}

#[derive(Default)]
struct MovesNow {
    locate: Option<Locate>,
    /// Where servers are now, if they are others.
    endpoints: Vec<String>,
    /// Jobs as programs know them, and as they are now.
    jobs: Vec<Followed>,
    /// Programs of the script, and what is run in their stead.
    programs: Vec<FollowedProgram>,
}

/// What is run in the stead of a program.
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
    fn inner(&self) -> MutexGuard<'_, MovesNow> {
        self.now.lock().even_if_poisoned()
    }

    fn any(&self) -> bool {
        self.n_moves.load(Ordering::Relaxed) > 0
    }

    /// Another job begins.
    pub(super) fn forget(&self) {
        self.n_moves.store(0, Ordering::Relaxed);
        let inner = &mut *self.inner();
        *inner = MovesNow { locate: inner.locate.take(), ..MovesNow::default() };
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

impl Cluster {
    /// From now on `locate` says where servers are. It is asked whenever one is waited for.
    pub fn set_locate(&self, locate: Locate) {
        self.moves().inner().locate = Some(locate);
    }

    pub(super) fn moves(&self) -> &Moves {
        &self.0.moves
    }

    /// Asks whether the servers are others than these.
    pub(super) fn moved_from(
        &self,
        endpoints: &[String],
    ) -> impl Fn() -> bool + Send + Sync + use<> {
        let (locate, endpoints) = (self.moves().inner().locate.clone(), endpoints.to_vec());
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
        let locate = self.moves().inner().locate.clone();
        let Some(endpoints) = locate.and_then(|locate| locate()) else { return Ok(()) };
        let Some(me) = self.state().me.clone() else { return Ok(()) };
        if me.endpoints == endpoints {
            return Ok(());
        }
        let followed = {
            let mut inner = self.moves().inner();
            // The job by which programs know it: it may have moved before.
            let known = inner.jobs.iter().find(|known| known.job.digest == me.digest);
            let digest = known.map_or(me.digest.clone(), |known| known.digest.clone());
            inner.endpoints = endpoints.clone();
            (inner.jobs, inner.programs) = (Vec::new(), Vec::new());
            inner.followed(&digest, &me.origin)?
        };
        self.moves().n_moves.fetch_add(1, Ordering::Relaxed);
        self.0.n_joined.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        // They are waited for as servers that are started again.
        state.me = Some(Me { is_ready: true, ..Me::new(&followed.job) });
        state.joined = None;
        drop(state);
        (self.log())(&recovery_lines::follows(&endpoints));
        Ok(())
    }

    /// Waits for the servers of the job, once.
    pub(super) fn wait_for_servers(&self) -> Result<()> {
        let (wait_ready, endpoints) = {
            let state = self.state();
            match (&state.wait_ready, &state.me) {
                (Some(wait_ready), Some(me)) if !me.is_ready && !state.is_over => {
                    (wait_ready.clone(), me.endpoints.clone())
                }
                _ => return Ok(()),
            }
        };
        let endpoints = endpoints.iter().map(|endpoint| endpoint.parse());
        let endpoints = endpoints.collect::<ps::Result<Vec<Endpoint>>>()?;
        // Nothing is locked meanwhile: it may take long.
        wait_ready(&endpoints).map_err(Error::NotReady)?;
        if let Some(me) = &mut self.state().me {
            me.is_ready = true;
        }
        Ok(())
    }

    /// The first connection of a job. It goes to the servers that there are, also if they change meanwhile: a
    /// trainer that was started just then has the list of those before.
    pub(super) fn first_client(&self, server: ServerId) -> Result<Arc<Client>> {
        loop {
            self.follow()?;
            let client = self.new_client(server)?;
            match self.first_contact(&client) {
                Err(Error::WaitEnded(_)) if self.must_follow() => client.close(),
                contact => return contact.map(|()| client),
            }
        }
    }

    /// Whether a job of the script is the one that this trainer takes part in, with other servers.
    pub(super) fn has_followed(&self, job: &Distributed) -> bool {
        if !self.moves().any() {
            return false;
        }
        let inner = self.moves().inner();
        inner.jobs.iter().any(|known| known.digest == job.digest || known.job.digest == job.digest)
    }

    /// A job of the script, with the servers that there are now.
    pub(super) fn followed(&self, job: &Arc<Distributed>) -> Result<Arc<Distributed>> {
        if self.is_elsewhere(job) {
            Ok(self.moves().inner().followed(&job.digest, &job.origin)?.job)
        } else {
            Ok(job.clone())
        }
    }

    /// The same, for one who has no share of it.
    pub(crate) fn followed_copy(&self, job: &Distributed) -> Result<Arc<Distributed>> {
        if self.is_elsewhere(job) {
            Ok(self.moves().inner().followed(&job.digest, &job.origin)?.job)
        } else {
            Ok(Arc::new(job.clone()))
        }
    }

    fn is_elsewhere(&self, job: &Distributed) -> bool {
        self.moves().any() && job.endpoints != self.moves().inner().endpoints
    }

    /// What is run in the stead of a program of the script, because its servers are others now.
    pub(crate) fn followed_program(&self, program: &Program) -> Result<Option<Arc<Program>>> {
        let Some(job) = program.distributed.as_ref().filter(|_| self.moves().any()) else {
            return Ok(None);
        };
        let inner = &mut *self.moves().inner();
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
