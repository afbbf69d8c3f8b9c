//! Reads from a server. A thread that waits for an answer reads, also for other threads that wait.

use std::io::{self, BufRead, BufReader};
use std::sync::{Arc, TryLockError};
use std::thread;
use std::time::Duration;

use base::EvenIfPoisoned;
use protocol::link::Broken;
use tensor::Pool;
use wire::codec::Destination;
use wire::frame::{self, FRAME_BYTES_MAX};
use wire::message::{Lend, Reply};
use wire::shm::Window;
use wire::{Refusal, TlsFailure};

use super::{Client, NEAR_FAILURES, RETRY_MS};
use crate::access::proof::{Service, Unproved};
use crate::tcp::entrance::Entering;
use crate::tcp::{READ_TIMEOUT, Stream, StreamInput, Way, WholeFrame, access_at, is_timeout};

/// The last observation of a server that answers.
const CONNECTED: &str = "it was connected";
/// How long an attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Inbox {
    generation: u64,
    input: Option<BufReader<StreamInput>>,
    /// A connection on which the proofs are not complete.
    entering: Option<Entering>,
    pool: Pool,
    /// The memory that the server lends.
    window: Option<Arc<Window>>,
}

impl Client {
    /// Reads something for the waiting threads, or waits for another thread that reads; at most 100
    /// ms. Returns at once if something was read since `n_reads` was looked at.
    pub(super) fn progress(&self, n_reads: u64) {
        let mut inbox = match self.reading.try_lock() {
            Ok(inbox) => inbox,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let mut state = self.state();
                if state.n_reads == n_reads {
                    state.n_waiting += 1;
                    let waited = self.answered.wait_timeout(state, READ_TIMEOUT);
                    waited.even_if_poisoned().0.n_waiting -= 1;
                }
                return;
            }
        };
        self.connect(&mut inbox);
        self.read_one(&mut inbox);
        drop(inbox);
        let n_waiting = {
            let mut state = self.state();
            state.n_reads += 1;
            state.n_waiting
        };
        if n_waiting > 0 {
            self.answered.notify_all();
        }
    }

    /// Connects, without waiting for an answer.
    pub(in crate::tcp) fn reach(&self) {
        if let Ok(mut inbox) = self.reading.try_lock()
            && inbox.entering.is_none()
        {
            inbox.entering = self.begin();
        }
    }

    /// Makes a connection if there is none, and greets once both sides have proved that they belong to
    /// the job.
    fn connect(&self, inbox: &mut Inbox) {
        let mut entering = match inbox.entering.take() {
            Some(entering) => entering,
            None => match self.begin() {
                Some(entering) => entering,
                None => return,
            },
        };
        let end = entering.advance();
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        state.is_proving = matches!(end, Ok(None));
        let is_local = entering.stream.is_local();
        match end {
            Ok(None) => inbox.entering = Some(entering),
            Ok(Some(Ok(()))) => {
                drop(state);
                self.entered(entering.stream);
            }
            // Somebody else may have taken the name.
            Ok(Some(Err(_))) if is_local => {
                state.n_near_failures = NEAR_FAILURES;
                state.last = "the local socket of the server is somebody else's".to_string();
            }
            // Or it has just ended.
            Err(error) if is_local => {
                state.n_near_failures += 1;
                state.last = format!("the greeting failed: {error}");
            }
            Ok(Some(Err(why))) => {
                state.last = format!("the greeting failed: {why}");
                if let Some(end) = end_of(why) {
                    state.link.turned_away(end);
                }
            }
            Err(error) => {
                state.n_near_failures = 0;
                state.last = format!("the greeting failed: {error}");
                if let Some(why) = TlsFailure::of(&error) {
                    state.link.turned_away(Broken::NotEncrypted(why));
                }
            }
        }
    }

    /// Both sides have proved that they belong to the job: greets.
    fn entered(&self, stream: Stream) {
        let mut state = self.state();
        state.n_near_failures = 0;
        state.sharing.connected(stream.is_local());
        state.stream = Some(Arc::new(stream));
        state.generation += 1;
        state.offered = false;
        state.link.connected(self.clock.now());
        state.last = "connected, no greeting came back".to_string();
        drop(state);
        self.flush();
    }

    /// Begins a connection if there is none and the last attempt is a while ago.
    fn begin(&self) -> Option<Entering> {
        let now = self.clock.now();
        let way = {
            let mut state = self.state();
            if state.stream.is_some() || state.is_closed || state.link.broken().is_some() {
                return None;
            }
            if now < state.next_try {
                drop(state);
                thread::sleep(Duration::from_millis(10));
                return None;
            }
            state.next_try = now + RETRY_MS;
            state.down.get_or_insert(now);
            if state.n_near_failures < NEAR_FAILURES { Way::Any } else { Way::Tcp }
        };
        let begun = self.begin_entering(way);
        let mut state = self.state();
        state.is_proving = begun.is_ok();
        match begun {
            Ok(entering) => {
                state.last = "connected, no greeting came back".to_string();
                Some(entering)
            }
            Err(error) => {
                state.last = format!("connecting failed: {error}");
                if let Some(why) = TlsFailure::of(&error) {
                    state.link.turned_away(Broken::NotEncrypted(why));
                }
                None
            }
        }
    }

    fn begin_entering(&self, way: Way) -> io::Result<Entering> {
        let access = access_at(&self.access, &self.endpoint).map_err(io::Error::other)?;
        let stream = Stream::connect(&self.endpoint, CONNECT, way, &access)?;
        Entering::begin(stream, &access, Service::Server, &self.endpoint)
    }

    fn read_one(&self, inbox: &mut Inbox) {
        let (generation, stream) = {
            let state = self.state();
            (state.generation, state.stream.clone())
        };
        let Some(stream) = stream else { return };
        if inbox.generation != generation || inbox.input.is_none() {
            inbox.generation = generation;
            inbox.input = Some(BufReader::with_capacity(64 << 10, StreamInput(stream)));
            inbox.window = None;
        }
        let Inbox { input, pool, window, .. } = inbox;
        let Some(input) = input else { return };
        let spare = std::mem::take(&mut *self.spare.lock().even_if_poisoned());
        spare.into_iter().for_each(|tensor| pool.keep(tensor));
        match input.fill_buf() {
            Ok([]) => return self.broke(generation, "the server closed the connection"),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => return,
            Err(error) => return self.broke(generation, &error.to_string()),
        }
        // Everything that is here already: answers come in groups.
        loop {
            let mut whole = WholeFrame::new(input);
            let into = Destination { pool, window: window.as_ref() };
            match frame::read_into::<Reply>(&mut whole, FRAME_BYTES_MAX, into) {
                Ok((_, Reply::Lent(lend))) => *window = self.lent(generation, &lend),
                Ok((id, reply)) => self.take(generation, id, reply),
                Err(error) => return self.broke(generation, &error.to_string()),
            }
            if input.buffer().is_empty() {
                break;
            }
        }
        self.flush();
    }

    fn take(&self, generation: u64, id: u64, reply: Reply) {
        if let Reply::Refused(refusal @ Refusal::TrainerLost { .. }) = &reply {
            self.lost.note_trainer(&self.endpoint, refusal);
        }
        let mut state = self.state();
        if state.generation == generation {
            if let Reply::Refused(Refusal::OtherTerm(_)) = &reply {
                state.recovers = true;
            }
            state.link.received(self.clock.now(), id, reply);
            state.down = None;
            if state.link.is_up() {
                (state.was_up, state.down) = (true, None);
                if state.last != CONNECTED {
                    state.last = CONNECTED.to_string();
                    tracing::debug!(target: "paddlewheel::trainer", server = %self.endpoint, "greeted by a server");
                }
                state.offer();
            }
        }
    }

    /// The server lends memory, or has opened ours.
    fn lent(&self, generation: u64, lend: &Lend) -> Option<Arc<Window>> {
        let mut state = self.state();
        if state.generation != generation {
            return None;
        }
        state.sharing.opened(lend.opened);
        let window = state.sharing.open(&lend.offer)?;
        state.link.tell(Lend { opened: lend.offer.id, ..Lend::default() });
        Some(window)
    }

    pub(super) fn broke(&self, generation: u64, why: &str) {
        let mut state = self.state();
        if state.generation != generation {
            return;
        }
        if let Some(stream) = state.stream.take() {
            stream.shut_down();
        }
        state.link.closed();
        state.down.get_or_insert(self.clock.now());
        state.last = format!("the connection broke: {why}");
        tracing::debug!(target: "paddlewheel::trainer", server = %self.endpoint, why, "a connection broke");
    }
}

/// The meaning of a failed proof for the job; None if another process may listen there soon.
fn end_of(why: Unproved) -> Option<Broken> {
    Some(match why {
        Unproved::Secret | Unproved::Impostor => Broken::Refused(Refusal::Secret),
        Unproved::Key | Unproved::OtherKey => Broken::Unproved(why),
        Unproved::Version { ours, theirs } => {
            Broken::Refused(Refusal::Version { ours: theirs, theirs: ours })
        }
        Unproved::Encrypted => Broken::NotEncrypted(TlsFailure::Wanted),
        Unproved::Service | Unproved::NotOurs => return None,
    })
}
