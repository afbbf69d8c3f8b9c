//! The end of a trainer's job.

use ps::lines;
use ps::message::Complete;

use super::events::ScriptEvent;
use super::{Cluster, install};
use crate::error::{Error, Result};
use crate::recover::{EventKind, EventPrint, Repeat, Uses};
use crate::scope::Scope;

impl Cluster {
    /// This trainer's job is done: tells all servers if it has talked to any, and disconnects. In a
    /// job that recovers, returns when the job cannot go back behind this.
    pub fn complete(&self) -> Result<()> {
        self.finish(None)
    }

    /// Sends what is queued, fetches the parameters once more into the scope, and ends the sender.
    /// GEO has no sender: it exchanges differences once more.
    pub fn stop_communicator(&self, scope: &Scope) -> Result<()> {
        self.do_event(&mut Completing { cluster: self, scope: Some(scope), completes: false })
    }

    /// Stops the communicator and completes. Servers are told even if this trainer has never talked
    /// to them.
    pub fn stop_and_complete(&self, scope: &Scope) -> Result<()> {
        self.finish(Some(scope))
    }

    fn finish(&self, scope: Option<&Scope>) -> Result<()> {
        let done = self.do_event(&mut Completing { cluster: self, scope, completes: true });
        self.state().is_over = true;
        // It stayed for a cut; servers must know that it does not any more.
        let has_stayed = done.is_ok() && self.recovers();
        if has_stayed {
            self.leave()
        } else {
            self.close()
        }
        self.recovery().end(has_stayed);
        done
    }

    fn stop_sender(&self, scope: &Scope) -> Result<()> {
        self.geo().finish(self, scope)?;
        let Some(communicator) = self.communicator().take() else { return Ok(()) };
        (self.log())(&lines::communicator_stops());
        let (result, arrivals) = communicator.stop();
        arrivals.empty(|names, arrived| install(names, arrived, scope));
        (self.log())(&lines::communicator_stopped());
        result
    }

    /// Tells every server, if any was talked to: a trainer that met others, and then had nothing to train, has
    /// talked to the first one only, and all wait for it.
    fn tell_completed(&self) -> Result<()> {
        let settled = self.settle();
        let clients = if self.is_connected() { self.all()? } else { Vec::new() };
        let told = clients.iter().try_for_each(|client| {
            client.change(Complete)?;
            client.settle()
        });
        settled.and(told.map_err(Error::from))
    }
}

/// What comes at the end: of the sender, of the job, or of both.
struct Completing<'a> {
    cluster: &'a Cluster,
    /// Where parameters go that are fetched once more.
    scope: Option<&'a Scope>,
    completes: bool,
}

impl ScriptEvent for Completing<'_> {
    fn talks(&self) -> bool {
        self.cluster.is_connected() || (self.completes && self.scope.is_some())
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
        let cluster = self.cluster;
        // An earlier process of this trainer has done it.
        if self.completes && cluster.cuts().has_completed {
            return Ok(Vec::new());
        }
        let stopped = self.scope.map_or(Ok(()), |scope| cluster.stop_sender(scope));
        if !self.completes {
            return stopped.map(|()| Vec::new());
        }
        if self.scope.is_some() {
            // A trainer that never ran a step must be counted out as well.
            cluster.all()?;
        }
        if cluster.recovers() {
            stopped?;
            cluster.tell_completed()?;
            cluster.cuts().has_completed = true;
            return cluster.stay().map(|()| Vec::new());
        }
        cluster.tell_completed()?;
        stopped.map(|()| Vec::new())
    }

    fn answer(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<Cluster>>> {
        Some(Box::new(StopAgain(self.scope?.clone())))
    }
}

struct StopAgain(Scope);

impl Repeat<Cluster> for StopAgain {
    fn repeat(&mut self, cluster: &Cluster, _: Option<&[u8]>) -> Result<()> {
        cluster.stop_sender(&self.0)
    }

    fn n_bytes(&self) -> usize {
        0
    }
}
