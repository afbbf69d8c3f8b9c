//! Sends gradients in the background, merging those that queue up meanwhile, and fetches parameters.
//!
//! Fetched parameters wait in [`Arrivals`] and is put into the scope before the next step. Training waits
//! only when as many steps are in flight as may be ([`InFlight`]). Nothing waits for more to be
//! merged with: a gradient gets worse with every update that it does not know of, and a merged one is
//! one update instead of several.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use net::lines;
use program::Distributed;
use program::distributed::{Piece, PlacedKind, Placement, ServerId};
use tensor::{Pool, Value};
use wire::message::{Grad, Push};

use super::arrivals::Arrivals;
use super::fetch::WholeFetch;
use super::in_flight::{InFlight, Seen, Staleness, StepInputs};
use super::links::Links;
use super::rows_of::rows_of;
use super::wire_id;
use crate::error::Result;
use crate::gradients;

/// How a communicator behaves: Fluid's `communicator_*` settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommunicatorConfig {
    /// The most steps whose gradients may be in flight (queued, merged, or not applied yet).
    /// Training waits when there are more.
    pub queue_max: usize,
    /// The most steps whose gradients may be merged, if they wait at the same time.
    pub merge_max: usize,
    /// Parameters are fetched after this many steps were sent.
    pub fetch_after: u64,
    /// Merged gradients are added up; otherwise they are averaged.
    pub is_sum: bool,
}

impl Default for CommunicatorConfig {
    fn default() -> Self {
        Self { queue_max: 1, merge_max: 1, fetch_after: 1, is_sum: true }
    }
}

/// One step's gradients.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    /// One for each variable.
    pub(super) grads: Vec<Outgoing>,
    /// The inputs of the step.
    pub(super) read: StepInputs,
}

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) value: Value,
    pub(super) pieces: Arc<[Piece]>,
}

impl Outgoing {
    /// Whether both are gradients of one variable.
    fn is_like(&self, other: &Self) -> bool {
        let numbers = |pieces: &[Piece]| pieces.first().map(|piece| (piece.server, piece.var));
        numbers(&self.pieces) == numbers(&other.pieces)
    }

    /// The name of the gradient, for messages.
    fn name(&self) -> &str {
        self.pieces.first().map_or("", |piece| &piece.name)
    }
}

/// An order to the sender.
#[derive(Debug)]
enum Order {
    Send(Bundle),
    /// To say so when all before is served.
    Settle(SyncSender<()>),
}

/// Where a step's gradients are handed over, and what there is to know before the next one.
#[derive(Clone, Debug)]
pub(super) struct StepSender {
    inbox: Sender<Order>,
    way: Arc<InFlight>,
    arrivals: Arrivals,
}

impl StepSender {
    /// Queues the gradients of a step that took so long, when there is room; `false` if the
    /// communicator has ended with an error.
    pub(super) fn send(&self, bundle: Bundle, took: Duration) -> bool {
        self.way.time(took);
        self.way.enter(&bundle.read) && self.inbox.send(Order::Send(bundle)).is_ok()
    }

    /// Where fetched parameters lie.
    pub(super) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Before a step: waits for what is under way, but not for long.
    pub(super) fn catch_up(&self) {
        self.way.catch_up();
    }

    /// Waits for all steps that were handed over; returns the steps that later answers of servers contain.
    pub(super) fn wait_written(&self) -> Seen {
        self.way.wait_written()
    }

    /// How old parameters were since the last call.
    pub(super) fn take_staleness(&self) -> Staleness {
        self.way.take_staleness()
    }
}

#[derive(Debug)]
pub(super) struct Communicator {
    sender: StepSender,
    thread: JoinHandle<Result<()>>,
}

impl Communicator {
    pub(super) fn start(
        links: Arc<Links>,
        job: Arc<Distributed>,
        config: CommunicatorConfig,
    ) -> Self {
        (links.log())(&lines::communicator_starts());
        let (inbox, outbox) = channel();
        let way = Arc::new(InFlight::new(config.queue_max));
        let fetch = WholeFetch::new(&job, is_dense);
        let arrivals = Arrivals::new(fetch.names().clone());
        let sender = StepSender { inbox, way: way.clone(), arrivals };
        let arrivals = sender.arrivals.clone();
        let thread = thread::spawn(move || {
            let has_dense = |endpoint: &String| job.on(endpoint).any(is_dense);
            let dense = job.endpoints.iter().map(has_dense).collect();
            let mut worker = Worker { links, fetch, config, arrivals, way, dense, n_unfetched: 0 };
            worker.run(&outbox)
        });
        Self { sender, thread }
    }

    /// The sender for training threads.
    pub(super) fn sender(&self) -> StepSender {
        self.sender.clone()
    }

    /// Asks for a sign when everything queued so far is served; none comes if the communicator
    /// ends with an error before.
    pub(super) fn settle(&self) -> Receiver<()> {
        let (done, sign) = sync_channel(1);
        // A communicator that has ended does not answer.
        let _ = self.sender.inbox.send(Order::Settle(done));
        sign
    }

    /// Sends what is left, fetches once more, and reports the first error if there was one.
    pub(super) fn stop(self) -> (Result<()>, Arrivals) {
        let StepSender { inbox, arrivals, .. } = self.sender;
        drop(inbox);
        let result = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (result, arrivals)
    }
}

struct Worker {
    links: Arc<Links>,
    /// The parameters that are fetched.
    fetch: WholeFetch,
    config: CommunicatorConfig,
    arrivals: Arrivals,
    way: Arc<InFlight>,
    /// Which servers have parameters that are fetched, by number.
    dense: Vec<bool>,
    n_unfetched: u64,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.way.end();
    }
}

impl Worker {
    fn run(&mut self, outbox: &Receiver<Order>) -> Result<()> {
        while let Ok(order) = outbox.recv() {
            let settle = match order {
                Order::Send(first) => self.send(first, outbox)?,
                Order::Settle(done) => Some(done),
            };
            if let Some(done) = settle {
                self.links.wait_served()?;
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
        }
        (self.links.log())(&lines::send_thread_ends());
        self.fetch()?;
        (self.links.log())(&lines::recv_thread_ends());
        Ok(())
    }

    /// Sends a step and those merged with it, and waits until they are served. Returns where to say
    /// so, if somebody asked meanwhile.
    fn send(&mut self, first: Bundle, outbox: &Receiver<Order>) -> Result<Option<SyncSender<()>>> {
        let (bundles, settle) = gather(first, outbox, self.config.merge_max);
        let n_steps = bundles.len() as u64;
        self.n_unfetched += n_steps;
        let fetches = self.n_unfetched >= self.config.fetch_after;
        self.push(merge(bundles, self.config.is_sum)?, fetches)?;
        self.way.write(n_steps);
        if fetches {
            self.fetch()?;
        }
        self.links.wait_served()?;
        self.way.serve(n_steps);
        Ok(settle)
    }

    /// One message to each server; with the question that follows, if one does.
    fn push(&self, bundle: Bundle, asks: bool) -> Result<()> {
        let mut by_server: BTreeMap<ServerId, Vec<Grad>> = BTreeMap::new();
        for Outgoing { value, pieces } in bundle.grads {
            for (server, grad) in cut(value, &pieces) {
                by_server.entry(server).or_default().push(grad);
            }
        }
        let behind = self.way.written().updates.saturating_sub(bundle.read.params.updates);
        for (server, grads) in by_server {
            let (client, push) = (self.links.client(server)?, Push { behind, ..Push::new(grads) });
            // Gradients that were served are released.
            client.reclaim(&mut Pool::default());
            if asks && self.dense.get(server.0).is_some_and(|&has_dense| has_dense) {
                client.change_soon(push)?
            } else {
                client.change(push)?
            }
        }
        Ok(())
    }

    /// All dense parameters, into the arrivals.
    fn fetch(&mut self) -> Result<()> {
        self.n_unfetched = 0;
        let (seen, old) = (self.way.written(), self.arrivals.spare());
        let params = self.fetch.run(&self.links, old)?;
        self.arrivals.put(params, seen);
        Ok(())
    }
}

fn is_dense(placed: &Placement) -> bool {
    placed.kind == PlacedKind::Param
}

/// The first step and those that wait by now, as far as they may be merged. Also returns where to
/// say that they are served, if somebody asked between them.
fn gather(
    first: Bundle,
    outbox: &Receiver<Order>,
    merge_max: usize,
) -> (Vec<Bundle>, Option<SyncSender<()>>) {
    let mut bundles = vec![first];
    while bundles.len() < merge_max {
        match outbox.try_recv() {
            Ok(Order::Send(bundle)) => bundles.push(bundle),
            Ok(Order::Settle(done)) => return (bundles, Some(done)),
            Err(_) => break,
        }
    }
    (bundles, None)
}

/// Several steps as one, which is as old as the oldest of them.
fn merge(bundles: Vec<Bundle>, is_sum: bool) -> Result<Bundle> {
    let n = bundles.len();
    let mut bundles = bundles.into_iter();
    let mut merged = bundles.next().unwrap_or_default();
    for Bundle { grads, read } in bundles {
        merged.read.params = merged.read.params.min(read.params);
        for outgoing in grads {
            match merged.grads.iter_mut().find(|own| own.is_like(&outgoing)) {
                Some(own) => {
                    let name = outgoing.name();
                    gradients::add_up(name, &mut own.value, std::slice::from_ref(&outgoing.value))?;
                }
                None => merged.grads.push(outgoing),
            }
        }
    }
    for outgoing in merged.grads.iter_mut().filter(|_| n > 1) {
        gradients::merge(&mut outgoing.value);
        if !is_sum {
            gradients::scale(&mut outgoing.value, 1.0 / n as f64);
        }
    }
    Ok(merged)
}

/// The pieces of a gradient, each for its server.
pub(super) fn cut(value: Value, pieces: &[Piece]) -> impl Iterator<Item = (ServerId, Grad)> + '_ {
    let mut value = value;
    pieces.iter().map(move |piece| {
        let part = match pieces.len() {
            1 => std::mem::take(&mut value),
            _ => rows_of(&value, piece.rows.start, piece.n_rows()),
        };
        (piece.server, Grad { var: wire_id(piece), value: part })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use program::distributed::VarId;
    use tensor::{Rows, Tensor};

    /// A dense gradient, and rows of a table: one that every step has, one of its own.
    fn bundle(step: u64) -> Bundle {
        let x = step as f32 + 1.0;
        let dense = Tensor::new([2], &[x, 10.0 * x]).unwrap();
        let value = Tensor::new([2, 1], &[x, x]).unwrap();
        let rows = Rows { ids: vec![7, 100 + step as i64], height: 1000, value };
        // Threads have routes of their own.
        let outgoing = |name: &str, var, value| {
            let (name, server) = (name.to_string(), ServerId(0));
            let piece = Piece { name, server, var: VarId(var), block: 0, rows: Piece::ALL };
            Outgoing { value, pieces: Arc::new([piece]) }
        };
        let dense = outgoing("w", 1, Value::Tensor(dense));
        let grads = vec![dense, outgoing("table", 0, Value::Rows(rows))];
        let params = Seen { steps: step, updates: step };
        Bundle { grads, read: StepInputs { params, rows: None } }
    }

    /// The dense numbers and the row of each id.
    fn numbers(bundle: &Bundle) -> (Vec<f32>, BTreeMap<i64, f32>) {
        let [w, table] = &bundle.grads[..] else { panic!("{bundle:?}") };
        let dense = w.value.tensor().unwrap().data::<f32>().unwrap().to_vec();
        let Value::Rows(rows) = &table.value else { panic!("{table:?}") };
        let mut by_id = BTreeMap::new();
        for (&id, &x) in rows.ids.iter().zip(rows.value.data::<f32>().unwrap()) {
            *by_id.entry(id).or_default() += x;
        }
        (dense, by_id)
    }

    /// As Fluid 1.8.5 does: the sum, or divided by how many there are, in rows too.
    #[test]
    fn merged_steps_are_added_up_or_averaged() {
        let all = || (0..4).map(bundle).collect::<Vec<_>>();
        for (is_sum, share) in [(true, 1.0), (false, 0.25)] {
            let merged = merge(all(), is_sum).unwrap();
            let (dense, rows) = numbers(&merged);
            assert_eq!(dense, [10.0 * share, 100.0 * share]);
            let own = (0..4).map(|step| (100 + step, (step as f32 + 1.0) * share));
            assert_eq!(rows, BTreeMap::from_iter([(7, 10.0 * share)].into_iter().chain(own)));
            assert_eq!(merged.read.params, Seen::default(), "as old as the oldest");
        }
        let one = merge(vec![bundle(3)], false).unwrap();
        assert_eq!(numbers(&one), numbers(&bundle(3)), "one is whole");
    }

    /// A step whose gradient is of another kind must not be lost among the others.
    #[test]
    fn unlike_gradients_are_not_merged() {
        let [mut dense, mut wide] = [bundle(0), bundle(1)];
        dense.grads[0].value = dense.grads[1].value.clone();
        let error = merge(vec![bundle(2), dense], true).unwrap_err();
        assert!(matches!(error, Error::GradientsDiffer { .. }), "{error}");
        wide.grads[0].value = Value::Tensor(Tensor::new([2], &[1.0f64, 2.0]).unwrap());
        let error = merge(vec![bundle(2), wide], true).unwrap_err();
        assert!(matches!(error, Error::GradientsDiffer { .. }), "{error}");
    }

    /// Waiting gradients are merged in order, up to the limit, without waiting for more.
    #[test]
    fn only_what_waits_is_merged() {
        let (inbox, outbox) = channel();
        let steps = |(bundles, _): &(Vec<Bundle>, _)| -> Vec<u64> {
            bundles.iter().map(|bundle| bundle.read.params.steps).collect()
        };
        assert_eq!(steps(&gather(bundle(0), &outbox, 20)), [0], "none waits");
        (1..6).for_each(|step| inbox.send(Order::Send(bundle(step))).unwrap());
        assert_eq!(steps(&gather(bundle(0), &outbox, 4)), [0, 1, 2, 3]);
        let (done, _sign) = sync_channel(1);
        inbox.send(Order::Settle(done)).unwrap();
        inbox.send(Order::Send(bundle(6))).unwrap();
        let gathered = gather(bundle(3), &outbox, 20);
        assert_eq!(steps(&gathered), [3, 4, 5], "somebody waits for those before");
        assert!(gathered.1.is_some());
        assert_eq!(steps(&gather(bundle(0), &outbox, 1)), [0], "merging is off");
    }
}
