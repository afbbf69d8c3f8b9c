//! The process at the address of a rendezvous: takes reports, and tells everybody.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tensor::EvenIfPoisoned;

use crate::ids::ConnId;
use crate::rendezvous::{Gathering, LINE_BYTES_MAX, RendezvousReply, Report, ReportOutcome};

/// A connection must report within this.
const GREETING: Duration = Duration::from_secs(10);
/// A peer that takes nothing for so long is cut off.
const WRITE: Duration = Duration::from_secs(5);
/// More connections than this are nobody's processes.
const CONNECTIONS_MAX: usize = 10_000;
/// How often those that wait are told for whom.
const TELL: Duration = Duration::from_secs(3);

#[derive(Default)]
struct HostState {
    gathering: Gathering,
    streams: BTreeMap<ConnId, TcpStream>,
}

type SharedState = Arc<Mutex<HostState>>;

/// Takes reports for as long as this process lives.
pub(super) fn start(listener: TcpListener) {
    let shared = SharedState::default();
    let told = shared.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(TELL);
            told.lock().even_if_poisoned().tell_waiting();
        }
    });
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            // One that is gone before it is taken is no reason to stop.
            let Ok(stream) = stream else { continue };
            let (shared, conn) = (shared.clone(), ConnId(number as u64));
            if shared.lock().even_if_poisoned().streams.len() < CONNECTIONS_MAX {
                thread::spawn(move || serve(&shared, conn, stream));
            }
        }
    });
}

/// One connection, from its report to its end.
fn serve(shared: &SharedState, conn: ConnId, stream: TcpStream) {
    let settings = [
        stream.set_nodelay(true),
        stream.set_read_timeout(Some(GREETING)),
        stream.set_write_timeout(Some(WRITE)),
    ];
    let Ok(kept) = stream.try_clone() else { return };
    if settings.into_iter().any(|set| set.is_err()) {
        return;
    }
    let mut input = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(n) if n > 0) {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let mut room = shared.lock().even_if_poisoned();
        if text.trim_end() == "end" {
            room.give_up();
            continue;
        }
        // Whoever sends something else loses the connection.
        let Ok(report) = Report::read(&text) else { break };
        if let Ok(kept) = kept.try_clone() {
            room.streams.insert(conn, kept);
        }
        room.take(conn, report);
        // From now on silence is no reason to end it.
        if input.get_ref().set_read_timeout(None).is_err() {
            break;
        }
    }
    let mut room = shared.lock().even_if_poisoned();
    room.streams.remove(&conn);
    room.gathering.leave(conn);
}

impl HostState {
    fn take(&mut self, conn: ConnId, report: Report) {
        match self.gathering.report(conn, report) {
            ReportOutcome::Waits => self.tell_waiting(),
            ReportOutcome::Taken => self.tell(conn, &RendezvousReply::Taken),
            ReportOutcome::Back(place) => self.tell(conn, &RendezvousReply::Placed(place)),
            ReportOutcome::Refused(why) => self.tell(conn, &RendezvousReply::Failed(why)),
            ReportOutcome::Complete => {
                for (conn, place) in self.gathering.places() {
                    self.tell(conn, &RendezvousReply::Placed(place));
                }
            }
            ReportOutcome::Apart(why) => {
                self.tell(conn, &RendezvousReply::Failed(why.clone()));
                self.fail(&why);
            }
        }
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
    }

    fn tell_waiting(&mut self) {
        let answer = RendezvousReply::Waiting(self.gathering.missing());
        let all: Vec<ConnId> = self.gathering.waiting().collect();
        all.into_iter().for_each(|conn| self.tell(conn, &answer));
    }

    /// One that takes nothing is noticed by the thread that reads from it.
    fn tell(&mut self, conn: ConnId, answer: &RendezvousReply) {
        if let Some(mut stream) = self.streams.get(&conn) {
            let _ = stream.write_all(answer.to_line().as_bytes());
        }
    }
}
