//! How trainers come to be connected, each with each.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use base::{Endpoint, EvenIfPoisoned};
use protocol::ShownKey;
use protocol::collective::{PeerHello, PeerMessage};
use wire::frame::{self, Frame, HEAD_BYTES, Head};
use wire::{Error, Failure, Millis, Refusal, Result};

use super::{Membership, MeshSettings};
use crate::access::Access;
use crate::access::proof::Service;
use crate::lines;
use crate::tcp::entrance::{Porch, Proved};
use crate::tcp::{
    Patient, Stream, Way, WholeFrame, access_at, addresses, is_timeout, other_user, sum_of,
    unix_name,
};

/// A greeting is short.
const HELLO_BYTES_MAX: u64 = 16 << 10;
/// A trainer that has connected must say its greeting within this, and answer within this.
const HELLO_TIME: Duration = Duration::from_secs(10);
/// An attempt to connect takes no longer.
const CONNECT_TIME: Duration = Duration::from_millis(500);
/// Between two checks for arrivals.
const PAUSE: Duration = Duration::from_millis(10);
/// Trainers that are not there are mentioned so often.
const MENTION: Duration = Duration::from_secs(3);
/// The protocol between trainers; all must speak the same.
const VERSION: u32 = 3;
/// Connections taken in a row.
const ACCEPTS_MAX: usize = 64;
/// Limit of connections without a greeting; the oldest are closed first.
const GUESTS_MAX: usize = 256;
/// A longer list of end points is shown as a number.
const LIST_BYTES_MAX: usize = 600;

/// Where a trainer waits for those with higher ranks.
struct Listeners {
    tcp: TcpListener,
    unix: Option<UnixListener>,
    /// Connections that have not proved that they belong to the job.
    porch: Porch,
    /// Connections that have.
    proved: Vec<Proved>,
}

impl Listeners {
    fn open(endpoint: &Endpoint, access: &Access) -> Result<Self> {
        let access = &access_at(access, endpoint)?;
        let fail = |source| Error::Bind { endpoint: endpoint.clone(), source };
        let all: Vec<_> = addresses(endpoint).map_err(fail)?.collect();
        let tcp = TcpListener::bind(all.as_slice()).map_err(fail)?;
        tcp.set_nonblocking(true).map_err(fail)?;
        let unix = unix_name(endpoint).and_then(|name| UnixListener::bind_addr(&name));
        let unix = unix.and_then(|unix| unix.set_nonblocking(true).map(|()| unix)).ok();
        if unix.is_none() {
            lines::name_taken(endpoint).say_once();
        }
        Ok(Self { tcp, unix, porch: Porch::new(access, Service::Trainer), proved: Vec::new() })
    }

    /// A member that has connected. Does not wait for strangers.
    fn accepted(&mut self) -> Option<Proved> {
        for _ in 0..ACCEPTS_MAX {
            let Some(stream) = self.accept() else { break };
            self.porch.add(stream);
        }
        if self.proved.is_empty() {
            self.proved = self.porch.proved();
        }
        self.proved.pop()
    }

    fn accept(&self) -> Option<Stream> {
        let near = self.unix.as_ref().and_then(|unix| unix.accept().ok());
        match near.filter(|(stream, _)| other_user(stream).is_none()) {
            Some((stream, _)) => Some(Stream::Unix(stream)),
            None => {
                let (socket, _) = self.tcp.accept().ok()?;
                self.porch.host(socket)
            }
        }
    }
}

/// A peer that knows the secret and has not sent its greeting. No thread waits for it.
struct Guest {
    stream: Stream,
    shown: Option<ShownKey>,
    since: Instant,
    /// The first bytes of its greeting.
    said: Vec<u8>,
}

/// The result of reading from a guest.
enum Heard {
    /// Not all of it yet.
    Waiting(Guest),
    Message(Proved, PeerMessage),
    /// Nothing will: it is not a trainer.
    Nothing,
}

impl Guest {
    fn new(Proved { stream, shown }: Proved) -> Self {
        Self { stream, shown, since: Instant::now(), said: Vec::new() }
    }

    /// How many bytes of the greeting are missing.
    fn n_missing(&self) -> Result<usize> {
        let Some(head) = self.said.first_chunk::<HEAD_BYTES>() else {
            return Ok(HEAD_BYTES - self.said.len());
        };
        let head = Head::decode(head, HELLO_BYTES_MAX)?;
        Ok((HEAD_BYTES + head.n_meta).saturating_sub(self.said.len()))
    }

    /// Takes what has come, and no more than the greeting.
    fn listen(mut self) -> Heard {
        let mut block = [0; 1 << 10];
        loop {
            let Ok(n_missing) = self.n_missing() else { return Heard::Nothing };
            if n_missing == 0 {
                let message = frame::read(&mut &self.said[..], HELLO_BYTES_MAX);
                return match message {
                    Ok((_, message)) => {
                        Heard::Message(Proved { stream: self.stream, shown: self.shown }, message)
                    }
                    Err(_) => Heard::Nothing,
                };
            }
            let n_now = n_missing.min(block.len());
            let read = if has_input(&self.stream) {
                (&self.stream).read(&mut block[..n_now])
            } else {
                Err(std::io::ErrorKind::WouldBlock.into())
            };
            match read {
                Ok(n @ 1..) => self.said.extend_from_slice(&block[..n]),
                Err(error) if is_timeout(&error) && self.since.elapsed() < HELLO_TIME => {
                    return Heard::Waiting(self);
                }
                Ok(_) | Err(_) => return Heard::Nothing,
            }
        }
    }
}

/// Names trainers with their end points.
pub(super) fn names(membership: &Membership, trainers: &[u32]) -> String {
    let name = |&rank: &u32| match membership.endpoints.get(rank as usize) {
        Some(endpoint) => format!("trainer {rank} ({endpoint})"),
        None => format!("trainer {rank}"),
    };
    trainers.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The facts that all trainers must agree on.
fn job(membership: &Membership) -> String {
    let list: Vec<String> = membership.endpoints.iter().map(Endpoint::to_string).collect();
    let list = list.join(",");
    let n = membership.endpoints.len();
    let list = if list.len() > LIST_BYTES_MAX {
        format!("with the sum {:016x}", sum_of(&list))
    } else {
        list
    };
    format!("{n} trainers {list}, mode {}, protocol {VERSION}", membership.mode)
}

/// Connections to all other trainers, by rank.
pub(super) fn meet(
    membership: &Membership,
    settings: &MeshSettings,
) -> Result<Vec<Option<Stream>>> {
    let mut joining = Joining::new(membership, settings)?;
    let met = joining.run();
    if let Err(Error::Trainers(failure)) = &met {
        joining.tell(failure);
    }
    met.map(|()| joining.streams)
}

struct Joining<'a> {
    membership: &'a Membership,
    settings: &'a MeshSettings,
    job: String,
    listeners: Listeners,
    guests: Vec<Guest>,
    streams: Vec<Option<Stream>>,
    /// Ranks that are connected to all others.
    is_ready: Vec<bool>,
    has_said_ready: bool,
    start: Instant,
}

impl<'a> Joining<'a> {
    fn new(membership: &'a Membership, settings: &'a MeshSettings) -> Result<Self> {
        let me = membership.me as usize;
        let own = membership.endpoints.get(me).cloned();
        let own = own.unwrap_or(Endpoint { host: String::new(), port: 0 });
        let mut streams = Vec::new();
        streams.resize_with(membership.endpoints.len(), || None);
        let access = &settings.access;
        let listeners = Listeners::open(&own, access)
            .inspect_err(|error| not_begun(membership, access, error))?;
        let mut is_ready = vec![false; membership.endpoints.len()];
        if let Some(own) = is_ready.get_mut(me) {
            *own = true;
        }
        let (job, start) = (job(membership), Instant::now());
        Ok(Self {
            membership,
            settings,
            job,
            listeners,
            guests: Vec::new(),
            streams,
            is_ready,
            has_said_ready: false,
            start,
        })
    }

    fn missing(&self) -> Vec<u32> {
        let ranks = 0..self.streams.len() as u32;
        ranks
            .filter(|&rank| rank != self.membership.me && self.streams[rank as usize].is_none())
            .collect()
    }

    fn run(&mut self) -> Result<()> {
        let mut mentioned = Instant::now();
        loop {
            self.receive()?;
            for rank in self.missing() {
                if rank < self.membership.me {
                    self.visit(rank)?;
                }
            }
            self.listen()?;
            let mut missing = self.missing();
            if missing.is_empty() {
                self.say_ready();
                let ranks = 0..self.is_ready.len() as u32;
                missing = ranks.filter(|&rank| !self.is_ready[rank as usize]).collect();
            }
            if missing.is_empty() {
                return Ok(());
            }
            let (waited, names) = (self.start.elapsed(), names(self.membership, &missing));
            if waited > Duration::from_millis(self.settings.patience.connect_ms) {
                return Err(Error::Trainers(Failure::Missing {
                    waiting: self.membership.me,
                    waited_ms: waited.as_millis() as u64,
                    what: "all trainers to start".to_string(),
                    missing: names,
                }));
            }
            if mentioned.elapsed() > MENTION {
                mentioned = Instant::now();
                (self.settings.log)(&lines::trainers_late(&names, "the start", waited));
            }
            if (self.settings.stops)() {
                return Err(Error::Stopped);
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Reads from all connections: a silent one delays no other.
    fn receive(&mut self) -> Result<()> {
        while let Some(proved) = self.listeners.accepted() {
            self.guests.push(Guest::new(proved));
        }
        let n_over = self.guests.len().saturating_sub(GUESTS_MAX);
        for guest in self.guests.drain(n_over..).collect::<Vec<_>>() {
            match guest.listen() {
                Heard::Waiting(guest) => self.guests.push(guest),
                Heard::Message(proved, message) => self.welcome(proved, message)?,
                Heard::Nothing => {}
            }
        }
        self.guests.drain(..n_over);
        Ok(())
    }

    /// Handles the first message of a connection, which names its sender.
    fn welcome(&mut self, proved: Proved, message: PeerMessage) -> Result<()> {
        let Proved { stream, shown } = proved;
        let said = match message {
            PeerMessage::Hello(said) => said,
            PeerMessage::Failed(failure) if self.is_known(shown.as_ref()) => {
                return Err(failure.into());
            }
            // Not a trainer.
            _ => return Ok(()),
        };
        if let Some(refusal) = self.other_key(said.rank, shown.as_ref()) {
            // The others have met the one that came first: they go on with it.
            lines::refused(&stream.peer(), &refusal.to_string()).say_once();
            self.refuse(&stream, self.not_begun(said.rank, refusal.to_string()));
            return Ok(());
        }
        if said.job == self.job && said.rank == self.membership.me {
            let why = format!("two processes say that they are trainer {}", said.rank);
            return Err(self.refuse(&stream, self.not_begun(said.rank, why)));
        }
        self.compare(&stream, &said)?;
        self.greet(&stream)?;
        if let (Some(keys), Some(shown)) = (&self.settings.access.keys, &shown) {
            let now = Millis(self.start.elapsed().as_millis() as u64);
            keys.ring().trainers.lock().even_if_poisoned().keep(said.rank, shown, now);
        }
        if let Some(place) = self.streams.get_mut(said.rank as usize) {
            *place = Some(stream);
        }
        Ok(())
    }

    /// Whether it is one of the trainers that were met. Without keys, every peer counts as one.
    fn is_known(&self, shown: Option<&ShownKey>) -> bool {
        let (Some(keys), Some(shown)) = (&self.settings.access.keys, shown) else { return true };
        keys.ring().trainers.lock().even_if_poisoned().has(shown.key)
    }

    /// Why a trainer cannot have a rank: another key has it.
    fn other_key(&self, rank: u32, shown: Option<&ShownKey>) -> Option<Refusal> {
        let (keys, shown) = (self.settings.access.keys.as_ref()?, shown?);
        let known = keys.ring().trainers.lock().even_if_poisoned();
        let rival = known.rival(rank, shown.key)?;
        let now = Millis(self.start.elapsed().as_millis() as u64);
        let (from, since_ms) = (rival.shown.from.clone(), now.since(rival.since));
        Some(Refusal::OtherKey { trainer: rank, from, since_ms })
    }

    /// Connects to a trainer with a lower rank, if it is there.
    fn visit(&mut self, rank: u32) -> Result<()> {
        let endpoint = &self.membership.endpoints[rank as usize];
        let access = &self.settings.access;
        let stream = match Stream::enter(endpoint, CONNECT_TIME, Way::Any, access, Service::Trainer)
        {
            Ok(stream) => stream,
            Err(error) if error.is_final() => return Err(error),
            Err(_) => return Ok(()),
        };
        if self.greet(&stream).is_err() {
            return Ok(());
        }
        let said = match read(&stream) {
            Ok(PeerMessage::Hello(said)) => said,
            Ok(PeerMessage::Failed(failure)) => return Err(failure.into()),
            Ok(_) => {
                return Err(self
                    .not_begun(rank, "something else listens at its end point".into())
                    .into());
            }
            Err(Error::Malformed(what)) => {
                return Err(self.not_begun(rank, what.to_string()).into());
            }
            // It has ended meanwhile, or was not ready: it may come again.
            Err(_) => return Ok(()),
        };
        self.compare(&stream, &said)?;
        self.streams[rank as usize] = Some(stream);
        Ok(())
    }

    /// A connected peer may already know of a failure.
    fn listen(&mut self) -> Result<()> {
        for (rank, stream) in self.streams.iter().enumerate() {
            let Some(stream) = stream.as_ref().filter(|_| !self.is_ready[rank]) else { continue };
            if !has_input(stream) {
                continue;
            }
            match read(stream) {
                Ok(PeerMessage::Ready) => self.is_ready[rank] = true,
                Ok(PeerMessage::Failed(failure)) => return Err(failure.into()),
                Ok(_) | Err(_) => {
                    let why = "its connection ended while others were waited for".to_string();
                    return Err(self.not_begun(rank as u32, why).into());
                }
            }
        }
        Ok(())
    }

    /// Tells the others, once, that this trainer is connected to everybody.
    fn say_ready(&mut self) {
        if !std::mem::replace(&mut self.has_said_ready, true) {
            for stream in self.streams.iter().flatten() {
                // A peer that does not receive it is gone; the next read shows that.
                let _ = say(stream, &PeerMessage::Ready);
            }
        }
    }

    fn greet(&self, stream: &Stream) -> Result<()> {
        let greeting = PeerHello { rank: self.membership.me, job: self.job.clone() };
        say(stream, &PeerMessage::Hello(greeting))
    }

    /// An error if the other trainer belongs to another job; the other trainer receives the same.
    fn compare(&self, stream: &Stream, said: &PeerHello) -> Result<()> {
        let me = (self.membership.me, self.job.clone());
        if said.job == self.job && (said.rank as usize) < self.streams.len() {
            return Ok(());
        }
        let other = (said.rank, said.job.clone());
        let (left, right) = if me.0 <= other.0 { (me, other) } else { (other, me) };
        let failure = Failure::Differ {
            left: left.0,
            left_says: left.1,
            right: right.0,
            right_says: right.1,
        };
        Err(self.refuse(stream, failure))
    }

    fn refuse(&self, stream: &Stream, failure: Failure) -> Error {
        let _ = say(stream, &PeerMessage::Failed(failure.clone()));
        Error::Trainers(failure)
    }

    fn not_begun(&self, trainer: u32, why: String) -> Failure {
        let endpoint = self.membership.endpoints.get(trainer as usize);
        let endpoint = endpoint.map(Endpoint::to_string).unwrap_or_default();
        Failure::NotBegun { trainer, endpoint, why }
    }

    /// Tells all others why nothing will come of it.
    fn tell(&self, failure: &Failure) {
        let message = PeerMessage::Failed(failure.clone());
        for (rank, stream) in self.streams.iter().enumerate() {
            match stream {
                Some(stream) => drop(say(stream, &message)),
                None if rank == self.membership.me as usize => {}
                None => call(&self.membership.endpoints[rank], &self.settings.access, &message),
            }
        }
    }
}

/// A trainer cannot listen: the others need not wait for it.
fn not_begun(membership: &Membership, access: &Access, error: &Error) {
    let (trainer, why) = (membership.me, error.to_string());
    let endpoint = membership.endpoints.get(trainer as usize);
    let endpoint = endpoint.map(Endpoint::to_string).unwrap_or_default();
    let message =
        PeerMessage::Failed(Failure::NotBegun { trainer, endpoint: endpoint.clone(), why });
    let others = membership.endpoints.iter().filter(|other| other.to_string() != endpoint);
    others.for_each(|other| call(other, access, &message));
}

/// Connects only to say one thing.
fn call(endpoint: &Endpoint, access: &Access, message: &PeerMessage) {
    if let Ok(stream) = Stream::enter(endpoint, CONNECT_TIME, Way::Any, access, Service::Trainer) {
        let _ = say(&stream, message);
    }
}

fn say(stream: &Stream, message: &PeerMessage) -> Result<()> {
    frame::write(&mut Patient(stream), &Frame { id: 0, body: message }).map_err(Error::Socket)
}

fn read(stream: &Stream) -> Result<PeerMessage> {
    let mut input = stream;
    let mut whole = WholeFrame { input: &mut input, until: Instant::now() + HELLO_TIME };
    frame::read(&mut whole, HELLO_BYTES_MAX).map(|(_, message)| message)
}

/// Whether something can be read now.
fn has_input(stream: &Stream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ready = [PollFd::new(stream, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    stream.has_input() || poll(&mut ready, Some(&now)).is_ok_and(|n| n > 0)
}
