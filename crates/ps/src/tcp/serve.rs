//! Drives a [`Server`] with real connections.
//!
//! One thread reads each connection and serves what it reads. It writes what the receiver takes at
//! once, to others only short answers; what is left goes to the receiver's writer thread, so that
//! nobody waits for a slow peer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tensor::{Tensor, Value};

use super::lending::Lending;
use super::{Clock, Patient, Stream, WholeFrame, addresses, is_timeout, unix_name};
use crate::Endpoint;
use crate::codec::{COPIED_BYTES, Pool};
use crate::error::{Error, Result};
use crate::frame::{self, FRAME_BYTES_MAX, Frame, HELLO_BYTES_MAX};
use crate::ids::ConnId;
use crate::lines::Severity;
use crate::message::{Ack, Lend, Reply, Request};
use crate::refusal::Refusal;
use crate::region::Window;
use crate::room::Room;
use crate::server::{Action, End, Server, Store};

/// Bytes read ahead; longer reads go straight to their tensors.
const READ_AHEAD: usize = 64 << 10;
/// Answers that wait for a slow peer; one with more is cut off.
const OUTBOX_MAX: usize = 4096;
/// Answers to others up to this size are written at once; longer ones may have to wait for them.
const SHORT_BYTES_MAX: usize = 64 << 10;
/// Longer answers are not begun by who made them: what a peer does not take at once would be copied.
const SPILL_BYTES_MAX: usize = 1 << 20;
/// Acknowledgements that may be left out because a later one says the same.
const ACKS_MAX: u64 = 16;
/// Connections at once.
const CONNS_MAX: usize = 4096;
/// How often the dead are looked for.
const TICK: Duration = Duration::from_millis(100);
/// How long a peer has to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// Kinds of bad connections that are mentioned.
const COMPLAINTS_MAX: usize = 256;
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
        mut server: Server<S>,
        stop: &Stop,
        log: impl Fn(Severity, &str) + Send + Sync + 'static,
    ) -> (Option<End>, S) {
        let room = Room::default();
        server.set_room(&room);
        let shared = Arc::new(Shared {
            room,
            server: Mutex::new(Some(server)),
            conns: Mutex::default(),
            n_conns: AtomicU64::new(0),
            clock: Clock::start(),
            over: Mutex::new(false),
            changed: Condvar::new(),
            complaints: Mutex::default(),
            log: Box::new(log),
        });
        let acceptors = self.accept(&shared);
        let end = shared.run(stop);
        self.wake();
        for acceptor in acceptors {
            // An acceptor ends once it was woken; it does not panic.
            let _ = acceptor.join();
        }
        // Whoever stops a server does not wait for its peers to close.
        shared.part(if end.is_some() { FAREWELL } else { Duration::ZERO });
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
    /// What was said of bad connections.
    complaints: Mutex<BTreeSet<String>>,
    log: Log,
    /// Memory that trainers of this machine can read.
    room: Room,
}

/// Where lines go.
type Log = Box<dyn Fn(Severity, &str) + Send + Sync>;

/// An answer with its number; none if only the rest of an earlier one is to be written.
type Letter = Option<(u64, Reply)>;

struct Conn {
    stream: Stream,
    /// What is left of an answer that the peer did not take at once; held while something is
    /// written.
    rest: Mutex<Vec<u8>>,
    outbox: SyncSender<Letter>,
    /// Letters with the writer; while there are any, answers go through it.
    n_letters: AtomicUsize,
    /// The last change that was served and not acknowledged yet, and how many there are.
    ack: Mutex<(u64, u64)>,
    /// Questions that are not answered yet: acknowledgements go with the answers.
    owed: Mutex<BTreeSet<u64>>,
    /// Memory that the peer can read.
    lending: Mutex<Lending>,
}

impl Conn {
    fn new(stream: Stream, outbox: SyncSender<Letter>, room: Room) -> Self {
        Self {
            stream,
            rest: Mutex::default(),
            outbox,
            n_letters: AtomicUsize::new(0),
            ack: Mutex::default(),
            owed: Mutex::default(),
            lending: Mutex::new(Lending::new(room)),
        }
    }

    /// The peer lends memory, or has opened ours: ours is offered in turn.
    fn lend(&self, lend: &Lend) -> Option<Arc<Window>> {
        let mut lending = self.lending();
        let window = lending.heard(&self.stream, lend);
        if let Some(window) = &window {
            let offer = lending.offer(&self.stream).unwrap_or_default();
            drop(lending);
            self.answer(0, Reply::Lent(Lend { opened: window.id(), ..offer }));
        }
        window
    }

    /// Remembers an acknowledgement for when the peer has nothing more to say, or for now if there
    /// are many.
    fn acknowledge(&self, id: u64) -> bool {
        let n = {
            let mut ack = self.ack.lock().unwrap_or_else(PoisonError::into_inner);
            *ack = (id, ack.1 + 1);
            ack.1
        };
        n < ACKS_MAX || self.flush_ack()
    }

    fn flush_ack(&self) -> bool {
        match self.take_ack() {
            Some((id, ack)) => self.answer(id, ack),
            None => true,
        }
    }

    fn take_ack(&self) -> Option<(u64, Reply)> {
        let (id, n) = std::mem::take(&mut *self.ack.lock().unwrap_or_else(PoisonError::into_inner));
        (n > 0).then(|| (id, Ack.into()))
    }

    fn owed(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lending(&self) -> MutexGuard<'_, Lending> {
        self.lending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an answer, as far as the peer takes it without delay; the writer does the rest.
    /// So a peer that sends much before it reads is still read.
    fn answer(&self, id: u64, reply: Reply) -> bool {
        if self.n_written(&reply) > SPILL_BYTES_MAX {
            return self.post(Some((id, reply)));
        }
        let is_free = self.n_letters.load(Ordering::Acquire) == 0;
        let rest = self.rest.try_lock().ok().filter(|rest| is_free && rest.is_empty());
        let Some(mut rest) = rest else { return self.post(Some((id, reply))) };
        let mut out = Spill { stream: &self.stream, rest: &mut rest };
        if self.write_letter(&mut out, (id, &reply)).is_err() {
            // Its reader will see it and say goodbye.
            self.stream.shut_down();
        }
        let is_written = rest.is_empty();
        drop(rest);
        is_written || self.post(None)
    }

    /// Bytes of the tensors of an answer, without those that the peer reads where they are.
    fn n_written(&self, reply: &Reply) -> usize {
        let is_near = self.lending().is_open();
        let of_tensor = |tensor: &Tensor| {
            let n = tensor.bytes().len();
            let is_read = tensor.lender().is_some() || COPIED_BYTES.contains(&n);
            if is_near && is_read { 0 } else { n }
        };
        let of_value = |value: &Arc<Value>| match &**value {
            Value::Rows(rows) => 8 * rows.ids.len() + of_tensor(&rows.value),
            value => value.tensor().map_or(0, of_tensor),
        };
        match reply {
            Reply::Values(values) => values.0.iter().map(of_value).sum(),
            Reply::Rows(rows) => of_tensor(rows),
            _ => 0,
        }
    }

    /// An answer, with the acknowledgement that is due.
    fn write_letter(&self, out: &mut impl Write, (id, reply): (u64, &Reply)) -> io::Result<()> {
        self.owed().remove(&id);
        let (ack, lender) = (self.take_ack(), self.lending().lender());
        let ack = ack.as_ref().map(|(id, ack)| Frame { id: *id, body: ack });
        let frames: Vec<Frame<'_, Reply>> =
            ack.into_iter().chain([Frame { id, body: reply }]).collect();
        frame::write_all(out, &frames, lender.as_ref())
    }

    /// Leaves a letter to the writer; false if there are too many.
    fn post(&self, letter: Letter) -> bool {
        self.n_letters.fetch_add(1, Ordering::AcqRel);
        match self.outbox.try_send(letter) {
            Err(TrySendError::Full(_)) => {
                self.stream.shut_down();
                false
            }
            _ => true,
        }
    }

    fn write(&self, letter: Letter) {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Patient(&self.stream);
        let written = out.write_all(&rest).and_then(|()| match &letter {
            Some((id, reply)) => self.write_letter(&mut out, (*id, reply)),
            None => Ok(()),
        });
        *rest = Vec::new();
        if written.is_err() {
            self.stream.shut_down();
        }
        self.n_letters.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Writes what the peer takes at once and keeps the rest.
struct Spill<'a> {
    stream: &'a Stream,
    rest: &'a mut Vec<u8>,
}

impl Write for Spill<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.rest.is_empty() {
            match (&mut &*self.stream).write_vectored(slices) {
                Err(error) if is_timeout(&error) => {}
                done => return done,
            }
        }
        for slice in slices {
            self.rest.extend_from_slice(slice);
        }
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
            Action::Reply(conn, id, reply) => {
                let taken = match own {
                    Some((me, own)) if me == conn => match reply {
                        Reply::Ack(_) => own.acknowledge(id),
                        reply => own.answer(id, reply),
                    },
                    _ => self.post(conn, id, reply),
                };
                if !taken {
                    self.complain("a peer that takes no answers is cut off");
                }
            }
            Action::Close(conn) => {
                if let Some(conn) = self.conns().get(&conn) {
                    conn.stream.shut_down();
                }
            }
            Action::Log(severity, line) => (self.log)(severity, &line),
        }
    }

    fn post(&self, conn: ConnId, id: u64, reply: Reply) -> bool {
        let conn = self.conns().get(&conn).cloned();
        conn.is_none_or(|conn| match conn.n_written(&reply) <= SHORT_BYTES_MAX {
            true => conn.answer(id, reply),
            false => conn.post(Some((id, reply))),
        })
    }

    /// Says something about a bad connection, once.
    fn complain(&self, line: &str) {
        let mut said = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < COMPLAINTS_MAX && said.insert(line.to_string()) {
            (self.log)(Severity::Warning, line);
        }
    }

    /// Starts the two threads of a connection.
    fn welcome(self: Arc<Self>, stream: Stream) {
        if self.conns().len() >= CONNS_MAX || stream.set_up().is_err() {
            self.complain("a connection was turned away: there are too many");
            return;
        }
        let id = ConnId(self.n_conns.fetch_add(1, Ordering::Relaxed));
        let (outbox, letters) = sync_channel(OUTBOX_MAX);
        let conn = Arc::new(Conn::new(stream, outbox, self.room.clone()));
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
            self.complain("a connection was turned away: no more threads");
            self.conns().remove(&id);
        }
    }

    /// Serves what comes on a connection, until it ends.
    fn read(&self, id: ConnId, conn: &Arc<Conn>) {
        let mut input = BufReader::with_capacity(READ_AHEAD, &conn.stream);
        let mut pool = Pool::default();
        let mut n_bytes_max = HELLO_BYTES_MAX;
        let begin = Instant::now();
        let error = loop {
            if input.buffer().is_empty() && conn.owed().is_empty() {
                conn.flush_ack();
            }
            match input.fill_buf() {
                Ok([]) => break None,
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {
                    conn.flush_ack();
                    if n_bytes_max > HELLO_BYTES_MAX || begin.elapsed() < HELLO_TIMEOUT {
                        continue;
                    }
                    self.complain("a connection on which nobody spoke was cut");
                    break None;
                }
                Err(_) => break None,
            }
            let mut whole = WholeFrame::new(&mut input);
            match frame::read_into::<Request>(&mut whole, n_bytes_max, &mut pool) {
                Ok((_, Request::Lend(lend))) if n_bytes_max > HELLO_BYTES_MAX => {
                    let window = conn.lend(&lend);
                    if lend.id != 0 {
                        pool.open(window);
                    }
                }
                Ok((number, request)) => {
                    if !request.is_change() {
                        conn.owed().insert(number);
                    }
                    self.act(Some((id, conn)), |server, now| {
                        let actions = server.handle(now, id, number, request);
                        server.spare().into_iter().for_each(|tensor| pool.keep(tensor));
                        actions
                    });
                    n_bytes_max = FRAME_BYTES_MAX;
                }
                Err(Error::Socket(_)) => break None,
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = error {
            self.complain(&format!("a connection was cut: {error}"));
            conn.answer(0, Refusal::Malformed(error.to_string()).into());
        }
        conn.stream.shut_down();
        self.conns().remove(&id);
        self.act(None, |server, now| server.closed(now, id));
    }

    /// Lets peers read their last answers and close, for a while; then closes.
    fn part(&self, patience: Duration) {
        let until = Instant::now() + patience;
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
fn write_letters(conn: &std::sync::Weak<Conn>, letters: &Receiver<Letter>) {
    while let Ok(letter) = letters.recv() {
        let Some(conn) = conn.upgrade() else { return };
        conn.write(letter);
    }
}
