//! TLS 1.3 over a TCP connection, for threads that wait and for workers that do not.
//!
//! Both directions share one session, so a lock is taken for each read and write; no thread waits while
//! it holds the lock. The socket never blocks: threads that may wait poll it.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use base::EvenIfPoisoned;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::{Connection, IoState};
use wire::TlsFailure;

use super::{READ_TIMEOUT, WRITE_SLICE};
use crate::access::proof::Nonce;
use crate::access::tls::{Tls, failure};

/// Bytes that a session takes before the socket has taken them.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes read at once at first, and from a peer that sends much. The session itself would read 4 KiB at a time.
const READ_BYTES: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;
/// Binds the proof of the secret to a session.
const EXPORT_LABEL: &[u8] = b"EXPORTER-paddlewheel-proof";
/// No limit for a read.
const NEVER: u64 = u64::MAX;

/// A connection that is encrypted.
#[derive(Debug)]
pub(super) struct TlsStream {
    pub(super) socket: TcpStream,
    session: Mutex<Session>,
    /// The value that the proof of the secret is bound to.
    exported: OnceLock<Nonce>,
    /// Whether calls return at once.
    is_nonblocking: AtomicBool,
    /// How long a read may wait, in milliseconds.
    read_ms: AtomicU64,
}

#[derive(Debug)]
struct Session {
    tls: Connection,
    /// Bytes from the socket that the session has not taken.
    came: Vec<u8>,
    n_taken: usize,
    /// How much is read at once.
    n_at_once: usize,
    /// Whether the socket gave less than it could have: nothing is left there.
    is_drained: bool,
    /// The file of the certificate that we show.
    shown: Option<Arc<str>>,
    /// The reason why the session is over, if it is; every reader gets it.
    failed: Option<TlsFailure>,
}

impl TlsStream {
    pub(super) fn new(socket: TcpStream, mut tls: Connection, by: &Tls) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        tls.set_buffer_limit(Some(BUFFER_BYTES));
        let came = Vec::new();
        let n_taken = 0;
        let n_at_once = READ_BYTES;
        let (is_drained, shown) = (false, by.shown());
        let session = Session { tls, came, n_taken, n_at_once, is_drained, shown, failed: None };
        Ok(Self {
            socket,
            session: Mutex::new(session),
            exported: OnceLock::new(),
            is_nonblocking: AtomicBool::new(false),
            read_ms: AtomicU64::new(READ_TIMEOUT.as_millis() as u64),
        })
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().even_if_poisoned()
    }

    pub(super) fn set_nonblocking(&self, is_nonblocking: bool) {
        self.is_nonblocking.store(is_nonblocking, Ordering::Relaxed);
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) {
        let millis = timeout.map_or(NEVER, |timeout| timeout.as_millis() as u64);
        self.read_ms.store(millis, Ordering::Relaxed);
    }

    /// The value that only the two ends of this session can compute; zeros before it is complete.
    pub(super) fn exported(&self) -> Nonce {
        self.exported.get().copied().unwrap_or_default()
    }

    /// Goes on with the greeting of TLS; waits a while for the other side, if it may. Whether it is complete.
    pub(super) fn greet(&self) -> io::Result<bool> {
        if self.greet_now()? {
            return Ok(true);
        }
        if self.is_nonblocking.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let more = if self.is_pending() { PollFlags::OUT } else { PollFlags::empty() };
        self.wait(PollFlags::IN | more, READ_TIMEOUT.as_millis() as u64)?;
        self.greet_now()
    }

    fn greet_now(&self) -> io::Result<bool> {
        if self.exported.get().is_some() {
            return Ok(true);
        }
        let mut session = self.session();
        while session.tls.is_handshaking() {
            session.push(&self.socket)?;
            if session.tls.is_handshaking() && !session.pull(&self.socket)? {
                return Ok(false);
            }
        }
        session.push(&self.socket)?;
        let exported = session.tls.export_keying_material([0; 32], EXPORT_LABEL, None);
        let exported = exported.map_err(io::Error::other)?;
        self.exported.get_or_init(|| exported);
        Ok(true)
    }

    /// Whether unread bytes are here, even if the socket has none.
    pub(super) fn has_input(&self) -> bool {
        self.session().has_input()
    }

    /// Whether written bytes wait to be sent.
    pub(super) fn is_pending(&self) -> bool {
        self.session().tls.wants_write()
    }

    /// Sends what was written before, as far as the socket takes it.
    pub(super) fn push(&self) -> io::Result<()> {
        self.session().push(&self.socket)
    }

    /// Waits until the socket can be read, or written; false if it took too long.
    fn wait(&self, flags: PollFlags, millis: u64) -> io::Result<bool> {
        let seconds = i64::try_from(millis / 1000).unwrap_or(i64::MAX);
        let limit = Timespec { tv_sec: seconds, tv_nsec: (millis % 1000 * 1_000_000) as _ };
        let limit = Some(&limit).filter(|_| millis != NEVER);
        let mut watched = [PollFd::new(&self.socket, flags)];
        match poll(&mut watched, limit) {
            Err(rustix::io::Errno::INTR) => Ok(true),
            polled => Ok(polled? > 0),
        }
    }

    pub(super) fn read_vectored(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        loop {
            let filled = self.session().fill(slices, &self.socket);
            match filled {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.is_nonblocking.load(Ordering::Relaxed) {
                        return Err(error);
                    }
                    // Bytes that another thread has written may not be sent yet.
                    let is_pending = self.is_pending();
                    let more = if is_pending { PollFlags::OUT } else { PollFlags::empty() };
                    if !self.wait(PollFlags::IN | more, self.read_ms.load(Ordering::Relaxed))? {
                        return Err(error);
                    }
                    if is_pending {
                        self.push()?;
                    }
                }
                filled => return filled,
            }
        }
    }

    pub(super) fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let n = self.session().take(slices, &self.socket)?;
        if !self.is_nonblocking.load(Ordering::Relaxed) {
            // The thread that waits for the answer reads, and sends the rest.
            let millis = WRITE_SLICE.as_millis() as u64;
            while self.is_pending() && self.wait(PollFlags::OUT, millis)? {
                self.push()?;
            }
        }
        match n {
            0 if slices.iter().any(|slice| !slice.is_empty()) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            n => Ok(n),
        }
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Session {
    /// Fills slices with the bytes that have come: fewer bytes than asked for mean that none are left here.
    fn fill(&mut self, slices: &mut [IoSliceMut<'_>], socket: &TcpStream) -> io::Result<usize> {
        let mut n_filled = 0;
        for slice in slices {
            let mut at = 0;
            while at < slice.len() {
                let failed = match self.tls.reader().read(&mut slice[at..]) {
                    // The other side has ended the session.
                    Ok(0) => return Ok(n_filled),
                    Ok(n) => {
                        (at, n_filled) = (at + n, n_filled + n);
                        continue;
                    }
                    Err(_) if n_filled > 0 && self.is_drained && self.is_used_up() => {
                        self.free();
                        return Ok(n_filled);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        match self.pull(socket) {
                            Ok(true) => continue,
                            Ok(false) => error,
                            Err(error) => error,
                        }
                    }
                    Err(error) => error,
                };
                // Bytes before the end count.
                return if n_filled > 0 { Ok(n_filled) } else { ended(failed) };
            }
        }
        Ok(n_filled)
    }

    /// Takes bytes to be sent, as many as there is place for, and sends them as far as the socket takes them.
    fn take(&mut self, slices: &[IoSlice<'_>], socket: &TcpStream) -> io::Result<usize> {
        let mut all = slices.to_vec();
        let (mut left, mut n_taken) = (all.as_mut_slice(), 0);
        loop {
            self.push(socket)?;
            if left.is_empty() || self.tls.wants_write() {
                return Ok(n_taken);
            }
            let n = self.tls.writer().write_vectored(left)?;
            if n == 0 {
                return Ok(n_taken);
            }
            n_taken += n;
            IoSlice::advance_slices(&mut left, n);
        }
    }

    /// Takes what has come of the session; whether something did.
    fn pull(&mut self, socket: &TcpStream) -> io::Result<bool> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone().into());
        }
        if self.is_used_up() && !self.receive(socket)? {
            return Ok(false);
        }
        match self.tls.read_tls(&mut &self.came[self.n_taken..])? {
            // The other side has said that it ends the session.
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => self.n_taken += n,
        }
        let processed = self.process();
        // It may have to tell the other side what is wrong.
        let pushed = self.send(socket);
        processed?;
        pushed.map(|()| true)
    }

    /// Looks at what the session has taken.
    fn process(&mut self) -> Result<IoState, TlsFailure> {
        let processed = self.tls.process_new_packets();
        processed.map_err(|error| {
            self.failed.get_or_insert(failure(&error, self.shown.as_deref())).clone()
        })
    }

    /// Whether the session has taken all that the socket gave.
    fn is_used_up(&self) -> bool {
        self.n_taken == self.came.len()
    }

    /// A connection that is idle keeps no memory.
    fn free(&mut self) {
        (self.came, self.n_taken) = (Vec::new(), 0);
    }

    /// Reads from the socket; whether something came.
    fn receive(&mut self, socket: &TcpStream) -> io::Result<bool> {
        self.n_taken = 0;
        self.came.resize(self.n_at_once, 0);
        let read = (&mut &*socket).read(&mut self.came);
        self.came.truncate(read.as_ref().map_or(0, |n| *n));
        self.is_drained = self.came.len() < self.n_at_once;
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                if !self.is_drained {
                    self.n_at_once = (2 * n).min(READ_BYTES_MAX);
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.free();
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether something can be read without the socket.
    fn has_input(&mut self) -> bool {
        loop {
            let Ok(state) = self.process() else { return true };
            if state.plaintext_bytes_to_read() > 0 {
                return true;
            }
            let rest = &mut &self.came[self.n_taken..];
            if rest.is_empty() {
                return false;
            }
            // The next read reports the error.
            match self.tls.read_tls(rest) {
                Ok(n) if n > 0 => self.n_taken += n,
                Ok(_) | Err(_) => return true,
            }
        }
    }

    /// Sends what there is. If the other side is gone, it may have said why.
    fn push(&mut self, socket: &TcpStream) -> io::Result<()> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        let pushed = self.send(socket);
        match &pushed {
            Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => {
                while self.pull(socket).is_ok_and(|came| came) {}
                match &self.failed {
                    Some(failed) => Err(failed.clone().into()),
                    None => pushed,
                }
            }
            _ => pushed,
        }
    }

    /// Sends what there is, as far as the socket takes it.
    fn send(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &*socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A connection that was cut is over, as one that was closed: frames say how long they are.
fn ended(error: io::Error) -> io::Result<usize> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Ok(0),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests;
