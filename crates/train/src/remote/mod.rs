//! A trainer's side of the cluster: what `send`, `recv` and remote look-ups do.
//!
//! One [`Cluster`] holds the connections of a process (of a trainer, where a process has several);
//! executors that share it share them.

mod all_gather;
mod all_to_all;
mod arrivals;
mod collective;
mod communicator;
mod completing;
mod cuts;
mod events;
mod fetch;
mod geo;
mod in_flight;
mod job_start;
mod moving;
mod prefetch;
mod recovery;
mod recovery_lines;
mod rows;
mod rows_of;
mod save_event;
mod saving;
mod session;
mod traffic;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use program::Distributed;
use program::distributed::{Origin, Piece, ServerId};
use ps::lines::{self, Line};
use ps::message::{Hello, Leave, Reply, Stats, VarInfo};
use ps::tcp::{Client, ClientGroup, LostProcess, Patience, Stops};
use ps::{Access, Endpoint, SharedMemory, TrainerId, VarId};
use tensor::{EvenIfPoisoned, Tensor, Value};

pub use all_to_all::Peers;
pub(crate) use collective::{EventTrainers, Exchanging, ProgramSums, program_sum};
pub use communicator::CommunicatorConfig;
pub(crate) use events::ScriptEvent;
pub(crate) use fetch::WholeFetch;
pub use in_flight::Staleness;
pub use job_start::JobStart;
pub use moving::Locate;
pub(crate) use prefetch::Prefetch;
pub use recovery::Ends;
pub use recovery_lines::ENDS;
pub(crate) use saving::{SavedPart, Saving};
pub(crate) use session::Session;

use collective::KnownTrainers;
use communicator::{Communicator, StepSender};
use geo::Geo;
use in_flight::Seen;
use job_start::held;
use moving::Moves;
use recovery::Recovery;
use traffic::Traffic;

use crate::error::{Error, Result};
use crate::scope::Scope;

/// What this trainer's script did.
type Timeline = crate::recover::Timeline<Cluster>;

/// Gets lines for the log.
pub type Log = Arc<dyn Fn(&Line) + Send + Sync>;

/// Writes lines to stderr, where Fluid's users look for them.
pub fn usual_log() -> Log {
    Arc::new(|line| line.say())
}

/// Waits until servers at these end points listen, and tells the user about it; an error if it
/// gives up.
pub type WaitReady = Arc<
    dyn Fn(&[Endpoint]) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>
        + Send
        + Sync,
>;

/// The connections of a trainer to its servers.
#[derive(Clone)]
pub struct Cluster(Arc<ClusterInner>);

struct ClusterInner {
    /// Jobs that were joined so far.
    n_joined: AtomicU64,
    /// Global shuffles that the script has asked for.
    n_shuffles: AtomicU64,
    /// Set to make all threads stop waiting for servers.
    halt: Arc<AtomicBool>,
    state: Mutex<ClusterState>,
    traffic: Mutex<Traffic>,
    communicator: Mutex<Option<Communicator>>,
    geo: Mutex<Geo>,
    recovery: Recovery,
    moves: Moves,
    /// The trainers that this one exchanges with, where there are no servers.
    trainers: Mutex<KnownTrainers>,
}

struct ClusterState {
    /// Differs from process to process, and after every time that the job goes back.
    incarnation: u64,
    patience: Patience,
    access: Access,
    /// Bytes that are held of what other trainers send too early; none: half of the memory there is.
    request_bytes_max: Option<u64>,
    stops: Stops,
    /// Called before the first connection of a job.
    wait_ready: Option<WaitReady>,
    log: Log,
    me: Option<Me>,
    start: Option<JobStart>,
    /// The job of the step before, so that steps compare no text.
    joined: Option<Arc<Distributed>>,
    /// By the number of the server; none if nobody has spoken to it yet.
    clients: Vec<Option<Arc<Client>>>,
    /// What a server said of a trainer whose loss ends the job.
    lost: LostProcess,
    /// Memory that servers of this machine can read.
    shared_memory: SharedMemory,
    n_all_gathers: u64,
    n_exchanges: u64,
    is_over: bool,
    /// All servers were left, because the job goes back.
    is_away: bool,
}

impl ClusterState {
    /// The connection to a server, if there is one.
    fn client(&self, server: ServerId) -> Option<&Arc<Client>> {
        self.clients.get(server.0)?.as_ref()
    }

    /// All connections there are.
    fn open(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.clients.iter().flatten()
    }
}

/// Who speaks.
#[derive(Clone, Debug)]
struct Me {
    job: String,
    /// Differs also between jobs whose processes could be taken for those of one.
    digest: String,
    /// The variables that this trainer may name, by server. The number of a variable is its
    /// position.
    vars: Arc<Vec<Vec<VarInfo>>>,
    trainer: TrainerId,
    endpoints: Vec<String>,
    /// How the job is split for other servers.
    origin: Origin,
    /// Whether its servers have been waited for.
    is_ready: bool,
}

impl Me {
    fn new(job: &Distributed) -> Self {
        Self {
            job: job.job.clone(),
            digest: job.digest.clone(),
            vars: Arc::new(held(job)),
            trainer: TrainerId(job.trainer_id as u32),
            endpoints: job.endpoints.clone(),
            origin: job.origin.clone(),
            is_ready: false,
        }
    }

    fn is_of(&self, job: &Distributed) -> bool {
        let trainer = TrainerId(job.trainer_id as u32);
        let is_same =
            (&self.digest, self.trainer, &self.endpoints) == (&job.digest, trainer, &job.endpoints);
        let names = self.vars.iter().map(|held| held.iter().map(|held| &held.name));
        is_same && names.len() == job.vars.len() && names.zip(&job.vars).all(|(a, b)| a.eq(b))
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new(Patience::default(), usual_log())
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster of {} servers", self.state().open().count())
    }
}

impl Cluster {
    /// No connection yet; they are made as programs need them.
    pub fn new(patience: Patience, log: Log) -> Self {
        let stops: Stops = Arc::new(|| false);
        let state = ClusterState {
            incarnation: fresh_incarnation(),
            patience,
            access: Access::default(),
            request_bytes_max: None,
            stops,
            wait_ready: None,
            log,
            me: None,
            start: None,
            joined: None,
            clients: Vec::new(),
            lost: LostProcess::default(),
            shared_memory: SharedMemory::default(),
            n_all_gathers: 0,
            n_exchanges: 0,
            is_over: false,
            is_away: false,
        };
        Self(Arc::new(ClusterInner {
            n_joined: AtomicU64::default(),
            n_shuffles: AtomicU64::default(),
            halt: Arc::default(),
            state: Mutex::new(state),
            traffic: Mutex::default(),
            communicator: Mutex::default(),
            geo: Mutex::default(),
            recovery: Recovery::default(),
            moves: Moves::default(),
            trainers: Mutex::default(),
        }))
    }

    /// Sets how long to wait, for connections made from now on.
    pub fn set_patience(&self, patience: Patience) {
        self.state().patience = patience;
    }

    /// Sets what this process shows to servers and other trainers, for connections made from now on.
    pub fn set_access(&self, access: Access) {
        self.state().access = access;
    }

    /// Sets how many bytes are held of what other trainers send before this one is as far, where there are no
    /// servers; none: half of the memory there is.
    pub fn set_request_bytes(&self, n_bytes_max: Option<u64>) {
        self.state().request_bytes_max = n_bytes_max;
    }

    /// Waiting for servers ends when `stops` returns true, for connections made from now on.
    pub fn set_stops(&self, stops: Stops) {
        self.state().stops = stops;
    }

    /// The number of the next global shuffle, from 1: the same in every process of a trainer.
    pub(crate) fn next_shuffle(&self) -> u64 {
        self.0.n_shuffles.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// While this is set, nobody waits for a server any longer.
    pub(crate) fn halt(&self) -> Arc<AtomicBool> {
        self.0.halt.clone()
    }

    /// From now on, a process that joins a job calls this to wait for its servers before it
    /// connects.
    pub fn set_wait_ready(&self, wait_ready: WaitReady) {
        self.state().wait_ready = Some(wait_ready);
    }

    fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.0.state.lock().even_if_poisoned()
    }

    fn recovery(&self) -> &Recovery {
        &self.0.recovery
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.0.traffic.lock().even_if_poisoned()
    }

    fn shared_memory(&self) -> SharedMemory {
        self.state().shared_memory.clone()
    }

    fn log(&self) -> Log {
        self.state().log.clone()
    }

    fn communicator(&self) -> MutexGuard<'_, Option<Communicator>> {
        self.0.communicator.lock().even_if_poisoned()
    }

    /// Where gradients are handed over to be sent in the background; nothing stays locked.
    fn sender(&self) -> Option<StepSender> {
        self.communicator().as_ref().map(Communicator::sender)
    }

    /// What servers' answers to questions asked from now on contain of this trainer's own steps: all
    /// of them. What is sent in the background is waited for until it is on its way.
    fn wait_written(&self) -> Seen {
        self.sender().map(|sender| sender.wait_written()).unwrap_or_default()
    }

    fn geo(&self) -> MutexGuard<'_, Geo> {
        self.0.geo.lock().even_if_poisoned()
    }

    /// Sends gradients of asynchronous programs in the background from now on; `false` if that is
    /// done already.
    pub fn start_communicator(&self, job: &Arc<Distributed>, config: CommunicatorConfig) -> bool {
        self.join(job);
        *self.recovery().sender.lock().even_if_poisoned() = Some((job.clone(), config.clone()));
        let mut communicator = self.communicator();
        let is_new = communicator.is_none();
        if is_new {
            *communicator = Some(Communicator::start(self.clone(), job.clone(), config));
        }
        is_new
    }

    /// Like [`Cluster::join`], for a job that is used at every step.
    fn join_shared(&self, job: &Arc<Distributed>) {
        let is_joined = |joined: &Arc<Distributed>| Arc::ptr_eq(joined, job);
        if !self.state().joined.as_ref().is_some_and(is_joined) {
            self.join(job);
            self.state().joined = Some(job.clone());
        }
    }

    /// Takes part in a job from now on; connections of an earlier job are closed.
    pub fn join(&self, job: &Distributed) {
        if self.has_followed(job) {
            return;
        }
        let mut state = self.state();
        if !state.me.as_ref().is_some_and(|me| me.is_of(job)) {
            state.me = Some(Me::new(job));
            self.0.n_joined.fetch_add(1, Ordering::Relaxed);
            state.joined = None;
            (state.is_over, state.is_away) = (false, false);
            state.lost = LostProcess::default();
            for client in std::mem::take(&mut state.clients).into_iter().flatten() {
                client.close();
            }
            drop(state);
            *self.traffic() = Traffic::default();
            *self.geo() = Geo::default();
            self.moves().forget();
            self.recovery().reset();
        }
    }

    /// The end points of the job's servers, by number; none if there is no job.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.state().me.as_ref().map_or_else(Vec::new, |me| me.endpoints.clone())
    }

    /// The names of each server's variables, by their numbers; none if there is no job.
    pub(crate) fn vars(&self) -> Vec<Vec<String>> {
        let vars = self.state().me.as_ref().map(|me| me.vars.clone()).unwrap_or_default();
        let names = |held: &Vec<VarInfo>| held.iter().map(|held| held.name.clone()).collect();
        vars.iter().map(names).collect()
    }

    /// How many jobs were joined so far: what was read of the last one is old when it grows.
    pub(crate) fn n_joined(&self) -> u64 {
        self.0.n_joined.load(Ordering::Relaxed)
    }

    /// The end point of a server, for messages.
    fn endpoint(&self, server: ServerId) -> String {
        self.endpoints().get(server.0).cloned().unwrap_or_default()
    }

    /// The connection to a server, made if there is none.
    pub fn client(&self, server: ServerId) -> Result<Arc<Client>> {
        if let Some(client) = self.state().client(server) {
            return Ok(client.clone());
        }
        if self.state().is_away {
            return Err(Error::GoesBack);
        }
        self.wait_for_servers()?;
        let _turn = self.recovery().joining.lock().even_if_poisoned();
        // Another thread may have been faster.
        if let Some(client) = self.state().client(server) {
            return Ok(client.clone());
        }
        if !self.is_connected() {
            let trainer = self.state().me.as_ref().map_or(0, |me| me.trainer.0);
            (self.log())(&lines::client_starts(trainer));
        }
        let client = if self.recovery().is_unknown() {
            self.first_client(server)?
        } else {
            self.new_client(server)?
        };
        let mut state = self.state();
        if let Some(joined) = state.client(server) {
            return Ok(joined.clone());
        }
        let n_servers = state.me.as_ref().map_or(0, |me| me.endpoints.len());
        state.clients.resize(n_servers, None);
        state.clients[server.0] = Some(client.clone());
        Ok(client)
    }

    /// A client of a server, which nobody has yet.
    fn new_client(&self, server: ServerId) -> Result<Arc<Client>> {
        let start = self.start().as_ref().map(JobStart::told);
        self.client_that_tells(server, start)
    }

    /// A client that tells the server this beside its variables.
    fn client_that_tells(&self, server: ServerId, start: Option<VarInfo>) -> Result<Arc<Client>> {
        let state = self.state();
        if state.is_over {
            return Err(Error::JobOver);
        }
        let me = state.me.clone().ok_or(Error::NoJob)?;
        let trainer = me.trainer.0;
        let at: Endpoint = me.endpoints.get(server.0).ok_or(Error::NoJob)?.parse()?;
        let mut vars = me.vars.get(server.0).cloned().unwrap_or_default();
        vars.extend(start);
        let hello = Hello::new(me.job, trainer, state.incarnation, vars);
        let (halt, stops) = (self.0.halt.clone(), state.stops.clone());
        let (ends_soon, moved) = (self.ends_soon(), self.moved_from(&me.endpoints));
        let stops: Stops =
            Arc::new(move || halt.load(Ordering::Relaxed) || stops() || ends_soon() || moved());
        let (lost, memory) = (state.lost.clone(), state.shared_memory.clone());
        let access = state.access.clone();
        ps::tcp::check_access(&access, &at)?;
        let group = ClientGroup { stops, ends: self.asked_to_end(), lost, memory, access };
        let patience = if self.recovers() {
            Self::patience_of_recovery(state.patience)
        } else {
            state.patience
        };
        Ok(Client::among(at, hello, patience, group))
    }

    /// Clients of all servers, by another name than this trainer had before.
    fn new_clients(&self) -> Result<Vec<Arc<Client>>> {
        let n_servers = {
            let mut state = self.state();
            state.incarnation = fresh_incarnation();
            state.me.as_ref().ok_or(Error::NoJob)?.endpoints.len()
        };
        (0..n_servers).map(|server| self.new_client(ServerId(server))).collect()
    }

    /// The last round of which all servers have this trainer's part, or will have.
    pub(crate) fn round(&self) -> u64 {
        self.state().open().map(|client| client.round()).min().unwrap_or(0)
    }

    /// The connections to all servers of the job.
    pub fn all(&self) -> Result<Vec<Arc<Client>>> {
        if self.recovery().is_unknown() && self.state().me.is_some() {
            // Servers may be others than the job says: that is found out first.
            self.client(ServerId(0))?;
        }
        let n_servers = self.state().me.as_ref().ok_or(Error::NoJob)?.endpoints.len();
        (0..n_servers).map(|server| self.client(ServerId(server))).collect()
    }

    /// Whether any server was connected.
    pub fn is_connected(&self) -> bool {
        self.state().open().next().is_some()
    }

    /// Sends what is still queued, and waits until all servers have applied it.
    pub fn settle(&self) -> Result<()> {
        self.traffic().flush(self)?;
        // Nothing is locked while it is waited for.
        let sign = self.communicator().as_ref().map(Communicator::settle);
        if sign.is_some_and(|sign| sign.recv().is_err()) {
            self.end_of_communicator()?;
        }
        self.wait_served()
    }

    fn wait_served(&self) -> Result<()> {
        self.open().iter().try_for_each(|client| Ok(client.settle()?))
    }

    /// The error of a communicator that has ended.
    fn end_of_communicator(&self) -> Result<()> {
        let ended = self.communicator().take();
        ended.map_or(Ok(()), |communicator| communicator.stop().0)
    }

    fn open(&self) -> Vec<Arc<Client>> {
        self.state().open().cloned().collect()
    }

    /// This process ends in order, before its job is complete: tells the servers, without waiting
    /// long.
    pub fn leave(&self) {
        for client in self.open() {
            // A process that ends cannot do anything about a server that does not listen.
            let _ = client.change(Leave).and_then(|()| client.settle());
        }
        self.close();
    }

    fn close(&self) {
        for client in std::mem::take(&mut self.state().clients).into_iter().flatten() {
            client.close();
        }
    }

    /// How old the parameters of asynchronous steps were since the last call; `None` if gradients
    /// are not sent in the background.
    pub fn take_staleness(&self) -> Option<Staleness> {
        let staleness = self.sender()?.take_staleness();
        Some(staleness).filter(|staleness| staleness.n_steps > 0)
    }

    /// Says how old parameters were in a pass.
    pub(crate) fn say_staleness(&self, own: &Staleness) -> Result<()> {
        let all = self.stats()?;
        let of_all = |field: fn(&Stats) -> u64| all.iter().map(field);
        let n_updates: u64 = of_all(|stats| stats.updates).sum();
        let sum: u64 = of_all(|stats| stats.staleness_sum).sum();
        let max = of_all(|stats| stats.staleness_max).max().unwrap_or(0);
        let mean = sum as f64 / n_updates.max(1) as f64;
        let own_ages = lines::Ages { mean: own.mean(), max: own.max };
        let servers = lines::Ages { mean, max };
        (self.log())(&lines::staleness(own.n_steps, own_ages, own.rows_max, servers));
        Ok(())
    }

    /// Counters of every server.
    pub fn stats(&self) -> Result<Vec<Stats>> {
        self.steadily(|| self.stats_once())
    }

    fn stats_once(&self) -> Result<Vec<Stats>> {
        let ask = |client: Arc<Client>| {
            let ticket = client.ask(ps::message::AskStats)?;
            match client.wait(ticket, "counters")? {
                Reply::Stats(stats) => Ok(stats),
                other => Err(unexpected(&client, &other)),
            }
        };
        self.all()?.into_iter().map(ask).collect()
    }
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

/// Differs from process to process and from cluster to cluster.
fn fresh_incarnation() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
