//! The process at the address of a rendezvous: takes reports, and tells everybody.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;
use protocol::rendezvous::{Gathering, Place, RendezvousReply, Report, ReportOutcome};
use protocol::{KnownKeys, ShownKey};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::{ConnId, Millis};

use super::Lines;
use crate::access::Access;
use crate::access::proof::Service;
use crate::tcp::entrance::{Porch, Proved};
use crate::tcp::{Patient, Stream};

/// A process that has proved to be one of ours must report within this.
const GREETING: Duration = Duration::from_secs(10);
/// More connections than this cannot belong to one job. Each has a thread.
const CONNECTIONS_MAX: usize = 4_096;
/// Connections taken in a row.
const ACCEPTS_MAX: usize = 64;
/// How often those that prove nothing are looked at.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How often waiting processes get the list of missing ones.
const TELL: Duration = Duration::from_secs(3);
/// Advice for a number that belongs to another key.
const TAKEN: &str = "the job has no secret, so the first processes keep their numbers. If they are none of yours, give all \
                     processes of the job the same PADDLEWHEEL_SECRET_FILE; if this process has lost its key, start \
                     the whole job again";

#[derive(Default)]
struct HostState {
    gathering: Gathering,
    streams: BTreeMap<ConnId, Arc<Stream>>,
    /// The keys that the processes of connections have shown, if keys are shown.
    shown: BTreeMap<ConnId, ShownKey>,
    /// The keys of the processes that have places, servers and trainers, once all have one.
    known: Option<[KnownKeys; 2]>,
}

type SharedState = Arc<Mutex<HostState>>;

/// Takes reports for as long as this process lives.
pub(super) fn start(listener: TcpListener, access: &Access) {
    let shared = SharedState::default();
    let told = shared.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(TELL);
            told.lock().even_if_poisoned().tell_waiting();
        }
    });
    let porch = Porch::new(access, Service::Rendezvous);
    thread::spawn(move || welcome(&listener, porch, &shared));
}

/// Takes connections. Only those that have proved to be of this job get a thread.
fn welcome(listener: &TcpListener, mut porch: Porch, shared: &SharedState) {
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    let n_open = Arc::new(AtomicUsize::new(0));
    let mut number = 0;
    loop {
        {
            let sources = std::iter::once(listener.as_fd()).chain(porch.sources());
            let mut watched: Vec<_> =
                sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)).collect();
            // The result does not matter: all are checked.
            let _ = poll(&mut watched, Some(&LOOK));
        }
        for _ in 0..ACCEPTS_MAX {
            match listener.accept() {
                Ok((socket, _)) => {
                    if let Some(stream) = porch.host(socket) {
                        porch.add(stream);
                    }
                }
                // A client that left before `accept` does not stop the host.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    // No descriptor is left, say: that passes.
                    thread::park_timeout(Duration::from_millis(50));
                    break;
                }
            }
        }
        for Proved { stream, shown } in porch.proved() {
            if n_open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                n_open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            number += 1;
            let shared = shared.clone();
            let conn = ConnId(number);
            let n_open = n_open.clone();
            if let Some(shown) = shown {
                shared.lock().even_if_poisoned().shown.insert(conn, shown);
            }
            thread::spawn(move || {
                serve(&shared, conn, Arc::new(stream));
                n_open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}

/// One connection, from its report to its end.
fn serve(shared: &SharedState, conn: ConnId, stream: Arc<Stream>) {
    let until = Instant::now() + GREETING;
    let (mut lines, mut has_reported) = (Lines::new(stream.clone()), false);
    loop {
        let text = match lines.next() {
            Ok(Some(text)) => text,
            Ok(None) if has_reported || Instant::now() < until => continue,
            Ok(None) | Err(_) => break,
        };
        let mut room = shared.lock().even_if_poisoned();
        if has_reported && text.trim_end() == "end" {
            room.give_up();
            continue;
        }
        // A peer that sends anything else loses the connection.
        let Ok(report) = Report::read(&text) else { break };
        room.streams.insert(conn, stream.clone());
        room.take(conn, report);
        drop(room);
        has_reported = true;
        // From now on silence does not end it.
        if stream.set_read_timeout(None).is_err() {
            break;
        }
    }
    let mut room = shared.lock().even_if_poisoned();
    room.streams.remove(&conn);
    room.shown.remove(&conn);
    room.gathering.leave(conn);
}

impl HostState {
    fn take(&mut self, conn: ConnId, report: Report) {
        if let Some(why) = self.other_key(conn, &report) {
            return self.tell(conn, &RendezvousReply::Failed(why));
        }
        match self.gathering.report(conn, report) {
            ReportOutcome::Waits => self.tell_waiting(),
            ReportOutcome::Taken => self.tell(conn, &RendezvousReply::Taken),
            ReportOutcome::Back(place) => self.tell(conn, &RendezvousReply::Placed(place)),
            ReportOutcome::Refused(why) => self.tell(conn, &RendezvousReply::Failed(why)),
            ReportOutcome::Complete => {
                let places = self.gathering.places();
                self.keep_keys(&places);
                for (conn, place) in places {
                    self.tell(conn, &RendezvousReply::Placed(place));
                }
            }
            ReportOutcome::Apart(why) => {
                self.tell(conn, &RendezvousReply::Failed(why.clone()));
                self.fail(&why);
            }
        }
    }

    /// Why a process cannot take part: all have come, and none of them has its key or its number.
    fn other_key(&self, conn: ConnId, report: &Report) -> Option<String> {
        let (known, shown) = (self.known.as_ref()?, self.shown.get(&conn)?);
        let word = report.side.word();
        let side = &known[report.side as usize];
        if let Some(rival) = report.rank.and_then(|rank| side.rival(rank, shown.key)) {
            let (from, rank) = (&rival.shown.from, report.rank.unwrap_or_default());
            return Some(format!(
                "the number of {word} {rank} is taken by another key, from {from}: {TAKEN}"
            ));
        }
        let is_known = known.iter().any(|side| side.has(shown.key));
        (!is_known)
            .then(|| format!("all processes of this job have come, with other keys: {TAKEN}"))
    }

    /// All have come: from now on they are known by their keys.
    fn keep_keys(&mut self, places: &[(ConnId, Place)]) {
        if self.shown.is_empty() {
            return;
        }
        let mut known = <[KnownKeys; 2]>::default();
        for (conn, place) in places {
            if let (Some(shown), Some(side)) = (self.shown.get(conn), self.gathering.side_of(*conn))
            {
                known[side as usize].keep(place.id, shown, Millis(0));
            }
        }
        self.known = Some(known);
    }

    /// One has waited long enough: then all have.
    fn give_up(&mut self) {
        let missing = self.gathering.missing();
        self.fail(&format!("the time to wait is over; {missing}"));
    }

    fn fail(&mut self, why: &str) {
        let all: Vec<ConnId> = self.gathering.waiting().collect();
        if all.is_empty() {
            return;
        }
        all.into_iter().for_each(|conn| self.tell(conn, &RendezvousReply::Failed(why.to_string())));
        self.gathering.clear();
        self.known = None;
    }

    fn tell_waiting(&mut self) {
        let answer = RendezvousReply::Waiting(self.gathering.missing());
        let all: Vec<ConnId> = self.gathering.waiting().collect();
        all.into_iter().for_each(|conn| self.tell(conn, &answer));
    }

    /// One that takes nothing is noticed by the thread that reads from it.
    fn tell(&mut self, conn: ConnId, answer: &RendezvousReply) {
        if let Some(stream) = self.streams.get(&conn) {
            let _ = Patient(stream).write_all(answer.to_line().as_bytes());
        }
    }
}
