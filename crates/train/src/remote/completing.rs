//! The end of a trainer's job.

use wire::message::Complete;

use super::TrainerJob;
use super::cuts::ServerCuts;
use super::events::ScriptEvent;
use crate::error::{Error, Result};
use crate::recover::{EventKind, EventPrint, Repeat, Uses};
use crate::scope::Scope;

impl TrainerJob {
    /// This trainer's job is done: tells all servers if it has talked to any, and disconnects. In a
    /// job that recovers, returns when the job cannot go back behind this.
    pub fn complete(&self) -> Result<()> {
        finish(self, None)
    }

    /// Sends what is queued, fetches the parameters once more into the scope, and ends the sender.
    /// GEO has no sender: it exchanges differences once more.
    pub fn stop_communicator(&self, scope: &Scope) -> Result<()> {
        self.do_event(&mut Completing { job: self, scope: Some(scope), completes: false })
    }

    /// Stops the communicator and completes. Servers learn it even if this trainer has never talked to them.
    pub fn stop_and_complete(&self, scope: &Scope) -> Result<()> {
        finish(self, Some(scope))
    }
}

/// Ends the job for a trainer.
fn finish(job: &TrainerJob, scope: Option<&Scope>) -> Result<()> {
    let done = job.do_event(&mut Completing { job, scope, completes: true });
    let links = job.links();
    links.state().is_over = true;
    // It stayed for a cut; servers must know that it does not any more.
    let has_stayed = done.is_ok() && job.recovers();
    if has_stayed {
        links.leave();
    } else {
        links.close();
    }
    // What follows is not an event.
    links.recovers().set_off();
    job.recovery().end(has_stayed);
    done
}

/// Tells every server, if any was talked to: a trainer that met others, and then had nothing to train, has
/// talked to the first one only, and all wait for it.
fn tell_completed(job: &TrainerJob) -> Result<()> {
    let settled = job.settle();
    let links = job.links();
    let clients = if links.state().is_connected() { links.all()? } else { Vec::new() };
    let told = clients.iter().try_for_each(|client| {
        client.change(Complete)?;
        client.settle()
    });
    settled.and(told.map_err(Error::from))
}

/// The steps at the end: of the sender, of the job, or of both.
struct Completing<'a> {
    job: &'a TrainerJob,
    /// Where parameters go that are fetched once more.
    scope: Option<&'a Scope>,
    completes: bool,
}

impl ScriptEvent for Completing<'_> {
    fn talks(&self) -> bool {
        self.job.links().state().is_connected() || (self.completes && self.scope.is_some())
    }

    fn print(&self) -> EventPrint {
        let part = |is: bool, name: &'static str| if is { name } else { "" };
        let name = [part(self.scope.is_some(), "stop"), part(self.completes, "complete")].concat();
        EventPrint::named(EventKind::Complete, &name)
    }

    fn label(&self) -> String {
        String::new()
    }

    fn uses(&self) -> Option<Uses<'_>> {
        None
    }

    fn perform(&mut self, _: Option<&[u8]>) -> Result<Vec<u8>> {
        let job = self.job;
        let links = job.links();
        let recovery = job.recovery();
        // An earlier process of this trainer has done it.
        if self.completes && recovery.cuts().has_completed {
            return Ok(Vec::new());
        }
        let stopped = self.scope.map_or(Ok(()), |scope| job.exchanges().stop(links, scope));
        if !self.completes {
            return stopped.map(|()| Vec::new());
        }
        if self.scope.is_some() {
            // A trainer that never ran a step must be counted out as well.
            links.all()?;
        }
        if job.recovers() {
            stopped?;
            tell_completed(job)?;
            recovery.cuts().has_completed = true;
            let cuts = ServerCuts { links, exchanges: job.exchanges(), recovery };
            return cuts.stay().map(|()| Vec::new());
        }
        tell_completed(job)?;
        stopped.map(|()| Vec::new())
    }

    fn answer(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>> {
        Some(Box::new(StopAgain(self.scope?.clone())))
    }
}

struct StopAgain(Scope);

impl Repeat<TrainerJob> for StopAgain {
    fn repeat(&mut self, job: &TrainerJob, _: Option<&[u8]>) -> Result<()> {
        job.exchanges().stop(job.links(), &self.0)
    }

    fn n_bytes(&self) -> usize {
        0
    }
}
