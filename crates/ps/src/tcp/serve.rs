//! Drives a [`Server`] with real connections.
//!
//! One thread reads each connection and serves what it reads; answers to itself it writes itself,
//! answers to others go to their writer threads, so that nobody waits for a slow peer.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Clock, Stream, WholeFrame, addresses, is_timeout, unix_name};
use crate::Endpoint;
use crate::codec::Pool;
use crate::error::{Error, Result};
use crate::frame::{self, FRAME_BYTES_MAX, Frame, HELLO_BYTES_MAX};
use crate::ids::ConnId;
use crate::message::{Reply, Request};
use crate::refusal::Refusal;
use crate::server::{Action, End, Server, Store};

/// Bytes read ahead; longer reads go straight to their tensors.
const READ_AHEAD: usize = 64 << 10;
/// Answers that wait for a slow peer; one with more is cut off.
const OUTBOX_MAX: usize = 4096;
/// Connections at once.
const CONNS_MAX: usize = 4096;
/// How often the dead are looked for.
const TICK: Duration = Duration::from_millis(100);
/// How long peers have to close their connections at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Ends a server from another thread or a signal handler.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the server to end.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A bound port on which nobody is served yet.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    tcp: TcpListener,
    unix: Option<UnixListener>,
}

impl Listener {
    /// Binds; port 0 lets the system choose.
    pub fn bind(endpoint: &Endpoint) -> Result<Self> {
        let fail = |source| Error::Bind { endpoint: endpoint.clone(), source };
        let all: Vec<_> = addresses(endpoint).map_err(fail)?.collect();
        let tcp = TcpListener::bind(all.as_slice()).map_err(fail)?;
        let port = tcp.local_addr().map_err(fail)?.port();
        let endpoint = Endpoint { port, ..endpoint.clone() };
        // Without it everything works, through TCP.
        let unix = unix_name(&endpoint).and_then(|name| UnixListener::bind_addr(&name)).ok();
        Ok(Self { endpoint, tcp, unix })
    }

    /// Where it listens; the port is the real one.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Serves until the server's work is over or `stop` says so; returns how it ended, with what
    /// the server held. `log` gets a line now and then.
    pub fn serve<S: Store + Send + 'static>(
        self,
        server: Server<S>,
        stop: &Stop,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> (Option<End>, S) {
        let shared = Arc::new(Shared {
            server: Mutex::new(Some(server)),
            conns: Mutex::default(),
            n_conns: AtomicU64::new(0),
            clock: Clock::start(),
            over: Mutex::new(false),
            changed: Condvar::new(),
            log: Box::new(log),
        });
        let acceptors = self.accept(&shared);
        let end = shared.run(stop);
        self.wake();
        for acceptor in acceptors {
            // An acceptor ends once it was woken; it does not panic.
            let _ = acceptor.join();
        }
        shared.part();
        let server = shared.lock().take().expect("taken once, here");
        (end, server.into_store())
    }

    fn accept<S: Store + Send + 'static>(
        &self,
        shared: &Arc<Shared<S>>,
    ) -> Vec<thread::JoinHandle<()>> {
        let mut acceptors = Vec::new();
        if let Ok(tcp) = self.tcp.try_clone() {
            let shared = shared.clone();
            acceptors.push(thread::spawn(move || {
                accept_all(&shared, || tcp.accept().map(|(stream, _)| Stream::Tcp(stream)));
            }));
        }
        if let Some(unix) = self.unix.as_ref().and_then(|unix| unix.try_clone().ok()) {
            let shared = shared.clone();
            acceptors.push(thread::spawn(move || {
                accept_all(&shared, || unix.accept().map(|(stream, _)| Stream::Unix(stream)));
            }));
        }
        acceptors
    }

    /// Wakes the acceptors, which wait for connections.
    fn wake(&self) {
        let host = match self.endpoint.host.as_str() {
            "0.0.0.0" | "[::]" | "::" => "127.0.0.1",
            host => host,
        };
        let here = Endpoint { host: host.to_string(), port: self.endpoint.port };
        let _ = super::connect_tcp(&here, Duration::from_secs(1));
        if self.unix.is_some() {
            let _ = unix_name(&self.endpoint)
                .and_then(|name| std::os::unix::net::UnixStream::connect_addr(&name));
        }
    }
}

fn accept_all<S: Store + Send + 'static>(
    shared: &Arc<Shared<S>>,
    mut accept: impl FnMut() -> io::Result<Stream>,
) {
    while !*shared.over.lock().unwrap_or_else(PoisonError::into_inner) {
        match accept() {
            Ok(stream) => shared.clone().welcome(stream),
            // Out of descriptors, say: the connection waits in the queue of the system.
            Err(_) => thread::sleep(TICK),
        }
    }
}

struct Shared<S> {
    server: Mutex<Option<Server<S>>>,
    conns: Mutex<BTreeMap<ConnId, Arc<Conn>>>,
    n_conns: AtomicU64,
    clock: Clock,
    over: Mutex<bool>,
    changed: Condvar,
    log: Box<dyn Fn(&str) + Send + Sync>,
}

struct Conn {
    stream: Stream,
    writing: Mutex<()>,
    outbox: SyncSender<(u64, Reply)>,
}

impl Conn {
    fn write(&self, id: u64, reply: &Reply) {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if frame::write(&mut &self.stream, &Frame { id, body: reply }).is_err() {
            // Its reader will see it and say goodbye.
            self.stream.shut_down();
        }
    }
}

impl<S: Store + Send + 'static> Shared<S> {
    fn lock(&self) -> MutexGuard<'_, Option<Server<S>>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn conns(&self) -> MutexGuard<'_, BTreeMap<ConnId, Arc<Conn>>> {
        self.conns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end, looking for dead trainers on the way.
    fn run(&self, stop: &Stop) -> Option<End> {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if *over || stop.is_set() {
                *over = true;
                return self.lock().as_ref().and_then(Server::end);
            }
            let waited = self.changed.wait_timeout(over, TICK);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            self.act(None, |server, now| server.tick(now));
            over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Feeds an event and carries out what comes back; `own` is the connection of this thread.
    fn act(
        &self,
        own: Option<(ConnId, &Conn)>,
        event: impl FnOnce(&mut Server<S>, crate::Millis) -> Vec<Action>,
    ) {
        let (actions, ended) = {
            let mut server = self.lock();
            let Some(server) = server.as_mut() else { return };
            let actions = event(server, self.clock.now());
            (actions, server.end().is_some())
        };
        for action in actions {
            self.carry_out(own, action);
        }
        if ended {
            *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.changed.notify_all();
        }
    }

    fn carry_out(&self, own: Option<(ConnId, &Conn)>, action: Action) {
        match action {
            Action::Reply(conn, id, reply) => match own {
                Some((me, own)) if me == conn => own.write(id, &reply),
                _ => self.post(conn, id, reply),
            },
            Action::Close(conn) => {
                if let Some(conn) = self.conns().get(&conn) {
                    conn.stream.shut_down();
                }
            }
            Action::Log(line) => (self.log)(&line),
        }
    }

    fn post(&self, conn: ConnId, id: u64, reply: Reply) {
        let Some(conn) = self.conns().get(&conn).cloned() else { return };
        if let Err(TrySendError::Full(_)) = conn.outbox.try_send((id, reply)) {
            (self.log)("a peer that takes no answers is cut off");
            conn.stream.shut_down();
        }
    }

    /// Starts the two threads of a connection.
    fn welcome(self: Arc<Self>, stream: Stream) {
        if self.conns().len() >= CONNS_MAX || stream.set_up().is_err() {
            (self.log)("a connection was turned away: there are too many");
            return;
        }
        let id = ConnId(self.n_conns.fetch_add(1, Ordering::Relaxed));
        let (outbox, letters) = sync_channel(OUTBOX_MAX);
        let conn = Arc::new(Conn { stream, writing: Mutex::default(), outbox });
        self.conns().insert(id, conn.clone());
        let writer = conn.clone();
        let weak = Arc::downgrade(&writer);
        drop(writer);
        let spawned = thread::Builder::new()
            .name(format!("write {}", id.0))
            .spawn(move || write_letters(&weak, &letters));
        let reading = spawned.and_then(|_| {
            let (shared, conn) = (self.clone(), conn.clone());
            thread::Builder::new()
                .name(format!("read {}", id.0))
                .spawn(move || shared.read(id, &conn))
        });
        if reading.is_err() {
            (self.log)("a connection was turned away: no more threads");
            self.conns().remove(&id);
        }
    }

    /// Serves what comes on a connection, until it ends.
    fn read(&self, id: ConnId, conn: &Arc<Conn>) {
        let mut input = BufReader::with_capacity(READ_AHEAD, &conn.stream);
        let mut pool = Pool::default();
        let mut n_bytes_max = HELLO_BYTES_MAX;
        let error = loop {
            match input.fill_buf() {
                Ok([]) => break None,
                Ok(_) => {}
                Err(error) if is_timeout(&error) => continue,
                Err(_) => break None,
            }
            let mut whole = WholeFrame::new(&mut input);
            match frame::read_into::<Request>(&mut whole, n_bytes_max, &mut pool) {
                Ok((number, request)) => {
                    self.act(Some((id, conn)), |server, now| {
                        server.handle(now, id, number, request)
                    });
                    n_bytes_max = FRAME_BYTES_MAX;
                }
                Err(Error::Socket(_)) => break None,
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = error {
            (self.log)(&format!("a connection was cut: {error}"));
            conn.write(0, &Refusal::Malformed(error.to_string()).into());
        }
        conn.stream.shut_down();
        self.conns().remove(&id);
        self.act(None, |server, now| server.closed(now, id));
    }

    /// Lets peers read their last answers and close; then closes.
    fn part(&self) {
        let until = Instant::now() + FAREWELL;
        while !self.conns().is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        for conn in self.conns().values() {
            conn.stream.shut_down();
        }
        while !self.conns().is_empty() && Instant::now() < until + FAREWELL {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Writes answers that other threads made, until the connection is gone.
fn write_letters(conn: &std::sync::Weak<Conn>, letters: &Receiver<(u64, Reply)>) {
    while let Ok((id, reply)) = letters.recv() {
        let Some(conn) = conn.upgrade() else { return };
        conn.write(id, &reply);
    }
}
