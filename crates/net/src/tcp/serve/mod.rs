//! Drives a [`Server`] with real connections, any number of them.
//!
//! A few threads, as many as the cores ask for, share the connections. The worker that reads a request
//! serves it and writes the answer, as far as the peer takes it at once; the rest is written when the
//! peer takes more. Nothing waits for a peer: a slow or bad one costs its connection, and an idle one
//! some hundred bytes.

mod conn;
mod input;
mod output;
mod poller;
mod published;
mod turns;
mod worker;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::{Endpoint, EvenIfPoisoned};
use protocol::Severity;
use protocol::counters::{self, BUSY};
use protocol::server::{Action, End, Server, ServerMemory, Store, Work};
use wire::budget::Budget;
use wire::message::Reply;
use wire::{ConnId, Error, Millis, Refusal, Result};

use super::entrance::UNPROVED_MAX;
use super::{
    Clock, FRAME_TIMEOUT, Stream, WRITE_TIMEOUT, access_at, addresses, other_user, unix_name,
};
use crate::access::Access;
use crate::lines;
use conn::{Conn, Need};
use poller::{Poller, Token};
use published::Published;
use turns::Turns;

/// Answers to others up to this size are written at once; longer ones by their own workers.
const SHORT_BYTES_MAX: usize = 64 << 10;
/// Connections at once.
const CONNS_MAX: usize = 16_384;
/// Descriptors of a connection: its socket, and a file of shared memory.
const CONN_DESCRIPTORS: u64 = 2;
/// How often the dead are looked for.
const TICK: Duration = Duration::from_millis(100);
/// The same for a server that is about to end: trainers wait for its successor.
const LAST_TICK: Duration = Duration::from_millis(10);
/// How long a peer has to send its greeting.
const HELLO_TIMEOUT_MS: u64 = 30_000;
/// A frame that has begun must end within this.
const FRAME_TIMEOUT_MS: u64 = FRAME_TIMEOUT.as_millis() as u64;
/// A peer that takes nothing for so long is cut off.
const WRITE_TIMEOUT_MS: u64 = WRITE_TIMEOUT.as_millis() as u64;
/// Kinds of bad connections that are mentioned.
const COMPLAINTS_MAX: usize = 256;
/// How long peers have to close their connections at the end.
const CLOSING: Duration = Duration::from_secs(2);
/// Number of serving threads, regardless of cores: while one has long work, its connections wait.
const WORKERS: std::ops::RangeInclusive<usize> = 4..=64;

/// Tokens of the listeners; those of connections follow.
const TCP: Token = 0;
const UNIX: Token = 1;
const FIRST_CONN: Token = 2;

/// Ends a server from another thread or a signal handler.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<StopFlags>);

/// Wishes to a server, and its answers to them.
#[derive(Debug, Default)]
struct StopFlags {
    end: AtomicBool,
    cut: AtomicBool,
    is_alone: AtomicBool,
}

impl Stop {
    /// Asks the server to end.
    pub fn set(&self) {
        self.0.end.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub fn is_set(&self) -> bool {
        self.0.end.load(Ordering::Relaxed)
    }

    /// Asks for a cut, if this server is the lead.
    pub fn want_cut(&self) {
        self.0.cut.store(true, Ordering::Relaxed);
    }

    /// Whether no trainer is connected: then no cut is possible.
    pub fn is_alone(&self) -> bool {
        self.0.is_alone.load(Ordering::Relaxed)
    }
}

/// A bound port that is not served yet.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    tcp: TcpListener,
    unix: Option<UnixListener>,
    access: Access,
}

impl Listener {
    /// Binds; port 0 lets the system choose. Without a secret, only this machine can connect.
    pub fn bind(endpoint: &Endpoint) -> Result<Self> {
        Self::bind_with(endpoint, Access::default())
    }

    /// Binds for processes that know a secret.
    pub fn bind_with(endpoint: &Endpoint, access: Access) -> Result<Self> {
        let access = access_at(&access.named(format!("server-{endpoint}")), endpoint)?;
        let fail = |source| Error::Bind { endpoint: endpoint.clone(), source };
        let all: Vec<_> = addresses(endpoint).map_err(fail)?.collect();
        let tcp = TcpListener::bind(all.as_slice()).map_err(fail)?;
        let port = tcp.local_addr().map_err(fail)?.port();
        let endpoint = Endpoint { port, ..endpoint.clone() };
        // Without it everything works, through TCP.
        let unix = unix_name(&endpoint).and_then(|name| UnixListener::bind_addr(&name)).ok();
        Ok(Self { endpoint, tcp, unix, access })
    }

    /// Where it listens; the port is the real one.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Serves until the server's work is over or `stop` is set. Returns how it ended. `log` gets
    /// lines from time to time.
    pub fn serve<S: Store + 'static>(
        self,
        mut server: Server,
        store: Arc<S>,
        stop: &Stop,
        log: impl Fn(Severity, &str) + Send + Sync + 'static,
    ) -> Option<End> {
        let ((saves, works), (cuts, works_of_cuts)) = (channel(), channel());
        if let Some(keys) = &self.access.keys {
            let known = server.goes_on().then(|| keys.ring().others(keys.name()));
            server.ask_for_keys(known.unwrap_or_default());
        }
        allow_descriptors(CONN_DESCRIPTORS * CONNS_MAX as u64);
        let n_cores = thread::available_parallelism().map_or(1, |n| n.get());
        let n_workers = (2 * n_cores).clamp(*WORKERS.start(), *WORKERS.end());
        let driver = Arc::new(Driver {
            listener: self,
            budget: server.budget().clone(),
            n_cores,
            pollers: pollers(n_workers),
            memory: store.memory(),
            server: Mutex::new(server),
            store,
            long: Mutex::new(Some(Long { saves, cuts })),
            units: Mutex::default(),
            conns: RwLock::default(),
            unproved: Mutex::default(),
            turns: Turns::default(),
            n_conns: AtomicU64::new(0),
            clock: Clock::start(),
            over: Mutex::new(false),
            changed: Condvar::new(),
            complaints: Mutex::default(),
            log: Box::new(log),
        });
        if driver.listener.unix.is_none() {
            driver.complain(&lines::name_taken(&driver.listener.endpoint).text);
        }
        driver.listen();
        let mut workers = driver.start();
        workers.extend(driver.start_long("save", works));
        workers.extend(driver.start_long("cuts", works_of_cuts));
        let end = driver.run(stop);
        driver.deafen();
        // A server that is stopped does not wait for its peers to close.
        driver.close_all(if end.is_some() { CLOSING } else { Duration::ZERO });
        driver.pollers.iter().for_each(|poller| poller.close());
        drop(driver.long().take());
        for worker in workers {
            // A worker ends when it is asked to; it does not panic.
            let _ = worker.join();
        }
        end
    }

    fn accept(&self, token: Token) -> io::Result<Stream> {
        match (&self.unix, token) {
            (Some(unix), UNIX) => unix.accept().map(|(stream, _)| Stream::Unix(stream)),
            _ => {
                let (socket, _) = self.tcp.accept()?;
                Stream::host(socket, &self.access)
            }
        }
    }

    /// The user of a process of this machine that has connected, if it is another one.
    fn other_user(stream: &Stream) -> Option<u32> {
        match stream {
            Stream::Tcp(_) | Stream::Tls(_) => None,
            Stream::Unix(stream) => other_user(stream),
        }
    }
}

fn is_unit(action: &Action) -> bool {
    matches!(action, Action::Run(work) if work.is_unit())
}

/// The sets of the workers.
fn pollers(n: usize) -> Vec<Arc<Poller>> {
    // A system that gives no descriptor to a process that just began has no use for servers.
    let poller = || Poller::new().expect("a new process may have two more descriptors");
    (0..n).map(|_| Arc::new(poller())).collect()
}

/// Asks the system for as many descriptors as connections may need; it gives what it gives.
fn allow_descriptors(n: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(n, |maximum| maximum.min(n));
    if current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// Where work goes that takes long: what trainers ask for does not hold up cuts.
struct Long {
    saves: Sender<Work>,
    cuts: Sender<Work>,
}

/// Everything that the workers share.
struct Driver<S> {
    listener: Listener,
    n_cores: usize,
    /// Shared with the protocol.
    budget: Budget,
    /// One for each worker.
    pollers: Vec<Arc<Poller>>,
    /// The protocol; held for a moment at each event.
    server: Mutex<Server>,
    /// The data, which locks itself.
    store: Arc<S>,
    /// Where work goes that takes long.
    long: Mutex<Option<Long>>,
    /// Units of a round that no worker has begun.
    units: Mutex<VecDeque<Work>>,
    conns: RwLock<BTreeMap<ConnId, Arc<Conn>>>,
    /// Connections whose peers have not proved that they belong to the job, the oldest first.
    unproved: Mutex<BTreeSet<ConnId>>,
    turns: Turns,
    n_conns: AtomicU64,
    clock: Clock,
    over: Mutex<bool>,
    changed: Condvar,
    /// Complaints about bad connections, so that each is logged once.
    complaints: Mutex<BTreeSet<String>>,
    log: LineSink,
    /// Shared with the store.
    memory: ServerMemory,
}

/// Logs the end and duration of work: rare work at the debug level, other work at the trace level. Measures nothing when that level is off.
struct WorkTold {
    name: &'static str,
    is_rare: bool,
    start: Option<Instant>,
}

impl WorkTold {
    fn begin(work: &Work) -> Self {
        let is_rare = work.is_rare();
        let is_seen = if is_rare {
            tracing::enabled!(target: "paddlewheel::server", tracing::Level::DEBUG)
        } else {
            tracing::enabled!(target: "paddlewheel::server", tracing::Level::TRACE)
        };
        Self { name: work.name(), is_rare, start: is_seen.then(Instant::now) }
    }

    fn end(self) {
        let Self { name, is_rare, start: Some(start) } = self else { return };
        let micros = start.elapsed().as_micros() as u64;
        if is_rare {
            tracing::debug!(target: "paddlewheel::server", micros, "done: {name}")
        } else {
            tracing::trace!(target: "paddlewheel::server", micros, "done: {name}")
        }
    }
}

/// Where lines go.
type LineSink = Box<dyn Fn(Severity, &str) + Send + Sync>;

impl<S: Store + 'static> Driver<S> {
    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().even_if_poisoned()
    }

    fn long(&self) -> MutexGuard<'_, Option<Long>> {
        self.long.lock().even_if_poisoned()
    }

    fn units(&self) -> MutexGuard<'_, VecDeque<Work>> {
        self.units.lock().even_if_poisoned()
    }

    fn conns(&self) -> RwLockReadGuard<'_, BTreeMap<ConnId, Arc<Conn>>> {
        self.conns.read().even_if_poisoned()
    }

    fn conn(&self, id: ConnId) -> Option<Arc<Conn>> {
        self.conns().get(&id).cloned()
    }

    fn start(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let spawn = |(n, poller): (usize, &Arc<Poller>)| {
            let (driver, poller) = (self.clone(), poller.clone());
            let thread = thread::Builder::new().name(format!("serve {n}"));
            thread.spawn(move || driver.work(&poller)).ok()
        };
        let workers: Vec<_> = self.pollers.iter().enumerate().filter_map(spawn).collect();
        if workers.len() < self.pollers.len() {
            self.complain("not everybody can be served: the system gives too few threads");
        }
        workers
    }

    /// Starts a thread for long work: only the request that asked for it waits.
    fn start_long(self: &Arc<Self>, name: &str, works: Receiver<Work>) -> Option<JoinHandle<()>> {
        let driver = self.clone();
        let one = move |work: Work| {
            let done = AssertUnwindSafe(|| driver.do_work(None, work));
            if catch_unwind(done).is_err() {
                // A bug of ours, and work that never ends.
                let refusal = Refusal::Failed("work on files came to no end".to_string());
                driver.act(None, |server, _| server.fail(refusal));
            }
        };
        let thread = thread::Builder::new().name(name.to_string());
        thread.spawn(move || works.into_iter().for_each(one)).ok()
    }

    /// Does work with the data without holding the protocol's lock, then passes on the outcome.
    fn do_work(&self, own: Option<&Conn>, work: Work) {
        let told = WorkTold::begin(&work);
        let done = {
            let _busy = work.counted().and_then(|seconds| BUSY.begin(seconds));
            if let Some(keys) = work.keys().filter(|_| metrics::is_on()) {
                counters::looked_up(keys);
            }
            work.run(&*self.store)
        };
        told.end();
        self.act(own, |server, now| server.done(now, done));
    }

    /// Applies units of a round while there are some that no worker has begun.
    fn do_units(&self, own: Option<&Conn>) {
        loop {
            // Not as a condition: the lock would be held while the unit is applied.
            let unit = self.units().pop_front();
            match unit {
                Some(unit) => self.do_work(own, unit),
                None => return,
            }
        }
    }

    /// Wakes as many workers as there is work for, of those that have nothing to do.
    fn wake_workers(&self, n: usize) {
        let others = self.n_cores.saturating_sub(1);
        let woken = self.pollers.iter().filter(|poller| poller.wake_idle());
        woken.take(n.min(others)).for_each(drop);
    }

    /// Waits for the end, looking on the way for dead trainers and for connections whose time is up.
    fn run(&self, stop: &Stop) -> Option<End> {
        let (mut published, mut tick) = (Published::default(), TICK);
        let mut over = self.over.lock().even_if_poisoned();
        loop {
            if *over || stop.is_set() {
                *over = true;
                drop(over);
                // The last numbers are all that is known of this server afterwards.
                if metrics::is_on() {
                    self.publish(&mut published);
                }
                return self.server().end();
            }
            let waited = self.changed.wait_timeout(over, tick);
            drop(waited.even_if_poisoned());
            let is_alone = !self.conns().values().any(|conn| conn.is_proved());
            stop.0.is_alone.store(is_alone, Ordering::Relaxed);
            if stop.0.cut.swap(false, Ordering::Relaxed) {
                self.server().want_cut();
                tick = LAST_TICK;
            }
            self.act(None, |server, now| server.tick(now));
            self.open_held();
            self.look_after_conns();
            self.arm_listeners();
            if published.is_due() {
                self.publish(&mut published);
            }
            over = self.over.lock().even_if_poisoned();
        }
    }

    /// Publishes the state of the protocol for watchers of the job. The sizes of tables are read before the protocol is locked.
    fn publish(&self, published: &mut Published) {
        let size = self.store.size();
        let (stats, n_trainers) = self.server().watched(size);
        published.publish(&stats, n_trainers);
    }

    fn is_over(&self) -> bool {
        *self.over.lock().even_if_poisoned()
    }

    /// Feeds an event and carries out what comes back; `own` is the connection that it came from.
    fn act(&self, own: Option<&Conn>, event: impl FnOnce(&mut Server, Millis) -> Vec<Action>) {
        let (actions, ended) = {
            let mut server = self.server();
            let actions = event(&mut server, self.clock.now());
            (actions, server.end().is_some())
        };
        let n_units = actions.iter().filter(|action| is_unit(action)).count();
        for action in actions {
            self.carry_out(own, action);
        }
        if n_units > 0 {
            self.wake_workers(n_units - 1);
            self.do_units(own);
        }
        if ended {
            *self.over.lock().even_if_poisoned() = true;
            self.changed.notify_all();
        }
    }

    fn carry_out(&self, own: Option<&Conn>, action: Action) {
        match action {
            Action::Reply(conn, id, reply) => self.reply(own, conn, id, reply),
            Action::Run(work) if work.is_long() => {
                if let Some(Long { saves, cuts }) = &*self.long() {
                    let long = if work.is_of_cuts() { cuts } else { saves };
                    // Its thread ends after all senders.
                    let _ = long.send(work);
                }
            }
            Action::Run(work) if work.is_unit() => self.units().push_back(work),
            Action::Run(work) => self.do_work(own, work),
            Action::Close(conn) => {
                if let Some(conn) = self.conn(conn) {
                    conn.cut();
                }
            }
            Action::Log(severity, line) => (self.log)(severity, &line),
        }
    }

    fn reply(&self, own: Option<&Conn>, to: ConnId, id: u64, reply: Reply) {
        let now = self.clock.now();
        let is_taken = match own.filter(|own| own.id == to) {
            Some(own) => own.answer(now, id, reply),
            None => {
                let conn = self.conn(to);
                conn.is_none_or(|conn| conn.tell(now, id, reply))
            }
        };
        if !is_taken {
            self.complain("a peer that takes no answers is cut off");
        }
    }

    /// Says something about a bad connection, once.
    fn complain(&self, line: &str) {
        let mut said = self.complaints.lock().even_if_poisoned();
        if said.len() < COMPLAINTS_MAX && said.insert(line.to_string()) {
            (self.log)(Severity::Warning, line);
        }
    }

    /// Cuts connections whose time is up, and acknowledges what waited for an answer to go with.
    fn look_after_conns(&self) {
        let now = self.clock.now();
        let needy: Vec<(Need, Arc<Conn>)> = {
            let conns = self.conns();
            conns.values().filter_map(|conn| Some((conn.need(now)?, conn.clone()))).collect()
        };
        for (need, conn) in needy {
            match need {
                Need::Acks => conn.flush_acks(now, false),
                Need::CutUnfinished => conn.stream.shut_down(),
                Need::CutSilent => {
                    self.complain("a silent connection was cut");
                    conn.stream.shut_down();
                }
                Need::CutDeaf => {
                    self.complain("a peer that takes no answers is cut off");
                    conn.stream.shut_down();
                }
            }
        }
    }

    /// Lets peers read their last answers and close, for a while; then closes.
    fn close_all(&self, patience: Duration) {
        let until = Instant::now() + patience;
        // Nobody waits for strangers.
        self.conns()
            .values()
            .filter(|conn| !conn.is_proved())
            .for_each(|conn| conn.stream.shut_down());
        while !self.conns().is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        for conn in self.conns().values() {
            conn.stream.shut_down();
        }
        while !self.conns().is_empty() && Instant::now() < until + CLOSING {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
