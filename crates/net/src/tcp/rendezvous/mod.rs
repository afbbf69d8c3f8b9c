//! A rendezvous over sockets: the process that can listen at its address does, and all report there.
//!
//! The connection of a process stays open while it lives. When the process that listens is started
//! again, the others report once more, with the numbers they have, so it learns of them.

mod host;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base::Endpoint;
use protocol::rendezvous::{LINE_BYTES_MAX, Place, RendezvousReply, Report, Side};
use wire::{Error, Result};

use super::{
    Patient, Stream, StreamInput, Way, access_at, addresses, check_access, is_of_this_machine,
    is_timeout,
};
use crate::access::Access;
use crate::access::proof::Service;

/// How long one try to connect may take.
const CONNECT: Duration = Duration::from_secs(2);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// How many ports are looked at for a free one.
const PORTS: u16 = 1000;

/// The address where processes find each other, and the description of this one.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    /// The address that all know.
    pub master: Endpoint,
    /// This process's description of itself. An empty host is detected.
    pub report: Report,
    /// How long others are waited for.
    pub limit: Duration,
    /// The credentials that this process shows to others, and asks them to show.
    pub access: Access,
}

/// Meets the others. `on_wait` receives the missing processes in words; `stops` says whether the user has interrupted.
pub fn find_others(
    meeting: &Rendezvous,
    on_wait: &mut dyn FnMut(&str),
    stops: &mut dyn FnMut() -> bool,
) -> Result<Place> {
    let start = Instant::now();
    check_access(&meeting.access, &meeting.master)?;
    if let Some(listener) = listen(&meeting.master)? {
        // Any process of that machine may be the one that listens.
        let name = format!("rendezvous-{}", meeting.master);
        host::start(listener, &access_at(&meeting.access.named(name), &meeting.master)?);
    }
    let meeting = &named(meeting);
    let mut guest = Guest { meeting: meeting.clone(), start, last: "no answer yet".to_string() };
    let (stream, report) = guest.report(on_wait, stops)?;
    let (place, reader) = guest.placed(stream, report, on_wait, stops)?;
    stay(meeting, &place, reader);
    Ok(place)
}

/// With the name by which the key of this process is kept.
fn named(meeting: &Rendezvous) -> Rendezvous {
    let Report { side, rank, name, .. } = &meeting.report;
    let own = rank.map_or(name.clone(), |rank| rank.to_string());
    let access = meeting.access.named(format!("{}-{own}-{}", side.word(), meeting.master));
    Rendezvous { access, ..meeting.clone() }
}

/// A listener, if this machine is the one to meet at and no other process of it listens already.
fn listen(master: &Endpoint) -> Result<Option<TcpListener>> {
    // A name that is unknown now may be known later: it is tried again with every connection.
    if !is_of_this_machine(&master.host).unwrap_or(false) {
        return Ok(None);
    }
    for address in addresses(master).map_err(Error::Socket)? {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(Some(listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
            Err(source) => return Err(Error::Bind { endpoint: master.clone(), source }),
        }
    }
    Ok(None)
}

/// A process that reports.
struct Guest {
    meeting: Rendezvous,
    start: Instant,
    /// The last thing known of the others.
    last: String,
}

impl Guest {
    fn is_late(&self) -> bool {
        self.start.elapsed() >= self.meeting.limit
    }

    fn waited_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Connects and reports; returns the answer.
    fn report(
        &mut self,
        on_wait: &mut dyn FnMut(&str),
        stops: &mut dyn FnMut() -> bool,
    ) -> Result<(Arc<Stream>, Report)> {
        let (master, access) = (self.meeting.master.clone(), &self.meeting.access.clone());
        let mut tries = 0;
        loop {
            match Stream::enter(&master, CONNECT, Way::Tcp, access, Service::Rendezvous) {
                Ok(stream) => {
                    let stream = Arc::new(stream);
                    let report = completed(&self.meeting.report, &stream)?;
                    match greet(&stream, &report) {
                        Ok(()) => return Ok((stream, report)),
                        Err(error) => self.last = error.to_string(),
                    }
                }
                Err(error) if error.is_final() => return Err(error),
                Err(error) => self.last = error.to_string(),
            }
            if self.is_late() {
                let (waited_ms, last) = (self.waited_ms(), self.last.clone());
                return Err(Error::NoMaster { master, waited_ms, last });
            }
            if stops() {
                return Err(Error::Interrupted { endpoint: master });
            }
            if tries % 15 == 0 {
                on_wait(&format!("no process answers at {master} ({})", self.last));
            }
            tries += 1;
            thread::sleep(PAUSE);
        }
    }

    /// Waits for a place.
    fn placed(
        &mut self,
        stream: Arc<Stream>,
        mut report: Report,
        on_wait: &mut dyn FnMut(&str),
        stops: &mut dyn FnMut() -> bool,
    ) -> Result<(Place, BufReader<StreamInput>)> {
        let master = self.meeting.master.clone();
        let mut lines = Lines::new(stream);
        loop {
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) if stops() => return Err(Error::Interrupted { endpoint: master }),
                Ok(None) if self.is_late() => {
                    // The others need not find out for themselves.
                    let _ = Patient(lines.stream()).write_all(b"end\n");
                    let (waited_ms, missing) = (self.waited_ms(), self.last.clone());
                    return Err(Error::Unmet { master, waited_ms, missing });
                }
                Ok(None) => continue,
                Err(error) => {
                    // The process that listens was ended or started again, or is none of ours.
                    self.last = error.to_string();
                    if self.is_late() {
                        let (waited_ms, last) = (self.waited_ms(), self.last.clone());
                        return Err(Error::NoMaster { master, waited_ms, last });
                    }
                    thread::sleep(PAUSE);
                    let (stream, again) = self.report(on_wait, stops)?;
                    (lines, report) = (Lines::new(stream), again);
                    continue;
                }
            };
            match RendezvousReply::read(&line)? {
                RendezvousReply::Placed(place) => return Ok((place, lines.input)),
                RendezvousReply::Failed(why) => return Err(Error::Apart { master, why }),
                RendezvousReply::Waiting(who) => {
                    on_wait(&who);
                    self.last = who;
                }
                RendezvousReply::Taken => {
                    report.endpoint.port = free_port(&report.endpoint.host, report.endpoint.port)?;
                    greet(lines.stream(), &report).map_err(Error::Socket)?;
                }
            }
        }
    }
}

/// A report with the address of this machine, as the other side sees it, and with a port that is free.
fn completed(report: &Report, stream: &Stream) -> Result<Report> {
    let mut report = report.clone();
    if report.endpoint.host.is_empty() {
        let own = stream.own_address().map_err(Error::Socket)?;
        report.endpoint.host = if own.is_ipv6() { format!("[{own}]") } else { own.to_string() };
    }
    // Port 0: it does not listen.
    if !report.is_fixed && report.endpoint.port > 0 {
        let Endpoint { host, port } = &report.endpoint;
        report.endpoint.port = free_port(host, port.wrapping_sub(1))?;
    }
    Ok(report)
}

/// The first port after this one at which one can listen.
fn free_port(host: &str, after: u16) -> Result<u16> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in (0..PORTS).filter_map(|at| after.checked_add(1 + at)) {
        let endpoint = Endpoint { host: host.to_string(), port };
        for address in addresses(&endpoint).map_err(Error::Socket)? {
            match TcpListener::bind(address) {
                Ok(_) => return Ok(port),
                Err(error) => last = error,
            }
        }
    }
    let endpoint = Endpoint { host: host.to_string(), port: after };
    Err(Error::Bind { endpoint, source: last })
}

fn greet(stream: &Stream, report: &Report) -> io::Result<()> {
    Patient(stream).write_all(report.to_line().as_bytes())
}

/// Lines of a connection. A read that times out keeps what has come.
struct Lines {
    input: BufReader<StreamInput>,
    part: Vec<u8>,
}

impl Lines {
    fn new(stream: Arc<Stream>) -> Self {
        Self { input: BufReader::new(StreamInput(stream)), part: Vec::new() }
    }

    fn stream(&self) -> &Stream {
        &self.input.get_ref().0
    }

    /// The next line; none if it did not come yet.
    fn next(&mut self) -> io::Result<Option<String>> {
        let room = LINE_BYTES_MAX.saturating_sub(self.part.len() as u64);
        match (&mut self.input).take(room).read_until(b'\n', &mut self.part) {
            Err(error) if is_timeout(&error) => return Ok(None),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        if self.part.last() != Some(&b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&self.part).into_owned();
        self.part.clear();
        Ok(Some(line))
    }
}

/// Keeps the connection. When it breaks, this process reports again, so that a new listener learns which processes are there.
fn stay(meeting: &Rendezvous, place: &Place, reader: BufReader<StreamInput>) {
    let side = meeting.report.side;
    let own = if side == Side::Server { &place.servers } else { &place.trainers };
    let Some(endpoint) = own.get(place.id as usize).cloned() else { return };
    let n_servers = Some(place.servers.len() as u32);
    let rank = Some(place.id);
    let report = Report { rank, endpoint, is_fixed: true, n_servers, ..meeting.report.clone() };
    let meeting = Rendezvous { report, ..meeting.clone() };
    thread::spawn(move || {
        let mut lines = Lines { input: reader, part: Vec::new() };
        loop {
            // A process that has its place gets no more lines.
            while lines.next().is_ok() {}
            thread::sleep(PAUSE);
            let start = Instant::now();
            let mut guest = Guest { meeting: meeting.clone(), start, last: String::new() };
            match guest.report(&mut |_| {}, &mut || false) {
                Ok((stream, _)) => lines = Lines::new(stream),
                // The job may be over: nothing waits for this thread.
                Err(_) => return,
            }
        }
    });
}
