//! Proofs of the secret over sockets: what happens on a connection before anything else.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use base::Endpoint;
use protocol::ShownKey;
use wire::{Error, Millis, Result, TlsFailure};

use super::{Clock, READ_TIMEOUT, Stream, is_timeout};
use crate::access::guesses::Guesses;
use crate::access::proof::{Accepting, Connecting, Prove, Service, Transport, Unproved};
use crate::access::{Access, random};
use crate::lines;

/// How long a peer has to prove that it belongs to the job.
pub(super) const PROOF_TIME: Duration = Duration::from_secs(10);
/// Connections whose peers have not proved that yet. If there are more, the oldest are cut: a peer
/// that is one of ours needs some milliseconds, and comes again.
pub(super) const UNPROVED_MAX: usize = 1024;

/// How a proof ended, if it has.
pub(super) type ProofEnd = Option<std::result::Result<(), Unproved>>;

/// Reads what has come and answers it.
pub(super) fn advance(
    stream: &mut (impl Read + Write),
    proof: &mut impl Prove,
) -> io::Result<ProofEnd> {
    let mut buffer = [0; 64];
    loop {
        let n_wanted = proof.n_wanted().min(buffer.len());
        let n = match stream.read(&mut buffer[..n_wanted]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => n,
            Err(error) if is_timeout(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let step = proof.take(&buffer[..n]);
        // Some tens of bytes: a connection on which nothing was written yet takes them at once.
        stream.write_all(&step.send)?;
        if step.end.is_some() {
            return Ok(step.end);
        }
    }
}

/// A proof that this process begins.
#[derive(Debug)]
pub(super) struct Entering {
    pub(super) stream: Stream,
    access: Access,
    door: Service,
    endpoint: Endpoint,
    /// None until an encrypted connection is there, if it is to be one.
    guest: Option<Connecting>,
    until: Instant,
}

impl Entering {
    pub(super) fn begin(
        stream: Stream,
        access: &Access,
        door: Service,
        endpoint: &Endpoint,
    ) -> io::Result<Self> {
        let (access, endpoint) = (access.clone(), endpoint.clone());
        let until = Instant::now() + PROOF_TIME;
        let mut entering = Self { stream, access, door, endpoint, guest: None, until };
        if !entering.stream.is_encrypted() {
            entering.open()?;
        }
        Ok(entering)
    }

    /// Sends the first message of the proof.
    fn open(&mut self) -> io::Result<()> {
        let nonce = random().map_err(io::Error::other)?;
        let transport = self.stream.transport();
        let (guest, opening) = Connecting::new(&self.access, self.door, transport, nonce);
        (&mut &self.stream).write_all(&opening)?;
        self.guest = Some(guest);
        Ok(())
    }

    fn go_on(&mut self) -> io::Result<ProofEnd> {
        if self.guest.is_none() {
            if !self.stream.greet().map_err(without_greeting)? {
                return Ok(None);
            }
            self.open()?;
        }
        match &mut self.guest {
            Some(guest) => advance(&mut &self.stream, guest),
            None => Ok(None),
        }
    }

    /// Goes on, for as long as a read may take.
    pub(super) fn advance(&mut self) -> io::Result<ProofEnd> {
        match self.go_on()? {
            None if Instant::now() > self.until => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the process that listens there sends nothing",
            )),
            Some(Ok(())) => Ok(Some(self.compare())),
            end => Ok(end),
        }
    }

    /// Whether the process that was met has the key that it had before, if it shows one.
    fn compare(&self) -> std::result::Result<(), Unproved> {
        let key = self.guest.as_ref().and_then(Prove::peer_key);
        let (Some(keys), Some(key)) = (&self.access.keys, key) else { return Ok(()) };
        if keys.ring().is_host(&format!("{:?} {}", self.door, self.endpoint), key) {
            Ok(())
        } else {
            Err(Unproved::OtherKey)
        }
    }

    /// Waits until it is proved.
    pub(super) fn finish(mut self, endpoint: &Endpoint) -> Result<Stream> {
        loop {
            let end = self.advance().map_err(|error| Error::of_connection(endpoint, error));
            match end? {
                Some(Ok(())) => return Ok(self.stream),
                Some(Err(why)) => return Err(Error::Unproved { endpoint: endpoint.clone(), why }),
                None => {}
            }
        }
    }
}

/// A process that ends the greeting of TLS without a word may not know TLS.
fn without_greeting(error: io::Error) -> io::Error {
    use io::ErrorKind::{ConnectionReset, UnexpectedEof};
    match error.kind() {
        UnexpectedEof | ConnectionReset => {
            let words = "the other side ended the greeting of TLS: is TLS on in all processes?";
            io::Error::new(error.kind(), words)
        }
        _ => error,
    }
}

/// Proves on a connection of one's own that this process knows the secret, and waits for the proof of
/// the other side: for programs that speak to a process of a job by themselves.
pub fn enter(stream: &TcpStream, access: &Access, door: Service) -> Result<()> {
    let before = stream.read_timeout().map_err(Error::Socket)?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(Error::Socket)?;
    let (mut guest, opening) = Connecting::new(access, door, Transport::Tcp, random()?);
    (&mut &*stream).write_all(&opening).map_err(Error::Socket)?;
    let until = Instant::now() + PROOF_TIME;
    loop {
        match advance(&mut &*stream, &mut guest).map_err(Error::Socket)? {
            Some(Ok(())) => break,
            Some(Err(why)) => {
                let at = stream.peer_addr().map_err(Error::Socket)?;
                let endpoint = Endpoint { host: at.ip().to_string(), port: at.port() };
                return Err(Error::Unproved { endpoint, why });
            }
            None if Instant::now() > until => {
                return Err(Error::Socket(io::ErrorKind::TimedOut.into()));
            }
            None => {}
        }
    }
    stream.set_read_timeout(before).map_err(Error::Socket)
}

/// A proof that somebody else begins.
#[derive(Debug)]
pub(super) struct Proving {
    access: Access,
    door: Service,
    /// None until something has come.
    host: Option<Accepting>,
}

impl Proving {
    pub(super) fn new(access: &Access, door: Service) -> Self {
        Self { access: access.clone(), door, host: None }
    }

    /// Goes on with what has come.
    pub(super) fn advance(&mut self, stream: &Stream) -> io::Result<ProofEnd> {
        if !stream.greet()? {
            return Ok(None);
        }
        let host = match &mut self.host {
            Some(host) => host,
            none => {
                let nonce = random().map_err(io::Error::other)?;
                none.insert(Accepting::new(&self.access, self.door, stream.transport(), nonce))
            }
        };
        advance(&mut &*stream, host)
    }

    /// The key that the other side has proved to have, if keys are shown.
    pub(super) fn shown(&self, stream: &Stream) -> Option<ShownKey> {
        let key = self.host.as_ref().and_then(Prove::peer_key)?;
        Some(ShownKey { key, from: stream.peer() })
    }
}

/// Connections whose peers have not proved that they belong to the job. They cost no thread.
#[derive(Debug)]
pub(super) struct Porch {
    access: Access,
    door: Service,
    /// The oldest first.
    waiting: VecDeque<Visitor>,
    guesses: Guesses,
    clock: Clock,
}

#[derive(Debug)]
struct Visitor {
    stream: Stream,
    proof: Proving,
    /// When its proof is looked at.
    turn: Millis,
    /// Whether it had to wait for that.
    is_slowed: bool,
}

/// A connection whose peer has proved that it belongs to the job.
#[derive(Debug)]
pub(super) struct Proved {
    pub(super) stream: Stream,
    /// The key of the peer, if keys are shown.
    pub(super) shown: Option<ShownKey>,
}

/// How long a peer has to prove that it belongs to the job.
const PROOF_MS: u64 = PROOF_TIME.as_millis() as u64;

impl Porch {
    /// For connections to an end point at which this is shown.
    pub(super) fn new(access: &Access, door: Service) -> Self {
        let (waiting, guesses) = (VecDeque::new(), Guesses::default());
        Self { access: access.clone(), door, waiting, guesses, clock: Clock::start() }
    }

    /// A connection, encrypted if those of this job are; none if that is not possible.
    pub(super) fn host(&self, socket: TcpStream) -> Option<Stream> {
        Stream::host(socket, &self.access).ok()
    }

    /// Somebody has connected.
    pub(super) fn add(&mut self, stream: Stream) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        if stream.is_too_far(&self.access) {
            return lines::too_far(&stream.peer()).say_once();
        }
        let now = self.clock.now();
        let turn = stream.peer_address().map_or(Some(now), |from| self.guesses.turn(from, now));
        let Some(turn) = turn else { return };
        let (proof, is_slowed) = (Proving::new(&self.access, self.door), turn > now);
        self.waiting.push_back(Visitor { stream, proof, turn, is_slowed });
        if self.waiting.len() > UNPROVED_MAX {
            self.waiting.pop_front();
        }
    }

    /// The sources to watch for input.
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let now = self.clock.now();
        let has_turn = self.waiting.iter().filter(move |visitor| visitor.turn <= now);
        has_turn.map(|visitor| visitor.stream.as_fd())
    }

    /// Goes on with all of them; those that have proved it, ready to be read with timeouts.
    pub(super) fn proved(&mut self) -> Vec<Proved> {
        let now = self.clock.now();
        let mut proved = Vec::new();
        for mut visitor in std::mem::take(&mut self.waiting) {
            if now < visitor.turn {
                self.waiting.push_back(visitor);
                continue;
            }
            let from = visitor.stream.peer_address();
            if !visitor.is_slowed && from.is_some_and(|from| self.guesses.is_slowed(from)) {
                continue; // It comes again, and has its turn.
            }
            match visitor.proof.advance(&visitor.stream) {
                Ok(None) if now.since(visitor.turn) < PROOF_MS => self.waiting.push_back(visitor),
                Ok(Some(Ok(()))) => {
                    from.into_iter().for_each(|from| self.guesses.right(from));
                    let shown = visitor.proof.shown(&visitor.stream);
                    proved.push(Proved { stream: visitor.stream, shown });
                }
                // Nobody of ours, or gone.
                Ok(None) => {}
                Ok(Some(Err(why))) => {
                    lines::refused(&visitor.stream.peer(), &why.to_string()).say_once();
                    let from = from.filter(|_| why == Unproved::Secret);
                    if from.is_some_and(|from| self.guesses.wrong(from, now)) {
                        lines::guesses(&visitor.stream.peer()).say_once();
                    }
                }
                Err(error) => {
                    if let Some(why) = TlsFailure::of(&error) {
                        lines::refused(&visitor.stream.peer(), &why.to_string()).say_once();
                    }
                }
            }
        }
        let is_ready = |proved: &Proved| {
            let stream = &proved.stream;
            stream.set_nonblocking(false).and_then(|()| stream.set_timeouts()).is_ok()
        };
        proved.retain(is_ready);
        proved
    }
}
