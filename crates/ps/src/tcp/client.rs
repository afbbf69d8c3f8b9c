//! Drives a [`Link`] with a real connection, for any number of threads.
//!
//! Whoever has something to say writes it; whoever waits for an answer reads, also for others who
//! wait. A heartbeat thread says now and then that we are there, and makes broken connections anew.

use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError, Weak};
use std::thread;
use std::time::Duration;

use tensor::{EvenIfPoisoned, Pool, Tensor};

use super::companions::{Companions, Loss, Stops};
use super::{Clock, Patient, READ_TIMEOUT, Stream, WholeFrame, is_timeout};
use crate::codec::Destination;
use crate::endpoint::Endpoint;
use crate::error::{Error, Missing, Result};
use crate::frame::{self, FRAME_BYTES_MAX, Frame};
use crate::ids::Millis;
use crate::link::{Broken, Config as LinkConfig, Link};
use crate::message::{Hello, Lend, Notice, Reply, Request};
use crate::recovery::Term;
use crate::refusal::Refusal;
use crate::shm::{Sharing, Window};

/// How long a trainer waits for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the first connection.
    pub connect_ms: u64,
    /// For a server whose connection broke to take a new one.
    pub grace_ms: u64,
    /// For a sign of life on a connection that stands.
    pub lease_ms: u64,
    /// For an answer (`FLAGS_rpc_deadline`).
    pub answer_ms: u64,
    /// For a process that died, where the job recovers.
    pub recover_ms: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect_ms: 60_000,
            grace_ms: 2_500,
            lease_ms: 20_000,
            answer_ms: 180_000,
            recover_ms: 300_000,
        }
    }
}

/// A question that was asked.
#[derive(Debug)]
#[must_use = "the answer is fetched with `wait`"]
pub struct Ticket {
    id: u64,
    asked: Millis,
}

/// One server, as a trainer's threads see it.
pub struct Client {
    endpoint: Endpoint,
    patience: Patience,
    clock: Clock,
    stops: Stops,
    loss: Loss,
    /// When `stops` was last asked, so that it is not asked all the time.
    asked: AtomicU64,
    state: Mutex<State>,
    writing: Mutex<()>,
    reading: Mutex<Inbox>,
    answered: Condvar,
    /// Memory for answers to come.
    spare: Mutex<Vec<Tensor>>,
}

#[derive(Debug)]
struct State {
    link: Link,
    stream: Option<Arc<Stream>>,
    /// Counts connections, so that a reader notices a new one.
    generation: u64,
    /// Since when there is no connection.
    down: Option<Millis>,
    was_up: bool,
    next_try: Millis,
    last: String,
    is_closed: bool,
    /// Counts what readers did, so that whoever waits for them misses nothing.
    n_reads: u64,
    /// Threads that wait for a reader. Telling nobody would be a system call all the same.
    n_waiting: usize,
    /// Memory that the server can read.
    sharing: Sharing,
    /// Whether it was offered on this connection.
    offered: bool,
}

#[derive(Debug, Default)]
struct Inbox {
    generation: u64,
    input: Option<BufReader<Input>>,
    pool: Pool,
    /// What the server lends.
    window: Option<Arc<Window>>,
}

#[derive(Debug)]
struct Input(Arc<Stream>);

impl std::io::Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        (&mut &*self.0).read(bytes)
    }
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
/// How often the heartbeat thread looks.
const HEARTBEAT: Duration = Duration::from_millis(200);

impl State {
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
        Self::among(endpoint, hello, patience, Companions::default())
    }

    /// A client beside those of the other servers of a job.
    pub fn among(
        endpoint: Endpoint,
        hello: Hello,
        patience: Patience,
        companions: Companions,
    ) -> Arc<Self> {
        let Companions { stops, loss, memory } = companions;
        let state = State {
            link: Link::new(hello, LinkConfig::default()),
            stream: None,
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
        };
        let client = Arc::new(Self {
            endpoint,
            patience,
            clock: Clock::start(),
            stops,
            loss,
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

    /// Whose client it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The round that ends with this trainer's last barrier.
    pub fn round(&self) -> u64 {
        self.state().link.round()
    }

    /// What the server last said of cuts.
    pub fn notice(&self) -> Notice {
        self.state().link.notice().clone()
    }

    /// The term that this trainer takes part in, or wants to; of number 0 where the job does not recover.
    pub fn term(&self) -> Term {
        self.state().link.term()
    }

    /// Begins the conversation anew, in another term: what was under way in the one before is
    /// forgotten, and whoever waits for it waits in vain.
    pub fn turn_to(&self, term: Term) {
        let mut state = self.state();
        if let Some(stream) = state.stream.take() {
            stream.shut_down();
        }
        state.link = state.link.of_term(term);
        state.generation += 1;
        state.next_try = Millis(0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().even_if_poisoned()
    }

    /// Connects and exchanges greetings, unless that was done.
    pub fn meet(&self) -> Result<()> {
        self.until(None, Link::is_up)
    }

    /// Numbers a change and sends it; waits only if too many are on their way.
    pub fn change(&self, request: impl Into<Request>) -> Result<()> {
        self.change_soon(request)?;
        self.flush();
        Ok(())
    }

    /// The same, but it may go with whatever is said next: for who will say something next.
    pub fn change_soon(&self, request: impl Into<Request>) -> Result<()> {
        self.meet()?;
        self.until(Some("an acknowledgement"), |link| !link.is_full())?;
        let now = self.clock.now();
        self.check(now)?;
        self.state().link.change(now, request);
        Ok(())
    }

    /// Asks a question; [`Client::wait`] fetches the answer.
    pub fn ask(&self, request: impl Into<Request>) -> Result<Ticket> {
        self.meet()?;
        let asked = self.clock.now();
        let id = self.state().link.ask(asked, request);
        self.flush();
        Ok(Ticket { id, asked })
    }

    /// Waits for the answer to a question; `what` is for the message if none comes.
    pub fn wait(&self, ticket: Ticket, what: &'static str) -> Result<Reply> {
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
            let still = self.check(ticket.asked).and_then(|()| self.in_time(ticket.asked, what));
            let still = still.and_then(|()| self.loss.check());
            if let Err(error) = still {
                self.state().link.forget(ticket.id);
                return Err(error);
            }
            self.progress(n_reads);
        }
    }

    /// Waits until the server has served every change.
    pub fn settle(&self) -> Result<()> {
        self.until(Some("an acknowledgement"), Link::is_settled)?;
        self.check(self.clock.now())
    }

    /// Reads until the link is as it should be; only what is named has a deadline of its own.
    fn until(&self, what: Option<&'static str>, there: impl Fn(&Link) -> bool) -> Result<()> {
        let start = self.clock.now();
        loop {
            let n_reads = {
                let state = self.state();
                if there(&state.link) {
                    return Ok(());
                }
                state.n_reads
            };
            self.check(start)?;
            if let Some(what) = what {
                self.in_time(start, what)?;
            }
            self.progress(n_reads);
        }
    }

    /// Whether the server reads tensors where this process has them.
    pub fn is_near(&self) -> bool {
        self.state().sharing.lender().is_some()
    }

    /// Memory of gradients that were served, for those to come.
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

    /// Gives memory that is not needed any more to answers to come; what the server lent, back to it.
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

    fn in_time(&self, start: Millis, what: &'static str) -> Result<()> {
        let waited_ms = self.clock.now().since(start);
        if waited_ms < self.patience.answer_ms {
            return Ok(());
        }
        let missing = Missing(self.state().link.pong().missing.clone());
        Err(Error::Deadline { endpoint: self.endpoint.clone(), what, waited_ms, missing })
    }

    /// Whether there is hope for an answer.
    fn check(&self, start: Millis) -> Result<()> {
        let now = self.clock.now();
        let endpoint = || self.endpoint.clone();
        let due = now.since(Millis(self.asked.load(Ordering::Relaxed))) >= ASK_MS;
        if due && now.since(start) >= ASK_MS {
            self.asked.store(now.0, Ordering::Relaxed);
            if (self.stops)() {
                return Err(Error::Interrupted { endpoint: endpoint() });
            }
        }
        let state = self.state();
        match state.link.broken() {
            Some(Broken::Refused(refusal)) => {
                return Err(Error::Refused { endpoint: endpoint(), refusal: refusal.clone() });
            }
            Some(Broken::OtherTerm(standing)) => {
                return Err(Error::OtherTerm { endpoint: endpoint(), standing: standing.clone() });
            }
            Some(Broken::Restarted) => {
                let last = "it was started again and has lost what it held".to_string();
                return Err(Error::ServerLost { endpoint: endpoint(), silent_ms: 0, last });
            }
            None => {}
        }
        if state.is_closed {
            let last = "this trainer ended the conversation".to_string();
            return Err(Error::ServerLost { endpoint: endpoint(), silent_ms: 0, last });
        }
        let limit = match (state.was_up, &state.stream) {
            (false, _) => self.patience.connect_ms,
            (true, None) => self.patience.grace_ms,
            (true, Some(_)) => self.patience.lease_ms,
        };
        let since = match (state.was_up, state.down) {
            (false, _) => start,
            (true, Some(down)) => down,
            (true, None) => state.link.heard(),
        };
        let silent_ms = now.since(since);
        // A process that slept wakes with old news: what came meanwhile is read first.
        if silent_ms < limit || (state.stream.is_some() && now.since(start) < limit) {
            return Ok(());
        }
        Err(Error::ServerLost { endpoint: endpoint(), silent_ms, last: state.last.clone() })
    }

    /// Reads something for whoever waits, or waits for whoever reads; up to 100 ms. Returns at
    /// once if something was read since `n_reads` was looked at.
    fn progress(&self, n_reads: u64) {
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
        self.connect();
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

    /// Makes a connection if there is none and the last attempt is a while ago.
    fn connect(&self) {
        let now = self.clock.now();
        {
            let mut state = self.state();
            if state.stream.is_some() || state.is_closed || state.link.broken().is_some() {
                return;
            }
            if now < state.next_try {
                drop(state);
                thread::sleep(Duration::from_millis(10));
                return;
            }
            state.next_try = now + RETRY_MS;
            state.down.get_or_insert(now);
        }
        let stream = Stream::connect(&self.endpoint, Duration::from_secs(2));
        let mut state = self.state();
        match stream {
            Ok(stream) => {
                state.sharing.connected(stream.is_local());
                state.stream = Some(Arc::new(stream));
                state.generation += 1;
                state.offered = false;
                state.link.connected(self.clock.now());
                state.last = "connected, no greeting came back".to_string();
                drop(state);
                self.flush();
            }
            Err(error) => state.last = format!("connecting failed: {error}"),
        }
    }

    fn read_one(&self, inbox: &mut Inbox) {
        let (generation, stream) = {
            let state = self.state();
            (state.generation, state.stream.clone())
        };
        let Some(stream) = stream else { return };
        if inbox.generation != generation || inbox.input.is_none() {
            inbox.generation = generation;
            inbox.input = Some(BufReader::with_capacity(64 << 10, Input(stream)));
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
            self.loss.note(&self.endpoint, refusal);
        }
        let mut state = self.state();
        if state.generation == generation {
            state.link.received(self.clock.now(), id, reply);
            if state.link.is_up() {
                (state.was_up, state.down) = (true, None);
                state.last = "it was connected".to_string();
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

    fn broke(&self, generation: u64, why: &str) {
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

    /// What the heartbeat thread does, now and then.
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
