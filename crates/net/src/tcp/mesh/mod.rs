//! Trainers connected to each other: drives [`Exchanges`] with sockets.
//!
//! Each trainer listens at its own end point and connects to those with lower ranks. Every connection
//! has a thread that reads and one that writes, so that no computing thread waits for a socket, and
//! two trainers that write to each other never wait for each other. Trainers of one machine read long
//! values in each other's memory, and the connections only say where they are.

mod joining;
mod peers;

use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::{Endpoint, EvenIfPoisoned};
use metrics::{Seconds, WaitingStep};
use protocol::collective::{Collective, Exchanged, Exchanges, Outgoing, PeerMessage, Terms};
use protocol::counters::WAITING;
use tensor::Value;
use wire::{Error, Failure, Result, SharedMemory};

use super::client::Patience;
use super::group::Stops;
use super::{Stream, sum_of};
use crate::access::Access;
use crate::lines::{self, Line};

/// Waiting threads look up from their wait at least so often.
const WAKE: Duration = Duration::from_millis(100);
/// A trainer that is waited for is mentioned after so long, and again after so long.
const LATE: Duration = Duration::from_secs(3);
/// Time for the last messages of a trainer that leaves.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A trainer and the others it exchanges with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// This trainer.
    pub me: u32,
    /// All trainers, in the order of their ranks.
    pub endpoints: Vec<Endpoint>,
    /// How they exchange, in words: all must say the same.
    pub mode: String,
}

/// How long to wait, and what to do meanwhile.
#[derive(Clone)]
pub struct MeshSettings {
    /// How long.
    pub patience: Patience,
    /// Whether to stop waiting.
    pub stops: Stops,
    /// Gets lines about trainers that are waited for.
    pub log: Arc<dyn Fn(&Line) + Send + Sync>,
    /// The credentials that this trainer shows to others, and asks them to show.
    pub access: Access,
    /// Bytes that it holds at most of what others send before it is as far.
    pub early_bytes_max: u64,
}

/// The connections of a trainer to all other trainers.
pub struct Mesh {
    membership: Membership,
    settings: MeshSettings,
    shared: Arc<MeshState>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// How long steps waited for others.
    waited: Arc<Seconds>,
}

/// The shared state of a trainer's threads.
struct MeshState {
    exchanges: Mutex<Exchanges>,
    changed: Condvar,
    /// By rank; none for this trainer.
    writers: Vec<Option<Sender<ToWrite>>>,
    streams: Vec<Option<Arc<Stream>>>,
}

/// A command for a writing thread.
enum ToWrite {
    Message(PeerMessage),
    /// There will be nothing more.
    End,
}

impl std::fmt::Debug for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mesh of {} trainers", self.membership.endpoints.len())
    }
}

impl MeshState {
    fn exchanges(&self) -> MutexGuard<'_, Exchanges> {
        self.exchanges.lock().even_if_poisoned()
    }

    fn tell(&self, to: u32, message: PeerMessage) {
        if let Some(Some(writer)) = self.writers.get(to as usize) {
            // Its thread has ended if the connection broke; waiting threads learn that.
            let _ = writer.send(ToWrite::Message(message));
        }
    }

    fn tell_all(&self, message: &PeerMessage) {
        (0..self.writers.len() as u32).for_each(|to| self.tell(to, message.clone()));
    }

    fn send(&self, all: Vec<Outgoing>) {
        all.into_iter().for_each(|Outgoing { to, part }| self.tell(to, PeerMessage::Part(part)));
    }

    /// Ends all exchanges: wakes up waiting threads and tells the other trainers.
    fn fail(&self, failure: Failure) {
        let mut exchanges = self.exchanges();
        let is_first = exchanges.failure().is_none();
        exchanges.fail(failure);
        self.after_change(exchanges, is_first);
    }

    /// Announces the effects of a change: wakes up waiting threads, and passes a new failure on.
    fn after_change(&self, exchanges: MutexGuard<'_, Exchanges>, was_well: bool) {
        let failure = exchanges.failure().filter(|_| was_well).cloned();
        drop(exchanges);
        self.changed.notify_all();
        if let Some(failure) = failure {
            self.tell_all(&PeerMessage::Failed(failure));
        }
    }
}

impl Mesh {
    /// Meets all other trainers; an error if one does not come in time, or does not do the same.
    pub fn join(membership: Membership, mut settings: MeshSettings) -> Result<Self> {
        let all: Vec<String> = membership.endpoints.iter().map(Endpoint::to_string).collect();
        let name = format!("trainer-{}-{:016x}", membership.me, sum_of(&all.join(",")));
        settings.access = settings.access.named(name);
        let streams = joining::meet(&membership, &settings)?;
        let endpoints = membership.endpoints.iter().map(Endpoint::to_string).collect();
        let memory = SharedMemory::default();
        let exchanges = Exchanges::new(membership.me, endpoints).with_memory(memory.clone());
        let exchanges = exchanges.with_limit(settings.early_bytes_max);
        let (shared, threads) = peers::start(exchanges, streams, &settings, &memory)?;
        let (threads, waited) = (Mutex::new(threads), WAITING.of("other trainers"));
        Ok(Self { membership, settings, shared, threads, waited })
    }

    /// The rank of this trainer, and the other members.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// How many trainers there are.
    pub fn n_trainers(&self) -> usize {
        self.membership.endpoints.len()
    }

    /// Begins an exchange; [`Mesh::wait`] gives what it comes to. All trainers begin the same
    /// exchanges in the same order.
    pub fn begin(&self, terms: &Terms, value: Value) -> u64 {
        let mut exchanges = self.shared.exchanges();
        let was_well = exchanges.failure().is_none();
        let (number, outgoing) = exchanges.begin(terms, value);
        self.shared.after_change(exchanges, was_well);
        self.shared.send(outgoing);
        number
    }

    /// Checks whether a value can be exchanged like this; the error names the fault.
    pub fn check(
        &self,
        collective: Collective,
        value: &Value,
    ) -> std::result::Result<(), &'static str> {
        self.shared.exchanges().check(collective, value)
    }

    /// Waits until an exchange is done.
    pub fn wait(&self, number: u64) -> Result<Exchanged> {
        let (start, mut said) = (Instant::now(), Instant::now());
        let deadline = Duration::from_millis(self.settings.patience.answer_ms);
        let mut exchanges = self.shared.exchanges();
        let mut waiting = None;
        loop {
            if let Some(done) = exchanges.take_done(number) {
                drop(exchanges);
                let finished = done.map_err(Error::Trainers)?.finish();
                return Ok(self.shared.exchanges().retire(finished));
            }
            waiting = waiting.or_else(|| WaitingStep::begin(&self.waited));
            let woken = self.shared.changed.wait_timeout(exchanges, WAKE);
            exchanges = woken.map_or_else(|poisoned| poisoned.into_inner().0, |woken| woken.0);
            if start.elapsed() > deadline {
                let failure = self.late(&exchanges, number, start.elapsed());
                drop(exchanges);
                self.shared.fail(failure);
                exchanges = self.shared.exchanges();
            } else if said.elapsed() > LATE {
                said = Instant::now();
                if let Some((what, late)) =
                    exchanges.waits_for(number).filter(|(_, late)| !late.is_empty())
                {
                    let late = self.names(&late);
                    (self.settings.log)(&lines::trainers_late(&late, &what, start.elapsed()));
                }
            }
            if (self.settings.stops)() {
                return Err(Error::Stopped);
            }
        }
    }

    /// Gives an exchange up: the value that was to be exchanged.
    pub fn abandon(&self, number: u64) -> Option<Value> {
        self.shared.exchanges().abandon(number)
    }

    fn late(&self, exchanges: &Exchanges, number: u64, waited: Duration) -> Failure {
        let (what, late) = exchanges.waits_for(number).unwrap_or_default();
        Failure::Missing {
            waiting: self.membership.me,
            waited_ms: waited.as_millis() as u64,
            what,
            missing: self.names(&late),
        }
    }

    fn names(&self, trainers: &[u32]) -> String {
        joining::names(&self.membership, trainers)
    }

    /// Tells the others that this trainer cannot go on.
    pub fn fail(&self, failure: Failure) {
        self.shared.fail(failure);
    }

    /// How many exchanges have begun here: at the same place of a script, as many on all trainers.
    pub fn n_begun(&self) -> u64 {
        self.shared.exchanges().n_begun()
    }

    /// Ends all connections without a good-bye: the trainers meet again.
    pub fn break_off(&self) {
        self.end_writing();
        self.shared.streams.iter().flatten().for_each(|stream| stream.shut_down());
    }

    /// Says good-bye: this trainer has ended in order. Messages written now still have time to arrive.
    pub fn leave(&self) {
        self.shared.tell_all(&PeerMessage::Bye);
        self.end_writing();
    }

    fn end_writing(&self) {
        for writer in self.shared.writers.iter().flatten() {
            let _ = writer.send(ToWrite::End);
        }
        let until = Instant::now() + LAST_WORDS;
        let mut threads = self.threads.lock().even_if_poisoned();
        while Instant::now() < until && threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        threads.retain(|thread| !thread.is_finished());
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
