//! Drives a [`Link`] with a real connection, for any number of threads.
//!
//! A thread that sends writes itself. A thread that waits for an answer reads, also for other
//! threads that wait. A heartbeat thread sends signs of life and reconnects broken connections.

mod reading;
mod waiting;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::Duration;

use base::{Endpoint, EvenIfPoisoned};
use metrics::{Seconds, WaitingStep};
use protocol::counters::WAITING;
use protocol::link::{Link, LinkConfig};
use tensor::{Pool, Tensor};
use wire::frame::{self, Frame};
use wire::message::{Hello, Lend, Notice, Reply, Request};
use wire::recovery::{Term, TermState};
use wire::shm::Sharing;
use wire::{Error, Millis, Result};

use super::group::{ClientGroup, LostProcess, Stops};
use super::{Clock, Patient, Stream, sum_of};
use crate::access::Access;
use reading::Inbox;

pub use waiting::Patience;

/// A question that was asked.
#[derive(Debug)]
#[must_use = "the answer is fetched with `wait`"]
pub struct Ticket {
    id: u64,
    asked: Millis,
    /// In which conversation.
    n_turns: u64,
}

/// One server, as a trainer's threads see it.
pub struct Client {
    endpoint: Endpoint,
    patience: Patience,
    access: Access,
    clock: Clock,
    stops: Stops,
    ends: Stops,
    lost: LostProcess,
    /// When `stops` was last asked, so that it is not asked all the time.
    asked: AtomicU64,
    state: Mutex<ClientState>,
    writing: Mutex<()>,
    reading: Mutex<Inbox>,
    answered: Condvar,
    /// Memory for answers to come.
    spare: Mutex<Vec<Tensor>>,
    /// How long steps waited for this server.
    waited: Arc<Seconds>,
}

#[derive(Debug)]
struct ClientState {
    link: Link,
    stream: Option<Arc<Stream>>,
    /// Whether a connection is there on which the proofs are not complete.
    is_proving: bool,
    /// How often the Unix socket led nowhere, since TCP did.
    n_near_failures: u32,
    /// Counts connections, so that a reader notices a new one.
    generation: u64,
    /// When the connection was lost.
    down: Option<Millis>,
    was_up: bool,
    next_try: Millis,
    last: String,
    is_closed: bool,
    /// Counts reads, so that a thread that waits for another reader misses none.
    n_reads: u64,
    /// Threads that wait for a reader. Waking none would still be a system call.
    n_waiting: usize,
    /// Memory that the server can read.
    sharing: Sharing,
    /// Whether it was offered on this connection.
    offered: bool,
    /// How often the conversation was restarted.
    n_turns: u64,
    /// Whether the job recovers from deaths: servers that are away are waited for.
    recovers: bool,
    /// When a line says next that the server is away.
    next_line: Option<Millis>,
    /// When a line says next that trainers have not joined.
    next_absent_line: Option<Millis>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client of {}", self.endpoint)
    }
}

/// Between two times that `stops` is asked.
const ASK_MS: u64 = 100;
/// Tensors kept for answers to come.
const SPARE_MAX: usize = 64;
/// Between two attempts to connect.
const RETRY_MS: u64 = 100;
/// The Unix socket of a server is tried so often before TCP is.
const NEAR_FAILURES: u32 = 3;
/// How often the heartbeat thread looks.
const HEARTBEAT: Duration = Duration::from_millis(200);

impl ClientState {
    /// Offers memory to a server of this machine, once for each connection.
    fn offer(&mut self) {
        if self.stream.is_none() || std::mem::replace(&mut self.offered, true) {
            return;
        }
        if let Some(offer) = self.sharing.offer() {
            self.link.tell(Lend { offer, opened: 0 });
        }
    }
}

impl Client {
    /// A client of a server; the connection is made when it is first needed.
    pub fn new(endpoint: Endpoint, hello: Hello, patience: Patience) -> Arc<Self> {
        Self::among(endpoint, hello, patience, ClientGroup::default())
    }

    /// A client that shares its state with the clients of the other servers of a job.
    pub fn among(
        endpoint: Endpoint,
        hello: Hello,
        patience: Patience,
        group: ClientGroup,
    ) -> Arc<Self> {
        let ClientGroup { stops, ends, lost, memory, access } = group;
        let access = access.named(format!("trainer-{}-{:016x}", hello.trainer, sum_of(&hello.job)));
        let state = ClientState {
            link: Link::new(hello, LinkConfig::default()),
            stream: None,
            is_proving: false,
            n_near_failures: 0,
            generation: 0,
            down: None,
            was_up: false,
            next_try: Millis(0),
            last: "never connected".to_string(),
            is_closed: false,
            n_reads: 0,
            n_waiting: 0,
            sharing: Sharing::new(memory),
            offered: false,
            n_turns: 0,
            recovers: false,
            next_line: None,
            next_absent_line: None,
        };
        let client = Arc::new(Self {
            waited: WAITING.of(&endpoint.to_string()),
            endpoint,
            patience,
            access,
            clock: Clock::start(),
            stops,
            ends,
            lost,
            asked: AtomicU64::new(0),
            state: Mutex::new(state),
            writing: Mutex::default(),
            reading: Mutex::default(),
            answered: Condvar::new(),
            spare: Mutex::default(),
        });
        let weak = Arc::downgrade(&client);
        // Without a heartbeat a silent trainer would be taken for dead; a machine that cannot start a
        // thread fails elsewhere, loudly.
        let _ = thread::Builder::new().name("heartbeat".to_string()).spawn(move || beat_all(&weak));
        client
    }

    /// The server's end point.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The round that ends with this trainer's last barrier.
    pub fn round(&self) -> u64 {
        self.state().link.round()
    }

    /// The last news about cuts.
    pub fn notice(&self) -> Notice {
        self.state().link.notice().clone()
    }

    /// How often the server has wanted a cut: see [`Notice`].
    pub fn cut_requests(&self) -> u64 {
        self.state().link.notice().cut_requests
    }

    /// The term that this trainer takes part in, or wants to take part in; number 0 if the job does
    /// not recover.
    pub fn term(&self) -> Term {
        self.state().link.term()
    }

    /// Restarts the conversation in another term. Messages in flight in the old term are dropped,
    /// and threads that wait for it get [`Error::OtherTerm`]. No other thread may be about to send:
    /// its message would be sent in the new term.
    pub fn turn_to(&self, term: Term) {
        let mut state = self.state();
        if let Some(stream) = state.stream.take() {
            stream.shut_down();
        }
        state.link = state.link.of_term(term);
        state.generation += 1;
        state.n_turns += 1;
        state.next_try = Millis(0);
        state.down = Some(self.clock.now());
        state.recovers |= term.number > 0;
    }

    fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().even_if_poisoned()
    }

    /// Connects and exchanges greetings, unless that was done before.
    pub fn ensure_connected(&self) -> Result<()> {
        self.until(None, Link::is_up)
    }

    /// Numbers a change and sends it. Waits only if too many are in flight.
    pub fn change(&self, request: impl Into<Request>) -> Result<()> {
        self.change_soon(request)?;
        self.flush();
        Ok(())
    }

    /// Like [`Client::change`], but the message may be sent together with the next one. For callers
    /// that will send another one soon.
    pub fn change_soon(&self, request: impl Into<Request>) -> Result<()> {
        self.ensure_connected()?;
        self.until(Some("an acknowledgement"), |link| !link.is_full())?;
        let now = self.clock.now();
        self.check(now)?;
        self.state().link.change(now, request);
        Ok(())
    }

    /// Asks a question; [`Client::wait`] fetches the answer.
    pub fn ask(&self, request: impl Into<Request>) -> Result<Ticket> {
        self.ensure_connected()?;
        let asked = self.clock.now();
        let (id, n_turns) = {
            let mut state = self.state();
            (state.link.ask(asked, request), state.n_turns)
        };
        self.flush();
        Ok(Ticket { id, asked, n_turns })
    }

    /// Waits for the answer to a question; `what` is for the error if none comes.
    pub fn wait(&self, ticket: Ticket, what: &'static str) -> Result<Reply> {
        let mut waiting = None;
        loop {
            let (answer, n_reads) = {
                let mut state = self.state();
                (state.link.answer(ticket.id), state.n_reads)
            };
            if let Some(answer) = answer {
                return answer.map_err(|refusal| Error::Refused {
                    endpoint: self.endpoint.clone(),
                    refusal,
                });
            }
            let still = self.check(ticket.asked).and_then(|()| self.same_turn(ticket.n_turns));
            let still = still.and_then(|()| self.in_time(ticket.asked, what));
            let still = still.and_then(|()| self.lost.check());
            if let Err(error) = still {
                self.state().link.forget(ticket.id);
                return Err(error);
            }
            waiting = waiting.or_else(|| WaitingStep::begin(&self.waited));
            self.progress(n_reads);
        }
    }

    /// Waits until the server has applied every change.
    pub fn settle(&self) -> Result<()> {
        let n_turns = self.state().n_turns;
        self.until(Some("an acknowledgement"), Link::is_settled)?;
        self.check(self.clock.now())?;
        self.same_turn(n_turns)
    }

    /// Reads until the link is as it should be; only what is named has a deadline of its own.
    fn until(&self, what: Option<&'static str>, there: impl Fn(&Link) -> bool) -> Result<()> {
        let start = self.clock.now();
        let n_turns = self.state().n_turns;
        let mut waiting = None;
        loop {
            let n_reads = {
                let mut state = self.state();
                if there(&state.link) {
                    return Ok(());
                }
                // A greeting that is not answered is repeated, so that we hear that the server is there.
                if state.stream.is_some() && !state.link.is_up() {
                    state.link.tick(self.clock.now());
                }
                state.n_reads
            };
            self.check(start)?;
            self.same_turn(n_turns)?;
            self.flush();
            if let Some(what) = what {
                self.in_time(start, what)?;
            }
            waiting = waiting.or_else(|| WaitingStep::begin(&self.waited));
            self.progress(n_reads);
        }
    }

    /// Whether the conversation is the one it was.
    fn same_turn(&self, n_turns: u64) -> Result<()> {
        let state = self.state();
        if state.n_turns == n_turns {
            Ok(())
        } else {
            let term_state = TermState { term: state.link.term(), ..TermState::default() };
            Err(Error::OtherTerm { endpoint: self.endpoint.clone(), term_state })
        }
    }

    /// Whether the server reads tensors in this process's memory.
    pub fn is_near(&self) -> bool {
        self.state().sharing.lender().is_some()
    }

    /// Takes the memory of applied gradients, for later ones.
    pub fn reclaim(&self, pool: &mut Pool) {
        let done = self.state().link.take_done();
        for request in done.into_iter().filter_map(Arc::into_inner) {
            let Request::Push(push) = request else { continue };
            for grad in push.grads {
                if let tensor::Value::Tensor(tensor) = grad.value {
                    pool.keep(tensor);
                }
            }
        }
    }

    /// Gives memory back: to later answers, or to the server that lent it.
    pub fn recycle(&self, tensor: Tensor) {
        if tensor.lender().is_some() {
            return;
        }
        let mut spare = self.spare.lock().even_if_poisoned();
        if spare.len() < SPARE_MAX {
            spare.push(tensor);
        }
    }

    /// Ends the conversation.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        if let Some(stream) = state.stream.take() {
            stream.shut_down();
        }
    }

    /// Writes what the link has to say, in its order.
    fn flush(&self) {
        let _turn = self.writing.lock().even_if_poisoned();
        loop {
            let (out, stream, generation, lender) = {
                let mut state = self.state();
                let lender = state.sharing.lender().cloned();
                (state.link.take_out(), state.stream.clone(), state.generation, lender)
            };
            let Some(stream) = stream.filter(|_| !out.is_empty()) else { return };
            let frames: Vec<Frame<'_, Request>> =
                out.iter().map(|(id, request)| Frame { id: *id, body: &**request }).collect();
            let written = frame::write_all(&mut Patient(&stream), &frames, lender.as_ref());
            if let Err(error) = written {
                return self.broke(generation, &error.to_string());
            }
        }
    }

    /// The periodic work of the heartbeat thread.
    fn beat(&self) {
        let (idle, n_reads) = {
            let mut state = self.state();
            let now = self.clock.now();
            if state.stream.is_some() {
                state.link.tick(now);
            }
            let idle = now.since(state.link.heard()) >= 1_000 || state.stream.is_none();
            (idle, state.n_reads)
        };
        self.flush();
        if idle {
            self.progress(n_reads);
        }
        self.tell_loss();
    }

    /// Tells threads that wait for other servers that this one is gone. A job that recovers waits for it.
    fn tell_loss(&self) {
        let may_be_lost = {
            let state = self.state();
            !state.recovers && !state.is_closed && state.down.is_some()
        };
        if !may_be_lost {
            return;
        }
        if let Err(error) = self.check(self.clock.now()) {
            self.lost.note_server(error);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

fn beat_all(client: &Weak<Client>) {
    loop {
        thread::sleep(HEARTBEAT);
        let Some(client) = client.upgrade() else { return };
        let (is_closed, is_used) = {
            let state = client.state();
            (state.is_closed, state.was_up)
        };
        if is_closed {
            return;
        }
        if is_used {
            client.beat();
        }
    }
}
