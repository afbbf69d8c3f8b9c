//! The loop of a worker: takes connections with input, and serves them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::EvenIfPoisoned;
use protocol::server::Store;
use wire::frame::FRAME_BYTES_MAX;
use wire::message::Request;
use wire::{ConnId, Error, Refusal, Result, TlsFailure};

use super::conn::{Conn, Visitor};
use super::input::FrameInput;
use super::poller::{Poller, Ready, Token, WOKEN};
use super::{CONNS_MAX, Driver, FIRST_CONN, Listener, TCP, UNIX, UNPROVED_MAX};
use crate::access::proof::Service;
use crate::lines;
use crate::tcp::Stream;
use crate::tcp::entrance::Proving;

/// Bytes read at once, beside those that go straight to their tensors.
const READ_BYTES: usize = 64 << 10;
/// Reads of one connection in a row, before others have their turn.
const READS_MAX: usize = 16;
/// Questions of a peer that are not answered; one with more is cut off.
const QUESTIONS_MAX: usize = 4096;
/// Connections taken in a row.
const ACCEPTS_MAX: usize = 64;

/// How reading a connection ended.
enum ReadEnd {
    /// More may come.
    Open,
    /// The peer is gone, or what it says cannot be read.
    Over(Option<Error>),
}

impl<S: Store + 'static> Driver<S> {
    /// Serves what a poller reports, until it is closed.
    pub(super) fn work(&self, poller: &Poller) {
        let (mut buffer, mut events) = (vec![0; READ_BYTES], Vec::new());
        // Connections with something to read that no poll sees, because it was decrypted already.
        let mut more: Vec<Ready> = Vec::new();
        // Waiting fails only where there is nothing to wait for.
        while poller.wait(&mut events, !more.is_empty()).is_ok() {
            let ready: Vec<Ready> =
                more.drain(..).chain(events.drain(..).map(Ready::from)).collect();
            for ready in ready {
                match ready.token {
                    WOKEN if poller.wake_up() => self.help(),
                    WOKEN => return,
                    TCP | UNIX => self.accept(ready.token),
                    token => {
                        let id = ConnId(token - FIRST_CONN);
                        if self.look_at(id, ready, &mut buffer) {
                            more.push(Ready { token, to_read: true, to_write: false });
                        }
                    }
                }
            }
        }
    }

    /// Applies units of a round that another worker began.
    fn help(&self) {
        if catch_unwind(AssertUnwindSafe(|| self.do_units(None))).is_err() {
            // A bug of ours, and a round that never ends.
            let refusal = Refusal::Failed("a table could not be updated".to_string());
            self.act(None, |server, _| server.fail(refusal));
        }
    }

    /// Serves a connection; whether it has more to read.
    fn look_at(&self, id: ConnId, ready: Ready, buffer: &mut [u8]) -> bool {
        let Some(conn) = self.conn(id) else { return false };
        let served = AssertUnwindSafe(|| self.serve_conn(&conn, ready, buffer));
        if catch_unwind(served).is_err() {
            // A bug of ours; it was reported where it happened. Others are still served.
            self.drop_conn(&conn);
        }
        conn.stream.has_input()
    }

    fn serve_conn(&self, conn: &Conn, ready: Ready, buffer: &mut [u8]) {
        if ready.to_write {
            conn.flush(self.clock.now());
        }
        if ready.to_read && !conn.is_proved() {
            return self.prove(conn);
        }
        if ready.to_read {
            let mut input = conn.input();
            let read = self.read(conn, &mut input, buffer);
            conn.heard(input.is_begun(), self.clock.now());
            drop(input);
            if let ReadEnd::Over(error) = read {
                self.end_conn(conn, error);
            }
        }
    }

    /// Continues with the proof that a peer belongs to the job. A peer without one learns nothing of the job, and nothing is kept
    /// for it.
    fn prove(&self, conn: &Conn) {
        if self.has_lost_its_turn(conn) {
            return self.drop_conn(conn);
        }
        let end = conn.prove(self.clock.now());
        if let Ok(Some(end)) = &end {
            self.note_proof(conn, *end);
        }
        match end {
            Ok(None) => {}
            Ok(Some(Ok(()))) => self.let_in(conn),
            Ok(Some(Err(why))) => {
                self.complain(&lines::refused(&conn.stream.peer(), &why.to_string()).text);
                self.drop_conn(conn);
            }
            Err(error) => {
                // Others are gone, or have never been here.
                if let Some(why) = TlsFailure::of(&error) {
                    self.complain(&lines::refused(&conn.stream.peer(), &why.to_string()).text);
                }
                self.drop_conn(conn);
            }
        }
    }

    /// Reads what there is and serves it.
    fn read(&self, conn: &Conn, input: &mut FrameInput, buffer: &mut [u8]) -> ReadEnd {
        for _ in 0..READS_MAX {
            if conn.is_cut() {
                return ReadEnd::Over(None);
            }
            let came = match input.read(&mut &conn.stream, buffer) {
                Ok(came) => came,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return ReadEnd::Over(None),
            };
            if came.is_end {
                return ReadEnd::Over(None);
            }
            let mut bytes = &buffer[..came.n_buffered];
            loop {
                match self.next_request(input, &mut bytes) {
                    Ok(_) if conn.is_cut() => return ReadEnd::Over(None),
                    Ok(Some((id, request))) => self.serve(conn, input, id, request),
                    Ok(None) => break,
                    Err(error) => return ReadEnd::Over(Some(error)),
                }
            }
            if let Err(error) = self.check(conn, input) {
                return ReadEnd::Over(Some(error));
            }
            if !came.is_full {
                break;
            }
        }
        conn.flush_acks(self.clock.now(), true);
        ReadEnd::Open
    }

    /// An error if a peer has more here than it may.
    fn check(&self, conn: &Conn, input: &mut FrameInput) -> Result<()> {
        match conn.output().n_owed() {
            n if n > QUESTIONS_MAX => Err(Error::Questions { n }),
            _ => input.count(),
        }
    }

    fn next_request(
        &self,
        input: &mut FrameInput,
        bytes: &mut &[u8],
    ) -> Result<Option<(u64, Request)>> {
        input.take(bytes, &mut self.memory.pool())
    }

    fn serve(&self, conn: &Conn, input: &mut FrameInput, id: u64, request: Request) {
        let has_greeted = conn.has_spoken.load(Ordering::Relaxed);
        conn.heard_frame();
        match request {
            Request::Lend(lend) if has_greeted => {
                let lent = conn.output().lend(&lend);
                if lend.offer.id != 0 {
                    input.window = lent.as_ref().map(|(window, _)| window.clone());
                }
                if let Some((_, reply)) = lent {
                    conn.answer(self.clock.now(), 0, reply);
                }
            }
            request => {
                if !request.is_change() {
                    conn.output().asked(id);
                }
                self.act(Some(conn), |server, now| server.handle(now, conn.id, id, request));
                self.has_greeted(conn);
                input.n_bytes_max = FRAME_BYTES_MAX;
            }
        }
    }

    /// Ends a connection, either because of an error, which is sent to the peer, or because the peer closed it.
    fn end_conn(&self, conn: &Conn, error: Option<Error>) {
        if let Some(error) = error {
            self.complain(&format!("a connection was cut: {error}"));
            let refusal = match error {
                Error::Overfull { n_bytes, n_bytes_max } => {
                    Refusal::TooMuch { n_bytes, n_bytes_max }
                }
                Error::Questions { n } => Refusal::TooManyQuestions { n: n as u32 },
                error => Refusal::Malformed(error.to_string()),
            };
            conn.answer(self.clock.now(), 0, refusal.into());
        }
        self.drop_conn(conn);
    }

    pub(super) fn drop_conn(&self, conn: &Conn) {
        conn.close();
        let removed = {
            let mut conns = self.conns.write().even_if_poisoned();
            conns.remove(&conn.id)
        };
        self.unproved.lock().even_if_poisoned().remove(&conn.id);
        if removed.is_some() {
            tracing::debug!(target: "paddlewheel::network", connection = conn.id.0, "a connection has ended");
            self.act(None, |server, now| server.closed(now, conn.id));
        }
    }

    /// Begins to listen.
    pub(super) fn listen(&self) {
        let listener = &self.listener;
        let unix = listener.unix.as_ref();
        let listening = listener.tcp.set_nonblocking(true);
        let listening = listening.and_then(|()| self.acceptor().add(&listener.tcp, TCP));
        let near = unix.map(|unix| {
            unix.set_nonblocking(true)?;
            self.acceptor().add(unix, UNIX)
        });
        if listening.is_err() || near.is_some_and(|near| near.is_err()) {
            self.complain("new connections are impossible: the system refuses to watch the port");
        }
        self.arm_listeners();
    }

    /// The set of the worker that takes connections.
    fn acceptor(&self) -> &Poller {
        &self.pollers[0]
    }

    /// Takes connections again, also after the system had no descriptor for one.
    pub(super) fn arm_listeners(&self) {
        [TCP, UNIX].into_iter().for_each(|token| self.arm_listener(token));
    }

    fn arm_listener(&self, token: Token) {
        match (&self.listener.unix, token) {
            (Some(unix), UNIX) => self.acceptor().arm(unix, UNIX),
            _ => self.acceptor().arm(&self.listener.tcp, TCP),
        }
    }

    /// Takes no more connections.
    pub(super) fn deafen(&self) {
        self.acceptor().remove(&self.listener.tcp);
        if let Some(unix) = &self.listener.unix {
            self.acceptor().remove(unix);
        }
    }

    fn accept(&self, token: Token) {
        for _ in 0..ACCEPTS_MAX {
            if self.is_over() {
                return;
            }
            match self.listener.accept(token) {
                Ok(stream) => self.admit(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Out of descriptors, say: it waits in the queue of the system, and is looked at
                // again when some time has passed.
                Err(_) => return,
            }
        }
        self.arm_listener(token);
    }

    /// The poller with the fewest connections: numbers of connections say nothing, because programs that only look whether
    /// the port is open have had numbers, too.
    fn idlest_poller(&self) -> Arc<Poller> {
        let conns = self.conns();
        let n_of = |poller: &Arc<Poller>| {
            conns.values().filter(|conn| Arc::ptr_eq(&conn.poller, poller)).count()
        };
        let idlest = self.pollers.iter().min_by_key(|poller| n_of(poller));
        idlest.unwrap_or(&self.pollers[0]).clone()
    }

    /// A connection more that has proved nothing: the oldest of them goes if there are too many.
    fn make_room(&self, id: ConnId) {
        let oldest = {
            let mut unproved = self.unproved.lock().even_if_poisoned();
            unproved.insert(id);
            if unproved.len() > UNPROVED_MAX { unproved.pop_first() } else { None }
        };
        if let Some(oldest) = oldest.and_then(|oldest| self.conn(oldest)) {
            self.complain("too many connections prove nothing: the oldest of them are cut");
            self.drop_conn(&oldest);
        }
    }

    fn admit(&self, stream: Stream) {
        if let Some(user) = Listener::other_user(&stream) {
            let line =
                format!("a process of another user ({user}) was refused: it is not local to us");
            return self.complain(&line);
        }
        if self.conns().len() >= CONNS_MAX || stream.set_nonblocking(true).is_err() {
            return self.complain("a connection was turned away: there are too many");
        }
        let Some(turn) = self.turn_of(&stream) else { return };
        let id = ConnId(self.n_conns.fetch_add(1, Ordering::Relaxed));
        tracing::debug!(target: "paddlewheel::network", connection = id.0, is_local = stream.is_local(), "a connection");
        let proof = Proving::new(&self.listener.access, Service::Server);
        self.make_room(id);
        let poller = self.idlest_poller();
        let memory = self.memory.shared().clone();
        let visitor = Visitor { id, stream, proof, turn };
        let conn = Arc::new(Conn::new(visitor, poller, memory, self.clock.now()));
        {
            let mut conns = self.conns.write().even_if_poisoned();
            conns.insert(id, conn.clone());
        }
        if !self.open(&conn) {
            self.complain("a connection was turned away: the system watches no more of them");
            self.drop_conn(&conn);
        }
    }
}
