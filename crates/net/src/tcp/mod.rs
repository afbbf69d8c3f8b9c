//! Sockets: the only module that opens one.
//!
//! A server listens on TCP and also on an abstract Unix socket whose name is made of its end point.
//! Processes on the same machine use that one, which saves the network stack.

mod client;
mod entrance;
mod group;
mod joining;
mod memory;
mod mesh;
mod rendezvous;
mod serve;
mod tls;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Endpoint;
use wire::counters::NETWORK;
use wire::{Error, Millis, Result};

pub use client::{Client, Patience, Ticket};
pub use entrance::enter;
pub use group::{ClientGroup, LostProcess, Stops};
pub use joining::join;
pub use memory::half_of_memory;
pub use mesh::{Membership, Mesh, MeshSettings};
pub use rendezvous::{Rendezvous, find_others};
pub use serve::{Listener, Stop};

use crate::access::proof::{Service, Transport};
use crate::access::{Access, Distance};
use crate::lines;
use entrance::Entering;
use tls::TlsStream;

/// The state of an end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It accepts connections.
    Answers,
    /// It does not answer (yet).
    Silent,
    /// The host name is unknown.
    Unresolved,
}

/// Checks which process answers at an end point within `timeout`.
pub fn reach(endpoint: &Endpoint, timeout: Duration) -> Reach {
    match connect_tcp(endpoint, timeout) {
        Ok(_) => Reach::Answers,
        Err(_) if addresses(endpoint).is_err() => Reach::Unresolved,
        Err(_) => Reach::Silent,
    }
}

/// Whether this end point accepts connections within `timeout`.
pub fn answers(endpoint: &Endpoint, timeout: Duration) -> bool {
    reach(endpoint, timeout) == Reach::Answers
}

/// Whether a host is this machine, so that a server can listen there; an error if the host is
/// unknown.
pub fn is_of_this_machine(host: &str) -> io::Result<bool> {
    let endpoint = Endpoint { host: host.to_string(), port: 0 };
    let is_foreign = |address| {
        let bound = TcpListener::bind(address);
        bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
    };
    Ok(!addresses(&endpoint)?.all(is_foreign))
}

/// An error if this end point is not of this machine alone and the job has no secret.
pub fn check_access(access: &Access, endpoint: &Endpoint) -> Result<()> {
    access.check_keys()?;
    if access.is_guarded() {
        return Ok(());
    }
    let distance = distance(endpoint);
    if access.insecure && distance > Distance::Loopback {
        lines::insecure(endpoint).say_once();
    }
    access.check(endpoint, distance)?;
    if access.is_keyed(distance) {
        lines::keyed().say_once();
    }
    Ok(())
}

/// The credentials that this process shows at an end point; an error as of [`check_access`].
fn access_at(access: &Access, endpoint: &Endpoint) -> Result<Access> {
    check_access(access, endpoint)?;
    access.at(distance(endpoint))
}

/// How far an end point can be reached, with all its addresses. A name that does not resolve yet is out of reach; it is resolved
/// again with every connection.
fn distance(endpoint: &Endpoint) -> Distance {
    let all = addresses(endpoint).ok();
    let farthest = all.and_then(|all| all.map(|address| Distance::of(address.ip())).max());
    farthest.unwrap_or(Distance::Loopback)
}

/// A connection of either kind.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

/// Reads return at least so often, to look at the time.
const READ_TIMEOUT: Duration = Duration::from_millis(100);
/// Writes return at least so often, so that a peer that does not read blocks its writer only briefly.
const WRITE_SLICE: Duration = Duration::from_millis(50);
/// A peer that takes nothing for so long is cut off.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// A frame that has begun must end within this.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

impl Stream {
    /// Connects; nothing was proved yet.
    fn connect(
        endpoint: &Endpoint,
        timeout: Duration,
        way: Way,
        access: &Access,
    ) -> io::Result<Self> {
        let near = if way == Way::Any { near(endpoint) } else { None };
        let stream = match (near, &access.tls) {
            (Some(stream), _) => Stream::Unix(stream),
            (None, None) => Stream::Tcp(connect_tcp(endpoint, timeout)?),
            (None, Some(tls)) => {
                let (socket, session) =
                    (connect_tcp(endpoint, timeout)?, tls.guest(&endpoint.host)?);
                Stream::Tls(Box::new(TlsStream::new(socket, session, tls)?))
            }
        };
        stream.set_timeouts()?;
        Ok(stream)
    }

    /// The side that listens: encrypted if this job's connections are.
    fn host(socket: TcpStream, access: &Access) -> io::Result<Self> {
        let Some(tls) = &access.tls else { return Ok(Stream::Tcp(socket)) };
        Ok(Stream::Tls(Box::new(TlsStream::new(socket, tls.host()?, tls)?)))
    }

    /// Goes on with the greeting of TLS; whether it is complete.
    fn greet(&self) -> io::Result<bool> {
        match self {
            Stream::Tls(stream) => stream.greet(),
            Stream::Tcp(_) | Stream::Unix(_) => Ok(true),
        }
    }

    fn is_encrypted(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Whether bytes that were decrypted wait in this process.
    fn has_input(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.has_input())
    }

    /// Whether bytes that were written wait in this process.
    fn is_pending(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.is_pending())
    }

    /// Sends bytes that were written before, as far as the socket takes them.
    fn push(&self) -> io::Result<()> {
        match self {
            Stream::Tls(stream) => stream.push(),
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
        }
    }

    /// Connects, and waits for the proof that the other side belongs to the job.
    fn enter(
        endpoint: &Endpoint,
        timeout: Duration,
        way: Way,
        access: &Access,
        door: Service,
    ) -> Result<Self> {
        let access = &access_at(access, endpoint)?;
        let enter = |way| {
            let stream = Self::connect(endpoint, timeout, way, access);
            let is_local = stream.as_ref().is_ok_and(Stream::is_local);
            let begun = stream.and_then(|stream| Entering::begin(stream, access, door, endpoint));
            let begun = begun.map_err(|error| Error::of_connection(endpoint, error));
            (is_local, begun.and_then(|entering| entering.finish(endpoint)))
        };
        match enter(way) {
            // Somebody may have taken the name.
            (true, Err(_)) => enter(Way::Tcp).1,
            (_, entered) => entered,
        }
    }

    /// The session that a proof on this connection is bound to.
    fn transport(&self) -> Transport {
        match self {
            Stream::Tcp(_) => Transport::Tcp,
            Stream::Unix(_) => Transport::Unix,
            Stream::Tls(stream) => Transport::Tls(stream.exported()),
        }
    }

    /// Makes calls return after a while, even if the peer does nothing.
    fn set_timeouts(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_write_timeout(Some(WRITE_SLICE))
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_write_timeout(Some(WRITE_SLICE))
            }
            Stream::Tls(stream) => {
                stream.set_read_timeout(Some(READ_TIMEOUT));
                Ok(())
            }
        }
    }

    /// Sets whether calls return at once, even if the peer does nothing.
    fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(is_nonblocking)
            }
            Stream::Unix(stream) => stream.set_nonblocking(is_nonblocking),
            Stream::Tls(stream) => {
                stream.set_nonblocking(is_nonblocking);
                Ok(())
            }
        }
    }

    /// How long a read may take.
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Tls(stream) => {
                stream.set_read_timeout(timeout);
                Ok(())
            }
        }
    }

    /// The address of this machine that the other side sees.
    fn own_address(&self) -> io::Result<std::net::IpAddr> {
        match self {
            Stream::Tcp(stream) => Ok(stream.local_addr()?.ip()),
            Stream::Tls(stream) => Ok(stream.socket.local_addr()?.ip()),
            Stream::Unix(_) => Ok(std::net::Ipv4Addr::LOCALHOST.into()),
        }
    }

    /// The peer's name for log lines.
    fn peer(&self) -> String {
        match (self, self.peer_address()) {
            (Stream::Unix(_), _) => "a process of this machine".to_string(),
            (_, Some(address)) => address.to_string(),
            (_, None) => "somebody".to_string(),
        }
    }

    /// The address of the other side, if it has one.
    fn peer_address(&self) -> Option<std::net::IpAddr> {
        let socket = match self {
            Stream::Tcp(socket) => socket,
            Stream::Tls(stream) => &stream.socket,
            Stream::Unix(_) => return None,
        };
        socket.peer_addr().ok().map(|peer| peer.ip())
    }

    /// Whether the other side is farther away than this job, which knows its processes by their keys, reaches.
    fn is_too_far(&self, access: &Access) -> bool {
        let address = self.peer_address();
        access.keys.is_some()
            && address.is_some_and(|address| Distance::of(address) == Distance::Public)
    }

    /// Whether the peer is a process of this machine.
    fn is_local(&self) -> bool {
        matches!(self, Stream::Unix(_))
    }

    fn shut_down(&self) {
        // It may be closed already.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tls(stream) => stream.socket.shutdown(Shutdown::Both),
        };
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.as_fd(),
        }
    }
}

/// A connection that is read by one and written by others.
#[derive(Debug)]
struct StreamInput(Arc<Stream>);

impl Read for StreamInput {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&mut &*self.0).read(bytes)
    }
}

impl Read for &Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(bytes),
            Stream::Unix(stream) => (&mut &*stream).read(bytes),
            Stream::Tls(stream) => stream.read_vectored(&mut [io::IoSliceMut::new(bytes)]),
        }
        .inspect(|n| NETWORK.received_bytes.add(*n as u64))
    }

    fn read_vectored(&mut self, slices: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read_vectored(slices),
            Stream::Unix(stream) => (&mut &*stream).read_vectored(slices),
            Stream::Tls(stream) => stream.read_vectored(slices),
        }
        .inspect(|n| NETWORK.received_bytes.add(*n as u64))
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
            Stream::Tls(stream) => stream.write_vectored(&[io::IoSlice::new(bytes)]),
        }
        .inspect(|n| NETWORK.sent_bytes.add(*n as u64))
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write_vectored(slices),
            Stream::Unix(stream) => (&mut &*stream).write_vectored(slices),
            Stream::Tls(stream) => stream.write_vectored(slices),
        }
        .inspect(|n| NETWORK.sent_bytes.add(*n as u64))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes on although the peer takes nothing for a while, until it took nothing for too long.
struct Patient<'a>(&'a Stream);

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let mut until = None;
        loop {
            let error = match (&mut &*self.0).write_vectored(slices) {
                Err(error) if is_timeout(&error) => error,
                done => return done,
            };
            if Instant::now() > *until.get_or_insert_with(|| Instant::now() + WRITE_TIMEOUT) {
                return Err(error);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads on although a read timed out, until a frame's time is up.
struct WholeFrame<'a, R> {
    input: &'a mut R,
    until: Instant,
}

impl<'a, R> WholeFrame<'a, R> {
    fn new(input: &'a mut R) -> Self {
        Self { input, until: Instant::now() + FRAME_TIMEOUT }
    }
}

impl<R: Read> Read for WholeFrame<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read(bytes) {
                Err(error) if is_timeout(&error) && Instant::now() < self.until => {}
                done => return done,
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Which ways to a process may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The Unix socket if it is of this machine, otherwise TCP.
    Any,
    /// TCP.
    Tcp,
}

/// The Unix socket of a process of this machine, if it is the same user's.
fn near(endpoint: &Endpoint) -> Option<UnixStream> {
    let stream = unix_name(endpoint).and_then(|name| UnixStream::connect_addr(&name)).ok()?;
    match other_user(&stream) {
        None => Some(stream),
        Some(user) => {
            lines::name_of_another_user(endpoint, user).say_once();
            None
        }
    }
}

/// The user at the other end of a Unix socket, if it is another one.
fn other_user(stream: &UnixStream) -> Option<u32> {
    let own = rustix::process::geteuid().as_raw();
    // A peer without credentials is a stranger.
    let peer = rustix::net::sockopt::socket_peercred(stream);
    let peer = peer.map_or(u32::MAX, |peer| peer.uid.as_raw());
    (peer != own).then_some(peer)
}

fn connect_tcp(endpoint: &Endpoint, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses(endpoint)? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn addresses(endpoint: &Endpoint) -> io::Result<impl Iterator<Item = std::net::SocketAddr>> {
    (endpoint.host.trim_matches(['[', ']']), endpoint.port).to_socket_addrs()
}

fn unix_name(endpoint: &Endpoint) -> io::Result<UnixAddr> {
    UnixAddr::from_abstract_name(format!("paddlewheel/{endpoint}"))
}

/// A number for a text, the same everywhere.
fn sum_of(text: &str) -> u64 {
    text.bytes().fold(0, |sum, byte| tensor::mix(sum ^ u64::from(byte)))
}

/// The clock that drives the state machines.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(&self) -> Millis {
        Millis(self.0.elapsed().as_millis() as u64)
    }
}
