//! The connections of a trainer: the job that it takes part in, and a client for each server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use base::{BadEndpoint, Endpoint};
use net::lines;
use net::tcp::{self, Client, ClientGroup, LostProcess, MeshSettings, Patience, Stops};
use program::Distributed;
use program::distributed::{Origin, ServerId};
use wire::message::{Given, Hello, Leave, Recollection, Reply, VarInfo};
use wire::{Refusal, SharedMemory, TrainerId};

use super::job_start::{JobStart, held};
use super::locks::{Ordered, OrderedGuard, Rank};
use super::moving::Moves;
use super::settings::{JobSettings, Log};
use super::unexpected;
use crate::error::{Error, Result};
use crate::recover::LocalState;

/// No server was talked to yet.
const UNKNOWN: u8 = 0;
/// A death ends the job.
const OFF: u8 = 1;
/// The job goes back to a cut.
const ON: u8 = 2;

/// Whether the job goes back to a cut when a process dies.
#[derive(Debug, Default)]
pub(super) struct Recovers(AtomicU8);

impl Recovers {
    /// Whether it does; `false` as long as that is not known.
    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ON
    }

    /// Whether it does not: nothing is an event.
    pub(super) fn is_off(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OFF
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.0.load(Ordering::Relaxed) == UNKNOWN
    }

    pub(super) fn set_on(&self) {
        self.0.store(ON, Ordering::Relaxed);
    }

    pub(super) fn set_off(&self) {
        self.0.store(OFF, Ordering::Relaxed);
    }

    /// Another job begins.
    fn forget(&self) {
        self.0.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// The state that the others have kept of this trainer, when it joins them.
#[derive(Debug)]
pub(super) struct Arrival {
    /// The cut that all go on from.
    pub(super) base: u64,
    pub(super) state: LocalState,
    pub(super) journal: Vec<u8>,
}

/// How often this trainer took part in what all trainers do together: the same in every process of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    pub(super) n_all_gathers: u64,
    pub(super) n_exchanges: u64,
}

/// The servers of a job, as programs without a job of their own find them.
#[derive(Debug, Default)]
pub(crate) struct JobServers {
    /// Their end points, by number.
    pub(crate) endpoints: Vec<String>,
    /// The names of each server's variables, by their numbers.
    pub(crate) vars: Vec<Vec<String>>,
}

/// The connections of a trainer to its servers.
pub(crate) struct Links {
    /// Held while servers are joined.
    joining: Ordered<()>,
    pub(crate) moves: Moves,
    state: Ordered<LinksState>,
    settings: Ordered<JobSettings>,
    recovers: Recovers,
    /// Jobs that were joined so far.
    n_joined: AtomicU64,
    /// How often this process has gone back.
    n_back: AtomicU64,
    /// Set to make all threads stop waiting for servers.
    halt: Arc<AtomicBool>,
    /// Set when this process was asked to end: it does not wait for servers.
    hurries: Arc<AtomicBool>,
}

#[derive(Default)]
pub(super) struct LinksState {
    /// Differs from process to process, and after every time that the job goes back.
    incarnation: u64,
    pub(super) me: Option<Me>,
    /// The job of the step before, so that steps compare no text.
    joined: Option<Arc<Distributed>>,
    /// By the number of the server; none if nobody has spoken to it yet.
    pub(super) clients: Vec<Option<Arc<Client>>>,
    /// A server's report of a trainer whose loss ends the job.
    lost: LostProcess,
    /// Memory that servers of this machine can read.
    shared_memory: SharedMemory,
    pub(super) turns: Turns,
    pub(super) is_over: bool,
    /// All servers were left, because the job goes back.
    is_away: bool,
    /// The state that servers had kept when this trainer joined them, until recovery takes it.
    arrival: Option<Arrival>,
}

impl LinksState {
    /// The connection to a server, if there is one.
    pub(super) fn client(&self, server: ServerId) -> Option<&Arc<Client>> {
        self.clients.get(server.0)?.as_ref()
    }

    /// Takes a new connection to a server.
    fn add_client(&mut self, server: ServerId, client: Arc<Client>) {
        let n_servers = self.me.as_ref().map_or(0, |me| me.endpoints.len());
        self.clients.resize(n_servers, None);
        self.clients[server.0] = Some(client);
    }

    /// All connections there are.
    pub(super) fn open(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.clients.iter().flatten()
    }

    /// Whether any server was connected.
    pub(super) fn is_connected(&self) -> bool {
        self.open().next().is_some()
    }

    /// Whether this is the job of the step before.
    pub(super) fn is_joined(&self, job: &Arc<Distributed>) -> bool {
        self.joined.as_ref().is_some_and(|joined| Arc::ptr_eq(joined, job))
    }

    /// Remembers the job of a step.
    pub(super) fn note_joined(&mut self, job: &Arc<Distributed>) {
        self.joined = Some(job.clone());
    }

    /// The state that servers had kept when this trainer joined them first.
    pub(super) fn take_arrival(&mut self) -> Option<Arrival> {
        self.arrival.take()
    }

    /// Drops messages in flight.
    pub(super) fn forget_flight(&mut self) {
        self.lost = LostProcess::default();
        self.shared_memory = SharedMemory::default();
    }
}

/// The identity of this trainer.
#[derive(Clone, Debug)]
pub(super) struct Me {
    job: String,
    /// Differs also between jobs whose processes could be taken for those of one.
    pub(super) digest: String,
    /// The variables that this trainer may name, by server. The number of a variable is its
    /// position.
    vars: Arc<Vec<Vec<VarInfo>>>,
    pub(super) trainer: TrainerId,
    pub(super) endpoints: Vec<String>,
    /// How the job is split for other servers.
    pub(super) origin: Origin,
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

impl Links {
    pub(super) fn new(settings: JobSettings) -> Self {
        let state = LinksState { incarnation: fresh_incarnation(), ..LinksState::default() };
        Self {
            joining: Ordered::new(Rank::Joining, ()),
            moves: Moves::default(),
            state: Ordered::new(Rank::Links, state),
            settings: Ordered::new(Rank::Settings, settings),
            recovers: Recovers::default(),
            n_joined: AtomicU64::default(),
            n_back: AtomicU64::default(),
            halt: Arc::default(),
            hurries: Arc::default(),
        }
    }

    pub(super) fn state(&self) -> OrderedGuard<'_, LinksState> {
        self.state.lock()
    }

    pub(super) fn settings(&self) -> OrderedGuard<'_, JobSettings> {
        self.settings.lock()
    }

    pub(super) fn recovers(&self) -> &Recovers {
        &self.recovers
    }

    pub(super) fn log(&self) -> Log {
        self.settings().log.clone()
    }

    /// While this is set, nobody waits for a server any longer.
    pub(crate) fn halt(&self) -> Arc<AtomicBool> {
        self.halt.clone()
    }

    /// Takes part in a job from now on, and closes the connections of an earlier one; whether it is another job.
    pub(super) fn join(&self, job: &Distributed) -> bool {
        if self.moves.has_followed(job) {
            return false;
        }
        let mut state = self.state();
        if state.me.as_ref().is_some_and(|me| me.is_of(job)) {
            return false;
        }
        state.me = Some(Me::new(job));
        self.n_joined.fetch_add(1, Ordering::Relaxed);
        state.joined = None;
        (state.is_over, state.is_away) = (false, false);
        state.lost = LostProcess::default();
        state.arrival = None;
        for client in std::mem::take(&mut state.clients).into_iter().flatten() {
            client.close();
        }
        drop(state);
        self.moves.forget();
        self.recovers.forget();
        true
    }

    /// The end points of the job's servers, by number; empty without a job.
    pub(super) fn endpoints(&self) -> Vec<String> {
        self.state().me.as_ref().map_or_else(Vec::new, |me| me.endpoints.clone())
    }

    /// The servers of the job and the names of their variables; none without a job.
    pub(crate) fn servers(&self) -> JobServers {
        let Some(me) = self.state().me.clone() else { return JobServers::default() };
        let names = |held: &Vec<VarInfo>| held.iter().map(|held| held.name.clone()).collect();
        JobServers { endpoints: me.endpoints, vars: me.vars.iter().map(names).collect() }
    }

    /// The last round of which all servers have this trainer's part, or will have.
    pub(crate) fn round(&self) -> u64 {
        self.state().open().map(|client| client.round()).min().unwrap_or(0)
    }

    /// The connections that there are.
    pub(super) fn open(&self) -> Vec<Arc<Client>> {
        self.state().open().cloned().collect()
    }

    /// Memory that servers of this machine can read.
    pub(super) fn shared_memory(&self) -> SharedMemory {
        self.state().shared_memory.clone()
    }

    /// How many jobs were joined so far: what was read of the last one is old when it grows.
    pub(crate) fn n_joined(&self) -> u64 {
        self.n_joined.load(Ordering::Relaxed)
    }

    /// How often this process has gone back: what was asked before is not answered any more.
    pub(super) fn n_back(&self) -> u64 {
        self.n_back.load(Ordering::Relaxed)
    }

    /// The connection to a server, made if there is none.
    pub(crate) fn client(&self, server: ServerId) -> Result<Arc<Client>> {
        {
            let state = self.state();
            if let Some(client) = state.client(server) {
                return Ok(client.clone());
            }
            if state.is_away {
                return Err(Error::GoesBack);
            }
        }
        self.wait_for_servers()?;
        let _turn = self.joining.lock();
        // Another thread may have been faster.
        if let Some(client) = self.state().client(server) {
            return Ok(client.clone());
        }
        if !self.state().is_connected() {
            let trainer = self.state().me.as_ref().map_or(0, |me| me.trainer.0);
            (self.log())(&lines::client_starts(trainer));
        }
        let client = if self.recovers.is_unknown() {
            self.first_client(server)?
        } else {
            self.new_client(server)?
        };
        let mut state = self.state();
        if let Some(joined) = state.client(server) {
            return Ok(joined.clone());
        }
        state.add_client(server, client.clone());
        Ok(client)
    }

    /// A client of a server, which nobody has yet.
    fn new_client(&self, server: ServerId) -> Result<Arc<Client>> {
        let start = self.settings().start.as_ref().map(JobStart::told);
        self.client_that_tells(server, start)
    }

    /// A client that tells the server this beside its variables.
    fn client_that_tells(&self, server: ServerId, start: Option<VarInfo>) -> Result<Arc<Client>> {
        let JobSettings { stops, ends, access, mut patience, .. } = self.settings().clone();
        let (me, incarnation, lost, memory) = {
            let state = self.state();
            if state.is_over {
                return Err(Error::JobOver);
            }
            let me = state.me.clone().ok_or(Error::NoJob)?;
            (me, state.incarnation, state.lost.clone(), state.shared_memory.clone())
        };
        let at: Endpoint = me.endpoints.get(server.0).ok_or(Error::NoJob)?.parse()?;
        let mut vars = me.vars.get(server.0).cloned().unwrap_or_default();
        vars.extend(start);
        let hello = Hello::new(me.job, me.trainer.0, incarnation, vars);
        let (halt, ends_soon) = (self.halt.clone(), self.ends_soon());
        let moved = self.moved_from(&me.endpoints);
        let stops: Stops =
            Arc::new(move || halt.load(Ordering::Relaxed) || stops() || ends_soon() || moved());
        let ends = ends.unwrap_or_else(|| Arc::new(|| false));
        tcp::check_access(&access, &at)?;
        let group = ClientGroup { stops, ends, lost, memory, access };
        if self.recovers.is_on() {
            patience = patience_of_recovery(patience);
        }
        Ok(Client::among(at, hello, patience, group))
    }

    /// The first connection of a job. It goes to the servers that there are, also if they change meanwhile: a
    /// trainer that was started just then has the list of those before.
    fn first_client(&self, server: ServerId) -> Result<Arc<Client>> {
        loop {
            self.follow()?;
            let client = self.new_client(server)?;
            match self.first_contact(&client) {
                Err(Error::WaitEnded(_)) if self.must_follow() => client.close(),
                contact => return contact.map(|()| client),
            }
        }
    }

    /// The first connection of a job: does it recover? Joins all servers if so; the caller holds the lock against other threads
    /// that join.
    fn first_contact(&self, client: &Arc<Client>) -> Result<()> {
        match client.ensure_connected() {
            Ok(()) => {
                self.recovers.set_off();
                self.agree_on_start(client)
            }
            Err(wire::Error::OtherTerm { .. }) => {
                client.close();
                self.recovers.set_on();
                let arrival = self.arrive()?;
                self.state().arrival = Some(arrival);
                Ok(())
            }
            Err(error) => {
                self.pass_on(&error);
                Err(error.into())
            }
        }
    }

    /// Greets all servers, if this process has looked for checkpoints: they compare where they begin. `first` has
    /// agreed.
    fn agree_on_start(&self, first: &Client) -> Result<()> {
        if self.settings().start.is_none() {
            return Ok(());
        }
        for server in self.servers_but(first.endpoint()) {
            let client = self.new_client(server)?;
            if let Err(error) = client.ensure_connected() {
                self.pass_on(&error);
                return Err(error.into());
            }
            self.state().add_client(server, client);
        }
        Ok(())
    }

    /// Tells all other servers why a server does not let the job begin, if it does not: a server that no trainer meets
    /// would wait for them.
    fn pass_on(&self, error: &wire::Error) {
        let wire::Error::Refused { endpoint, refusal: Refusal::Failed(why) } = error else {
            return;
        };
        if self.settings().start.is_none() {
            return;
        }
        self.close();
        let told = VarInfo::no_start(&format!("server {endpoint} cannot begin: {why}"));
        for server in self.servers_but(endpoint) {
            // One that cannot be reached, or that has ended, is not waited for: this process ends with the error.
            if let Ok(client) = self.client_that_tells(server, Some(told.clone())) {
                let _ = client.ensure_connected();
                client.close();
            }
        }
    }

    /// The numbers of the servers that are at other end points.
    fn servers_but(&self, endpoint: &Endpoint) -> Vec<ServerId> {
        let own = endpoint.to_string();
        let all = self.endpoints().into_iter().enumerate();
        all.filter(|(_, other)| *other != own).map(|(at, _)| ServerId(at)).collect()
    }

    /// Joins the servers that there are now, after all were left.
    pub(super) fn rejoin(&self) -> Result<Arrival> {
        let _turn = self.joining.lock();
        self.follow()?;
        self.arrive()
    }

    /// Joins all servers in one term, and gets what they have kept of this trainer.
    fn arrive(&self) -> Result<Arrival> {
        let n_servers = {
            let mut state = self.state();
            // By another name than this trainer had before.
            state.incarnation = fresh_incarnation();
            state.me.as_ref().ok_or(Error::NoJob)?.endpoints.len()
        };
        let clients: Vec<Arc<Client>> = (0..n_servers)
            .map(|server| self.new_client(ServerId(server)))
            .collect::<Result<_>>()?;
        self.hurry(true);
        let joined = tcp::join(&clients).map_err(Error::from).and_then(|term| {
            let base = term.and_then(|term| term.base).ok_or(Error::GoesBack)?;
            Ok((base, recall(&clients, base)?))
        });
        self.hurry(false);
        let (base, given) = match joined {
            Ok(joined) => joined,
            Err(error) => {
                clients.iter().for_each(|client| client.close());
                return Err(error);
            }
        };
        {
            let mut state = self.state();
            state.clients = clients.into_iter().map(Some).collect();
            (state.is_away, state.arrival) = (false, None);
        }
        let state = LocalState::from_bytes(&given.state)?;
        Ok(Arrival { base, state, journal: given.journal })
    }

    /// Turns to other servers: those that this trainer talked to have been left.
    pub(super) fn turn_to(&self, job: &Distributed) {
        self.n_joined.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        // They are waited for as servers that are started again.
        state.me = Some(Me { is_ready: true, ..Me::new(job) });
        state.joined = None;
    }

    /// Waits for the servers of the job, once.
    fn wait_for_servers(&self) -> Result<()> {
        let Some(wait_ready) = self.settings().wait_ready.clone() else { return Ok(()) };
        let endpoints = {
            let state = self.state();
            match &state.me {
                Some(me) if !me.is_ready && !state.is_over => me.endpoints.clone(),
                _ => return Ok(()),
            }
        };
        let endpoints = endpoints.iter().map(|endpoint| endpoint.parse());
        let endpoints = endpoints.collect::<std::result::Result<Vec<Endpoint>, BadEndpoint>>()?;
        // Nothing is locked meanwhile: it may take long.
        wait_ready(&endpoints).map_err(Error::NotReady)?;
        if let Some(me) = &mut self.state().me {
            me.is_ready = true;
        }
        Ok(())
    }

    /// The connections to all servers of the job.
    pub(super) fn all(&self) -> Result<Vec<Arc<Client>>> {
        if self.recovers.is_unknown() && self.state().me.is_some() {
            // Servers may be others than the job says: that is found out first.
            self.client(ServerId(0))?;
        }
        let n_servers = self.state().me.as_ref().ok_or(Error::NoJob)?.endpoints.len();
        (0..n_servers).map(|server| self.client(ServerId(server))).collect()
    }

    /// Waits until all servers have applied what was sent.
    pub(super) fn wait_served(&self) -> Result<()> {
        self.open().iter().try_for_each(|client| Ok(client.settle()?))
    }

    /// Tells servers that this process ends in order, without waiting long.
    pub(super) fn leave(&self) {
        for client in self.open() {
            // A process that ends cannot do anything about a server that does not listen.
            let _ = client.change(Leave).and_then(|()| client.settle());
        }
        self.close();
    }

    pub(super) fn close(&self) {
        let clients = std::mem::take(&mut self.state().clients);
        clients.into_iter().flatten().for_each(|client| client.close());
    }

    /// From now on nobody connects: the job goes back.
    pub(super) fn go_away(&self) {
        self.n_back.fetch_add(1, Ordering::Relaxed);
        self.state().is_away = true;
        self.close();
    }

    /// From now on, or no longer, nobody waits for servers if this process was asked to end.
    pub(super) fn hurry(&self, is_on: bool) {
        self.hurries.store(is_on, Ordering::Relaxed);
    }

    /// Whether this process was asked to end.
    pub(super) fn ends(&self) -> bool {
        let ends = self.settings().ends.clone();
        ends.is_some_and(|ends| ends())
    }

    /// Whether nobody waits for servers now, because this process was asked to end.
    fn ends_soon(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let (ends, hurries) = (self.settings().ends.clone(), self.hurries.clone());
        move || hurries.load(Ordering::Relaxed) && ends.as_ref().is_some_and(|it| it())
    }

    /// How to join other trainers, in a job without servers.
    pub(super) fn mesh_settings(&self) -> MeshSettings {
        let (halt, ends) = (self.halt.clone(), self.ends_soon());
        let settings = self.settings();
        let own = settings.stops.clone();
        let stops: Stops = Arc::new(move || halt.load(Ordering::Relaxed) || own() || ends());
        let (log, access) = (settings.log.clone(), settings.access.clone());
        let early_bytes_max = settings.request_bytes_max.unwrap_or_else(tcp::half_of_memory);
        MeshSettings { patience: settings.patience, stops, log, access, early_bytes_max }
    }
}

/// How long to wait for what in a job that recovers: servers are started again.
pub(super) fn patience_of_recovery(patience: Patience) -> Patience {
    Patience { connect_ms: patience.recover_ms, ..patience }
}

/// The state that servers have kept of this trainer. Asks all of them: a job that continued with another number of servers has
/// older state where it was.
fn recall(clients: &[Arc<Client>], cut: u64) -> Result<Given> {
    let first = Recollection::default().next(cut);
    let asked: Vec<_> =
        clients.iter().map(|client| client.ask(first.clone())).collect::<wire::Result<_>>()?;
    let mut all = Given::default();
    for (client, mut ticket) in clients.iter().zip(asked) {
        let mut recollection = Recollection::default();
        let given = loop {
            match client.wait(ticket, "what was kept of this trainer")? {
                Reply::Recalled(piece) => match recollection.add(piece) {
                    Some(given) => break given,
                    None => ticket = client.ask(recollection.next(cut))?,
                },
                other => return Err(unexpected(client, &other)),
            }
        };
        all.journal.extend(given.journal);
        if all.state.is_empty() {
            all.state = given.state;
        }
    }
    Ok(all)
}

/// Differs from process to process and from job to job.
fn fresh_incarnation() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
