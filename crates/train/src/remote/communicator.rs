//! Sends gradients in the background, merging what queues up meanwhile, and fetches parameters.
//!
//! Training never waits for parameters: what was fetched lies in a mailbox and is put into the
//! scope before the next step. It waits only when the queue of gradients is full.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use program::Distributed;
use program::distributed::{PlacedKind, Placement};
use ps::codec::Pool;
use ps::lines;
use ps::message::{Named, Push};
use tensor::{Tensor, Value};

use super::{Cluster, add, fetch};
use crate::error::Result;

/// How a communicator behaves: Fluid's `communicator_*` settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommunicatorConfig {
    /// Steps whose gradients may wait; training waits when there are more.
    pub queue_max: usize,
    /// Steps whose gradients go as one.
    pub merge_max: usize,
    /// Times 10 ms are waited for more to merge.
    pub wait_times: u32,
    /// Parameters are fetched after so many steps were sent.
    pub fetch_after: u64,
    /// Merged gradients are added up; otherwise they are averaged.
    pub is_sum: bool,
}

impl Default for CommunicatorConfig {
    fn default() -> Self {
        Self { queue_max: 1, merge_max: 1, wait_times: 5, fetch_after: 1, is_sum: true }
    }
}

/// One step's gradients, by variable: where its pieces go.
pub(super) type Bundle = Vec<Outgoing>;

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) var: String,
    pub(super) value: Value,
    /// Server and name of each piece, with the rows before it.
    pub(super) pieces: Arc<[Piece]>,
}

/// A piece of a gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) endpoint: String,
    pub(super) name: String,
    pub(super) first_row: i64,
    pub(super) n_rows: i64,
}

/// Parameters that came and were not used yet, and memory for those to come.
#[derive(Clone, Debug, Default)]
pub(super) struct Mailbox {
    mail: Arc<Mutex<Mail>>,
    /// Held while parameters are put to use: those that came later are used later.
    turn: Arc<Mutex<()>>,
}

impl Mailbox {
    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives what came since the last call to `put`, and takes back what it took the place of. The
    /// caller holds nothing that another one waits for.
    pub(super) fn empty(
        &self,
        put: impl FnOnce(BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor>,
    ) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = self.mail().take();
        if !arrived.is_empty() {
            let old = put(arrived);
            self.mail().keep(old);
        }
        drop(turn);
    }
}

#[derive(Debug, Default)]
struct Mail {
    arrived: BTreeMap<String, Tensor>,
    old: Vec<BTreeMap<String, Tensor>>,
}

/// Sets of parameters whose memory is kept: one may be under way while another comes back.
const OLD_MAX: usize = 2;

impl Mail {
    fn take(&mut self) -> BTreeMap<String, Tensor> {
        std::mem::take(&mut self.arrived)
    }

    fn keep(&mut self, old: BTreeMap<String, Tensor>) {
        if !old.is_empty() && self.old.len() < OLD_MAX {
            self.old.push(old);
        }
    }
}

/// What the sender is told.
#[derive(Debug)]
enum Order {
    Send(Bundle),
    /// To say so when all before is served.
    Settle(SyncSender<()>),
}

#[derive(Debug)]
pub(super) struct Communicator {
    inbox: SyncSender<Order>,
    thread: JoinHandle<Result<()>>,
    mailbox: Mailbox,
}

impl Communicator {
    pub(super) fn start(
        cluster: Cluster,
        job: Arc<Distributed>,
        config: CommunicatorConfig,
    ) -> Self {
        (cluster.log())(&lines::communicator_starts());
        let (inbox, outbox) = sync_channel(config.queue_max.max(1));
        let mailbox = Mailbox::default();
        let post = mailbox.clone();
        let thread = thread::spawn(move || {
            let mut worker = Worker { cluster, job, config, mailbox: post, n_unfetched: 0 };
            worker.run(&outbox)
        });
        Self { inbox, thread, mailbox }
    }

    /// Queues a step's gradients; `false` if the communicator has ended with an error.
    pub(super) fn send(&self, bundle: Bundle) -> bool {
        self.inbox.send(Order::Send(bundle)).is_ok()
    }

    /// Where fetched parameters lie.
    pub(super) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    /// Asks for a sign when everything queued so far is served; none comes if the communicator
    /// ends with an error before.
    pub(super) fn settle(&self) -> Receiver<()> {
        let (done, sign) = sync_channel(1);
        // Whoever has ended does not give it.
        let _ = self.inbox.send(Order::Settle(done));
        sign
    }

    /// Sends what is left, fetches once more, and reports the first error if there was one.
    pub(super) fn stop(self) -> (Result<()>, BTreeMap<String, Tensor>) {
        drop(self.inbox);
        let result = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let arrived = self.mailbox.mail().take();
        (result, arrived)
    }
}

struct Worker {
    cluster: Cluster,
    job: Arc<Distributed>,
    config: CommunicatorConfig,
    mailbox: Mailbox,
    n_unfetched: u64,
}

impl Worker {
    fn run(&mut self, outbox: &Receiver<Order>) -> Result<()> {
        while let Ok(order) = outbox.recv() {
            let settle = match order {
                Order::Send(first) => self.send(first, outbox)?,
                Order::Settle(done) => Some(done),
            };
            if let Some(done) = settle {
                self.cluster.wait_served()?;
                // Whoever asked may have given up.
                let _ = done.send(());
            }
        }
        (self.cluster.log())(&lines::send_thread_ends());
        self.fetch()?;
        (self.cluster.log())(&lines::recv_thread_ends());
        Ok(())
    }

    /// Sends a step and those merged with it; who wants to know of it, if that came meanwhile.
    fn send(&mut self, first: Bundle, outbox: &Receiver<Order>) -> Result<Option<SyncSender<()>>> {
        let (bundles, settle) = self.gather(first, outbox);
        self.n_unfetched += bundles.len() as u64;
        let fetches = self.n_unfetched >= self.config.fetch_after;
        self.push(merge(bundles, self.config.is_sum), fetches)?;
        if fetches {
            self.fetch()?;
        }
        Ok(settle)
    }

    /// The first step and those that come shortly after, as far as they may be merged.
    fn gather(
        &self,
        first: Bundle,
        outbox: &Receiver<Order>,
    ) -> (Vec<Bundle>, Option<SyncSender<()>>) {
        let mut bundles = vec![first];
        let mut patience = self.config.wait_times;
        while bundles.len() < self.config.merge_max {
            match outbox.recv_timeout(Duration::from_millis(10)) {
                Ok(Order::Send(bundle)) => bundles.push(bundle),
                Ok(Order::Settle(done)) => return (bundles, Some(done)),
                Err(RecvTimeoutError::Timeout) if patience > 0 => patience -= 1,
                Err(_) => break,
            }
        }
        (bundles, None)
    }

    /// One message to each server; with the question that follows, if one does.
    fn push(&self, bundle: Bundle, asks: bool) -> Result<()> {
        let mut by_server: BTreeMap<String, Vec<Named>> = BTreeMap::new();
        for Outgoing { value, pieces, .. } in bundle {
            for (endpoint, grad) in cut(value, &pieces) {
                by_server.entry(endpoint).or_default().push(grad);
            }
        }
        for (endpoint, grads) in by_server {
            let client = self.cluster.client(&endpoint)?;
            // What was served is let go.
            client.reclaim(&mut Pool::default());
            match asks && self.job.on(&endpoint).any(is_dense) {
                true => client.change_soon(Push { grads })?,
                false => client.change(Push { grads })?,
            }
        }
        Ok(())
    }

    /// All dense parameters, into the mailbox.
    fn fetch(&mut self) -> Result<()> {
        self.n_unfetched = 0;
        let mut old = self.mailbox.mail().old.pop().unwrap_or_default();
        let params = fetch(&self.cluster, &self.job, is_dense, &mut old)?;
        let mut mail = self.mailbox.mail();
        // What was not used is old, too.
        let unused = std::mem::replace(&mut mail.arrived, params);
        mail.keep(unused);
        Ok(())
    }
}

fn is_dense(placed: &Placement) -> bool {
    placed.kind == PlacedKind::Param
}

/// Several steps as one.
fn merge(bundles: Vec<Bundle>, is_sum: bool) -> Bundle {
    let n = bundles.len();
    let mut bundles = bundles.into_iter();
    let mut merged = bundles.next().unwrap_or_default();
    for bundle in bundles {
        for outgoing in bundle {
            match merged.iter_mut().find(|own| own.var == outgoing.var) {
                Some(own) => add::add(&mut own.value, &outgoing.value),
                None => merged.push(outgoing),
            }
        }
    }
    if n > 1 && !is_sum {
        for outgoing in &mut merged {
            add::scale(&mut outgoing.value, 1.0 / n as f64);
        }
    }
    merged
}

/// The pieces of a gradient, each for its server.
pub(super) fn cut(value: Value, pieces: &[Piece]) -> Vec<(String, Named)> {
    let named =
        |piece: &Piece, value| (piece.endpoint.clone(), Named { name: piece.name.clone(), value });
    if let [only] = pieces {
        return vec![named(only, value)];
    }
    pieces
        .iter()
        .map(|piece| named(piece, add::rows_of(&value, piece.first_row, piece.n_rows)))
        .collect()
}
