//! Gradients that are applied when they arrive (async, half-async): a sender in the background merges them and
//! fetches parameters, if one was started; otherwise the program sends them itself.

use std::sync::Arc;
use std::time::Instant;

use net::lines;
use program::distributed::route::{Grads, Recv, Send, Sent};
use program::{Distributed, Result};
use tensor::{Tensor, Value};

use super::{Direct, Exchange, ExchangeStep};
use crate::error::Result as TrainResult;
use crate::gradients::merged;
use crate::recover::{LocalState, Sender};
use crate::remote::communicator::{Communicator, CommunicatorConfig, Outgoing, StepSender};
use crate::remote::in_flight::{Seen, Staleness};
use crate::remote::install;
use crate::remote::links::Links;
use crate::remote::locks::{Ordered, OrderedGuard, Rank};
use crate::remote::rows::RowsRequest;
use crate::remote::session::host;
use crate::scope::Scope;

/// A sender that was started, to be started again after the job went back.
#[derive(Clone)]
pub(in crate::remote) struct StartedSender {
    pub(in crate::remote) job: Arc<Distributed>,
    pub(in crate::remote) config: CommunicatorConfig,
}

#[derive(Default)]
struct BackgroundState {
    communicator: Option<Communicator>,
    started: Option<StartedSender>,
}

/// Exchanges beside the program.
pub(in crate::remote) struct Background {
    direct: Arc<Direct>,
    state: Ordered<BackgroundState>,
}

impl Background {
    pub(super) fn new(direct: Arc<Direct>) -> Self {
        let state = Ordered::new(Rank::Exchange, BackgroundState::default());
        Self { direct, state }
    }

    fn state(&self) -> OrderedGuard<'_, BackgroundState> {
        self.state.lock()
    }

    /// Starts the sender; `false` if there is one.
    pub(in crate::remote) fn start(&self, links: &Arc<Links>, started: StartedSender) -> bool {
        let StartedSender { job, config } = started.clone();
        let mut state = self.state();
        state.started = Some(started);
        let is_new = state.communicator.is_none();
        if is_new {
            state.communicator = Some(Communicator::start(links.clone(), job, config));
        }
        is_new
    }

    /// How the sender was started last in this job, if it was.
    pub(in crate::remote) fn started(&self) -> Option<StartedSender> {
        self.state().started.clone()
    }

    /// Another job begins.
    pub(in crate::remote) fn forget_started(&self) {
        self.state().started = None;
    }

    /// Where gradients are handed over to be sent in the background; nothing stays locked.
    fn sender(&self) -> Option<StepSender> {
        self.state().communicator.as_ref().map(Communicator::sender)
    }

    /// Whether a sender in the background is there.
    fn has_sender(&self) -> bool {
        self.state().communicator.is_some()
    }

    fn take(&self) -> Option<Communicator> {
        self.state().communicator.take()
    }

    /// The error of a sender that has ended.
    fn end_of_sender(&self) -> TrainResult<()> {
        self.take().map_or(Ok(()), |communicator| communicator.stop().0)
    }

    /// How old parameters were since the last call; `None` without a sender.
    pub(in crate::remote) fn take_staleness(&self) -> Option<Staleness> {
        let staleness = self.sender()?.take_staleness();
        Some(staleness).filter(|staleness| staleness.n_steps > 0)
    }

    /// Asks for the rows of the next batch, now that all gradients of steps before are on their way,
    /// so that only this one's may be missing in the answer.
    fn ask_next_rows(&self, step: &mut ExchangeStep<'_>) {
        let links = step.links;
        step.prefetch
            .ask_next(|route, ids, scratch| RowsRequest::ask(links, self, route, ids, scratch));
    }

    fn send_grads(
        &self,
        step: &mut ExchangeStep<'_>,
        grads: &Grads,
        values: &[&Value],
    ) -> Result<()> {
        let is_queued = grads.may_queue && self.has_sender();
        if is_queued {
            self.ask_next_rows(step);
        }
        for (sent, &value) in grads.vars.iter().zip(values) {
            match sent {
                Sent::Pieces(pieces) if is_queued => {
                    if let Value::Shared(whole) = value {
                        self.direct.traffic().leave(whole);
                    }
                    let (value, pieces) = (merged(value), pieces.clone());
                    step.bundle.grads.push(Outgoing { value, pieces });
                }
                sent => self.direct.send_var(step.links, sent, value)?,
            }
        }
        Ok(())
    }

    /// Hands the step's gradients to the sender.
    fn enqueue(&self, step: &mut ExchangeStep<'_>) -> TrainResult<()> {
        let mut bundle = std::mem::take(&mut step.bundle);
        let Some(sender) = self.sender() else { return Ok(()) };
        // If a step has several parts, one takes the arrivals and another one sends.
        bundle.read.params = step.seen.unwrap_or_else(|| sender.arrivals().used());
        if sender.send(bundle, step.start.elapsed()) {
            return Ok(());
        }
        // It has ended: its error is the step's.
        self.end_of_sender()
    }
}

impl Exchange for Background {
    fn direct(&self) -> Option<&Direct> {
        Some(&self.direct)
    }

    fn begin(&self, step: &mut ExchangeStep<'_>, scope: &Scope) {
        // Parameters are waited for here that ops of other threads have: those must not wait for us.
        let Some(sender) = self.sender().filter(|_| step.job.is_some()) else { return };
        sender.catch_up();
        step.start = Instant::now();
        step.seen = Some(sender.arrivals().empty(|names, arrived| install(names, arrived, scope)));
    }

    fn send(&self, step: &mut ExchangeStep<'_>, send: &Send, values: &[&Value]) -> Result<()> {
        match send {
            Send::Grads(grads) => self.send_grads(step, grads, values),
            Send::NoteRows(_) | Send::NoteParams => Ok(()),
        }
    }

    fn receive(&self, step: &mut ExchangeStep<'_>, recv: &Recv, out: &mut [Tensor]) -> Result<()> {
        if recv.may_skip && self.has_sender() {
            return Ok(()); // It fetches.
        }
        if step.job.as_ref().is_some_and(|job| job.mode.looks_ahead()) {
            self.direct.flush(step.links).map_err(host)?;
            self.ask_next_rows(step);
        }
        self.direct.receive(step.links, recv, out)
    }

    fn end(&self, step: &mut ExchangeStep<'_>, _: &Scope) -> TrainResult<()> {
        if step.job.is_none() {
            return Ok(());
        }
        if !step.bundle.grads.is_empty() {
            self.enqueue(step)?;
        }
        self.direct.flush(step.links)
    }

    fn wait_written(&self) -> Seen {
        self.sender().map(|sender| sender.wait_written()).unwrap_or_default()
    }

    fn settle(&self, links: &Links) -> TrainResult<()> {
        self.direct.flush(links)?;
        // Nothing is locked while it is waited for.
        let sign = self.state().communicator.as_ref().map(Communicator::settle);
        if sign.is_some_and(|sign| sign.recv().is_err()) {
            self.end_of_sender()?;
        }
        Ok(())
    }

    fn stop(&self, links: &Links, scope: &Scope) -> TrainResult<()> {
        let Some(communicator) = self.take() else { return Ok(()) };
        (links.log())(&lines::communicator_stops());
        let (result, arrivals) = communicator.stop();
        arrivals.empty(|names, arrived| install(names, arrived, scope));
        (links.log())(&lines::communicator_stopped());
        result
    }

    fn forget(&self) {
        if let Some(communicator) = self.take() {
            // Its servers are gone, and so is its work.
            let _ = communicator.stop();
        }
        self.direct.forget();
    }

    fn save(&self, state: &mut LocalState, _: Option<&Scope>) {
        let own = self.state();
        state.sender = match (&own.communicator, &own.started) {
            (Some(_), _) => Sender::Runs,
            (None, Some(_)) => Sender::Stopped,
            (None, None) => Sender::Never,
        };
    }
}
