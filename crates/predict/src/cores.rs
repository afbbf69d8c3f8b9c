//! Which requests are computed at once, and which together.
//!
//! A few requests compute at the same time, one for each core. While all cores are busy, small requests wait;
//! the first of them that gets a core computes for all that wait, as one batch: the weights, which do
//! not fit into the cache of a core, are then read once for all of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use base::EvenIfPoisoned;
use tensor::Tensor;

use crate::batch::Samples;
use crate::error::{Error, Result};

/// Requests of more samples are not computed together with others.
pub(crate) const JOINED_SAMPLES_MAX: usize = 64;
/// Samples of a batch that is put together.
const BATCH_SAMPLES_MAX: usize = 256;
/// A request that no other one took in this time computes alone.
const WAIT: Duration = Duration::from_millis(100);

/// The way in which a request is computed.
pub(crate) enum Entered<'a> {
    /// It computes now, and these others with it.
    Computes(Core<'a>, Vec<JoinedRequest>),
    /// Another one computed it.
    Done(Result<Vec<Tensor>>),
}

/// The cores, and the requests that wait for one.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    state: Mutex<CoresState>,
    /// How many compute at the same time.
    n_max: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct CoresState {
    n_busy: usize,
    waiting: VecDeque<Arc<Ticket>>,
}

/// Where a request waits.
#[derive(Debug)]
struct Ticket {
    n_samples: usize,
    state: Mutex<TicketState>,
    told: Condvar,
}

#[derive(Debug)]
enum TicketState {
    Waits(Samples),
    /// It has a core now and computes.
    Leads(Samples),
    Taken,
    Done(Samples, Result<Vec<Tensor>>),
    /// The waiting request has its result.
    Over,
}

impl Ticket {
    fn lock(&self) -> MutexGuard<'_, TicketState> {
        self.state.lock().even_if_poisoned()
    }
}

/// The samples of a request that another one computes.
#[derive(Debug)]
pub(crate) struct JoinedRequest {
    ticket: Arc<Ticket>,
    samples: Option<Samples>,
}

impl JoinedRequest {
    pub(crate) fn samples(&self) -> Option<&Samples> {
        self.samples.as_ref()
    }

    pub(crate) fn samples_mut(&mut self) -> Option<&mut Samples> {
        self.samples.as_mut()
    }

    pub(crate) fn n_samples(&self) -> usize {
        self.ticket.n_samples
    }

    /// Ends its wait.
    pub(crate) fn tell(mut self, outcome: Result<Vec<Tensor>>) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Result<Vec<Tensor>>) {
        let Some(samples) = self.samples.take() else { return };
        *self.ticket.lock() = TicketState::Done(samples, outcome);
        self.ticket.told.notify_one();
    }
}

/// A bug in the computing request drops this: it must not wait for ever.
impl Drop for JoinedRequest {
    fn drop(&mut self) {
        let source = std::io::Error::other("a bug; the log has more");
        self.end(Err(Error::System { what: "predict", source }));
    }
}

/// The right to compute; given on when it is dropped.
#[derive(Debug)]
pub(crate) struct Core<'a>(&'a Cores);

impl Drop for Core<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        while let Some(next) = state.waiting.pop_front() {
            let mut ticket = next.lock();
            match std::mem::replace(&mut *ticket, TicketState::Taken) {
                TicketState::Waits(samples) => {
                    *ticket = TicketState::Leads(samples);
                    drop(ticket);
                    drop(state);
                    next.told.notify_one();
                    return;
                }
                other => *ticket = other,
            }
        }
        state.n_busy -= 1;
    }
}

impl Cores {
    pub(crate) fn new(n_max: Arc<AtomicUsize>) -> Self {
        Self { state: Mutex::default(), n_max }
    }

    fn lock(&self) -> MutexGuard<'_, CoresState> {
        self.state.lock().even_if_poisoned()
    }

    fn n_max(&self) -> usize {
        self.n_max.load(Ordering::Relaxed).max(1)
    }

    /// Computes, waits for others to compute, or computes for others too.
    pub(crate) fn enter(&self, batch: &mut Samples, n_samples: usize) -> Entered<'_> {
        let ticket = {
            let mut state = self.lock();
            if state.n_busy < self.n_max() || n_samples > JOINED_SAMPLES_MAX {
                state.n_busy += 1;
                return Entered::Computes(Core(self), Vec::new());
            }
            let ticket = Arc::new(Ticket {
                n_samples,
                state: Mutex::new(TicketState::Waits(batch.take())),
                told: Condvar::new(),
            });
            state.waiting.push_back(ticket.clone());
            ticket
        };
        self.wait(&ticket, batch)
    }

    fn wait(&self, ticket: &Arc<Ticket>, batch: &mut Samples) -> Entered<'_> {
        let mut state = ticket.lock();
        loop {
            match std::mem::replace(&mut *state, TicketState::Over) {
                TicketState::Leads(samples) => {
                    *batch = samples;
                    drop(state);
                    let joined = self.take_waiting(ticket.n_samples);
                    return Entered::Computes(Core(self), joined);
                }
                TicketState::Done(samples, outcome) => {
                    *batch = samples;
                    return Entered::Done(outcome);
                }
                other => *state = other,
            }
            let (woken, timeout) = ticket.told.wait_timeout(state, WAIT).even_if_poisoned();
            state = woken;
            if timeout.timed_out()
                && let TicketState::Waits(samples) = &mut *state
            {
                *batch = samples.take();
                *state = TicketState::Over;
                drop(state);
                self.lock().n_busy += 1;
                return Entered::Computes(Core(self), Vec::new());
            }
        }
    }

    /// Takes waiting requests, as many as fit into a batch with one that has `n_samples`.
    fn take_waiting(&self, mut n_samples: usize) -> Vec<JoinedRequest> {
        let mut state = self.lock();
        let mut taken = Vec::with_capacity(state.waiting.len());
        while let Some(next) = state.waiting.front() {
            if n_samples + next.n_samples > BATCH_SAMPLES_MAX {
                break;
            }
            let Some(next) = state.waiting.pop_front() else { break };
            let mut ticket = next.lock();
            match std::mem::replace(&mut *ticket, TicketState::Taken) {
                TicketState::Waits(samples) => {
                    n_samples += next.n_samples;
                    drop(ticket);
                    taken.push(JoinedRequest { ticket: next, samples: Some(samples) });
                }
                other => *ticket = other,
            }
        }
        taken
    }

    /// Takes idle cores, at most `n`.
    pub(crate) fn take_idle(&self, n: usize) -> Vec<Core<'_>> {
        let mut state = self.lock();
        let n = n.min(self.n_max().saturating_sub(state.n_busy));
        state.n_busy += n;
        (0..n).map(|_| Core(self)).collect()
    }
}
