//! A trainer's side of its job: what `send`, `recv`, remote look-ups and exchanges with other trainers do.
//!
//! One [`TrainerJob`] holds everything of a process (of a trainer, where a process has several); trainers that
//! share it share connections. It consists of
//!
//! - [`links::Links`]: the membership in a job, and a connection to each server;
//! - [`exchange::Exchanges`]: the ways of exchanging, of which [`program::distributed::Mode`] chooses one;
//! - [`recovery::Recovery`]: what is needed to go back to a cut. [`events`] performs the events of a script,
//!   [`rollback`] goes back, [`cuts`] and [`collective`] make cuts.
//!
//! Locks are taken in the order of [`locks::Rank`].

mod all_gather;
mod all_to_all;
mod arrivals;
mod collective;
mod communicator;
mod completing;
mod cuts;
mod events;
mod exchange;
mod fetch;
mod geo;
mod in_flight;
mod job_start;
mod links;
mod locks;
mod moving;
mod prefetch;
mod recovery;
mod recovery_lines;
mod rollback;
mod rows;
mod rows_of;
mod save_event;
mod saving;
mod session;
mod settings;
mod traffic;

use std::sync::Arc;

use net::tcp::{Client, Patience};
use program::Distributed;
use program::distributed::{Piece, ServerId};
use tensor::{Tensor, Value};
use wire::VarId;
use wire::message::{Reply, Stats};

pub use all_to_all::Peers;
pub(crate) use collective::{EventTrainers, Exchanging, ProgramSums, program_sum};
pub use communicator::CommunicatorConfig;
pub(crate) use events::ScriptEvent;
pub(crate) use fetch::WholeFetch;
pub use in_flight::Staleness;
pub use job_start::JobStart;
pub(crate) use links::{JobServers, Links};
pub(crate) use prefetch::Prefetch;
pub(crate) use recovery::Recovery;
pub use recovery_lines::ENDS;
pub(crate) use saving::{SavedPart, Saving};
pub(crate) use session::Session;
pub use settings::{Ends, JobSettings, Locate, Log, WaitReady, usual_log};

pub use collective::Group;
use collective::{GroupCuts, Through};
use cuts::ServerCuts;
use events::EventLoop;
use exchange::Exchanges;
use exchange::StartedSender;
use recovery::CutProtocol;

use crate::error::{Error, Result};
use crate::scope::Scope;

/// The events of this trainer's script.
type Timeline = crate::recover::Timeline<TrainerJob>;

/// The part of a trainer in its job. Copies are the same one.
#[derive(Clone)]
pub struct TrainerJob(Arc<JobParts>);

struct JobParts {
    links: Arc<Links>,
    exchanges: Exchanges,
    recovery: Recovery,
}

impl Default for TrainerJob {
    fn default() -> Self {
        Self::new(Patience::default(), usual_log())
    }
}

impl std::fmt::Debug for TrainerJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a job with {} servers", self.links().state().open().count())
    }
}

impl TrainerJob {
    /// No connection yet; they are made as programs need them.
    pub fn new(patience: Patience, log: Log) -> Self {
        Self(Arc::new(JobParts {
            links: Arc::new(Links::new(JobSettings::new(patience, log))),
            exchanges: Exchanges::new(),
            recovery: Recovery::default(),
        }))
    }

    /// Changes the settings, for what comes.
    pub fn configure(&self, set: impl FnOnce(&mut JobSettings)) {
        set(&mut self.links().settings());
    }

    /// The settings as they are now.
    pub fn settings(&self) -> JobSettings {
        self.links().settings().clone()
    }

    pub(crate) fn links(&self) -> &Links {
        &self.0.links
    }

    pub(crate) fn recovery(&self) -> &Recovery {
        &self.0.recovery
    }

    fn exchanges(&self) -> &Exchanges {
        &self.0.exchanges
    }

    /// The other trainers, in a job without servers.
    pub fn group(&self) -> &Group {
        &self.0.exchanges.group
    }

    /// Whether this trainer's job recovers from deaths; `false` as long as that is not known.
    pub fn recovers(&self) -> bool {
        self.links().recovers().is_on()
    }

    /// Whether nothing is an event: a death ends the job.
    pub(crate) fn is_plain(&self) -> bool {
        self.links().recovers().is_off()
    }

    /// Takes part in a job from now on; connections of an earlier job are closed.
    pub fn join(&self, job: &Distributed) {
        if self.links().join(job) {
            self.exchanges().begin_job();
            self.recovery().reset();
        }
    }

    /// Like [`TrainerJob::join`], for a job that is used at every step.
    fn join_shared(&self, job: &Arc<Distributed>) {
        if !self.links().state().is_joined(job) {
            self.join(job);
            self.links().state().note_joined(job);
        }
    }

    /// The connection to a server, made if there is none.
    pub fn client(&self, server: ServerId) -> Result<Arc<Client>> {
        self.links().client(server)
    }

    /// Sends gradients of asynchronous programs in the background from now on; `false` if that is
    /// done already.
    pub fn start_communicator(&self, job: &Arc<Distributed>, config: CommunicatorConfig) -> bool {
        self.join(job);
        let started = StartedSender { job: job.clone(), config };
        self.exchanges().background.start(&self.0.links, started)
    }

    /// Sends what is still queued, and waits until all servers have applied it.
    pub fn settle(&self) -> Result<()> {
        self.exchanges().settle(self.links())?;
        self.links().wait_served()
    }

    /// This process ends in order, before its job is complete: tells the servers, without waiting
    /// long.
    pub fn leave(&self) {
        self.links().leave();
    }

    /// How old the parameters of asynchronous steps were since the last call; `None` if gradients
    /// are not sent in the background.
    pub fn take_staleness(&self) -> Option<Staleness> {
        self.exchanges().background.take_staleness()
    }

    /// Counters of every server.
    pub fn stats(&self) -> Result<Vec<Stats>> {
        EventLoop(self).steadily(|| stats(self.links()))
    }

    /// Performs the next event of the script; see [`ScriptEvent`].
    pub(crate) fn do_event(&self, event: &mut dyn ScriptEvent) -> Result<()> {
        EventLoop(self).do_event(event)
    }

    /// Calls `act` with those that keep the cuts of this job.
    fn with_cuts<T>(&self, act: impl FnOnce(&dyn CutProtocol) -> T) -> T {
        let JobParts { links, exchanges, recovery, .. } = &*self.0;
        if exchanges.group.has_met() {
            act(&GroupCuts { links, exchanges, recovery })
        } else {
            act(&ServerCuts { links, exchanges, recovery })
        }
    }

    /// Whether a cut is due at this boundary between two steps, or must be asked for because this
    /// process ends. Cheap: called at every step.
    ///
    /// All threads of a trainer that step together get the same answer at the same boundary.
    pub(crate) fn is_cut_due(&self) -> bool {
        self.recovers() && self.with_cuts(|cuts| cuts.is_due())
    }

    /// Takes part in the cut that is due, inside an event. This trainer must not run anything
    /// meanwhile: an event with several threads has stopped them at a boundary. `inside` gives the
    /// state of the event. It is called when all trainers are ready, and its result may be large.
    ///
    /// An error must be returned from [`ScriptEvent::perform`]: [`TrainerJob::do_event`]
    /// handles those that mean that the job has gone back or that SIGTERM came.
    pub(crate) fn cut(&self, inside: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<()> {
        self.with_cuts(|cuts| cuts.boundary(&mut || inside().map(Some)))
    }

    /// Whether what was decided at the start of the script is kept: the job has a cut after it, or does not
    /// recover.
    pub(crate) fn keeps_its_start(&self) -> bool {
        !self.recovers() || self.with_cuts(|cuts| cuts.has_kept())
    }

    /// Leaves all servers without a message, as a process that dies does. Messages in flight are dropped.
    pub fn abandon(&self) {
        self.links().go_away();
        self.exchanges().forget();
        self.links().state().forget_flight();
    }

    /// This trainer's script has come to its end, in order. Where one that dies is let back in, waits until all
    /// have: until then the others may need this one.
    pub fn end_among_trainers(&self) -> Result<()> {
        let waits = self.recovers() && self.group().has_met() && !self.links().ends();
        let done = if waits { self.do_event(&mut Through(self)) } else { Ok(()) };
        self.group().leave();
        done
    }
}

fn stats(links: &Links) -> Result<Vec<Stats>> {
    let ask = |client: Arc<Client>| {
        let ticket = client.ask(wire::message::AskStats)?;
        match client.wait(ticket, "counters")? {
            Reply::Stats(stats) => Ok(stats),
            other => Err(unexpected(&client, &other)),
        }
    };
    links.all()?.into_iter().map(ask).collect()
}

/// Puts parameters into the scope that a trainer trains in; what was there comes back.
fn install(names: &[String], params: Vec<Tensor>, scope: &Scope) -> Vec<Tensor> {
    let install = |(name, tensor): (&String, Tensor)| {
        let mut value = Value::Tensor(tensor);
        scope.write(name, |own| std::mem::swap(own, &mut value));
        match value {
            Value::Tensor(old) => old,
            _ => Tensor::default(),
        }
    };
    names.iter().zip(params).map(install).collect()
}

/// The number of a piece's variable, as frames have it.
fn wire_id(piece: &Piece) -> VarId {
    VarId(piece.var.0)
}

/// A reply of the wrong kind: the server is not what it says.
fn unexpected(client: &Client, reply: &Reply) -> Error {
    Error::Unexpected { endpoint: client.endpoint().to_string(), reply: reply.name() }
}
